/*
 * Checks of a store as a whole, and of the working set against it. They read
 * everything, so they are for small stores.
 */
#include "fsm_check.h"
#include "fsm/core/cluster.h"
#include "fsm/job/active.h"
#include "fsm/job/job.h"
#include "fsm/order/queue.h"
#include "fsm/order/roster.h"
#include "fsm/ties/deps.h"
#include "store/event_pack.h"

static void dump_key(struct kv_iter *it, struct buf *ret)
{
	struct str k = kv_iter_key(it), v = kv_iter_value(it);
	char n[8];

	put_be32(n, (uint32_t)k.n);
	put_be32(n + 4, (uint32_t)v.n);
	buf_append(ret, n, sizeof(n));
	buf_put_str(ret, k);
	buf_put_str(ret, v);
}

static void dump(struct kv *kv, bool all, struct buf *ret)
{
	struct kv_iter *it = kv_iter_new(kv, STR_NULL, STR_NULL);

	for (; kv_iter_valid(it); kv_iter_next(it)) {
		struct str k = kv_iter_key(it);

		if (all || !(str_is(k, "m|") || str_starts(k, STR("an|")) ||
			     str_is(k, "ao|")))
			dump_key(it, ret);
	}
	assert_int_equal(kv_iter_error(it), 0);
	kv_iter_free(it);
}

void fx_dump(struct kv *kv, struct buf *ret)
{
	dump(kv, true, ret);
}

void fx_dump_state(struct kv *kv, struct buf *ret)
{
	dump(kv, false, ret);
}

void fx_check_same(struct fx *x)
{
	struct buf a = BUF_INIT(0), b = BUF_INIT(0);

	fx_dump(x->side[FX_MEM].kv, &a);
	fx_dump(x->side[FX_ROCKS].kv, &b);
	if (!str_eq(buf_str(&a), buf_str(&b)))
		fail_msg("the stores differ after entry %llu",
			 (unsigned long long)x->raft_index);
	buf_done(&a);
	buf_done(&b);
}

bool check_has_key(struct check *c, const struct key *k)
{
	struct buf b = BUF_INIT(0);
	int r = kv_get(c->kv, key_str(k), &b);

	assert_true(r >= 0);
	buf_done(&b);
	return r > 0;
}

bool check_read_msg(struct check *c, const struct key *k,
		    const struct msg_desc *d, void *ret)
{
	struct buf b = BUF_INIT(0);
	int r = kv_get(c->kv, key_str(k), &b);

	assert_true(r >= 0);
	if (r > 0)
		assert_int_equal(msg_decode(d,
					    arena_copy(&c->arena, buf_str(&b)),
					    &c->arena, ret),
				 0);
	buf_done(&b);
	return r > 0;
}

struct tally *tally_of(struct check *c, struct str queue)
{
	struct tally *t = hmap_get(&c->queues, queue);

	if (t == NULL) {
		t = arena_zalloc(&c->arena, sizeof(*t));
		hmap_put(&c->queues, queue, t);
	}
	return t;
}

/* --- jobs and their indexes --- */

static void check_index(struct check *c, struct str id, struct str queue,
			struct str group, uint8_t prio,
			const struct m_job_live *l)
{
	struct key k;

	switch ((enum job_state)l->state) {
	case JOB_PENDING:
		check_pending_key(&c->lanes, queue, &group, prio, l->seq, &k);
		lane_tally_of(&c->lanes, queue, group)->pending++;
		break;
	case JOB_ACTIVE:
		key_active(&k, SPACE_DEFAULT, queue, id);
		lane_tally_of(&c->lanes, queue,
			      active_find(c->f, id)->lane->group)
		    ->active++;
		break;
	case JOB_SCHEDULED:
		key_scheduled(&k, SPACE_DEFAULT, queue, l->scheduled_at, id);
		break;
	case JOB_RETRYING:
		assert_true(!check_moved_all(c) ||
			    l->failed_at <= c->f->now_ns);
		key_retrying(&k, SPACE_DEFAULT, queue, l->scheduled_at, id);
		break;
	case JOB_HELD:
		check_deadline(c, id, l);
		key_held(&k, SPACE_DEFAULT, queue, id);
		break;
	case JOB_BLOCKED:
		key_blocked(&k, SPACE_DEFAULT, queue, id);
		break;
	case JOB_COMPLETED:
	case JOB_DEAD:
	case JOB_CANCELLED:
		key_ended(&k, SPACE_DEFAULT, queue, l->ended_at, id);
		break;
	case JOB_STATE_MAX:
		fail_msg("a job in no state");
	}
	if (!check_has_key(c, &k))
		fail_msg("job %.*s is not in the index of its state %u",
			 STR_ARG(id), l->state);
}

