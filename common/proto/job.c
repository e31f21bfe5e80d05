/*
 * Rules of a job's life. Pure functions of their arguments, in whole numbers:
 * the state machine calls them and all replicas must agree to the bit.
 */
#include "proto/job.h"

static const bool terminal[JOB_STATE_MAX] = {
#define STATE(NAME, name, num, is_terminal) [JOB_##NAME] = is_terminal,
#include "proto/defs/states.def"
};

static const bool moves[JOB_STATE_MAX][JOB_STATE_MAX] = {
#define MOVE(from, to) [JOB_##from][JOB_##to] = true,
#include "proto/defs/states.def"
};

bool job_state_is_terminal(enum job_state s)
{
	return s < JOB_STATE_MAX && terminal[s];
}

enum job_state job_state_at_creation(const struct m_job_doc *d)
{
	if (d->waiting_on > 0)
		return JOB_BLOCKED;
	return d->scheduled_at != 0 ? JOB_SCHEDULED : JOB_PENDING;
}

bool job_can_move(enum job_state from, enum job_state to)
{
	return from < JOB_STATE_MAX && to < JOB_STATE_MAX && moves[from][to];
}

/* base * factor, or max when that is less or the product has no room. */
static uint64_t scale(uint64_t base, uint64_t factor, uint64_t max)
{
	uint64_t v;

	if (__builtin_mul_overflow(base, factor, &v))
		return max;
	return MIN(v, max);
}

static uint64_t full_delay(enum backoff b, uint64_t base_ns, uint64_t max_ns,
			   uint32_t attempt)
{
	switch (b) {
	case BACKOFF_NONE:
		return 0;
	case BACKOFF_FIXED:
		return MIN(base_ns, max_ns);
	case BACKOFF_LINEAR:
		return scale(base_ns, attempt, max_ns);
	case BACKOFF_EXPONENTIAL:
		break;
	}
	if (attempt > 64) /* 2^64 of anything is past every maximum */
		return base_ns > 0 ? max_ns : 0;
	return scale(base_ns, 1ULL << (attempt - 1), max_ns);
}

uint64_t job_retry_delay(enum backoff b, uint64_t base_ns, uint64_t max_ns,
			 double jitter, uint32_t attempt, uint64_t random)
{
	uint64_t delay = full_delay(b, base_ns, max_ns, MAX(attempt, 1u));
	uint64_t share, cut;

	if (!(jitter > 0)) /* also when it is no number */
		return delay;
	/*
	 * Fractions of 2^32. Scaling by a power of two is exact, and after
	 * it there is no floating point that compilers could round each in
	 * its own way.
	 */
	share = (uint64_t)(MIN(jitter, 1.0) * 4294967296.0);
	share = share * (random >> 32) >> 32; /* in [0, jitter) */
	cut = (uint64_t)((unsigned __int128)delay * share >> 32);
	return delay - cut;
}

static size_t step_bytes(const struct m_chain_step *s)
{
	return s != NULL ? s->payload.n + s->tags.n : 0;
}

size_t chain_bytes(const struct m_chain *c)
{
	size_t n;

	if (c == NULL)
		return 0;
	n = step_bytes(c->on_failure) + step_bytes(c->on_exit);
	for (size_t i = 0; i < c->steps_n; i++)
		n += step_bytes(&c->steps[i]);
	return n;
}

uint32_t job_attempts_left(uint32_t max_retries, uint32_t attempt)
{
	uint32_t total = MAX(max_retries, 1u);

	return attempt < total ? total - attempt : 0;
}

struct m_fail fetched_give_back(const struct m_fetched *job)
{
	struct m_fail f = { 0 };

	MSG_SET(&f, fail, job_id, job->job_id);
	MSG_SET(&f, fail, requeue, true);
	MSG_SET(&f, fail, lease_token, job->lease_token);
	return f;
}
