/*
 * See job/iteration.h. What an iteration has used is the difference of what the
 * job has: so the sum of all of them is the job's, exactly.
 */
#include "fsm/job/iteration.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "proto/agent.h"

static const struct m_usage_sum nothing_used;

static uint32_t first_kept(uint32_t recorded)
{
	return recorded > LIMIT_ITERATIONS_KEPT
		   ? recorded - LIMIT_ITERATIONS_KEPT + 1
		   : 1;
}

struct m_agent_live *iteration_live(struct fsm *f, struct job *j)
{
	struct m_agent_live *a = j->live.agent;

	if (a == NULL) {
		a = arena_zalloc(&f->item_arena, sizeof(*a));
		MSG_SET(a, agent_live, iteration, 1);
		MSG_SET(&j->live, job_live, agent, a);
	}
	return a;
}

static const struct m_usage_sum *used(const struct m_usage_sum *u)
{
	return u != NULL ? u : &nothing_used;
}

/* What was used since `before`. Sums never shrink. */
static void fill_used(struct fsm *f, const struct m_usage_sum *before,
		      const struct m_usage_sum *now, struct m_iteration *ret)
{
#define USED(member)                                           \
	do {                                                   \
		MUST(f, now->member >= before->member);        \
		if (now->member > before->member)              \
			MSG_SET(ret, iteration, member,        \
				now->member - before->member); \
	} while (0)
	USED(input_tokens);
	USED(output_tokens);
	USED(cache_creation_tokens);
	USED(cache_read_tokens);
	USED(cost_usd);
#undef USED
	if (now->model.n > 0)
		MSG_SET(ret, iteration, model, now->model);
	if (now->provider.n > 0)
		MSG_SET(ret, iteration, provider, now->provider);
}

static void note_used(struct fsm *f, struct m_agent_live *a,
		      const struct m_usage_sum *now)
{
	struct m_usage_sum *u = arena_zalloc(&f->item_arena, sizeof(*u));

	MSG_SET(u, usage_sum, input_tokens, now->input_tokens);
	MSG_SET(u, usage_sum, output_tokens, now->output_tokens);
	MSG_SET(u, usage_sum, cache_creation_tokens,
		now->cache_creation_tokens);
	MSG_SET(u, usage_sum, cache_read_tokens, now->cache_read_tokens);
	MSG_SET(u, usage_sum, cost_usd, now->cost_usd);
	MSG_SET(a, agent_live, before, u);
}

static void fill_record(struct fsm *f, const struct job *j,
			const struct iteration_end *e, struct m_iteration *m)
{
	const struct m_job_live *l = &j->live;

	MSG_SET(m, iteration, status,
		str_from(enum_text(&enum_agent_status, e->status)));
	if (e->hold_reason.n > 0)
		MSG_SET(m, iteration, hold_reason, e->hold_reason);
	if (e->result.n > 0)
		MSG_SET(m, iteration, result, e->result);
	if (e->trace.n > 0)
		MSG_SET(m, iteration, trace, e->trace);
	MSG_SET(m, iteration, created_at, f->now_ns);
	MSG_SET(m, iteration, started_at, l->started_at);
	MSG_SET(m, iteration, attempt, l->attempt);
	MSG_SET(m, iteration, seq, f->last_seq);
	if (l->worker_id.n > 0)
		MSG_SET(m, iteration, worker_id, l->worker_id);
	if (l->hostname.n > 0)
		MSG_SET(m, iteration, hostname, l->hostname);
	if (MSG_HAS(l, job_live, checkpoint_in))
		MSG_SET(m, iteration, checkpoint_in, l->checkpoint_in);
}

static int read_record(struct fsm *f, struct str id, uint32_t n,
		       struct m_iteration *ret)
{
	struct key k;

	key_iteration(&k, id, n);
	return fsm_read(f, &k, &msg_iteration, ret);
}

/* A checkpoint goes with the last of the iterations that had it. */
static int forget(struct fsm *f, struct str id, uint32_t n)
{
	struct m_iteration old, later;
	struct key k;
	int r = read_record(f, id, n, &old);

	if (r > 0)
		r = read_record(f, id, n + 1, &later);
	if (r < 0)
		return r;
	MUST(f, r > 0);
	key_iteration(&k, id, n);
	fsm_delete(f, &k);
	if (!MSG_HAS(&old, iteration, checkpoint_in) ||
	    old.checkpoint_in == later.checkpoint_in)
		return 0;
	key_checkpoint(&k, id, old.checkpoint_in);
	fsm_delete(f, &k);
	return 0;
}

int iteration_record(struct fsm *f, struct job *j,
		     const struct iteration_end *e)
{
	struct m_agent_live *a = iteration_live(f, j);
	const struct m_usage_sum *now = used(j->live.usage);
	uint32_t first = first_kept(a->recorded);
	struct m_iteration m = { 0 };
	struct key k;

	MUST(f, a->iteration > 0 && a->iteration >= a->recorded);
	fill_record(f, j, e, &m);
	fill_used(f, used(a->before), now, &m);
	key_iteration(&k, j->id, a->iteration);
	fsm_put(f, &k, &msg_iteration, &m);
	note_used(f, a, now);
	MSG_SET(a, agent_live, recorded, a->iteration);
	return first < first_kept(a->recorded) ? forget(f, j->id, first) : 0;
}

void iteration_begin(struct fsm *f, struct job *j)
{
	struct m_agent_live *a = iteration_live(f, j);

	if (a->iteration <= a->recorded)
		MSG_SET(a, agent_live, iteration, a->recorded + 1);
	MSG_SET(&j->live, job_live, attempt, 0);
}

int iteration_find(struct fsm *f, const struct job *j, uint32_t n,
		   struct m_iteration *ret)
{
	const struct m_agent_live *a = j->live.agent;

	if (a == NULL || n < first_kept(a->recorded) || n > a->recorded)
		return 0;
	return read_record(f, j->id, n, ret);
}

void iterations_delete(struct fsm *f, const struct job *j)
{
	const struct m_agent_live *a = j->live.agent;
	struct m_iteration oldest;
	uint32_t first;
	struct key k;

	if (a == NULL)
		return;
	first = first_kept(a->recorded);
	/* its checkpoint may be an earlier one's */
	if (iteration_find(f, j, first, &oldest) > 0 &&
	    MSG_HAS(&oldest, iteration, checkpoint_in)) {
		key_checkpoint(&k, j->id, oldest.checkpoint_in);
		fsm_delete(f, &k);
	}
	for (uint32_t i = first; i <= a->iteration; i++) {
		key_iteration(&k, j->id, i);
		fsm_delete(f, &k);
		key_checkpoint(&k, j->id, i);
		fsm_delete(f, &k);
	}
	budget_take_records(f, 2 * (a->iteration + 1 - first));
}
