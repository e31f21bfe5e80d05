#include "reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/job.h"
#include "store/key.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/hmap.h"
#include "whole.h"

#define TAIL_NS     (10 * NS_PER_MS) /* between questions */
#define ASK_NS      (5 * NS_PER_S)
#define FEW         20 /* events of an answer */
#define READ_MAX_NS (400 * NS_PER_MS)

/* A job of the view: its two records. */
struct row {
	uint64_t doc, live; /* 0: it is as it was created */
};

struct reader {
	struct machine *m;
	uint64_t seq; /* events the view has */
	struct hmap rows;
	struct ask *tail, *read;
	struct sim_event next, question;
	/* the question: what was acknowledged before */
	uint64_t acked;
	uint64_t number; /* of a job that was there, */
	bool is_ended;   /* and had ended */
	bool is_calm;
	uint64_t left; /* rows that were not found yet */
};

static uint64_t hash_of(struct str s)
{
	return s.n > 0 ? hash_stable(s.p, s.n) | 1 : 0;
}

/* That others wait for a job is nothing a view is told. */
static uint64_t hash_of_live(struct str s)
{
	struct arena a = ARENA_INIT;
	struct buf b = BUF_INIT(0);
	struct m_job_live m;
	uint64_t ret;

	if (s.n == 0)
		return 0;
	CHECK(msg_decode(&msg_job_live, s, &a, &m) == 0);
	m.dependents = false;
	MSG_UNSET(&m, job_live, dependents);
	msg_encode(&msg_job_live, &m, &b);
	ret = hash_of(buf_str(&b));
	buf_done(&b);
	arena_done(&a);
	return ret;
}

/* --- the view --- */

static void drop(struct reader *r, struct str id)
{
	free(hmap_remove(&r->rows, id));
}

static void drop_all(struct reader *r)
{
	struct str key;
	size_t pos = 0;
	void *v;

	while (hmap_next(&r->rows, &pos, &key, &v))
		free(v);
	hmap_done(&r->rows);
	r->rows = (struct hmap){ 0 };
	r->seq = 0;
}

static struct row *row_of(struct reader *r, struct str id)
{
	struct row *row = hmap_get(&r->rows, id);

	if (row == NULL) {
		row = xcalloc(1, sizeof(*row));
		(void)hmap_put(&r->rows, id, row);
	}
	return row;
}

static void put_record(struct reader *r, const struct m_job_record *rec)
{
	struct row *row = row_of(r, rec->id);

	if (rec->doc.n > 0)
		row->doc = hash_of(rec->doc);
	if (row->doc == 0)
		whole_fail(r->m->w,
			   "the feed of node %u tells of job %.*s, but not "
			   "what it is",
			   r->m->host.number, STR_ARG(rec->id));
	row->live = hash_of_live(rec->live);
}

typedef void key_fn(struct reader *r, struct str id, struct str value);

static void each_key(struct reader *r, const char *kind, const char *end,
		     key_fn *fn)
{
	struct parts *p = machine_parts(r->m);
	struct kv_iter *it = kv_iter_new(p->kv, str_from(kind), str_from(end));

	for (; kv_iter_valid(it); kv_iter_next(it))
		fn(r, str_skip(kv_iter_key(it), strlen(kind)),
		   kv_iter_value(it));
	kv_iter_free(it);
}

static void load_doc(struct reader *r, struct str id, struct str value)
{
	row_of(r, id)->doc = hash_of(value);
}

static void load_live(struct reader *r, struct str id, struct str value)
{
	row_of(r, id)->live = hash_of_live(value);
}

/* As from a checkpoint. */
static void rebuild(struct reader *r)
{
	struct fsm *f = machine_parts(r->m)->fsm;

	drop_all(r);
	CHECK(fsm_flush(f) == 0);
	each_key(r, "j|", "j}", load_doc);
	each_key(r, "jl|", "jl}", load_live);
	r->seq = fsm_last_seq(f);
	r->m->w->tally.rebuilt++;
}