/* A job without a live record has that of its creation. */
void check_read_live(struct check *c, struct str id, const struct m_job_doc *d,
		     struct m_job_live *ret)
{
	struct key k;

	key_live(&k, id);
	if (!check_read_msg(c, &k, &msg_job_live, ret))
		job_live_as_created(d, ret);
}

/* All events, once: jobs ask for one each, and those of an entry are one
 * record. That they are dense is checked in check_events. */
static void read_events(struct check *c)
{
	struct kv_iter *it = kv_iter_new(c->kv, STR("ev|"), STR("ev}"));
	uint64_t seq, n = c->f->last_seq + 1 - c->f->first_seq;
	struct event_pack p;
	struct str raw;

	c->first_seq = c->f->first_seq;
	c->by_seq = arena_zalloc(&c->arena, (n + 1) * sizeof(*c->by_seq));
	for (; kv_iter_valid(it); kv_iter_next(it)) {
		assert_true(event_pack_open(
		    &p, arena_copy(&c->arena, kv_iter_value(it))));
		while (event_pack_next(&p, &seq, &raw) > 0)
			if (seq >= c->first_seq && seq - c->first_seq < n)
				c->by_seq[seq - c->first_seq] = raw;
	}
	assert_int_equal(kv_iter_error(it), 0);
	kv_iter_free(it);
}

static bool find_event(struct check *c, uint64_t want, struct str *ret)
{
	if (c->by_seq == NULL)
		read_events(c);
	if (want < c->first_seq || want > c->f->last_seq)
		return false;
	*ret = c->by_seq[want - c->first_seq];
	return ret->n > 0;
}

static void check_event_of(struct check *c, struct str id, uint64_t seq)
{
	struct m_event e;
	struct str raw;

	if (!find_event(c, seq, &raw)) {
		assert_true(seq < fsm_first_seq(c->f));
		return;
	}
	assert_int_equal(msg_decode(&msg_event, raw, &c->arena, &e), 0);
	assert_true(str_eq(e.job_id, id));
}

static void check_job(struct check *c, struct str id, struct str value)
{
	struct m_job_live l;
	struct m_job_doc d;
	struct str queue;
	struct key k;

	assert_int_equal(msg_decode(&msg_job_doc, arena_copy(&c->arena, value),
				    &c->arena, &d),
			 0);
	check_read_live(c, id, &d, &l);
	check_waiting(c, id, &l);
	assert_true(l.state > 0 && l.state < JOB_STATE_MAX);
	queue = l.queue.n > 0 ? l.queue : d.queue;
	check_index(c, id, queue, d.group,
		    (uint8_t)(MSG_HAS(&l, job_live, priority) ? l.priority
							      : d.priority),
		    &l);
	check_event_of(c, id, l.event);
	check_agent(c, id, &d, &l);
	c->lines_due += MIN(l.log_lines, (uint32_t)LIMIT_LOG_LINES);
	c->jobs[l.state]++;
	tally_of(c, queue)->counts[l.state]++;
	if (d.unique_key.n > 0 && !job_state_is_terminal(l.state))
		check_holds_key(c, id, &d);
	assert_true(l.timeout_at == 0 || l.state == JOB_ACTIVE);
	c->timeouts += l.timeout_at != 0;
	if (d.expire_at && !l.no_expiry && !job_state_is_terminal(l.state)) {
		c->expiring++;
		key_expiry(&k, d.expire_at, id);
		assert_true(check_has_key(c, &k));
	}
}

static void check_error(struct check *c, struct str key)
{
	struct str id = str_of(key.p, key.n - 5);
	struct key k;

	key_job(&k, id);
	assert_true(check_has_key(c, &k));
	if (!str_eq(id, c->errors_of)) {
		c->errors_of = arena_copy(&c->arena, id);
		c->errors = 0;
	}
	assert_true(++c->errors <= LIMIT_JOB_ERRORS);
}

/* Of a job that is there, and among its newest. */
static void check_line(struct check *c, struct str key)
{
	struct str id = str_of(key.p, key.n - 5);
	uint32_t n = get_be32(key.p + key.n - 4);
	struct m_job_live l;
	struct key k;

	key_live(&k, id);
	assert_true(check_read_msg(c, &k, &msg_job_live, &l));
	assert_in_range(n, 1, l.log_lines);
	assert_true(n + LIMIT_LOG_LINES > l.log_lines);
	c->lines++;
}

