/*
 * Questions that wait for their turn. A turn of the loop is spent on questions
 * for LINE_TURN_NS at most; what is left comes first in the next one, and each
 * kind of question has its turn, so that none holds up another. A kind rests
 * for longer than its answer took: an operation needs several turns of the
 * loop, and must not find the same work in each. Operations never wait here.
 *
 * A question also waits while its peer has yet to take enough of the answers
 * before, unless its own is brief, and while enough of its kind are being read
 * on a worker. Nothing of its answer is made until then. Who has given up
 * meanwhile is not answered. So many wait to be read, each for half of the time
 * it has: then it is refused, and whoever asked hears of it in time.
 *
 * Loop thread.
 */
#include <stdlib.h>

#include "serve/svc_impl.h"
#include "util/clock.h"

#define LINE_TURN_NS (4 * NS_PER_MS)
#define GIVE_NS      NS_PER_MS /* of a turn, for copies of one answer */
#define HEAVY_NS     NS_PER_MS /* an answer, so that its kind rests */
#define REST_TIMES   2
#define SHARED_TIMES 10 /* of an answer that is given to all who ask */
#define REST_MAX_NS  (100 * NS_PER_MS)
#define READS_MAX    2  /* at a time */
#define READS_WAIT   32 /* of a kind; others are told to come back */

/* An answer that others wait for whose peer has no room yet: it is theirs, too,
 * if they have asked before it was made. */
struct kept {
	size_t kind; /* SVC_KINDS: there is none */
	uint64_t made_ns;
	uint64_t seq;
	bool ready; /* who asked was, so it is for those that are, too */
	struct buf question, answer;
};

struct line {
	struct svc *s;
	struct kept kept;
	uint64_t rests_until_ns[SVC_KINDS];
	struct list kinds[SVC_KINDS]; /* of struct question */
	size_t n[SVC_KINDS];          /* in each */
	struct hmap by_req;           /* struct rpc_req -> struct question */
	size_t others_n;              /* of kinds whose answers are not brief */
	size_t bytes;                 /* of those */
	size_t next;                  /* the kind whose turn it is */
	uint64_t spent_ns;            /* of this turn */
	bool gives;                   /* copies, also in the next one */
	struct loop_timer *timer;
};

/* --- questions that are kept --- */

struct question *question_new(struct rpc_req req,
			      const struct frame_request *item)
{
	struct question *q = xmalloc(sizeof(*q) + item->key.n + item->body.n);
	char *bytes = (char *)(q + 1);

	*q = (struct question){ .req = req,
				.item = *item,
				.since_ns = clock_mono_ns() };
	list_init(&q->node);
	if (item->key.n > 0)
		memcpy(bytes, item->key.p, item->key.n);
	if (item->body.n > 0)
		memcpy(bytes + item->key.n, item->body.p, item->body.n);
	q->item.key = str_of(bytes, item->key.n);
	q->item.body = str_of(bytes + item->key.n, item->body.n);
	return q;
}

void question_free(struct question *q)
{
	list_remove(&q->node);
	free(q);
}

bool question_is_late(const struct question *q, uint64_t now_ns)
{
	return q->item.deadline_ns != 0 && q->item.deadline_ns <= now_ns;
}

/* --- kinds --- */

static const uint32_t kinds[SVC_KINDS] = {
#define KIND_ID(NAME) [SVC_KIND_##NAME] = QUERY_##NAME,
#define QUERY(num, NAME, name, proc, asked, does, req_type, reply, doc) \
	PROC_IS_RAFTD_##proc(KIND_ID(NAME))
#include "proto/defs/queries.def"
};

/* SVC_KINDS: this process is not asked that. */
static size_t kind_of(uint32_t query)
{
	size_t k = 0;

	/* of the one checkpoint there is: the next comes after the end of the
	 * last, or that would end the next */
	if (query == QUERY_CHECKPOINT_DONE)
		query = QUERY_CHECKPOINT;
	while (k < SVC_KINDS && kinds[k] != query)
		k++;
	return k;
}

