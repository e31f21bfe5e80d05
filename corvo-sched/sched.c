/*
 * How it stays exact without ticking: one DUE question is always waiting in
 * raftd, which answers it when its first moment is no longer the one sched
 * knows. Until then one timerfd on the wall clock sleeps to that moment. A
 * step of the clock cancels the timer, and the moments are looked at again.
 *
 * A moment is forgotten once its work is done, and raftd is asked anew: what
 * matters is only that sched never believes in a later first moment than the
 * one raftd has.
 */
#include "sched.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "bulks.h"
#include "fires.h"
#include "push/push.h"
#include "rt/log.h"
#include "rt/rpc.h"
#include "util/clock.h"

#define RETRY_FIRST_NS (50 * NS_PER_MS)
#define RETRY_MAX_NS   (1 * NS_PER_S)
#define EMPTY_FIRST_NS (1 * NS_PER_MS) /* pause when nothing was found due */

enum task_id {
	TASK_PROMOTE,
	TASK_RECLAIM,
	TASK_EXPIRE,
	TASK_RELEASE,
	TASK_FIRE,
	TASK_PURGE,
	TASK_BULK,
	TASK_DEADLINE,
	TASK_MAX
};

/* One kind of due work; at most one operation of a kind is under way. */
struct task {
	struct sched *s;
	unsigned op;
	uint64_t due_ns;   /* wall clock; 0: none known */
	uint64_t fired_ns; /* due_ns that the call under way acts on */
	uint64_t hold_ns;  /* monotonic: not before; 0: at once */
	uint64_t pause_ns; /* length of the last hold; 0: the last try worked */
	uint64_t errors;   /* since the start; raftd is told */
	struct rpc_call *call;
};

struct sched {
	struct daemon *d;
	struct rpc_client *raftd;
	struct task tasks[TASK_MAX];
	struct fires *fires; /* does the work of TASK_FIRE */
	struct bulks *bulks; /* and of TASK_BULK */
	struct push *push;   /* calls of push queues */
	bool leader;
	bool ready; /* daemon_ready was called */
	bool draining;

	struct rpc_call *due_call;
	uint64_t due_known_ns;        /* what due_call says we know */
	uint64_t due_pause_ns;        /* as task.pause_ns, for DUE and trim */
	struct loop_timer *due_timer; /* asks again after due_pause_ns */
	struct rpc_call *trim_call;

	int timer_fd;
	uint64_t timer_ns; /* what timer_fd is set to; 0: not set */
	struct loop_fd *timer_io;
	struct loop_timer *hold_timer; /* the first hold_ns that matters */
	struct buf scratch;
};

static const unsigned task_ops[TASK_MAX] = {
	[TASK_PROMOTE] = OP_PROMOTE, [TASK_RECLAIM] = OP_RECLAIM,
	[TASK_EXPIRE] = OP_EXPIRE,   [TASK_RELEASE] = OP_RELEASE,
	[TASK_FIRE] = OP_FIRE,       [TASK_PURGE] = OP_PURGE,
	[TASK_BULK] = OP_BULK_STEP,  [TASK_DEADLINE] = OP_DEADLINE,
};

static void sched_run(struct sched *s);
static void due_ask(struct sched *s);

/* The next pause of a sequence that doubles up to RETRY_MAX_NS. */
static uint64_t pause_next(uint64_t last_ns, uint64_t first_ns)
{
	return last_ns < first_ns ? first_ns : MIN(last_ns * 2, RETRY_MAX_NS);
}

static uint64_t first_due(const struct sched *s)
{
	uint64_t first = 0;

	for (size_t i = 0; i < TASK_MAX; i++)
		first = min_nonzero(first, s->tasks[i].due_ns);
	return first;
}

/* --- operations --- */

static struct str encode_maintain(struct sched *s, const struct m_maintain *m)
{
	buf_clear(&s->scratch);
	msg_encode(&msg_maintain, m, &s->scratch);
	return buf_str(&s->scratch);
}

static struct rpc_call *propose(struct sched *s, unsigned op,
				const struct m_maintain *m, rpc_reply_fn *fn,
				void *ctx)
{
	uint64_t deadline = clock_mono_ns() + s->d->settings.op_timeout;

	return rpc_call(s->raftd, op, STR_NULL, encode_maintain(s, m), deadline,
			ERR_LEADER_UNAVAILABLE, RPC_ONCE, fn, ctx);
}

static int decode_maintain(const struct rpc_reply *r,
			   struct m_maintain_reply *ret)
{
	struct arena a = ARENA_INIT;
	int err = -r->err;

	if (err == 0)
		err = msg_decode(&msg_maintain_reply, r->body, &a, ret);
	arena_done(&a); /* the reply has no lists or texts */
	return err;
}

