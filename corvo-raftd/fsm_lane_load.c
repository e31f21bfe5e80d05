/*
 * Lanes from the store at start: which there are and what they remember, and
 * where the first job of each stands, so that the first fetch need not read
 * the windows of all lanes to find the one that is next.
 */
#include <stdlib.h>

#include "fsm_impl.h"

#define STEPS_MAX 8 /* over jobs of one place before it is jumped over */

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
	} else {
		if (m.pending > q->lanes.base.pending)
			return -ERR_INTERNAL_ERROR;
		l->pending = m.pending;
		q->lanes.base.pending -= m.pending;
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

/* Takes a key of g| apart: queue \0 group \0 prio:1 seq:8. */
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

/* Moves on to the first key of another lane or priority. */
static struct kv_iter *skip_place(struct fsm *f, struct kv_iter *it,
				  const struct fsm_lane *l, uint8_t prio,
				  struct str end)
{
	struct key from, upto;

	lane_key(&from, l, prio, 0);
	lane_key(&upto, l, prio + 1, 0);
	for (int i = 0; i < STEPS_MAX; i++) {
		kv_iter_next(it);
		if (!kv_iter_valid(it) ||
		    str_cmp(kv_iter_key(it), key_str(&upto)) >= 0)
			return it;
	}
	kv_iter_free(it);
	return kv_iter_new(f->kv, key_str(&upto), end);
}

/* A window knows of no job below the first one there is. */
static int load_firsts(struct fsm *f)
{
	struct key from, upto;
	struct kv_iter *it;
	int r = 0;

	key_prefix(&from, "g|");
	key_prefix_end(&from, &upto);
	it = kv_iter_new(f->kv, key_str(&from), key_str(&upto));
	while (kv_iter_valid(it)) {
		uint64_t seq;
		uint8_t prio;
		struct fsm_lane *l = lane_of_key(
		    f, str_skip(kv_iter_key(it), from.n), &prio, &seq);

		if (l == NULL) {
			r = -ERR_INTERNAL_ERROR;
			break;
		}
		l->windows[prio].complete = false;
		l->windows[prio].frontier = seq;
		it = skip_place(f, it, l, prio, key_str(&upto));
	}
	if (r == 0)
		r = kv_iter_error(it);
	kv_iter_free(it);
	return r;
}

int lanes_load(struct fsm *f)
{
	int r = load_all(f, "gs|", load_lane);

	if (r == 0)
		r = load_all(f, "rl|", load_limiter);
	return r < 0 ? r : load_firsts(f);
}