static void take(struct reader *r, const struct m_tail_reply *m)
{
	if (m->last_seq < r->seq && m->records_n + m->jobs_n > 0)
		whole_fail(r->m->w,
			   "the feed of node %u goes back from event %" PRIu64
			   " to %" PRIu64,
			   r->m->host.number, r->seq, m->last_seq);
	for (size_t i = 0; i < m->jobs_n; i++)
		drop(r, m->jobs[i].id);
	for (size_t i = 0; i < m->records_n; i++)
		put_record(r, &m->records[i]);
	r->seq = m->last_seq;
}

/* Only what is not kept any more is lost. */
static void look_at_lost(struct reader *r)
{
	struct whole *w = r->m->w;

	if (r->seq + 1 >= witness_first_seq(w->witness) &&
	    r->seq <= witness_seq(w->witness))
		whole_fail(w,
			   "the feed of node %u does not go on after event "
			   "%" PRIu64 ", which is kept",
			   r->m->host.number, r->seq);
}

static void on_tail(void *ctx, const struct rpc_reply *reply)
{
	struct reader *r = ctx;
	struct arena a = ARENA_INIT;
	struct m_tail_reply m;

	r->tail = NULL;
	if (reply->err == 0) {
		CHECK(msg_decode(&msg_tail_reply, reply->body, &a, &m) == 0);
		if (m.lost)
			look_at_lost(r);
		if (!m.lost)
			take(r, &m);
		else if (machine_parts(r->m) != NULL &&
			 machine_parts(r->m)->node != NULL)
			rebuild(r);
	}
	arena_done(&a);
}

static void on_next(void *ctx)
{
	struct reader *r = ctx;
	struct m_tail m = { 0 };
	struct buf b = BUF_INIT(0);

	sim_after(r->m->w->sim, &r->next, NULL, TAIL_NS, on_next, r);
	if (r->tail != NULL)
		return;
	MSG_SET(&m, tail, after_seq, r->seq);
	if (sim_chance(r->m->w->sim, 30))
		MSG_SET(&m, tail, limit,
			(uint32_t)sim_between(r->m->w->sim, 1, FEW));
	msg_encode(&msg_tail, &m, &b);
	r->tail = desk_ask(r->m->desk, QUERY_TAIL, buf_str(&b),
			   clock_mono_ns() + ASK_NS, on_tail, r);
	buf_done(&b);
}

/* --- what was acknowledged --- */

static void read_on(struct reader *r, unsigned query, const struct msg_desc *d,
		    const void *m, rpc_reply_fn *fn)
{
	struct buf b = BUF_INIT(0);

	msg_encode(d, m, &b);
	r->read = desk_ask(r->m->desk, query, buf_str(&b),
			   clock_mono_ns() + ASK_NS, fn, r);
	buf_done(&b);
}

static void on_job(void *ctx, const struct rpc_reply *reply)
{
	struct reader *r = ctx;
	struct whole *w = r->m->w;
	struct arena a = ARENA_INIT;
	struct m_job m;

	r->read = NULL;
	if (reply->err == ERR_NOT_FOUND &&
	    clients_have_not_ended(&w->clients, r->number))
		whole_fail(w,
			   "node %u does not know job %" PRIu64
			   ", which was acknowledged before it was asked",
			   r->m->host.number, r->number);
	if (reply->err == 0) {
		CHECK(msg_decode(&msg_job, reply->body, &a, &m) == 0);
		if (r->is_ended && !job_state_is_terminal(m.state))
			whole_fail(w,
				   "node %u shows job %" PRIu64
				   " as it was before its end was answered",
				   r->m->host.number, r->number);
		w->tally.reads++;
	}
	arena_done(&a);
}

static void read_job(struct reader *r)
{
	struct m_job_ref m = { 0 };
	struct arena a = ARENA_INIT;

	MSG_SET(&m, job_ref, job_id,
		clients_job_id(&r->m->w->clients, r->number, &a));
	read_on(r, QUERY_GET_JOB, &msg_job_ref, &m, on_job);
	arena_done(&a);
}

static void on_reached(void *ctx, const struct rpc_reply *reply)
{
	struct reader *r = ctx;

	r->read = NULL;
	if (reply->err == 0)
		read_job(r);
}

static void reach(struct reader *r, uint64_t seq)
{
	struct m_reach m = { 0 };

	MSG_SET(&m, reach, seq, seq);
	read_on(r, QUERY_REACH, &msg_reach, &m, on_reached);
}