static void task_hold(struct task *t, uint64_t first_ns)
{
	t->pause_ns = pause_next(t->pause_ns, first_ns);
	t->hold_ns = clock_mono_ns() + t->pause_ns;
}

/*
 * The moment is dealt with, unless raftd has named another one meanwhile.
 * Asking anew also covers a second job due at the very same nanosecond, which
 * the waiting question would never mention.
 */
static void task_forget(struct task *t)
{
	if (t->due_ns != t->fired_ns)
		return;
	t->due_ns = 0;
	due_ask(t->s);
}

/* A call of the task is over; err: 0 or -ERR_*. */
static void task_ended(struct task *t, int err, uint32_t count, bool more)
{
	if (!rpc_client_is_up(t->s->raftd))
		return; /* on_link starts afresh */
	if (err < 0) {
		if (t->pause_ns < RETRY_FIRST_NS) /* the first in a row */
			log_warn("%s was refused: %s", op_info(t->op)->name,
				 err_code(-err));
		t->errors++;
		task_hold(t, RETRY_FIRST_NS);
		due_ask(t->s); /* tells of it */
	} else if (more) {
		t->pause_ns = 0;
	} else {
		if (count == 0)
			task_hold(t, EMPTY_FIRST_NS);
		else
			t->pause_ns = 0;
		task_forget(t);
	}
	sched_run(t->s);
}

static void on_task_reply(void *ctx, const struct rpc_reply *r)
{
	struct task *t = ctx;
	struct m_maintain_reply m = { 0 };
	int err = decode_maintain(r, &m);

	t->call = NULL;
	task_ended(t, err, m.count, m.more);
}

static void on_fires_done(void *ctx, int err, uint32_t count)
{
	task_ended(ctx, err, count, false);
}

static void on_bulks_done(void *ctx, int err, uint32_t count, bool more,
			  uint64_t rest_ns)
{
	struct task *t = ctx;

	t->hold_ns = clock_mono_ns() + rest_ns;
	task_ended(t, err, count, more);
}

static bool task_is_busy(const struct task *t)
{
	if (t->op == OP_FIRE)
		return fires_is_busy(t->s->fires);
	if (t->op == OP_BULK_STEP)
		return bulks_is_busy(t->s->bulks);
	return t->call != NULL;
}

static void task_fire(struct task *t)
{
	struct m_maintain m = { 0 };

	MSG_SET(&m, maintain, limit, LIMIT_MAINTAIN_JOBS);
	if (t->op == OP_RECLAIM)
		MSG_SET(&m, maintain, asked_ns, clock_wall_ns());
	t->fired_ns = t->due_ns;
	t->hold_ns = 0;
	if (t->op == OP_FIRE)
		fires_start(t->s->fires);
	else if (t->op == OP_BULK_STEP)
		bulks_start(t->s->bulks);
	else
		t->call = propose(t->s, t->op, &m, on_task_reply, t);
}

static void on_trim_reply(void *ctx, const struct rpc_reply *r)
{
	struct sched *s = ctx;
	struct m_maintain_reply m;
	int err = decode_maintain(r, &m);

	s->trim_call = NULL;
	if (!rpc_client_is_up(s->raftd))
		return;
	if (err == 0) {
		s->due_pause_ns = 0;
		due_ask(s);
		return;
	}
	if (s->due_pause_ns < RETRY_FIRST_NS)
		log_warn("trim_events was refused: %s", err_code(-err));
	s->due_pause_ns = pause_next(s->due_pause_ns, RETRY_FIRST_NS);
	loop_timer_arm(s->due_timer, s->due_pause_ns);
}

static void trim_fire(struct sched *s, uint64_t upto_seq)
{
	struct m_maintain m = { 0 };

	MSG_SET(&m, maintain, upto_seq, upto_seq);
	s->trim_call = propose(s, OP_TRIM_EVENTS, &m, on_trim_reply, s);
}

/* --- the timer --- */

/* Sets the wall-clock timer; 0 clears it. */
static void timer_set(struct sched *s, uint64_t at_ns)
{
	if (at_ns == s->timer_ns)
		return;
	s->timer_ns = at_ns;
	clock_timer_set(s->timer_fd, at_ns);
}

static void on_timer(void *ctx, int fd, int events)
{
	struct sched *s = ctx;
	uint64_t expirations;
	ssize_t n = read(fd, &expirations, sizeof(expirations));

	(void)events;
	if (n < 0 && errno == EAGAIN)
		return; /* set to another moment since it became readable */
	if (n < 0 && errno == ECANCELED)
		log_info("the clock was set; looking at what is due again");
	s->timer_ns = 0; /* expired or cancelled: it has to be set again */
	sched_run(s);
}