static void check_counts(struct check *c, struct str queue, struct str value)
{
	const struct fsm_queue *q = queue_find(c->f, queue);
	const struct tally *t = tally_of(c, queue);
	struct m_queue m;

	c->keys_qs++;
	assert_non_null(q);
	assert_int_equal(
	    msg_decode(&msg_queue, arena_copy(&c->arena, value), &c->arena, &m),
	    0);
	assert_memory_equal(t->counts, q->counts, sizeof(t->counts));
	assert_int_equal(m.pending, t->counts[JOB_PENDING]);
	assert_int_equal(m.blocked, t->counts[JOB_BLOCKED]);
	assert_int_equal(m.active, t->counts[JOB_ACTIVE]);
	assert_int_equal(m.completed, t->counts[JOB_COMPLETED]);
	assert_int_equal(m.dead, t->counts[JOB_DEAD]);
	assert_int_equal(m.scheduled, t->counts[JOB_SCHEDULED]);
	assert_int_equal(m.retrying, t->counts[JOB_RETRYING]);
	assert_int_equal(m.cancelled, t->counts[JOB_CANCELLED]);
	for (enum bound b = 0; b < BOUNDS; b++)
		if (!bounds_has(q, b))
			assert_int_equal(q->bounds.first[b], NEVER);
	assert_int_equal(q->idle.pos > 0, roster_is_idle(q));
	if (roster_is_idle(q)) /* older stores do not say since when */
		assert_int_equal(q->idle.key, m.idle_since != 0
						  ? m.idle_since
						  : q->created_at);
	else
		assert_int_equal(m.idle_since, 0);
}

/* Its fetch finds it when it is sent again. */
static void check_given(struct check *c, const struct fsm_active *a)
{
	const struct bynum_node *g = bynum_first(&c->f->given, a->given.num);
	struct m_job_live l;
	struct key k;

	key_live(&k, a->id);
	assert_true(check_read_msg(c, &k, &msg_job_live, &l));
	assert_int_equal(a->given.num, l.fetch_id);
	assert_int_equal(a->token, l.lease_token);
	if (l.fetch_id == 0)
		return;
	c->given++;
	while (g != NULL && g != &a->given)
		g = bynum_next(g);
	assert_non_null(g);
}

static void check_active(struct check *c, struct str key, struct str value)
{
	struct str queue, id;
	const struct fsm_active *a;

	c->keys_a++;
	assert_true(str_split(key, '\0', &queue, &id));
	a = active_find(c->f, id);
	assert_non_null(a);
	assert_true(str_eq(a->q->name, queue));
	assert_int_equal(a->lease.key, get_be64(value.p));
	assert_int_equal(a->token, get_be64(value.p + 8));
	/* no lease is eternal, whatever becomes of the clock */
	if (check_moved_all(c))
		assert_true(a->lease.key <= c->f->now_ns + a->granted_ns);
	check_given(c, a);
}

/* The first of its kind is known to the nanosecond. */
static const struct fsm_queue *check_bound(struct check *c, struct str key,
					   enum bound b)
{
	const char *end = memchr(key.p, '\0', key.n);
	struct str name = str_of(key.p, (size_t)(end - key.p));
	const struct fsm_queue *q = queue_find(c->f, name);
	struct tally *t = tally_of(c, name);
	uint64_t ns = get_be64(end + 1);
	uint64_t *keys[BOUNDS] = { &c->keys_s, &c->keys_r, &c->keys_t };

	(*keys[b])++;
	assert_non_null(q);
	if (!t->seen[b])
		assert_int_equal(q->bounds.first[b], ns);
	t->seen[b] = true;
	if (b != BOUND_ENDED)
		assert_true(q->bounds.due.pos > 0 && q->bounds.due.key <= ns);
	return q;
}

/* Purge must know of it in time, unless it is kept for ever. */
static void check_ended(struct check *c, struct str key)
{
	const struct fsm_queue *q = check_bound(c, key, BOUND_ENDED);
	bool own = MSG_HAS(q->set, set_queue, retention);

	assert_int_equal(q->bounds.purge_is_own, own);
	assert_int_equal(q->bounds.purge.pos > 0,
			 !own || q->set->retention > 0);
}

/* What was set is in memory as it is in the store. */
static void check_queue(struct check *c, struct str name, struct str value)
{
	const struct fsm_queue *q = queue_find(c->f, name);
	static const struct m_set_queue none;
	struct buf a = BUF_INIT(0), b = BUF_INIT(0);
	struct m_queue_doc d;

	assert_non_null(q);
	assert_int_equal(msg_decode(&msg_queue_doc,
				    arena_copy(&c->arena, value), &c->arena,
				    &d),
			 0);
	assert_int_equal(q->paused, d.paused);
	assert_int_equal(q->lanes.regroups, d.regroups);
	msg_encode(&msg_set_queue, q->set, &a);
	msg_encode(&msg_set_queue, d.settings != NULL ? d.settings : &none, &b);
	assert_true(str_eq(buf_str(&a), buf_str(&b)));
	assert_int_equal(q->asked, 0);
	c->capped += q->set->max_backlog > 0;
	c->pushed += q->set->push != NULL;
	assert_int_equal(q->set->push != NULL, !list_empty(&q->pushed));
	buf_done(&a);
	buf_done(&b);
}

