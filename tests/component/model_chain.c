/*
 * Chains: the steps that follow a job that has ended. See model.h.
 */
#include "model.h"

static struct model_job *follow(struct model *m, const struct model_job *prev,
				const struct m_chain_step *s, int64_t step)
{
	struct model_job *j = model_add(m);
	unsigned named = ~0u;

	j->unnamed = true;
	j->state = JOB_PENDING;
	j->queue = s->queue;
	j->step = step;
	j->chain = prev->chain;
	j->chain_id = prev->chain_id;
	j->parent = prev->id;
	j->parent_unknown = prev->unnamed;
	j->prio = MSG_HAS(s, chain_step, priority) ? s->priority : prev->prio;
	j->tags = s->tags.n > 0 ? s->tags : prev->tags;
	j->group = s->group.n > 0 ? s->group : prev->group;
	j->timeout =
	    MSG_HAS(s, chain_step, timeout) ? s->timeout : prev->timeout;
	j->max_retries = MSG_HAS(s, chain_step, max_retries)
			     ? s->max_retries
			     : prev->max_retries;
	j->backoff = prev->backoff;
	j->base = prev->base;
	j->cap = prev->cap;
	j->jitter = prev->jitter;
	if (s->delay > 0) {
		j->state = JOB_SCHEDULED;
		j->scheduled_at = m->now + s->delay;
	}
	model_defaults(m, j, named);
	(void)model_policy_hold(m, j, POINT_ENQUEUE);
	return j;
}

/* The job before stands in the payload. One that was made and is gone within
 * one operation has no id by the rules. */
static struct str prev_holds(struct model *m, const char *member,
			     const struct model_job *prev)
{
	if (prev->unnamed)
		return arena_printf(&m->arena, "\"%s\":\"", member);
	return arena_printf(&m->arena, "\"%s\":\"%.*s\"", member,
			    STR_ARG(prev->id));
}

static void follow_success(struct model *m, const struct model_job *prev,
			   const struct m_chain_step *s, int64_t step)
{
	struct model_job *j = follow(m, prev, s, step);

	j->holds[0] = prev_holds(m, "previous_job_id", prev);
	if (prev->result.n > 0)
		j->holds[1] =
		    arena_printf(&m->arena, "\"previous_result\":%.*s",
				 STR_ARG(prev->result));
}

static void follow_failure(struct model *m, const struct model_job *prev)
{
	struct model_job *j = follow(m, prev, prev->chain->on_failure, -2);

	j->holds[0] = prev_holds(m, "failed_job_id", prev);
	j->holds[1] = arena_printf(&m->arena, "\"failed_step\":%lld",
				   (long long)prev->step);
}

/*
 * A step that was retried by hand does not run what follows it twice; one that
 * died has nothing behind it, and its chain goes on when it completes.
 */
void model_chain_end(struct model *m, struct model_job *j, enum job_state how)
{
	const struct m_chain *c = j->chain;
	bool goes_on =
	    how == JOB_COMPLETED ||
	    (how == JOB_DEAD && c->after_failure == AFTER_FAILURE_CONTINUE);
	bool exits = !goes_on || j->step + 1 >= (int64_t)c->steps_n;

	if (j->step < 0 || j->chained)
		return;
	if (how == JOB_DEAD && !goes_on) {
		if (MSG_HAS(c, chain, on_failure))
			follow_failure(m, j);
		return;
	}
	j->chained = true;
	if (!exits && !j->exit_chain)
		follow_success(m, j, &c->steps[j->step + 1], j->step + 1);
	else if (MSG_HAS(c, chain, on_exit))
		follow_success(m, j, c->on_exit, -1);
}
