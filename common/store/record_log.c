/*
 * Reads a job's log. Any thread; slices live in the caller's arena.
 */
#include "store/key.h"
#include "store/record.h"

int record_logs(struct kv *kv, struct str id, uint64_t after, uint32_t limit,
		struct arena *a, struct m_job_logs_reply *ret)
{
	struct m_log_line *lines;
	struct kv_iter *it;
	struct key from, upto;
	size_t n = 0;
	int r = 0;

	*ret = (struct m_job_logs_reply){ 0 };
	MSG_SET(ret, job_logs_reply, next, after);
	if (after >= UINT32_MAX - 1)
		return 0;
	limit = MIN(limit, (uint32_t)LIMIT_LOG_PAGE);
	lines = arena_alloc(a, limit * sizeof(*lines));
	key_log(&from, id, (uint32_t)after + 1);
	key_log(&upto, id, UINT32_MAX);
	it = kv_iter_new(kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it) && n < limit && r == 0; kv_iter_next(it)) {
		struct str key = kv_iter_key(it);

		if (msg_decode(&msg_log_line, arena_copy(a, kv_iter_value(it)),
			       a, &lines[n]) < 0)
			r = -ERR_INTERNAL_ERROR;
		MSG_SET(&lines[n], log_line, seq, get_be32(key.p + key.n - 4));
		MSG_SET(ret, job_logs_reply, next, lines[n].seq);
		n++;
	}
	if (r == 0)
		r = kv_iter_error(it);
	kv_iter_free(it);
	MSG_SET_LIST(ret, job_logs_reply, logs, lines, n);
	return r;
}
