/*
 * set_budget, delete_budget. What a client says is made one form before it is
 * stored: a target as it is looked up, and all limits in one list.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/ops/ops.h"
#include "fsm/order/lane.h"
#include "fsm/order/queue.h"
#include "fsm/ties/purse.h"
#include "fsm/ties/usage.h"
#include "proto/units.h"
#include "util/json.h"

#define ALL STR("*")

/* --- targets --- */

/* name:value, or name=value as clients of 0.3 may write it. */
static int read_tag(struct fsm *f, struct str target, struct str *ret)
{
	struct str name, value;

	if (!str_split(target, ':', &name, &value) &&
	    !str_split(target, '=', &name, &value))
		value = STR_NULL;
	if (name.n == 0 || value.n == 0)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "target: must be a tag and its value, as "
				  "name:value");
	if (memchr(target.p, '\0', target.n) != NULL)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "target: must be a tag and its value, as "
				  "name:value, without the character U+0000");
	*ret = arena_join(&f->item_arena, name, ':', value);
	if (purse_tags_are_full(f, *ret))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "target: there are budgets of %d tags "
				  "already, which is as many as there may be",
				  LIMIT_BUDGET_TAGS);
	return 0;
}

static int read_target(struct fsm *f, enum budget_scope scope,
		       struct str target, struct str *ret)
{
	*ret = target;
	if (target.n > LIMIT_BUDGET_TARGET_BYTES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "target: must be at most %d bytes",
				  LIMIT_BUDGET_TARGET_BYTES);
	if (scope == BUDGET_TAG)
		return read_tag(f, target, ret);
	if (scope == BUDGET_GLOBAL) {
		*ret = ALL;
		if (target.n == 0 || str_is(target, "*"))
			return 0;
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "target: of global must be *, or absent");
	}
	if (scope == BUDGET_QUEUE ? queue_name_fits(target)
				  : group_name_fits(target))
		return 0;
	return fsm_refuse(f, ERR_VALIDATION_ERROR,
			  "target: must be the name of a %s",
			  enum_text(&enum_budget_scope, scope));
}

/* --- limits --- */

static int check_limit(struct fsm *f, const struct m_budget_limit *all,
		       size_t i)
{
	const struct m_budget_limit *l = &all[i];
	bool is_window = l->per == BUDGET_PER_WINDOW;

	if (!str_is(l->unit, UNIT_USD) && !str_is(l->unit, UNIT_TOKENS) &&
	    !usage_unit_is_known(f, l->unit))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "limits: no job has reported the unit "
				  "\"%.*s\"; it can be usd, tokens or one that "
				  "was reported",
				  STR_ARG(l->unit));
	if (is_window != (l->window > 0))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "limits: window goes with per window, and "
				  "must be there then");
	if (is_window && l->window < NS_PER_S)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "limits: window must be at least 1s");
	for (size_t k = 0; k < i; k++)
		if (all[k].per == l->per && all[k].window == l->window &&
		    str_eq(all[k].unit, l->unit))
			return fsm_refuse(
			    f, ERR_VALIDATION_ERROR,
			    "limits: there are two of \"%.*s\" "
			    "per %s",
			    STR_ARG(l->unit),
			    enum_text(&enum_budget_period, l->per));
	return 0;
}

static void add_usd(struct m_budget_limit *l, enum budget_period per,
		    uint64_t amount)
{
	*l = (struct m_budget_limit){ 0 };
	MSG_SET(l, budget_limit, unit, STR(UNIT_USD));
	MSG_SET(l, budget_limit, per, per);
	MSG_SET(l, budget_limit, amount, amount);
}

/* The short forms first. */
static int read_limits(struct fsm *f, const struct m_budget *op,
		       struct m_budget *ret)
{
	struct m_budget_limit *all =
	    arena_alloc(&f->item_arena, (op->limits_n + 2) * sizeof(*all));
	size_t n = 0;
	int r = 0;

	if (MSG_HAS(op, budget, daily_usd))
		add_usd(&all[n++], BUDGET_PER_DAY, op->daily_usd);
	if (MSG_HAS(op, budget, per_job_usd))
		add_usd(&all[n++], BUDGET_PER_JOB, op->per_job_usd);
	for (size_t i = 0; i < op->limits_n; i++, n++) {
		all[n] = op->limits[i];
		if (all[n].unit.n == 0)
			MSG_SET(&all[n], budget_limit, unit, STR(UNIT_USD));
		MSG_SET(&all[n], budget_limit, per, all[n].per);
	}
	if (n == 0 || n > LIMIT_BUDGET_LIMITS)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "limits: must be 1 to %d, with daily_usd and "
				  "per_job_usd",
				  LIMIT_BUDGET_LIMITS);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = check_limit(f, all, i);
	MSG_SET_LIST(ret, budget, limits, all, n);
	return r;
}

static int check_action(struct fsm *f, const struct m_budget *m)
{
	bool has_period = false;

	for (size_t i = 0; i < m->limits_n; i++)
		has_period |= !purse_is_per_job(&m->limits[i]);
	if (m->on_exceed == BUDGET_THROTTLE && !has_period)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "on_exceed: throttle needs a limit per day, "
				  "month or window");
	return 0;
}

