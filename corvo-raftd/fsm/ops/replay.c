/*
 * replay: a new job from where an agent's job once was. Ids come from clients,
 * that of the new job was chosen before the entry was proposed.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/checkpoint.h"
#include "fsm/job/create.h"
#include "fsm/job/iteration.h"
#include "fsm/ops/hand.h"
#include "fsm/ops/ops.h"
#include "fsm/ties/backlog.h"
#include "proto/agent.h"

/* The job it is made of, and the iteration. */
static int find_source(struct fsm *f, const struct m_replay *op, struct job *j,
		       struct m_iteration *it)
{
	int r = job_must_find(f, op->job_id, j);

	if (r == 0)
		r = job_need_doc(f, j);
	if (r < 0)
		return r;
	if (op->from == 0)
		return fsm_refuse(f, ERR_VALIDATION_ERROR, "from must be > 0");
	if (!(j->extras & EXTRA_AGENT))
		return fsm_refuse(f, ERR_REPLAY_ERROR,
				  "job \"%.*s\" is not an agent job",
				  STR_ARG(op->job_id));
	r = iteration_find(f, j, op->from, it);
	if (r == 0)
		return fsm_refuse(f, ERR_REPLAY_ERROR,
				  "from: job \"%.*s\" has no iteration %u",
				  STR_ARG(op->job_id), op->from);
	return MIN(r, 0);
}

/* What the new job is: the old one as it is now, without its ties to others. */
static void fill_request(const struct m_replay *op, const struct job *j,
			 struct m_agent *agent, struct m_enqueue *e)
{
	const struct m_job_doc *d = &j->doc;

	*e = (struct m_enqueue){ 0 };
	MSG_SET(e, enqueue, job_id, op->new_job_id);
	MSG_SET(e, enqueue, queue, j->q->name);
	MSG_SET(e, enqueue, priority, j->prio);
	MSG_SET(e, enqueue, max_retries, d->max_retries);
	MSG_SET(e, enqueue, retry_backoff, d->retry_backoff);
	MSG_SET(e, enqueue, retry_base_delay, d->retry_base_delay);
	MSG_SET(e, enqueue, retry_max_delay, d->retry_max_delay);
	MSG_SET(e, enqueue, retry_jitter, d->retry_jitter);
	MSG_SET(e, enqueue, timeout, d->timeout);
	MSG_SET(e, enqueue, group, d->group);
	MSG_SET(e, enqueue, expected_cost, d->expected_cost);
	MSG_SET(e, enqueue, expected, d->expected);
	MSG_SET(e, enqueue, tags, d->tags);
	if (MSG_HAS(d, job_doc, payload))
		MSG_SET(e, enqueue, payload, d->payload);
	*agent = *agent_limits(d, &j->live);
	MSG_SET(e, enqueue, agent, agent);
}

/* The old one tells of the new one. It also saves. */
static void link_source(struct fsm *f, struct job *j, const struct m_replay *op)
{
	struct m_agent_live *a = iteration_live(f, j);
	size_t keep = MIN(a->replays_n, (size_t)LIMIT_REPLAYS - 1);
	struct str *ids =
	    arena_alloc(&f->item_arena, (keep + 1) * sizeof(*ids));

	for (size_t i = 0; i < keep; i++)
		ids[i] = a->replays[a->replays_n - keep + i];
	ids[keep] = op->new_job_id;
	MSG_SET_LIST(a, agent_live, replays, ids, keep + 1);
	job_event(f, j, EVENT_REPLAYED,
		  fsm_event_text(f, "job_id", op->new_job_id));
	job_save(f, j);
}

int apply_replay(struct fsm *f, const struct m_replay *op,
		 struct m_enqueue_reply *ret)
{
	struct new_job n = { .replay_of = op->job_id, .replay_from = op->from };
	struct m_agent agent;
	struct m_enqueue e;
	struct m_iteration it;
	struct job j;
	int r;

	if (op->new_job_id.n == 0 || op->new_job_id.n > LIMIT_JOB_ID_BYTES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "new_job_id: must have 1 to %d bytes",
				  LIMIT_JOB_ID_BYTES);
	r = job_refuse_resend(f, op->new_job_id);
	if (r == 0)
		r = find_source(f, op, &j, &it);
	if (r < 0)
		return r;
	fill_request(op, &j, &agent, &e);
	r = backlog_check(f, &e, 1);
	if (r == 0)
		r = checkpoint_read(f, &j,
				    MSG_HAS(&it, iteration, checkpoint_in)
					? &it.checkpoint_in
					: NULL,
				    &e.checkpoint);
	if (r < 0)
		return r;
	n.op = &e;
	job_create(f, &n, ret);
	link_source(f, &j, op);
	return 0;
}
