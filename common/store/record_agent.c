/*
 * Reads what there is of an agent's job beside its records: checkpoints that
 * stand apart, and iterations. Any thread; slices live in the caller's arena.
 */
#include "proto/agent.h"
#include "store/key.h"
#include "store/record_impl.h"

/* It may be replaced between two reads: absent then. */
static int read_checkpoint(struct kv *kv, struct str id, uint32_t n,
			   struct arena *a, struct str *ret)
{
	struct key k;
	int r;

	key_checkpoint(&k, id, n);
	r = record_get(kv, &k, a, ret);
	return r;
}

int record_agent(struct kv *kv, const struct m_job_doc *doc,
		 const struct m_job_live *live, struct arena *a,
		 struct m_job *ret)
{
	int r = 0;

	if (MSG_HAS(ret, job, checkpoint_in)) {
		r = read_checkpoint(kv, ret->id, ret->checkpoint_in, a,
				    &ret->checkpoint);
		if (r == 0)
			MSG_UNSET(ret, job, checkpoint);
	}
	if (r >= 0 && MSG_HAS(doc, job_doc, agent)) {
		MSG_SET(ret, job, agent, arena_alloc(a, sizeof(*ret->agent)));
		agent_show(doc, live, ret->agent);
	}
	return MIN(r, 0);
}

/* The initial checkpoint of a job is that of iterations without one. */
static int read_first(struct kv *kv, struct str id, struct arena *a,
		      struct str *ret)
{
	struct m_job job;
	int r = record_job(kv, id, RECORD_AS_CREATED | RECORD_AGENT, a, &job);

	*ret = r > 0 ? job.checkpoint : STR_NULL;
	return MIN(r, 0);
}

bool record_iteration(struct str id, uint32_t n, struct str raw,
		      struct arena *a, struct m_iteration *ret)
{
	if (msg_decode(&msg_iteration, raw, a, ret) < 0)
		return false;
	MSG_SET(ret, iteration, id, n);
	MSG_SET(ret, iteration, iteration, n);
	MSG_SET(ret, iteration, job_id, id);
	return true;
}

static int read_iteration(struct kv *kv, struct str id, uint32_t n,
			  struct str value, struct str first, struct arena *a,
			  struct m_iteration *ret)
{
	struct str checkpoint = first;
	int r = 0;

	if (!record_iteration(id, n, arena_copy(a, value), a, ret))
		return record_damaged();
	if (MSG_HAS(ret, iteration, checkpoint_in))
		r = read_checkpoint(kv, id, ret->checkpoint_in, a, &checkpoint);
	if (checkpoint.n > 0)
		MSG_SET(ret, iteration, checkpoint, checkpoint);
	return MIN(r, 0);
}

int record_iterations(struct kv *kv, struct str id, uint32_t after,
		      uint32_t limit, struct arena *a,
		      struct m_iteration_list *ret)
{
	struct m_iteration *list;
	struct kv_iter *it;
	struct key from, upto;
	struct str first;
	size_t n = 0, bytes = 0;
	int r = read_first(kv, id, a, &first);

	*ret = (struct m_iteration_list){ 0 };
	if (r < 0)
		return r;
	limit = MIN(limit, (uint32_t)LIMIT_ITERATION_PAGE);
	list = arena_alloc(a, limit * sizeof(*list));
	key_iteration(&from, id, MIN(after, UINT32_MAX - 1) + 1);
	key_iteration(&upto, id, UINT32_MAX);
	it = kv_iter_new(kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it) && r == 0; kv_iter_next(it)) {
		struct str key = kv_iter_key(it);

		if (n == limit || bytes >= LIMIT_LIST_BYTES) {
			MSG_SET(ret, iteration_list, next,
				list[n - 1].iteration);
			break;
		}
		r = read_iteration(kv, id, get_be32(key.p + key.n - 4),
				   kv_iter_value(it), first, a, &list[n]);
		bytes += sizeof(*list) + list[n].checkpoint.n +
			 list[n].result.n + list[n].trace.n;
		n++;
	}
	if (r == 0)
		r = kv_iter_error(it);
	kv_iter_free(it);
	MSG_SET_LIST(ret, iteration_list, iterations, list, n);
	return r;
}