/* --- the operations --- */

/* What was closed may not be any more. */
static void open_queues(struct fsm *f)
{
	struct str name;
	size_t pos = 0;
	void *v;

	while (hmap_next(&f->queues, &pos, &name, &v)) {
		struct fsm_queue *q = v;

		if (q->closed_ns > 0)
			queue_open(f, q);
	}
}

static int read_budget(struct fsm *f, const struct m_budget *op,
		       struct m_budget *ret)
{
	struct str target;
	int r = read_target(f, op->scope, op->target, &target);

	*ret = (struct m_budget){ 0 };
	if (r == 0)
		r = read_limits(f, op, ret);
	if (r < 0)
		return r;
	MSG_SET(ret, budget, scope, op->scope);
	MSG_SET(ret, budget, target, target);
	MSG_SET(ret, budget, on_exceed,
		op->on_exceed == BUDGET_ALERT_03 ? BUDGET_ALERT
						 : op->on_exceed);
	if (op->holds_jobs)
		MSG_SET(ret, budget, holds_jobs, true);
	for (size_t i = 0; i < ret->limits_n; i++) {
		const struct m_budget_limit *l = &ret->limits[i];

		if (!str_is(l->unit, UNIT_USD))
			continue;
		if (l->per == BUDGET_PER_DAY)
			MSG_SET(ret, budget, daily_usd, l->amount);
		if (l->per == BUDGET_PER_JOB)
			MSG_SET(ret, budget, per_job_usd, l->amount);
	}
	return check_action(f, ret);
}

static int set_budget(struct fsm *f, struct m_budget *m)
{
	const struct fsm_purse *old = purse_find(f, m->scope, m->target);

	if (old == NULL && f->purses.by_name.n >= LIMIT_BUDGETS)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "there are %d budgets, which is as many as "
				  "there may be; delete some",
				  LIMIT_BUDGETS);
	MSG_SET(m, budget, id,
		old != NULL ? arena_copy(&f->item_arena, old->m.id)
			    : fsm_make_id(f, "budget_"));
	MSG_SET(m, budget, created_at,
		old != NULL ? old->m.created_at : f->now_ns);
	fsm_tell(f, EVENT_BUDGET_SET, &msg_budget, m);
	purse_set(f, m);
	open_queues(f);
	return 0;
}

/* Jobs that it had set aside may be many: later entries go on with them. */
int apply_set_budget(struct fsm *f, const struct m_budget *op,
		     struct m_budget *ret)
{
	struct m_budget *left = arena_alloc(&f->item_arena, sizeof(*left));
	struct str cursor = op->cursor;
	const struct fsm_purse *p;
	struct m_budget m;
	int r = read_budget(f, op, &m);

	if (r == 0 && cursor.n > LIMIT_JOB_ID_BYTES)
		return fsm_refuse(f, ERR_BAD_MESSAGE, "the cursor is no job");
	if (r == 0 && !op->going_on)
		r = set_budget(f, &m);
	if (r < 0)
		return r;
	p = purse_find(f, m.scope, m.target);
	if (p == NULL)
		return fsm_refuse(f, ERR_CONFLICT,
				  "the budget was deleted meanwhile");
	r = purse_take_back(f, p->m.id, &cursor);
	if (r < 0)
		return r;
	purse_show(f, p, f->now_ns, &f->item_arena, ret);
	if (r > 0)
		return 0;
	*left = *op;
	MSG_SET(left, budget, going_on, true);
	if (cursor.n > 0)
		MSG_SET(left, budget, cursor, cursor);
	return fsm_go_on_with(f, left);
}

int apply_delete_budget(struct fsm *f, const struct m_budget_ref *op,
			struct m_status_reply *ret)
{
	struct m_budget_ref *left = arena_alloc(&f->item_arena, sizeof(*left));
	struct str id = op->id, cursor = STR_NULL;
	struct fsm_purse *p = NULL;
	uint32_t scope;
	int r;

	if (id.n == 0 && enum_parse(&enum_budget_scope, op->scope, &scope))
		p = purse_find(f, scope, op->target);
	if (id.n == 0 && p == NULL)
		return fsm_refuse(f, ERR_NOT_FOUND,
				  "there is no budget of "
				  "%.*s \"%.*s\"",
				  STR_ARG(op->scope), STR_ARG(op->target));
	MSG_SET(ret, status_reply, status, STR("deleted"));
	if (p != NULL) {
		id = arena_copy(&f->item_arena, p->m.id);
		fsm_tell(f, EVENT_BUDGET_DELETED, &msg_budget, &p->m);
		purse_remove(f, p);
		open_queues(f);
	}
	/* nobody sets more aside for one that is gone: this ends */
	r = id.n > 0 ? purse_take_back(f, id, &cursor) : 1;
	if (r != 0)
		return MIN(r, 0);
	*left = *op;
	MSG_SET(left, budget_ref, id, id);
	return fsm_go_on_with(f, left);
}
