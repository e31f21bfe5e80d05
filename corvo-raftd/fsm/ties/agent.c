/*
 * See ties/agent.h. Limits come from clients, within those of messages.def.
 */
#include "fsm/ties/agent.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/iteration.h"
#include "fsm/ties/policy.h"
#include "proto/agent.h"
#include "proto/units.h"
#include "proto/usage.h"
#include "util/nano.h"

/* --- limits --- */

int agent_check(struct fsm *f, struct m_agent *a, const char *under)
{
	struct str name = arena_printf(&f->item_arena, "%slimits", under);

	if (!agent_settle(a))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "%smax_cost: is another one than "
				  "max_cost_usd",
				  under);
	if (a->limits.n == 0)
		return 0;
	buf_clear(&f->why);
	if (units_check_any(a->limits, UINT64_MAX / NANO_PER_UNIT, name.p,
			    &f->item_arena, &f->why) < 0)
		return -ERR_VALIDATION_ERROR;
	if (units_get(a->limits, STR(UNIT_USD), &f->item_arena) > 0)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "%.*s.usd: is told by max_cost_usd",
				  STR_ARG(name));
	return 0;
}

/* Billionths to four decimals. */
static void put_decimals(struct buf *b, uint64_t nano)
{
	uint64_t n = nano / 100000 + (nano % 100000 >= 50000);

	buf_printf(b, "%llu.%04llu", (unsigned long long)(n / 10000),
		   (unsigned long long)(n % 10000));
}

static void put_exceeded(struct buf *b, struct str what, uint64_t amount,
			 uint64_t limit)
{
	buf_printf(b, "%.*s exceeded (", STR_ARG(what));
	put_decimals(b, amount);
	buf_puts(b, " > ");
	put_decimals(b, limit);
	buf_putc(b, ')');
}

/* Units in the order of their names. */
static void put_unit_exceeded(struct fsm *f, struct buf *b,
			      const struct m_agent *a,
			      const struct m_usage_sum *used)
{
	struct unit list[LIMIT_UNITS];
	size_t n = units_list(a->limits, &f->item_arena, list);
	const struct unit *first = NULL;

	for (size_t i = 0; i < n; i++) {
		if (usage_sum_amount(used, list[i].name, &f->item_arena) >
			list[i].amount &&
		    (first == NULL || str_cmp(list[i].name, first->name) < 0))
			first = &list[i];
	}
	if (first != NULL)
		put_exceeded(
		    b,
		    arena_printf(&f->item_arena, "limits.%.*s",
				 STR_ARG(first->name)),
		    usage_sum_amount(used, first->name, &f->item_arena),
		    first->amount);
}

/* Why there may be no further iteration; empty: there may. With its doc. */
static struct str limit_reached(struct fsm *f, const struct job *j)
{
	static const struct m_usage_sum nothing;
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	const struct m_agent *a = agent_limits(&j->doc, &j->live);
	const struct m_usage_sum *used =
	    j->live.usage != NULL ? j->live.usage : &nothing;

	if (a->max_iterations > 0 &&
	    agent_iteration(&j->live) >= a->max_iterations)
		buf_printf(&b, "max_iterations exceeded (%u)",
			   a->max_iterations);
	else if (a->max_cost_usd > 0 && used->cost_usd > a->max_cost_usd)
		put_exceeded(&b, STR("max_cost_usd"), used->cost_usd,
			     a->max_cost_usd);
	else
		put_unit_exceeded(f, &b, a, used);
	return arena_copy(&f->item_arena, buf_str(&b));
}

/* --- acks --- */

enum agent_status agent_said(const struct m_ack *op)
{
	return MSG_HAS(op, ack, agent_status) ? op->agent_status
					      : op->ack_status;
}

