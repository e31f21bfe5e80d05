/*
 * See fires.h. Loop thread. A round's operations leave together and are
 * applied in order, so several missed times of one schedule can be fired at
 * once: each names the time before it as the one that must have come.
 */
#include "fires.h"

#include <stdlib.h>

#include "proto/plan.h"
#include "round.h"
#include "rt/log.h"
#include "util/id.h"

#define EACH_MAX 16 /* operations of one schedule in a round */

struct fires {
	struct round *round;
	fires_done_fn *done;
	void *ctx;
	struct tz_cache zones;
	struct id_gen ids;
};

/* --- operations --- */

static int has_fired(void *ctx, struct str body)
{
	struct m_fire_reply m;
	struct arena a = ARENA_INIT;
	int r = msg_decode(&msg_fire_reply, body, &a, &m);

	(void)ctx;
	if (r == 0)
		r = !str_is(m.status, "void");
	arena_done(&a);
	return r;
}

static int was_paused(void *ctx, struct str body)
{
	(void)ctx;
	(void)body;
	return 1;
}

/*
 * Its zone was removed from this machine, or its expression means nothing to
 * this version: it cannot go on, and somebody has to look at it.
 */
static void pause_broken(struct fires *f, const struct m_schedule *s,
			 struct str why)
{
	struct m_pause_schedule m = { 0 };

	log_error("schedule %.*s is paused: %.*s", STR_ARG(s->name),
		  STR_ARG(why));
	MSG_SET(&m, pause_schedule, id, s->id);
	MSG_SET(&m, pause_schedule, paused, true);
	round_propose(f->round, OP_PAUSE_SCHEDULE, &m, was_paused);
}

static void propose_again(struct fires *f, const struct plan *plan,
			  const struct m_schedule *s, uint64_t now_ns)
{
	struct m_fire m = { 0 };

	MSG_SET(&m, fire, id, s->id);
	MSG_SET(&m, fire, due_ns, s->next_run);
	MSG_SET(&m, fire, version, s->version);
	MSG_SET(&m, fire, next_ns, plan_again(plan, s, now_ns));
	MSG_SET(&m, fire, again, true);
	round_propose(f->round, OP_FIRE, &m, has_fired);
}

/* All its times that have come, in order, as many as fit. */
static void fire_all(struct fires *f, struct m_schedule *s, uint64_t now_ns)
{
	struct buf why = BUF_INIT(0);
	struct plan plan;

	if (plan_init(&plan, &f->zones, s, now_ns, &why) < 0) {
		pause_broken(f, s, buf_str(&why));
		buf_done(&why);
		return;
	}
	buf_done(&why);
	if (s->set_back_ns != 0) {
		propose_again(f, &plan, s, now_ns);
		return;
	}
	for (size_t i = 0; i < EACH_MAX && !round_is_full(f->round) &&
			   s->next_run != 0 && s->next_run <= now_ns;
	     i++) {
		struct m_fire m = { 0 };
		char id[ID_LEN_MAX];

		plan_fire(&plan, s, now_ns, &m);
		MSG_SET(&m, fire, job_id,
			str_of(id, id_make(&f->ids, "job_", now_ns, id)));
		round_propose(f->round, OP_FIRE, &m, has_fired);
		s->next_run = m.next_ns;
	}
}

/* --- a round --- */

static int on_due(void *ctx, struct str body)
{
	struct fires *f = ctx;
	struct m_schedule_list list;
	struct arena a = ARENA_INIT;
	int err = msg_decode(&msg_schedule_list, body, &a, &list);

	for (size_t i = 0;
	     err == 0 && i < list.schedules_n && !round_is_full(f->round); i++)
		fire_all(f, &list.schedules[i], list.now_ns);
	arena_done(&a);
	return err;
}

static void on_done(void *ctx, int err, uint32_t count)
{
	struct fires *f = ctx;

	f->done(f->ctx, err, count);
}

static const struct round_ops round_ops = {
	.query = QUERY_DUE_SCHEDULES,
	.on_due = on_due,
	.on_done = on_done,
};

struct fires *fires_new(struct rpc_client *raftd, uint64_t op_timeout_ns,
			fires_done_fn *done, void *ctx)
{
	struct fires *f = xcalloc(1, sizeof(*f));

	f->round = round_new(raftd, op_timeout_ns, &round_ops, f);
	f->done = done;
	f->ctx = ctx;
	return f;
}

void fires_free(struct fires *f)
{
	if (f == NULL)
		return;
	round_free(f->round);
	tz_cache_done(&f->zones);
	free(f);
}

bool fires_is_busy(const struct fires *f)
{
	return round_is_busy(f->round);
}

void fires_cancel(struct fires *f)
{
	round_cancel(f->round);
}

void fires_start(struct fires *f)
{
	round_start(f->round);
}
