/*
 * Iterations of an agent's job, in order. The id comes from a client.
 */
#include "db/timetext.h"
#include "query/query_impl.h"

static const char iterations_sql[] =
    "SELECT id, iteration, status, hold_reason, input_tokens, output_tokens,"
    " cache_creation_tokens, cache_read_tokens, model, provider, cost_usd,"
    " created_at, checkpoint, result FROM job_iterations WHERE job_id=?1"
    " ORDER BY iteration, id";

enum {
	I_ID,
	I_ITERATION,
	I_STATUS,
	I_HOLD_REASON,
	I_INPUT,
	I_OUTPUT,
	I_CACHE_CREATION,
	I_CACHE_READ,
	I_MODEL,
	I_PROVIDER,
	I_COST,
	I_CREATED,
	I_CHECKPOINT,
	I_RESULT
};

#define TEXT(member, column)                                        \
	do {                                                        \
		if (!db_is_null(s, column))                         \
			MSG_SET(ret, iteration, member,             \
				arena_copy(a, db_text(s, column))); \
	} while (0)
#define NUMBER(member, column)                                \
	do {                                                  \
		if (db_i64(s, column) > 0)                    \
			MSG_SET(ret, iteration, member,       \
				(uint64_t)db_i64(s, column)); \
	} while (0)

static void read_iteration(struct db_stmt *s, struct str job_id,
			   struct arena *a, struct m_iteration *ret)
{
	*ret = (struct m_iteration){ 0 };
	MSG_SET(ret, iteration, id, (uint64_t)db_i64(s, I_ID));
	MSG_SET(ret, iteration, job_id, job_id);
	MSG_SET(ret, iteration, iteration, (uint32_t)db_i64(s, I_ITERATION));
	TEXT(status, I_STATUS);
	TEXT(hold_reason, I_HOLD_REASON);
	NUMBER(input_tokens, I_INPUT);
	NUMBER(output_tokens, I_OUTPUT);
	NUMBER(cache_creation_tokens, I_CACHE_CREATION);
	NUMBER(cache_read_tokens, I_CACHE_READ);
	TEXT(model, I_MODEL);
	TEXT(provider, I_PROVIDER);
	if (db_f64(s, I_COST) != 0)
		MSG_SET(ret, iteration, cost_usd, db_f64(s, I_COST));
	MSG_SET(ret, iteration, created_at,
		timetext_parse(db_text(s, I_CREATED)));
	TEXT(checkpoint, I_CHECKPOINT);
	TEXT(result, I_RESULT);
}

/* 1 there is such a job, 0 not, -ERR_*. */
static int has_job(struct query *q, struct str id)
{
	struct db_stmt *s;
	int r = db_prepare(q->db, "SELECT 1 FROM jobs WHERE id=?1", &s);

	if (r < 0)
		return r;
	db_bind_text(s, 1, id);
	r = db_step(s);
	db_finalize(s);
	return r;
}

static int read_list(struct query *q, struct str job_id,
		     struct m_iteration_list *ret)
{
	struct db_stmt *s;
	size_t cap = 0, bytes = 0;
	int r = db_prepare(q->db, iterations_sql, &s);

	if (r < 0)
		return r;
	db_bind_text(s, 1, job_id);
	while ((r = db_step(s)) == 1) {
		struct m_iteration *it;

		if (bytes >= LIMIT_LIST_BYTES) {
			MSG_SET(ret, iteration_list, partial, true);
			break;
		}
		ret->iterations =
		    arena_grow(&q->arena, ret->iterations, sizeof(*it),
			       ret->iterations_n, &cap);
		it = &ret->iterations[ret->iterations_n++];
		read_iteration(s, job_id, &q->arena, it);
		bytes += sizeof(*it) + it->checkpoint.n + it->result.n;
	}
	db_finalize(s);
	return MIN(r, 0);
}

int query_iterations(struct query *q, const struct query_ask *ask,
		     struct buf *out)
{
	const struct m_iterations *m = ask->request;
	struct m_iteration_list list = { 0 };
	int r = has_job(q, m->job_id);

	if (r == 0)
		MSG_SET(&list, iteration_list, unknown, true);
	if (r > 0)
		r = read_list(q, m->job_id, &list);
	if (r < 0)
		return r;
	MSG_SET_LIST(&list, iteration_list, iterations, list.iterations,
		     list.iterations_n);
	MSG_SET(&list, iteration_list, lag_ns, ask->lag_ns);
	msg_encode(&msg_iteration_list, &list, out);
	return 0;
}
