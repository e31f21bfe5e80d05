/*
 * Jobs by the words in them, newest first. The words are looked up in the
 * full-text index; when no job has them, the text itself is looked for in
 * payload, tags and queue, job by job, for a limited time. Rows come into the
 * view in the order of creation, so the newest are those of the highest rowid.
 *
 * The text comes from a client and is only ever bound.
 */
#include "db/timetext.h"
#include "query/match.h"
#include "query/query_impl.h"
#include "util/clock.h"

#define TEXT_DEFAULT_ROWS 50
#define TEXT_BUDGET_NS    (1 * NS_PER_S) /* for looking job by job */
#define TEXT_WINDOW       1000           /* jobs between looks at the clock */

#define HIT_COLUMNS "jobs.rowid, id, queue, state, created_at, payload, tags"

enum { H_ROWID, H_ID, H_QUEUE, H_STATE, H_CREATED, H_PAYLOAD, H_TAGS };

static const char words_sql[] =
    "SELECT " HIT_COLUMNS " FROM (SELECT rowid AS r FROM jobs_fts"
    " WHERE jobs_fts MATCH ?1 ORDER BY rowid DESC LIMIT ?2)"
    " JOIN jobs ON jobs.rowid=r ORDER BY r DESC";

/* ?1 in lower case; lower() and instr() know nothing of wildcards. */
static const char part_sql[] =
    "SELECT " HIT_COLUMNS " FROM jobs WHERE rowid>?2 AND rowid<=?3 AND"
    " (instr(lower(payload), ?1) OR instr(lower(coalesce(tags, '')), ?1)"
    " OR instr(lower(queue), ?1)) ORDER BY rowid DESC";

static const char highest_sql[] =
    "SELECT rowid FROM jobs WHERE rowid<=?1 ORDER BY rowid DESC LIMIT 1";

struct hits {
	struct query *q;
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

/* --- by words --- */

static int find_words(struct hits *h, struct str q)
{
	_cleanup_(buf_done) struct buf expression = BUF_INIT(0);
	struct db_stmt *s;
	int r;

	if (!match_build(q, &expression))
		return 0;
	r = db_prepare(h->q->db, words_sql, &s);
	if (r < 0)
		return r;
	db_bind_text(s, 1, buf_str(&expression));
	db_bind_i64(s, 2, h->limit);
	r = take_rows(h, s);
	db_finalize(s);
	return r;
}

/* --- by any part of the text --- */

/* *rowid becomes the highest in use not above it; 0: none. 0 or -ERR_*. */
static int step_down(struct db_stmt *highest, int64_t *rowid)
{
	int r;

	db_bind_i64(highest, 1, *rowid);
	r = db_step(highest);
	*rowid = r == 1 ? db_i64(highest, 0) : 0;
	db_reset(highest);
	return MIN(r, 0);
}

/* As take_rows; 1 also when time is up. */
static int scan(struct hits *h, struct db_stmt *highest, struct db_stmt *part)
{
	uint64_t end_ns = clock_mono_ns() + TEXT_BUDGET_NS;
	int64_t top = INT64_MAX;
	int r = step_down(highest, &top);

	while (r == 0 && top > 0) {
		if (clock_mono_ns() > end_ns)
			return 1;
		db_bind_i64(part, 2, top - TEXT_WINDOW);
		db_bind_i64(part, 3, top);
		r = take_rows(h, part);
		db_reset(part);
		top -= TEXT_WINDOW;
		if (r == 0)
			r = step_down(highest, &top);
	}
	return r;
}

static int find_part(struct hits *h, struct str q)
{
	struct db_stmt *highest, *part = NULL;
	int r = db_prepare(h->q->db, highest_sql, &highest);

	if (r < 0)
		return r;
	r = db_prepare(h->q->db, part_sql, &part);
	if (r == 0) {
		db_bind_text(part, 1, query_lower(&h->q->arena, q));
		r = scan(h, highest, part);
	}
	db_finalize(part);
	db_finalize(highest);
	return r;
}

int query_fulltext(struct query *q, const struct query_ask *ask,
		   struct buf *out)
{
	const struct m_fulltext *m = ask->request;
	struct m_fulltext_reply reply = { 0 };
	struct hits h = { .q = q, .reply = &reply };
	int r;

	h.limit = m->limit >= 1 && m->limit <= LIMIT_FULLTEXT_ROWS
		      ? m->limit
		      : TEXT_DEFAULT_ROWS;
	reply.results =
	    arena_alloc(&q->arena, h.limit * sizeof(*reply.results));
	r = find_words(&h, m->q);
	if (r == 0 && reply.results_n == 0)
		r = find_part(&h, m->q);
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
