#include "fsm_check_lane.h"

#include "fsm/order/lane.h"
#include "fsm/order/limiter.h"
#include "fsm/order/queue.h"
#include "fsm_fixture.h"

struct lane_tally *lane_tally_of(struct lane_check *c, struct str queue,
				 struct str group)
{
	struct lane_tally *t;
	struct key k;

	key_lane(&k, SPACE_DEFAULT, queue, group);
	t = hmap_get(&c->tallies, key_str(&k));
	if (t == NULL) {
		t = arena_zalloc(c->arena, sizeof(*t));
		hmap_put(&c->tallies, key_str(&k), t);
	}
	return t;
}

void check_pending_key(struct lane_check *c, struct str queue,
		       struct str *group, uint8_t prio, uint64_t seq,
		       struct key *ret)
{
	struct buf b = BUF_INIT(0);
	int r = 0;

	if (group->n > 0) {
		key_group_pending(ret, SPACE_DEFAULT, queue, *group, prio, seq);
		r = kv_get(c->kv, key_str(ret), &b);
	}
	buf_done(&b);
	if (r > 0)
		return;
	*group = STR_NULL;
	key_pending(ret, SPACE_DEFAULT, queue, prio, seq);
}

/* A pending job below the frontier must be in the window. */
static void check_window(const struct window *w, uint64_t seq, bool as_created)
{
	if (!w->complete && seq >= w->frontier)
		return;
	for (uint32_t i = 0; i < w->n; i++) {
		const struct window_job *j =
		    &w->ring[(w->head + i) & (w->cap - 1)];

		if (j->seq != seq)
			continue;
		assert_true(as_created || !j->as_created);
		return;
	}
	for (uint32_t i = 0; i < w->heap_n; i++) {
		if (w->heap[i].seq == seq)
			return;
	}
	fail_msg("pending job %llu is not in its window",
		 (unsigned long long)seq);
}

static void check_as_created(struct lane_check *c, struct str value)
{
	struct buf b = BUF_INIT(0);
	struct pending p;
	struct key k;

	lane_value(value, &p);
	key_live(&k, p.id);
	assert_int_equal(p.as_created, kv_get(c->kv, key_str(&k), &b) == 0);
	buf_done(&b);
}

/* place: prio:1 seq:8. */
static void check_place(struct lane_check *c, struct fsm_queue *q,
			struct str group, const char *place, struct str value)
{
	uint8_t prio = (uint8_t)place[0];
	uint64_t seq = get_be64(place + 1);
	struct pending p;
	struct fsm_lane *l;

	c->keys++;
	assert_non_null(q);
	l = lane_find(q, group);
	assert_non_null(l);
	assert_true(prio < PRIORITIES);
	check_as_created(c, value);
	lane_value(value, &p);
	assert_true(p.group.n == 0 || q->lanes.mixed);
	assert_true(q->lanes.regroup.pos > 0 ||
		    lanes_want(q, group.n > 0 ? group : p.group) ==
			(group.n > 0));
	check_window(&l->windows[prio], seq, p.as_created);
	if (l->open > 0) {
		assert_true(l->turn[prio].pos > 0);
		assert_true(l->turn[prio].tie <= seq);
	}
}

void check_pending(struct lane_check *c, struct str key, struct str value)
{
	struct str queue = str_of(key.p, key.n - 10);

	check_place(c, queue_find(c->f, queue), STR_NULL, key.p + key.n - 9,
		    value);
}

void check_group_pending(struct lane_check *c, struct str key, struct str value)
{
	struct str queue, rest;

	assert_true(str_split(key, '\0', &queue, &rest));
	check_place(c, queue_find(c->f, queue), str_of(rest.p, rest.n - 10),
		    key.p + key.n - 9, value);
}

void check_lane_doc(struct lane_check *c, struct str key, struct str value)
{
	struct str queue, group;
	struct m_lane_doc m;
	struct fsm_queue *q;
	const struct fsm_lane *l;

	assert_true(str_split(key, '\0', &queue, &group));
	q = queue_find(c->f, queue);
	assert_non_null(q);
	l = lane_find(q, group);
	assert_non_null(l);
	assert_int_equal(msg_decode(&msg_lane_doc, arena_copy(c->arena, value),
				    c->arena, &m),
			 0);
	lane_tally_of(c, queue, group)->stored = true;
	assert_int_equal(m.pass, l->pass);
	if (group.n == 0) {
		assert_int_equal(m.time, q->lanes.time);
		assert_int_equal(m.mixed, q->lanes.mixed);
		assert_int_equal(MSG_HAS(&m, lane_doc, part_seq),
				 q->lanes.parting);
		assert_int_equal(m.part_seq,
				 q->lanes.parting ? q->lanes.part_seq : 0);
	}
	assert_true((m.limiter != NULL) == (l->limiter != NULL));
	if (l->limiter != NULL)
		assert_int_equal(m.limiter->slot, l->limiter->newest);
}

void check_limiter(struct lane_check *c, struct str queue)
{
	const struct fsm_queue *q = queue_find(c->f, queue);

	c->limiters++;
	assert_non_null(q);
	assert_non_null(q->lanes.limiter);
	assert_true(q->set->rate > 0);
}

static void check_lane(struct lane_check *c, const struct fsm_lane *l)
{
	const struct lane_tally *t = lane_tally_of(c, l->q->name, l->group);

	assert_int_equal(l->pending, t->pending);
	assert_true(list_empty(&l->dirty));
	assert_true(l->stored == t->stored);
	assert_true(l->open <= l->pending);
	for (int i = 0; i < PRIORITIES; i++)
		assert_true(l->open > 0 || l->turn[i].pos == 0);
	assert_false(l->wait.pos > 0 && l->open > 0);
	if (l->group.n == 0)
		return;
	assert_true(l->stored);
	assert_int_equal(l->active, t->active);
	assert_true(l->leave.pos > 0 || l->pending + l->active == 0 ||
		    lanes_want(l->q, l->group));
	assert_true((l->idle.pos > 0) == (l->pending + l->active == 0));
}

/* Returns how many jobs its windows hold, and the bytes of their records. */
static uint64_t check_lanes_of(struct lane_check *c, const struct fsm_queue *q,
			       uint64_t *docs)
{
	const struct lanes *ls = &q->lanes;
	uint64_t jobs = 0, open = 0;
	struct str name;
	size_t pos = 0;
	void *v = (void *)&ls->base;

	do {
		const struct fsm_lane *l = v;

		check_lane(c, l);
		open += l->open;
		for (int i = 0; i < PRIORITIES; i++) {
			jobs += window_size(&l->windows[i]);
			*docs += l->windows[i].doc_bytes;
		}
	} while (hmap_next(&ls->groups, &pos, &name, &v));
	assert_int_equal(open, ls->open);
	assert_true(!ls->plain || (ls->open == 0 && ls->groups.n == 0));
	if (ls->limiter != NULL)
		c->limiters--;
	return jobs;
}

void check_lanes(struct lane_check *c)
{
	uint64_t in_windows = 0, docs = 0;
	struct str name;
	size_t pos = 0;
	void *v;

	while (hmap_next(&c->f->queues, &pos, &name, &v))
		in_windows += check_lanes_of(c, v, &docs);
	assert_int_equal(c->limiters, 0);
	assert_int_equal(in_windows, c->f->window_jobs);
	assert_int_equal(docs, c->f->window_docs);
}