int agent_check_ack(struct fsm *f, const struct job *j, const struct m_ack *op)
{
	bool agent = (j->extras & EXTRA_AGENT) != 0;
	const char *name =
	    MSG_HAS(op, ack, agent_status) ? "agent_status" : "ack_status";

	if (MSG_HAS(op, ack, agent_status) && MSG_HAS(op, ack, ack_status) &&
	    op->agent_status != op->ack_status)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "ack_status: says something else than "
				  "agent_status");
	if (agent || agent_said(op) == AGENT_DONE ||
	    (agent_said(op) == AGENT_HOLD && !MSG_HAS(op, ack, agent_status)))
		return 0;
	return fsm_refuse(f, ERR_ACK_ERROR,
			  "%s: job \"%.*s\" is not an agent job", name,
			  STR_ARG(j->id));
}

/* May it go on? A limit holds it, or a policy does. */
static int judge(struct fsm *f, struct job *j, struct agent_turn *ret)
{
	struct str own = ret->hold.reason, limit;
	int r = job_need_doc(f, j);

	if (r < 0)
		return r;
	limit = limit_reached(f, j);
	if (limit.n > 0) {
		ret->hold =
		    (struct hold){ .kind = HELD_BY_GUARDRAIL, .reason = limit };
	} else {
		r = policy_ask(f, j, POINT_CONTINUE, &ret->hold);
		if (r <= 0)
			return r;
	}
	ret->status = AGENT_HOLD;
	if (own.n > 0)
		ret->hold.reason = own;
	return 0;
}

int agent_turn(struct fsm *f, struct job *j, const struct m_ack *op,
	       struct agent_turn *ret)
{
	struct iteration_end e = { .result = op->result, .trace = op->trace };
	int r = 0;

	ret->status = agent_said(op);
	ret->hold = (struct hold){ .kind = HELD_BY_WORKER,
				   .by = j->live.worker_id,
				   .reason = op->hold_reason };
	if (!(j->extras & EXTRA_AGENT))
		return 0;
	if (ret->status == AGENT_CONTINUE && !j->live.cancel_requested)
		r = judge(f, j, ret);
	if (r < 0)
		return r;
	e.status = ret->status;
	if (ret->status == AGENT_HOLD)
		e.hold_reason = ret->hold.reason;
	r = iteration_record(f, j, &e);
	if (r == 0 && ret->status != AGENT_DONE)
		iteration_begin(f, j);
	return r;
}

void agent_go_on(struct fsm *f, struct job *j)
{
	job_event(f, j, EVENT_CONTINUED,
		  fsm_event_number(f, "iteration", agent_iteration(&j->live)));
	job_back_to_pending(f, j);
}

/* --- approval --- */

#define LIMITS_GIVEN                                                         \
	(MSG_BIT(approve, max_iterations) | MSG_BIT(approve, max_cost_usd) | \
	 MSG_BIT(approve, iteration_timeout) | MSG_BIT(approve, max_cost) |  \
	 MSG_BIT(approve, limits))

#define CHANGE(member)                                              \
	do {                                                        \
		if (MSG_HAS(op, approve, member))                   \
			MSG_SET(limits, agent, member, op->member); \
	} while (0)

int agent_change_limits(struct fsm *f, struct job *j,
			const struct m_approve *op)
{
	struct m_agent *limits, said = { 0 };
	int r;

	if ((op->has & LIMITS_GIVEN) == 0)
		return 0;
	if (!(j->extras & EXTRA_AGENT))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "%s: job \"%.*s\" is not an agent job",
				  MSG_HAS(op, approve, max_iterations)
				      ? "max_iterations"
				  : MSG_HAS(op, approve, iteration_timeout)
				      ? "iteration_timeout"
				  : MSG_HAS(op, approve, limits) ? "limits"
								 : "max_cost",
				  STR_ARG(j->id));
	limits = &said;
	CHANGE(max_cost_usd);
	CHANGE(max_cost);
	CHANGE(limits);
	r = agent_check(f, &said, "");
	if (r < 0)
		return r;
	limits = arena_alloc(&f->item_arena, sizeof(*limits));
	*limits = *agent_limits(&j->doc, &j->live);
	CHANGE(max_iterations);
	CHANGE(iteration_timeout);
	CHANGE(limits);
	if (MSG_HAS(&said, agent, max_cost_usd))
		MSG_SET(limits, agent, max_cost_usd, said.max_cost_usd);
	MSG_SET(iteration_live(f, j), agent_live, limits, limits);
	return 0;
}