static void check_expiry(struct check *c, struct str key)
{
	c->keys_x++;
	assert_true(c->f->expiry_from <= get_be64(key.p));
}

/* Dense from the first one kept, and the key is that of the last. */
static void check_events(struct check *c, struct str key, struct str value)
{
	struct event_pack p;
	struct str raw;
	uint64_t seq;

	assert_true(event_pack_open(&p, value));
	if (c->events == 0)
		assert_true(p.seq <= fsm_first_seq(c->f));
	else
		assert_int_equal(p.seq, c->last_event + 1);
	while (event_pack_next(&p, &seq, &raw) > 0) {
		c->events++;
		c->last_event = seq;
	}
	assert_int_equal(p.rest.n, 0);
	assert_int_equal(c->last_event, get_be64(key.p));
	assert_true(c->last_event >= fsm_first_seq(c->f));
}

static void check_live(struct check *c, struct str id)
{
	struct key k;

	key_job(&k, id);
	assert_true(check_has_key(c, &k));
}

/* What follows the namespace. */
static struct str name_of(struct str rest)
{
	uint32_t space;

	assert_true(key_take_space(&rest, &space));
	assert_int_equal(space, SPACE_DEFAULT);
	return rest;
}

/* By fx_check_batches, _schedules, _bulks, _usage, _purses, _hooks, _webhooks
 * and _sdb. */
static bool is_looked_at_later(struct str key)
{
	static const char *const kinds[] = { "b|",  "bt|", "bo|", "bp|",
					     "sc|", "bk|", "bi|", "bc|",
					     "hk|", "wh|", "ws|", "wt|",
					     "wl|", "sd|", "ap|", "al|" };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (str_starts(key, str_from(kinds[i])))
			return true;
	return fx_is_usage_key(key) || fx_is_purse_key(key);
}

static void check_key(struct check *c, struct str key, struct str v)
{
#define REST(kind) str_skip(key, sizeof(kind) - 1)
#define NAME(kind) name_of(REST(kind))
	if (str_starts(key, STR("j|")))
		check_job(c, REST("j|"), v);
	else if (str_starts(key, STR("jl|")))
		check_live(c, REST("jl|"));
	else if (str_starts(key, STR("je|")))
		check_error(c, REST("je|"));
	else if (str_starts(key, STR("l|")))
		check_line(c, REST("l|"));
	else if (str_starts(key, STR("it|")) || str_starts(key, STR("cp|")))
		check_agent_key(c, key, v);
	else if (str_starts(key, STR("p|")))
		check_pending(&c->lanes, NAME("p|"), v);
	else if (str_starts(key, STR("group-jobs|")))
		check_group_pending(&c->lanes, NAME("group-jobs|"), v);
	else if (str_starts(key, STR("group-turn|")))
		check_lane_doc(&c->lanes, NAME("group-turn|"), v);
	else if (str_starts(key, STR("rl|")))
		check_limiter(&c->lanes, NAME("rl|"));
	else if (str_starts(key, STR("a|")))
		check_active(c, NAME("a|"), v);
	else if (str_starts(key, STR("s|")))
		check_bound(c, NAME("s|"), BOUND_SCHEDULED);
	else if (str_starts(key, STR("r|")))
		check_bound(c, NAME("r|"), BOUND_RETRYING);
	else if (str_starts(key, STR("h|")))
		c->keys_h++;
	else if (str_starts(key, STR("hd|")))
		c->keys_hd++;
	else if (str_starts(key, STR("bl|")))
		c->keys_bl++;
	else if (str_starts(key, STR("t|")))
		check_ended(c, NAME("t|"));
	else if (str_starts(key, STR("qc|")))
		check_queue(c, NAME("qc|"), v);
	else if (str_starts(key, STR("d|")))
		check_dependent(c, REST("d|"));
	else if (str_starts(key, STR("dr|")))
		check_release(c, key);
	else if (str_starts(key, STR("x|")))
		check_expiry(c, REST("x|"));
	else if (str_starts(key, STR("qs|"))) /* after all of j| */
		check_counts(c, NAME("qs|"), v);
	else if (str_starts(key, STR("ev|")))
		check_events(c, REST("ev|"), v);
	else if (str_starts(key, STR("u|")))
		check_lock(c, NAME("u|"), v);
	else if (str_starts(key, STR("ik|")))
		check_kept_answer(c, NAME("ik|"), v);
	else if (str_starts(key, STR("ie|")))
		check_answer_end(c, REST("ie|"));
	else if (str_starts(key, STR("wk|")))
		c->keys_w++;
	else if (str_starts(key, STR("mb|")))
		check_member(c, REST("mb|"), v);
	else if (str_starts(key, STR("an|")))
		c->answer_bytes += v.n;
	else if (str_is(key, "ao|"))
		assert_int_equal(v.n, c->f->answers.lost_n * 16);
	else if (!is_looked_at_later(key))
		assert_true(str_is(key, "settings|") || str_is(key, "m|") ||
			    str_is(key, "cluster|") || str_is(key, "format|") ||
			    (str_is(key, "clock|") && c->f->clock.open));
#undef REST
#undef NAME
}