static void on_hold_over(void *ctx)
{
	sched_run(ctx);
}

/* Acts on everything that is due and sleeps until the next moment. */
static void sched_run(struct sched *s)
{
	uint64_t wall = clock_wall_ns();
	uint64_t mono = clock_mono_ns();
	uint64_t next_ns = 0, hold_ns = 0;

	if (s->draining || !s->leader || !rpc_client_is_up(s->raftd)) {
		timer_set(s, 0);
		loop_timer_disarm(s->hold_timer);
		return;
	}
	for (size_t i = 0; i < TASK_MAX; i++) {
		struct task *t = &s->tasks[i];

		if (t->due_ns == 0 || task_is_busy(t))
			continue;
		if (t->due_ns > wall)
			next_ns = min_nonzero(next_ns, t->due_ns);
		else if (t->hold_ns > mono)
			hold_ns = min_nonzero(hold_ns, t->hold_ns);
		else
			task_fire(t);
	}
	timer_set(s, next_ns);
	if (hold_ns != 0)
		loop_timer_arm(s->hold_timer, hold_ns - mono);
	else
		loop_timer_disarm(s->hold_timer);
}

/* --- the question that waits in raftd --- */

static int decode_due(const struct rpc_reply *r, struct m_due_reply *ret)
{
	struct arena a = ARENA_INIT;
	int err = -r->err;

	if (err == 0)
		err = msg_decode(&msg_due_reply, r->body, &a, ret);
	arena_done(&a); /* the reply has no lists or texts */
	return err;
}

/* An answer that tells nothing new would be asked for again for ever. */
static bool due_is_news(const struct sched *s, bool was_leader)
{
	return s->leader != was_leader || first_due(s) != s->due_known_ns;
}

/*
 * A pause is for the moment at which nothing was found, such as the end of a
 * lease that was renewed; it must not make another one late.
 */
static void task_set_due(struct task *t, uint64_t due_ns)
{
	if (due_ns != t->fired_ns)
		t->hold_ns = t->pause_ns = 0;
	t->due_ns = due_ns;
}

static void on_due_reply(void *ctx, const struct rpc_reply *r)
{
	struct sched *s = ctx;
	bool was_leader = s->leader;
	struct m_due_reply m;
	int err = decode_due(r, &m);

	s->due_call = NULL;
	if (!rpc_client_is_up(s->raftd))
		return;
	if (err < 0) {
		s->due_pause_ns = pause_next(s->due_pause_ns, RETRY_FIRST_NS);
		loop_timer_arm(s->due_timer, s->due_pause_ns);
		return;
	}
	s->leader = m.leader;
	task_set_due(&s->tasks[TASK_PROMOTE], m.promote_ns);
	task_set_due(&s->tasks[TASK_RECLAIM], m.reclaim_ns);
	task_set_due(&s->tasks[TASK_EXPIRE], m.expire_ns);
	task_set_due(&s->tasks[TASK_RELEASE], m.release_ns);
	task_set_due(&s->tasks[TASK_FIRE], m.fire_ns);
	task_set_due(&s->tasks[TASK_PURGE], m.purge_ns);
	task_set_due(&s->tasks[TASK_BULK], m.bulk_ns);
	task_set_due(&s->tasks[TASK_DEADLINE], m.deadline_ns);
	if (m.leader && m.trim_seq != 0 && s->trim_call == NULL) {
		/* on_trim_reply asks again: before that the answer would
		 * only be the same. */
		trim_fire(s, m.trim_seq);
	} else if (due_is_news(s, was_leader)) {
		s->due_pause_ns = 0;
		due_ask(s);
	} else {
		s->due_pause_ns = pause_next(s->due_pause_ns, EMPTY_FIRST_NS);
		loop_timer_arm(s->due_timer, s->due_pause_ns);
	}
	sched_run(s);
}

/* Puts the question in the place of the one that waits. */
static void due_ask(struct sched *s)
{
	struct m_due m = { 0 };

	if (s->draining || !rpc_client_is_up(s->raftd))
		return;
	if (s->due_call != NULL)
		rpc_cancel(s->raftd, s->due_call);
	loop_timer_disarm(s->due_timer);
	s->due_known_ns = first_due(s);
	MSG_SET(&m, due, known_ns, s->due_known_ns);
	MSG_SET(&m, due, pid, (uint32_t)getpid());
	MSG_SET(&m, due, promote_errors, s->tasks[TASK_PROMOTE].errors);
	MSG_SET(&m, due, reclaim_errors, s->tasks[TASK_RECLAIM].errors);
	MSG_SET(&m, due, expire_errors, s->tasks[TASK_EXPIRE].errors);
	MSG_SET(&m, due, purge_errors, s->tasks[TASK_PURGE].errors);
	buf_clear(&s->scratch);
	msg_encode(&msg_due, &m, &s->scratch);
	s->due_call =
	    rpc_call(s->raftd, QUERY_DUE, STR_NULL, buf_str(&s->scratch), 0,
		     ERR_LEADER_UNAVAILABLE, RPC_ONCE, on_due_reply, s);
}

