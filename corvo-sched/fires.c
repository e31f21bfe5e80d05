/*
 * See fires.h. Loop thread. A round's operations leave together and are
 * applied in order, so several missed times of one schedule can be fired at
 * once: each names the time before it as the one that must have come.
 */
#include "fires.h"

#include <stdlib.h>

#include "proto/plan.h"
#include "rt/log.h"
#include "util/clock.h"
#include "util/id.h"

#define ROUND_MAX 512 /* operations of one round */
#define EACH_MAX  16  /* of one schedule */

struct fires {
	struct rpc_client *raftd;
	uint64_t op_timeout_ns;
	fires_done_fn *done;
	void *ctx;
	struct tz_cache zones;
	struct id_gen ids;
	struct buf scratch;
	struct rpc_call *query;
	/* the operations under way */
	struct slot {
		struct fires *f;
		struct rpc_call *call; /* NULL: answered */
	} slots[ROUND_MAX];
	size_t slots_n; /* used in this round */
	size_t open;    /* not answered yet */
	uint32_t count;
	int err;
};

struct fires *fires_new(struct rpc_client *raftd, uint64_t op_timeout_ns,
			fires_done_fn *done, void *ctx)
{
	struct fires *f = xcalloc(1, sizeof(*f));

	f->raftd = raftd;
	f->op_timeout_ns = op_timeout_ns;
	f->done = done;
	f->ctx = ctx;
	for (size_t i = 0; i < ROUND_MAX; i++)
		f->slots[i].f = f;
	return f;
}

/* The client is gone or goes, and its calls with it. */
void fires_free(struct fires *f)
{
	if (f == NULL)
		return;
	tz_cache_done(&f->zones);
	buf_done(&f->scratch);
	free(f);
}

bool fires_is_busy(const struct fires *f)
{
	return f->query != NULL || f->open > 0;
}

void fires_cancel(struct fires *f)
{
	if (f->query != NULL)
		rpc_cancel(f->raftd, f->query);
	f->query = NULL;
	for (size_t i = 0; i < f->slots_n; i++)
		if (f->slots[i].call != NULL)
			rpc_cancel(f->raftd, f->slots[i].call);
	f->slots_n = f->open = 0;
}

static void round_end_if_all(struct fires *f)
{
	if (f->open > 0)
		return;
	f->slots_n = 0;
	f->done(f->ctx, f->err, f->count);
}

/* --- operations --- */

static bool is_void(const struct rpc_reply *r)
{
	struct m_fire_reply m;
	struct arena a = ARENA_INIT;
	bool is = msg_decode(&msg_fire_reply, r->body, &a, &m) == 0 &&
		  str_is(m.status, "void");

	arena_done(&a);
	return is;
}

static void ended(struct slot *s, const struct rpc_reply *r, bool did)
{
	struct fires *f = s->f;

	s->call = NULL;
	f->open--;
	if (r->err != 0 && f->err == 0)
		f->err = -r->err;
	f->count += did;
	round_end_if_all(f);
}

static void on_fired(void *ctx, const struct rpc_reply *r)
{
	ended(ctx, r, r->err == 0 && !is_void(r));
}

static void on_paused(void *ctx, const struct rpc_reply *r)
{
	ended(ctx, r, r->err == 0);
}

static void propose(struct fires *f, unsigned op, const void *m,
		    rpc_reply_fn *fn)
{
	struct slot *s = &f->slots[f->slots_n++];

	buf_clear(&f->scratch);
	msg_encode(op_info(op)->request, m, &f->scratch);
	f->open++;
	s->call = rpc_call(f->raftd, op, STR_NULL, buf_str(&f->scratch),
			   clock_mono_ns() + f->op_timeout_ns,
			   ERR_LEADER_UNAVAILABLE, RPC_ONCE, fn, s);
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
	propose(f, OP_PAUSE_SCHEDULE, &m, on_paused);
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
	for (size_t i = 0; i < EACH_MAX && f->slots_n < ROUND_MAX &&
			   s->next_run != 0 && s->next_run <= now_ns;
	     i++) {
		struct m_fire m = { 0 };
		char id[ID_LEN_MAX];

		plan_fire(&plan, s, now_ns, &m);
		MSG_SET(&m, fire, job_id,
			str_of(id, id_make(&f->ids, "job_", now_ns, id)));
		propose(f, OP_FIRE, &m, on_fired);
		s->next_run = m.next_ns;
	}
}

/* --- a round --- */

static void on_due(void *ctx, const struct rpc_reply *r)
{
	struct fires *f = ctx;
	struct m_schedule_list list = { 0 };
	struct arena a = ARENA_INIT;
	uint64_t now_ns = clock_wall_ns();

	f->query = NULL;
	f->err = -r->err;
	if (f->err == 0)
		f->err = msg_decode(&msg_schedule_list, r->body, &a, &list);
	for (size_t i = 0;
	     f->err == 0 && i < list.schedules_n && f->slots_n < ROUND_MAX; i++)
		fire_all(f, &list.schedules[i], now_ns);
	arena_done(&a);
	round_end_if_all(f);
}

void fires_start(struct fires *f)
{
	static const struct m_nothing nothing;

	CHECK(!fires_is_busy(f));
	f->slots_n = 0;
	f->count = 0;
	f->err = 0;
	buf_clear(&f->scratch);
	msg_encode(&msg_nothing, &nothing, &f->scratch);
	f->query =
	    rpc_call(f->raftd, QUERY_DUE_SCHEDULES, STR_NULL,
		     buf_str(&f->scratch), clock_mono_ns() + f->op_timeout_ns,
		     ERR_LEADER_UNAVAILABLE, RPC_ONCE, on_due, f);
}