/* As many keys as jobs that should have one: no index has too many. */
static void check_totals(struct check *c)
{
	const struct fsm *f = c->f;

	assert_int_equal(c->answer_bytes, f->answers.bytes);
	assert_true(f->answers.bytes <= LIMIT_ANSWERS_BYTES);
	assert_true(f->answers.n <= LIMIT_ANSWERS);
	assert_int_equal(c->lanes.keys, c->jobs[JOB_PENDING]);
	assert_int_equal(c->keys_a, c->jobs[JOB_ACTIVE]);
	assert_int_equal(c->keys_s, c->jobs[JOB_SCHEDULED]);
	assert_int_equal(c->keys_r, c->jobs[JOB_RETRYING]);
	assert_int_equal(c->keys_h, c->jobs[JOB_HELD]);
	assert_int_equal(c->keys_bl, c->jobs[JOB_BLOCKED]);
	assert_int_equal(c->keys_hd, c->deadlines);
	assert_int_equal(c->keys_t, c->jobs[JOB_COMPLETED] + c->jobs[JOB_DEAD] +
					c->jobs[JOB_CANCELLED]);
	assert_int_equal(c->keys_x, c->expiring);
	assert_int_equal(c->lines, c->lines_due);
	check_agents_end(c);
	assert_int_equal(c->keys_d, c->linked);
	check_releases_end(c);
	assert_int_equal(f->active.n, c->keys_a);
	assert_int_equal(f->leases.n, c->keys_a);
	assert_int_equal(f->timeouts.n, c->timeouts);
	assert_int_equal(f->given.n, c->given);
	assert_int_equal(c->keys_ik, c->keys_ie);
	assert_int_equal(f->workers.n, c->keys_w);
	assert_int_equal(f->seen.n, c->keys_w);
	assert_int_equal(f->cluster.members_n, c->keys_mb);
	assert_int_equal(f->queues.n, c->keys_qs);
	assert_memory_equal(f->jobs, c->jobs, sizeof(c->jobs));
	assert_int_equal(f->capped, c->capped);
	assert_int_equal(f->pushed_n, c->pushed);
	if (c->events > 0)
		assert_int_equal(c->last_event, f->last_seq);
	check_lanes(&c->lanes);
}

void fx_check_side(struct fx_side *s)
{
	struct check c = { .kv = s->kv,
			   .f = s->f,
			   .latest_ns = s->latest_ns,
			   .back_ns = s->back_ns };
	struct kv_iter *it = kv_iter_new(s->kv, STR_NULL, STR_NULL);
	struct record_meta m;

	c.arena.block_size = 64u << 10;
	c.lanes.kv = s->kv;
	c.lanes.f = s->f;
	c.lanes.arena = &c.arena;
	for (; kv_iter_valid(it); kv_iter_next(it))
		check_key(&c, kv_iter_key(it), kv_iter_value(it));
	assert_int_equal(kv_iter_error(it), 0);
	kv_iter_free(it);
	check_totals(&c);
	assert_int_equal(record_meta_read(s->kv, &m), 0);
	assert_int_equal(m.applied_index, fsm_applied_index(s->f));
	assert_int_equal(m.last_seq, fsm_last_seq(s->f));
	assert_int_equal(m.first_seq, fsm_first_seq(s->f));
	fx_check_batches(s);
	fx_check_schedules(s);
	fx_check_bulks(s);
	fx_check_usage(s);
	fx_check_purses(s);
	hmap_done(&c.queues);
	hmap_done(&c.waiting);
	hmap_done(&c.lanes.tallies);
	arena_done(&c.arena);
}