static void on_due_timer(void *ctx)
{
	due_ask(ctx);
}

/* --- the process --- */

static void forget_all(struct sched *s)
{
	s->leader = false;
	s->due_pause_ns = 0;
	loop_timer_disarm(s->due_timer);
	for (size_t i = 0; i < TASK_MAX; i++) {
		struct task *t = &s->tasks[i];

		t->due_ns = t->fired_ns = t->hold_ns = t->pause_ns = 0;
	}
}

/* Both ways a fresh start: calls of a lost link end by themselves. */
static void on_link(void *ctx, bool up)
{
	struct sched *s = ctx;

	forget_all(s);
	sched_run(s);
	push_link(s->push, up);
	if (!up)
		return;
	due_ask(s);
	if (!s->ready) {
		s->ready = true;
		daemon_ready(s->d);
	}
}

static void sched_done(struct daemon *d)
{
	struct sched *s = d->state;

	if (s->raftd != NULL)
		rpc_client_free(s->raftd);
	fires_free(s->fires);
	bulks_free(s->bulks);
	push_free(s->push);
	if (s->timer_io != NULL) {
		loop_fd_remove(s->timer_io);
		loop_timer_remove(s->hold_timer);
		loop_timer_remove(s->due_timer);
	}
	if (s->timer_fd >= 0)
		close(s->timer_fd);
	buf_done(&s->scratch);
	free(s);
	d->state = NULL;
}

static int sched_init(struct daemon *d, struct buf *why)
{
	struct sched *s = xcalloc(1, sizeof(*s));
	struct buf path = BUF_INIT(0);

	d->state = s;
	s->d = d;
	for (size_t i = 0; i < TASK_MAX; i++)
		s->tasks[i] = (struct task){ .s = s, .op = task_ops[i] };
	s->timer_fd = clock_timer_new();
	if (s->timer_fd < 0) {
		buf_printf(why, "timerfd_create: %s", strerror(errno));
		sched_done(d);
		return -ERR_INTERNAL_ERROR;
	}
	s->timer_io = loop_fd_add(d->loop, s->timer_fd, LOOP_READ, on_timer, s);
	s->hold_timer = loop_timer_add(d->loop, on_hold_over, s);
	s->due_timer = loop_timer_add(d->loop, on_due_timer, s);
	daemon_link_path(d, PROC_RAFTD, PROC_SCHED, 0, &path);
	buf_putc(&path, '\0');
	s->raftd = rpc_client_new(d->ipc, path.p, PROC_SCHED, why);
	buf_done(&path);
	if (s->raftd == NULL) {
		sched_done(d);
		return -ERR_INTERNAL_ERROR;
	}
	s->fires = fires_new(s->raftd, d->settings.op_timeout, on_fires_done,
			     &s->tasks[TASK_FIRE]);
	s->bulks = bulks_new(s->raftd, d->settings.op_timeout, on_bulks_done,
			     &s->tasks[TASK_BULK]);
	s->push = push_new(d, s->raftd, why);
	if (s->push == NULL) {
		sched_done(d);
		return -ERR_INTERNAL_ERROR;
	}
	rpc_client_on_state(s->raftd, on_link, s);
	return 0;
}

static void cancel(struct sched *s, struct rpc_call **call)
{
	if (*call != NULL)
		rpc_cancel(s->raftd, *call);
	*call = NULL;
}

static void on_push_drained(void *ctx)
{
	daemon_exit(ctx, 0);
}

/*
 * Nothing has to be finished but calls of push queues: an operation that is in
 * the log happens anyway, and one that is not is found due again.
 */
static void sched_drain(struct daemon *d)
{
	struct sched *s = d->state;

	s->draining = true;
	forget_all(s);
	sched_run(s);
	cancel(s, &s->due_call);
	cancel(s, &s->trim_call);
	for (size_t i = 0; i < TASK_MAX; i++)
		cancel(s, &s->tasks[i].call);
	fires_cancel(s->fires);
	bulks_cancel(s->bulks);
	push_drain(s->push, on_push_drained, d);
}

static void sched_turn_end(struct daemon *d)
{
	struct sched *s = d->state;

	push_turn_end(s->push);
	rpc_client_flush(s->raftd);
}

const struct daemon_ops sched_ops = {
	.proc = PROC_SCHED,
	.single = true,
	.init = sched_init,
	.drain = sched_drain,
	.done = sched_done,
	.turn_end = sched_turn_end,
};