/* Read by serve/read.c or as there. */
static bool is_read(size_t kind)
{
	return kind == SVC_KIND_JOB_LOGS || kind == SVC_KIND_JOB_SCORES ||
	       kind == SVC_KIND_LIST_ITERATIONS ||
	       kind == SVC_KIND_LIST_SCHEDULES || kind == SVC_KIND_GET_JOBS;
}

/* The answer follows from the question and the state alone, whoever asks, and
 * is more work than to send it. */
static bool is_shared(size_t kind)
{
	return kind == SVC_KIND_LIST_WORKERS ||
	       kind == SVC_KIND_RAFTD_METRICS || kind == SVC_KIND_SCALE ||
	       kind == SVC_KIND_LIST_BUDGETS || kind == SVC_KIND_LIST_PRICES ||
	       kind == SVC_KIND_LIST_POLICIES ||
	       kind == SVC_KIND_LIST_PROVIDERS || kind == SVC_KIND_LIST_BULKS ||
	       kind == SVC_KIND_LIST_WEBHOOKS || kind == SVC_KIND_LIST_HOOKS ||
	       kind == SVC_KIND_CLUSTER_NODES;
}

/* Its answer is a few hundred bytes, whatever is asked. */
static bool is_brief(size_t kind)
{
	return kind == SVC_KIND_NODE_STATUS || kind == SVC_KIND_DUE ||
	       kind == SVC_KIND_FENCE || kind == SVC_KIND_REACH ||
	       kind == SVC_KIND_NODE_REPORT || kind == SVC_KIND_SDB_NUMBERS;
}

/* --- answering --- */

static bool may_answer(size_t kind, struct rpc_req req)
{
	return is_brief(kind) ||
	       rpc_req_has_room(req, is_read(kind) || is_shared(kind)
					 ? RPC_LARGE
					 : RPC_NOT_LARGE);
}

static bool has_time(const struct line *l)
{
	return l->spent_ns < LINE_TURN_NS;
}

static bool is_open(const struct line *l, size_t kind, uint64_t now_ns)
{
	return l->rests_until_ns[kind] <= now_ns &&
	       (!is_read(kind) || l->s->reads < READS_MAX);
}

static void count(struct line *l, size_t kind, const struct question *q, int by)
{
	l->n[kind] += (size_t)by;
	if (is_brief(kind))
		return;
	l->others_n += (size_t)by;
	l->bytes += (size_t)by * (q->item.key.n + q->item.body.n);
}

static void take_out(struct line *l, struct question *q)
{
	CHECK(hmap_remove(&l->by_req, rpc_req_key(&q->req)) == q);
	count(l, kind_of(q->item.op), q, -1);
	list_remove(&q->node);
}

static void drop(struct line *l, struct question *q)
{
	take_out(l, q);
	question_free(q);
}

static void refuse(struct rpc_req req)
{
	rpc_reply(req, ERR_OVERLOADED, 0,
		  STR("too many questions wait for their answers"));
}

/* Those of a kind stand in the order they came. */
static void refuse_old_reads(struct line *l, size_t kind, uint64_t now_ns)
{
	while (is_read(kind) && !list_empty(&l->kinds[kind])) {
		struct question *q =
		    list_entry(l->kinds[kind].next, struct question, node);

		if (q->item.deadline_ns == 0 ||
		    (q->since_ns + q->item.deadline_ns) / 2 > now_ns)
			return;
		refuse(q->req);
		drop(l, q);
	}
}

/* True: it is out of the line. */
static bool drop_idle(struct line *l, struct question *q, uint64_t now_ns)
{
	bool live = rpc_req_is_live(q->req);

	if (live && !question_is_late(q, now_ns))
		return false;
	if (live)
		svc_reply_error(q->req, frame_late(&q->item));
	drop(l, q);
	return true;
}

/* --- one answer for many --- */

static void keep_none(struct line *l)
{
	l->kept.kind = SVC_KINDS;
	buf_done(&l->kept.question);
	buf_done(&l->kept.answer);
}

static void keep(struct line *l, size_t kind, struct str question, bool ready,
		 uint64_t now_ns)
{
	keep_none(l);
	l->kept.kind = kind;
	l->kept.ready = ready;
	l->kept.made_ns = now_ns;
	l->kept.seq = svc_newest_seq(l->s);
	buf_put_str(&l->kept.question, question);
	buf_put_str(&l->kept.answer, buf_str(&l->s->out));
}

