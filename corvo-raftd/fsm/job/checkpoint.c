/*
 * See job/checkpoint.h. Checkpoints come from clients; their size was checked
 * where they came in.
 */
#include "fsm/job/checkpoint.h"

#include "fsm/core/cluster.h"
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "proto/agent.h"

/* Nodes of level 1 keep all of them in the job's record. */
static bool is_large(const struct fsm *f, struct str value)
{
	return value.n > LIMIT_CHECKPOINT_INSIDE && f->cluster.level >= 2;
}

static void put(struct fsm *f, struct str id, uint32_t n, struct str value)
{
	struct key k;

	key_checkpoint(&k, id, n);
	txn_put(f->txn, key_str(&k), value);
}

void checkpoint_set(struct fsm *f, struct job *j, struct str value)
{
	struct m_job_live *l = &j->live;
	bool agent = (j->extras & EXTRA_AGENT) != 0;
	uint32_t n = agent ? agent_iteration(l) : 0;
	struct key k;

	if (agent || is_large(f, value)) {
		put(f, j->id, n, value);
		MSG_SET(l, job_live, checkpoint_in, n);
		l->checkpoint = STR_NULL;
		MSG_UNSET(l, job_live, checkpoint);
		return;
	}
	if (MSG_HAS(l, job_live, checkpoint_in)) {
		MSG_UNSET(l, job_live, checkpoint_in);
		key_checkpoint(&k, j->id, 0);
		if (!(j->extras & EXTRA_APART)) /* its doc names it */
			fsm_delete(f, &k);
	}
	MSG_SET(l, job_live, checkpoint, value);
}

void checkpoint_create(struct fsm *f, struct str id, struct str value,
		       struct m_job_doc *doc)
{
	if (!is_large(f, value)) {
		MSG_SET(doc, job_doc, checkpoint, value);
		return;
	}
	put(f, id, 0, value);
	MSG_SET(doc, job_doc, checkpoint_apart, true);
}

int checkpoint_read(struct fsm *f, const struct job *j, const uint32_t *in,
		    struct str *ret)
{
	struct key k;
	int r;

	CHECK(j->has_doc);
	*ret = j->doc.checkpoint;
	if (in == NULL && !j->doc.checkpoint_apart)
		return 0;
	key_checkpoint(&k, j->id, in != NULL ? *in : 0);
	r = fsm_get(f, &k, ret);
	MUST(f, r != 0);
	return MIN(r, 0);
}

int checkpoint_get(struct fsm *f, const struct job *j, struct str *ret)
{
	const struct m_job_live *l = &j->live;

	if (MSG_HAS(l, job_live, checkpoint_in))
		return checkpoint_read(f, j, &l->checkpoint_in, ret);
	if (!MSG_HAS(l, job_live, checkpoint))
		return checkpoint_read(f, j, NULL, ret);
	*ret = l->checkpoint;
	return 0;
}

void checkpoint_delete(struct fsm *f, const struct job *j)
{
	struct key k;

	if (j->extras & EXTRA_APART) {
		key_checkpoint(&k, j->id, 0);
		fsm_delete(f, &k);
	}
	if (MSG_HAS(&j->live, job_live, checkpoint_in)) {
		key_checkpoint(&k, j->id, j->live.checkpoint_in);
		fsm_delete(f, &k);
	}
}
