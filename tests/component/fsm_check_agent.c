/*
 * Iterations and checkpoints that stand apart: each is of a job that is there,
 * all that should be there are, and nothing else.
 */
#include "fsm_check.h"

/* Its own, and that of each iteration, each once: they only grow. */
static void count_checkpoints(struct check *c, struct str id,
			      const struct m_job_live *l, uint32_t first,
			      uint32_t last)
{
	uint32_t before = 0;
	struct key k;

	for (uint32_t n = first; n <= last + 1; n++) {
		struct m_iteration it = { 0 };

		key_iteration(&k, id, n);
		if (n <= last)
			assert_true(check_read_msg(c, &k, &msg_iteration, &it));
		else if (MSG_HAS(l, job_live, checkpoint_in))
			MSG_SET(&it, iteration, checkpoint_in,
				l->checkpoint_in);
		if (it.checkpoint_in == before)
			continue;
		assert_true(it.checkpoint_in > before);
		before = it.checkpoint_in;
		key_checkpoint(&k, id, before);
		assert_true(check_has_key(c, &k));
		c->checkpoints_due++;
	}
}

void check_agent(struct check *c, struct str id, const struct m_job_doc *d,
		 const struct m_job_live *l)
{
	uint32_t recorded = l->agent != NULL ? l->agent->recorded : 0;
	uint32_t kept = MIN(recorded, (uint32_t)LIMIT_ITERATIONS_KEPT);

	c->checkpoints_due += d->checkpoint_apart;
	if (!MSG_HAS(d, job_doc, agent)) {
		assert_null(l->agent);
		if (MSG_HAS(l, job_live, checkpoint_in)) {
			assert_int_equal(l->checkpoint_in, 0);
			c->checkpoints_due += !d->checkpoint_apart;
		}
		return;
	}
	assert_false(MSG_HAS(l, job_live, checkpoint));
	c->iterations_due += kept;
	if (l->agent != NULL)
		assert_in_range(l->agent->iteration, recorded, recorded + 1);
	count_checkpoints(c, id, l, recorded - kept + 1, recorded);
}

void check_agent_key(struct check *c, struct str key, struct str value)
{
	struct m_iteration it;
	struct key k;

	key_job(&k, str_of(key.p + 3, key.n - 3 - 5));
	assert_true(check_has_key(c, &k));
	if (str_starts(key, STR("cp|"))) {
		c->checkpoints++;
		return;
	}
	c->iterations++;
	assert_int_equal(msg_decode(&msg_iteration,
				    arena_copy(&c->arena, value), &c->arena,
				    &it),
			 0);
	assert_true(it.status.n > 0 && it.created_at > 0);
}

void check_agents_end(const struct check *c)
{
	assert_int_equal(c->iterations, c->iterations_due);
	assert_int_equal(c->checkpoints, c->checkpoints_due);
}