/* The same question. Who had to wait for the store has an answer as old as what
 * it waited for, which another may ask for more than. */
static bool is_same(const struct question *q, struct str question, bool ready)
{
	return str_eq(q->item.body, question) && (q->ready || !ready);
}

static bool is_kept_for(const struct line *l, size_t kind,
			const struct question *q)
{
	return l->kept.kind == kind && q->since_ns <= l->kept.made_ns &&
	       is_same(q, buf_str(&l->kept.question), l->kept.ready);
}

/* Whether one more of those who ask the same can have their copy now: a long
 * answer takes long to copy. */
static bool can_give(struct line *l, struct rpc_req req, uint64_t begin_ns)
{
	if (clock_mono_ns() - begin_ns < GIVE_NS)
		return rpc_req_has_room(req, RPC_LARGE);
	l->gives = true;
	return false;
}

/* As many of them as there is room for have the answer that is kept; the rest
 * of its time is over when they have all had it. */
static void give_kept(struct line *l, size_t kind, uint64_t now_ns)
{
	if (l->kept.kind != kind)
		return;
	LIST_FOREACH_SAFE (it, &l->kinds[kind]) {
		struct question *q = list_entry(it, struct question, node);

		if (!is_kept_for(l, kind, q) || drop_idle(l, q, now_ns))
			continue;
		if (!can_give(l, q->req, now_ns))
			return;
		rpc_reply(q->req, 0, l->kept.seq, buf_str(&l->kept.answer));
		drop(l, q);
	}
	keep_none(l);
}

/* The answer that was just made is that of all who ask the same. */
static void share(struct line *l, size_t kind, struct str body, bool ready,
		  uint64_t now_ns)
{
	uint64_t begin_ns = clock_mono_ns();

	LIST_FOREACH_SAFE (it, &l->kinds[kind]) {
		struct question *q = list_entry(it, struct question, node);

		if (!is_same(q, body, ready) || drop_idle(l, q, now_ns))
			continue;
		if (!can_give(l, q->req, begin_ns)) {
			keep(l, kind, body, ready, now_ns);
			return;
		}
		svc_reply_again(l->s, q->req);
		drop(l, q);
	}
}

static void answer(struct line *l, size_t kind, struct rpc_req req,
		   const struct frame_request *item, bool ready)
{
	uint64_t begin_ns = clock_mono_ns(), worked_ns = clock_thread_ns();
	uint64_t times = is_shared(kind) ? SHARED_TIMES : REST_TIMES, end_ns;

	l->s->replied = false;
	svc_question(l->s, req, item, ready);
	if (is_shared(kind) && l->s->replied)
		share(l, kind, item->body, ready, begin_ns);
	end_ns = clock_mono_ns();
	l->spent_ns += end_ns - begin_ns;
	/* not what it waited for a processor */
	worked_ns = clock_thread_ns() - worked_ns;
	if (worked_ns >= HEAVY_NS)
		l->rests_until_ns[kind] =
		    end_ns + MIN(times * worked_ns, REST_MAX_NS);
}

/* False: none of its kind can be answered now. */
static bool answer_one(struct line *l, size_t kind)
{
	uint64_t now_ns = clock_mono_ns();

	refuse_old_reads(l, kind, now_ns);
	give_kept(l, kind, now_ns);
	if (!is_open(l, kind, now_ns))
		return false;
	LIST_FOREACH_SAFE (it, &l->kinds[kind]) {
		struct question *q = list_entry(it, struct question, node);

		if (drop_idle(l, q, now_ns) || !may_answer(kind, q->req))
			continue;
		take_out(l, q);
		answer(l, kind, q->req, &q->item, q->ready);
		question_free(q);
		return true;
	}
	return false;
}

static void run(struct line *l)
{
	bool closed[SVC_KINDS] = { false };
	size_t in_vain = 0;

	while (l->by_req.n > 0 && has_time(l) && in_vain < SVC_KINDS &&
	       !l->s->ended) {
		size_t k = l->next;

		l->next = (k + 1) % SVC_KINDS;
		closed[k] =
		    closed[k] || list_empty(&l->kinds[k]) || !answer_one(l, k);
		in_vain = closed[k] ? in_vain + 1 : 0;
	}
}