static void on_fence(void *ctx, const struct rpc_reply *reply)
{
	struct reader *r = ctx;

	r->read = NULL;
	if (reply->err != 0)
		return;
	if (reply->seq < r->acked)
		whole_fail(r->m->w,
			   "who leads says to node %u that event %" PRIu64
			   " is the newest, and %" PRIu64
			   " was acknowledged before",
			   r->m->host.number, reply->seq, r->acked);
	reach(r, reply->seq);
}

/* With consistency=leader, or behind what an answer has named; or at once, from
 * the node that gave the answer. */
static void on_question(void *ctx)
{
	static const struct m_nothing nothing;
	struct reader *r = ctx;
	struct whole *w = r->m->w;

	sim_after(w->sim, &r->question, NULL, sim_below(w->sim, READ_MAX_NS),
		  on_question, r);
	if (r->read != NULL || r->is_calm)
		return;
	r->number = clients_some_job(&w->clients, &r->is_ended);
	if (r->number == 0)
		return;
	r->acked = w->acked;
	if (sim_chance(w->sim, 50) &&
	    clients_were_told_by(&w->clients, r->number, r->m)) {
		r->is_ended = false; /* that another one may have told */
		read_job(r);
	} else if (sim_chance(w->sim, 50))
		read_on(r, QUERY_FENCE, &msg_nothing, &nothing, on_fence);
	else
		reach(r, r->acked);
}

/* --- all of it --- */

struct reader *reader_new(struct machine *m)
{
	struct reader *r = xcalloc(1, sizeof(*r));
	struct sim *s = m->w->sim;

	r->m = m;
	sim_after(s, &r->next, NULL, TAIL_NS, on_next, r);
	sim_after(s, &r->question, NULL, NS_PER_S, on_question, r);
	return r;
}

void reader_free(struct reader *r)
{
	sim_forget(r->m->w->sim, &r->next);
	sim_forget(r->m->w->sim, &r->question);
	drop_all(r);
	free(r);
}

void reader_calm(struct reader *r)
{
	r->is_calm = true;
}

void reader_forget(struct reader *r)
{
	if (r->tail != NULL)
		desk_withdraw(r->tail);
	if (r->read != NULL)
		desk_withdraw(r->read);
	r->tail = r->read = NULL;
	drop_all(r);
}

bool reader_is_done(const struct reader *r)
{
	struct parts *p = machine_parts(r->m);

	return p != NULL && p->fsm != NULL && r->read == NULL &&
	       r->seq == fsm_last_seq(p->fsm);
}

static void check_doc(struct reader *r, struct str id, struct str value)
{
	const struct row *row = hmap_get(&r->rows, id);

	if (row == NULL || row->doc != hash_of(value))
		whole_fail(r->m->w, "the view of node %u %s job %.*s",
			   r->m->host.number,
			   row == NULL ? "lacks" : "has another", STR_ARG(id));
	r->left--;
}

/* What the live record of a job would be that nothing has happened to. */
static uint64_t hash_as_created(struct reader *r, struct str id)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(buf_done) struct buf raw = BUF_INIT(0);
	struct key k;

	key_job(&k, id);
	CHECK(kv_get(machine_parts(r->m)->kv, key_str(&k), &raw) > 0);
	created_live(buf_str(&raw), &b);
	return hash_of(buf_str(&b));
}

static void check_live(struct reader *r, struct str id, struct str value)
{
	const struct row *row = hmap_get(&r->rows, id);
	uint64_t has = row == NULL      ? 0
		       : row->live != 0 ? row->live
					: hash_as_created(r, id);

	if (row == NULL || has != hash_of_live(value))
		whole_fail(r->m->w, "the view of node %u has an old job %.*s",
			   r->m->host.number, STR_ARG(id));
}

void reader_check(struct reader *r)
{
	r->left = r->rows.n;
	CHECK(fsm_flush(machine_parts(r->m)->fsm) == 0);
	each_key(r, "j|", "j}", check_doc);
	each_key(r, "jl|", "jl}", check_live);
	if (r->left != 0)
		whole_fail(r->m->w,
			   "the view of node %u has jobs that are gone",
			   r->m->host.number);
}
