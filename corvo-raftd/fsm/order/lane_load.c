/*
 * Lanes from the store at start: which there are and what they remember, how
 * many jobs they have, and where the first of each stands, so that the first
 * fetch need not read the windows of all lanes to find the one that is next.
 */
#include <stdlib.h>

#include "fsm/core/scan.h"
#include "fsm/core/state.h"
#include "fsm/order/lane.h"
#include "fsm/order/limiter.h"
#include "fsm/order/queue.h"
#include "fsm/order/window.h"

static int read_limiter(const struct m_limiter *m, struct limiter **ret)
{
	*ret = xcalloc(1, sizeof(**ret));
	return limiter_read(m, *ret);
}

static int load_lane(struct fsm *f, struct str key, struct str value)
{
	struct m_lane_doc m;
	struct str queue, group;
	struct fsm_queue *q;
	struct fsm_lane *l;

	if (!str_split(key, '\0', &queue, &group) ||
	    (q = queue_find(f, queue)) == NULL ||
	    (group.n > 0 && !group_name_fits(group)) ||
	    msg_decode(&msg_lane_doc, value, &f->item_arena, &m) < 0)
		return -ERR_INTERNAL_ERROR;
	l = lane_get(f, q, group);
	l->stored = true;
	l->pass = m.pass;
	if (group.n == 0) {
		q->lanes.time = m.time;
		q->lanes.mixed = m.mixed;
		q->lanes.parting = MSG_HAS(&m, lane_doc, part_seq);
		q->lanes.part_prio = (uint8_t)m.part_prio;
		q->lanes.part_seq = m.part_seq;
	}
	return MSG_HAS(&m, lane_doc, limiter)
		   ? read_limiter(m.limiter, &l->limiter)
		   : 0;
}

static int load_limiter(struct fsm *f, struct str key, struct str value)
{
	struct fsm_queue *q = queue_find(f, key);
	struct m_limiter m;

	if (q == NULL || q->lanes.limiter != NULL ||
	    msg_decode(&msg_limiter, value, &f->item_arena, &m) < 0)
		return -ERR_INTERNAL_ERROR;
	return read_limiter(&m, &q->lanes.limiter);
}

/* Takes the rest of a group-jobs| key apart: queue \0 group \0 prio:1 seq:8. */
static struct fsm_lane *lane_of_key(struct fsm *f, struct str key,
				    uint8_t *prio, uint64_t *seq)
{
	struct str queue, rest;
	struct fsm_queue *q;

	if (!str_split(key, '\0', &queue, &rest) || rest.n < 11)
		return NULL;
	*prio = (uint8_t)rest.p[rest.n - 9];
	*seq = get_be64(rest.p + rest.n - 8);
	q = queue_find(f, queue);
	if (q == NULL || *prio >= PRIORITIES)
		return NULL;
	return lane_find(q, str_of(rest.p, rest.n - 10));
}

/* One pending job of a group; they come in the order of their keys. */
static int load_pending(struct fsm *f, struct str key,
			struct str value _unused_)
{
	struct window *w;
	struct fsm_lane *l;
	uint64_t seq;
	uint8_t prio;

	l = lane_of_key(f, key, &prio, &seq);
	if (l == NULL || l->q->lanes.base.pending == 0)
		return -ERR_INTERNAL_ERROR;
	l->pending++;
	l->q->lanes.base.pending--;
	w = &l->windows[prio];
	if (w->complete) { /* the first: the window knows of none below it */
		w->complete = false;
		w->frontier = seq;
	}
	return 0;
}

int lanes_load(struct fsm *f)
{
	int r = load_all_named(f, "group-turn|", load_lane);

	if (r == 0)
		r = load_all_named(f, "rl|", load_limiter);
	return r < 0 ? r : load_all_named(f, "group-jobs|", load_pending);
}
