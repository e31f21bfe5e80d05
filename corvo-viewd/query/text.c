/*
 * Jobs by the words in them, newest first. The words are looked up in the
 * full-text index; when no job has them, the text itself is looked for in
 * payload, tags and queue, job by job. Both for a limited time.
 *
 * The index knows row numbers only, and those are in the order in which rows
 * came into the file. A set of jobs that is not too large is sorted; one that
 * is has so many of all jobs in it that it is met soon on the way from the
 * newest job.
 *
 * The text comes from a client and is only ever bound.
 */
#include "db/timetext.h"
#include "query/query_impl.h"
#include "util/clock.h"

#define TEXT_DEFAULT_ROWS 50
#define TEXT_BUDGET_NS    (1 * NS_PER_S) /* for either */

#define HIT_COLUMNS "id, queue, state, created_at, payload, tags"

enum { H_ID, H_QUEUE, H_STATE, H_CREATED, H_PAYLOAD, H_TAGS };

#define NEWEST_FIRST " ORDER BY created_at DESC, id DESC LIMIT ?2"

static const char count_sql[] =
    "SELECT count(*) FROM (SELECT 1 FROM jobs_fts WHERE jobs_fts MATCH ?1"
    " LIMIT ?2)";

static const char words_sql[] =
    "SELECT " HIT_COLUMNS " FROM (SELECT j.rowid AS r FROM"
    " (SELECT rowid AS t FROM jobs_fts WHERE jobs_fts MATCH ?1 LIMIT -1)"
    " CROSS JOIN jobs j ON j.rowid=t" NEWEST_FIRST ")"
    " CROSS JOIN jobs ON jobs.rowid=r ORDER BY created_at DESC, id DESC";

static const char many_sql[] =
    "SELECT " HIT_COLUMNS " FROM jobs INDEXED BY idx_jobs_created WHERE EXISTS"
    " (SELECT 1 FROM jobs_fts WHERE jobs_fts MATCH ?1"
    " AND jobs_fts.rowid=jobs.rowid)" NEWEST_FIRST;

/* ?1 in lower case; lower() and instr() know nothing of wildcards. */
static const char part_sql[] =
    "SELECT " HIT_COLUMNS " FROM jobs INDEXED BY idx_jobs_created WHERE"
    " (instr(lower(payload), ?1) OR instr(lower(coalesce(tags, '')), ?1)"
    " OR instr(lower(queue), ?1))" NEWEST_FIRST;

struct hits {
	struct query *q;
	const struct query_ask *ask;
	struct m_fulltext_reply *reply;
	uint32_t limit;
	size_t bytes;
};

static struct str copy_or_empty(struct arena *a, struct db_stmt *s, int i)
{
	return db_is_null(s, i) ? STR("") : arena_copy(a, db_text(s, i));
}

static void read_hit(struct db_stmt *s, struct arena *a,
		     struct m_fulltext_hit *ret)
{
	*ret = (struct m_fulltext_hit){ 0 };
	MSG_SET(ret, fulltext_hit, id, arena_copy(a, db_text(s, H_ID)));
	MSG_SET(ret, fulltext_hit, queue, arena_copy(a, db_text(s, H_QUEUE)));
	MSG_SET(ret, fulltext_hit, state, arena_copy(a, db_text(s, H_STATE)));
	MSG_SET(ret, fulltext_hit, created_at,
		timetext_parse(db_text(s, H_CREATED)));
	MSG_SET(ret, fulltext_hit, payload, copy_or_empty(a, s, H_PAYLOAD));
	MSG_SET(ret, fulltext_hit, tags, copy_or_empty(a, s, H_TAGS));
}

/* 0: no more rows; 1: enough, and there may be more; -ERR_*. */
static int take_rows(struct hits *h, struct db_stmt *s)
{
	struct m_fulltext_reply *m = h->reply;
	int r;

	while ((r = db_step(s)) == 1) {
		struct m_fulltext_hit *hit = &m->results[m->results_n];

		if (m->results_n == h->limit || h->bytes >= LIMIT_LIST_BYTES)
			return 1;
		read_hit(s, &h->q->arena, hit);
		h->bytes += sizeof(*hit) + hit->payload.n + hit->tags.n;
		m->results_n++;
	}
	return r;
}

/* --- the two ways --- */

/* As take_rows; the text is valid until then. */
static int run(struct hits *h, const char *sql, struct str text)
{
	struct db_stmt *s;
	int r = db_prepare(h->q->db, sql, &s);

	if (r < 0)
		return r;
	db_bind_text(s, 1, text);
	db_bind_i64(s, 2, (int64_t)h->limit + 1);
	r = take_rows(h, s);
	db_finalize(s);
	return r;
}

/* 1: more jobs have the words than are sorted. */
static int are_many(struct hits *h, struct str expression)
{
	struct db_stmt *s;
	int r = db_prepare(h->q->db, count_sql, &s);

	if (r < 0)
		return r;
	db_bind_text(s, 1, expression);
	db_bind_i64(s, 2, QUERY_SORTED_MAX + 1);
	r = db_step(s);
	if (r == 1)
		r = db_i64(s, 0) > QUERY_SORTED_MAX;
	db_finalize(s);
	return r;
}

static int find_words(struct hits *h, struct str q)
{
	_cleanup_(buf_done) struct buf expression = BUF_INIT(0);
	int r = query_match(h->q, "q", q, &expression);

	if (r <= 0)
		return r;
	r = are_many(h, buf_str(&expression));
	if (r < 0)
		return r;
	return run(h, r == 1 ? many_sql : words_sql, buf_str(&expression));
}

static int find_part(struct hits *h, struct str q)
{
	return run(h, part_sql, query_lower(&h->q->arena, q));
}

/* As take_rows; 1 also when its time is up. */
static int in_time(struct hits *h, int (*find)(struct hits *h, struct str q),
		   struct str q)
{
	int r;

	query_end_at(h->q, h->ask, clock_mono_ns() + TEXT_BUDGET_NS);
	r = find(h, q);
	if (query_is_at_end(h->q, h->ask, r))
		r = 1;
	query_end_at(h->q, h->ask, 0);
	return r;
}

int query_fulltext(struct query *q, const struct query_ask *ask,
		   struct buf *out)
{
	const struct m_fulltext *m = ask->request;
	struct m_fulltext_reply reply = { 0 };
	struct hits h = { .q = q, .ask = ask, .reply = &reply };
	int r;

	h.limit = m->limit >= 1 && m->limit <= LIMIT_FULLTEXT_ROWS
		      ? m->limit
		      : TEXT_DEFAULT_ROWS;
	reply.results =
	    arena_alloc(&q->arena, h.limit * sizeof(*reply.results));
	r = in_time(&h, find_words, m->q);
	if (r == 0 && reply.results_n == 0)
		r = in_time(&h, find_part, m->q);
	if (r < 0)
		return r;
	MSG_SET(&reply, fulltext_reply, q, m->q);
	MSG_SET_LIST(&reply, fulltext_reply, results, reply.results,
		     reply.results_n);
	/* to have found as many as asked for is no part of an answer */
	if (r == 1 && reply.results_n < h.limit)
		MSG_SET(&reply, fulltext_reply, partial, true);
	MSG_SET(&reply, fulltext_reply, lag_ns, ask->lag_ns);
	msg_encode(&msg_fulltext_reply, &reply, out);
	return 0;
}