static void on_timer(void *ctx)
{
	run(ctx);
}

void line_look(struct line *l)
{
	if (l->by_req.n > 0)
		loop_timer_arm(l->timer, 0);
}

/* When a kind that has questions has rested. */
static void wait_for_rest(struct line *l)
{
	uint64_t now_ns = clock_mono_ns(), first_ns = UINT64_MAX;

	for (size_t k = 0; k < SVC_KINDS; k++)
		if (!list_empty(&l->kinds[k]) && l->rests_until_ns[k] > now_ns)
			first_ns = MIN(first_ns, l->rests_until_ns[k]);
	if (first_ns != UINT64_MAX)
		loop_timer_arm(l->timer, first_ns - now_ns);
}

void line_turn_end(struct line *l)
{
	size_t kept = l->kept.kind;
	bool more;

	if (l->by_req.n > 0)
		run(l);
	if (kept != SVC_KINDS && list_empty(&l->kinds[kept]))
		keep_none(l); /* whoever it was for has gone */
	more = !has_time(l) || l->gives;
	l->spent_ns = 0;
	l->gives = false;
	if (more)
		line_look(l);
	else if (l->by_req.n > 0)
		wait_for_rest(l);
}

/* --- coming --- */

/* Those that are brief have room of their own: the other nodes, the view and
 * timers ask them, however many others wait. */
static bool is_full(const struct line *l, size_t kind, size_t n)
{
	if (is_brief(kind))
		return l->n[kind] >= LIMIT_QUESTIONS;
	return l->others_n >= LIMIT_QUESTIONS ||
	       l->bytes + n > LIMIT_QUESTIONS_BYTES ||
	       (is_read(kind) && l->n[kind] >= READS_WAIT);
}

static void wait_in_line(struct line *l, size_t kind, struct rpc_req req,
			 const struct frame_request *item, bool ready)
{
	struct question *q;

	if (hmap_get(&l->by_req, rpc_req_key(&req)) != NULL) {
		svc_reply_error(req, ERR_BAD_MESSAGE); /* its id comes twice */
		return;
	}
	if (is_full(l, kind, item->key.n + item->body.n)) {
		refuse(req);
		return;
	}
	q = question_new(req, item);
	q->ready = ready;
	count(l, kind, q, 1);
	list_push_back(&l->kinds[kind], &q->node);
	CHECK(hmap_put(&l->by_req, rpc_req_key(&q->req), q) == NULL);
}

void line_take(struct line *l, struct rpc_req req,
	       const struct frame_request *item, bool ready)
{
	size_t kind = kind_of(item->op);

	if (kind == SVC_KINDS)
		svc_reply_error(req, ERR_BAD_MESSAGE);
	else if (l->s->ended)
		svc_reply_error(req, frame_refusal(item, ERR_SHUTTING_DOWN));
	else if (list_empty(&l->kinds[kind]) && has_time(l) &&
		 is_open(l, kind, clock_mono_ns()) && may_answer(kind, req))
		answer(l, kind, req, item, ready);
	else
		wait_in_line(l, kind, req, item, ready);
}

void line_cancel(struct line *l, struct rpc_req req)
{
	struct question *q = hmap_get(&l->by_req, rpc_req_key(&req));

	if (q == NULL)
		return;
	/* whoever asked waits to hear whether it was done */
	if (call_changes(q->item.op))
		svc_reply_error(q->req, frame_late(&q->item));
	drop(l, q);
}

struct line *line_new(struct svc *s)
{
	struct line *l = xcalloc(1, sizeof(*l));

	l->s = s;
	l->kept.kind = SVC_KINDS;
	for (size_t k = 0; k < SVC_KINDS; k++)
		list_init(&l->kinds[k]);
	l->timer = loop_timer_add(s->p->d->loop, on_timer, l);
	return l;
}

void line_free(struct line *l)
{
	for (size_t k = 0; k < SVC_KINDS; k++)
		LIST_FOREACH_SAFE (it, &l->kinds[k])
			drop(l, list_entry(it, struct question, node));
	hmap_done(&l->by_req);
	keep_none(l);
	loop_timer_remove(l->timer);
	free(l);
}
