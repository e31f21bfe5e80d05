/*
 * set_queue: what people set for a queue. Names and numbers come from clients
 * through the log.
 */
#include "fsm/order/queue.h"
#include "fsm/core/budget.h"
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/ops/maintain.h"
#include "fsm/ops/ops.h"
#include "fsm/order/regroup.h"
#include "fsm/order/retention.h"
#include "fsm/order/roster.h"
#include "fsm/order/settings.h"
#include "proto/msg_json.h"

#define LANE_BYTES 256 /* one that is looked at weighs as much */

/* {"set":{...},"groups":N,"push":true,"removed":[...]}: what the change was
 * about. */
static struct str change_data(struct fsm *f, const struct m_set_queue *op)
{
	struct json_writer w = JSON_WRITER(&f->data);
	struct json_style style = { 0 };
	struct m_set_queue set = *op;

	MSG_UNSET(&set, set_queue, queue);
	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "set");
	msg_to_json(&msg_set_queue, &set, &style, &w);
	if (op->groups_n + op->remove_groups_n > 0) {
		jw_key(&w, "groups");
		jw_u64(&w, op->groups_n + op->remove_groups_n);
	}
	/* what it says is for receivers only */
	if (op->push != NULL) {
		jw_key(&w, "push");
		jw_bool(&w, true);
	}
	if (op->remove_n > 0) {
		jw_key(&w, "removed");
		jw_array(&w);
		for (size_t i = 0; i < op->remove_n; i++)
			jw_str(&w, op->remove[i]);
		jw_array_end(&w);
	}
	jw_object_end(&w);
	return buf_str(&f->data);
}

static bool is_same(const struct m_set_queue *a, const struct m_set_queue *b)
{
	struct buf x = BUF_INIT(0), y = BUF_INIT(0);
	bool same;

	msg_encode(&msg_set_queue, a, &x);
	msg_encode(&msg_set_queue, b, &y);
	same = str_eq(buf_str(&x), buf_str(&y));
	buf_done(&x);
	buf_done(&y);
	return same;
}

/* Groups of the same names have settings of their own. */
static bool has_same_groups(const struct m_set_queue *a,
			    const struct m_set_queue *b)
{
	if (a->groups_n != b->groups_n)
		return false;
	for (size_t i = 0; i < a->groups_n; i++)
		if (!str_eq(a->groups[i].name, b->groups[i].name))
			return false;
	return true;
}

/*
 * Its lanes are looked at, and where groups have them anew, all active jobs.
 * Who changes queues again and again is not done in one entry.
 */
static void change_lanes(struct fsm *f, struct fsm_queue *q, bool part,
			 bool same_groups)
{
	bool was_wide = q->lanes.wide, was_parting = q->lanes.parting;

	regroup_begin(f, q, part);
	if (f->cluster.level >= 2)
		budget_take(f, q->lanes.groups.n * LANE_BYTES);
	if (!same_groups || q->lanes.wide != was_wide ||
	    q->lanes.parting != was_parting)
		active_regroup(f, q);
}

int apply_set_queue(struct fsm *f, const struct m_set_queue *op,
		    struct m_queue *ret)
{
	static const struct m_set_queue none;
	struct fsm_queue *q;
	struct m_set_queue merged;
	bool known, part, same_groups;
	int r;

	if (!queue_name_fits(op->queue))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "queue: must have 1 to %d bytes",
				  LIMIT_QUEUE_NAME_BYTES);
	r = roster_check(f, &op->queue, 1);
	if (r < 0)
		return r;
	q = queue_find(f, op->queue);
	known = q != NULL;
	r = settings_merge(f, known ? q->set : &none, op, &merged);
	if (r < 0)
		return r;
	q = queue_get(f, op->queue);
	if (!is_same(q->set, &merged)) {
		part = regroup_parts(f, q, &merged);
		same_groups = has_same_groups(q->set, &merged);
		settings_keep(f, q, &merged);
		queue_touch(f, q);
		queue_write_doc(f, q);
		queue_event(f, q, EVENT_QUEUE_CHANGED, change_data(f, op));
		bounds_settings_changed(f, q);
		change_lanes(f, q, part, same_groups);
		r = maintain_regroup(f);
		if (r < 0)
			return r;
	}
	queue_show(q, ret);
	if (!known)
		MSG_SET(ret, queue, created, true);
	return 0;
}
