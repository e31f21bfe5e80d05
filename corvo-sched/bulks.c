/*
 * See bulks.h. Loop thread. Whoever writes to the node waits behind a step, so
 * steps are only as large as their round trip stays short; operations share
 * what there is. While others work, rounds are shorter still, and half of the
 * time is theirs.
 */
#include "bulks.h"

#include <stdlib.h>

#include "round.h"
#include "util/clock.h"

#define STEP_MIN    100 /* a millisecond or two, however slow the disk is */
#define STEP_FIRST  200
#define OTHERS_NS   NS_PER_S /* so long after an operation others work */
#define REST_MAX_NS (50 * NS_PER_MS)
#define RATE_PER_S  10 /* steps a second of one with a rate */
#define ROUND_STEPS 16 /* steps of one round */

/* How long a round may take. */
struct pace {
	uint64_t short_ns; /* shorter: it may be larger */
	uint64_t long_ns;  /* longer: it must be smaller */
};

static const struct pace ALONE = { 10 * NS_PER_MS, 20 * NS_PER_MS };
static const struct pace BESIDE = { 2 * NS_PER_MS, 4 * NS_PER_MS };

struct bulks {
	struct round *round;
	bulks_done_fn *done;
	void *ctx;
	uint32_t step_max;  /* jobs of all steps of a round */
	uint64_t sent_ns;   /* monotonic */
	uint64_t ops;       /* in raftd's log, with those of the last round */
	uint64_t others_ns; /* until then others are thought to work */
	bool more;
};

/* --- steps --- */

static uint32_t jobs_of(const struct bulks *b, const struct m_bulk *m, size_t n)
{
	uint32_t max = MAX(b->step_max / (uint32_t)n, 1u);

	if (m->rate > 0)
		max = MIN(max, MAX(m->rate / RATE_PER_S, 1u));
	return max;
}

static int did_something(void *ctx, struct str body)
{
	struct bulks *b = ctx;
	struct m_bulk m;
	struct arena a = ARENA_INIT;
	int err = msg_decode(&msg_bulk, body, &a, &m);

	/* An ended one names a moment too, as long as it has leftovers. */
	if (err == 0 && m.status == BULK_RUNNING && m.due_ns <= clock_wall_ns())
		b->more = true;
	arena_done(&a);
	return err < 0 ? err : 1;
}

/* own: of the operations to come, those of this round. */
static void look_for_others(struct bulks *b, uint64_t ops, size_t own)
{
	if (ops > b->ops)
		b->others_ns = b->sent_ns + OTHERS_NS;
	b->ops = ops + own;
}

static int on_due(void *ctx, struct str body)
{
	struct bulks *b = ctx;
	struct m_bulk_list list = { 0 };
	struct arena a = ARENA_INIT;
	int err = msg_decode(&msg_bulk_list, body, &a, &list);
	size_t n = err == 0 ? MIN(list.operations_n, (size_t)ROUND_STEPS) : 0;

	b->more = false;
	b->sent_ns = clock_mono_ns();
	look_for_others(b, list.ops, n);
	for (size_t i = 0; i < n; i++) {
		const struct m_bulk *op = &list.operations[i];
		struct m_bulk_step m = { 0 };

		MSG_SET(&m, bulk_step, bulk_id, op->id);
		MSG_SET(&m, bulk_step, processed, op->processed);
		MSG_SET(&m, bulk_step, max, jobs_of(b, op, n));
		round_propose(b->round, OP_BULK_STEP, &m, did_something);
	}
	arena_done(&a);
	return err;
}

static void adapt(struct bulks *b, uint64_t took, const struct pace *pace)
{
	if (took > pace->long_ns)
		b->step_max = MAX(b->step_max / 2, (uint32_t)STEP_MIN);
	else if (took < pace->short_ns)
		b->step_max = MIN(b->step_max + b->step_max / 4,
				  (uint32_t)LIMIT_BULK_STEP);
}

static void on_done(void *ctx, int err, uint32_t count)
{
	struct bulks *b = ctx;
	uint64_t now_ns = clock_mono_ns();
	uint64_t took = now_ns - b->sent_ns;
	bool beside = b->others_ns > now_ns;

	if (count > 0)
		adapt(b, took, beside ? &BESIDE : &ALONE);
	b->done(b->ctx, err, count, b->more && err == 0,
		beside ? MIN(took, REST_MAX_NS) : 0);
}

static const struct round_ops round_ops = {
	.query = QUERY_DUE_BULKS,
	.on_due = on_due,
	.on_done = on_done,
};

/* --- the owner's --- */

struct bulks *bulks_new(struct rpc_client *raftd, uint64_t op_timeout_ns,
			bulks_done_fn *done, void *ctx)
{
	struct bulks *b = xcalloc(1, sizeof(*b));

	b->round = round_new(raftd, op_timeout_ns, &round_ops, b);
	b->done = done;
	b->ctx = ctx;
	b->step_max = STEP_FIRST;
	return b;
}

void bulks_free(struct bulks *b)
{
	if (b == NULL)
		return;
	round_free(b->round);
	free(b);
}

bool bulks_is_busy(const struct bulks *b)
{
	return round_is_busy(b->round);
}

void bulks_cancel(struct bulks *b)
{
	round_cancel(b->round);
}

void bulks_start(struct bulks *b)
{
	round_start(b->round);
}
