/*
 * Searches as clients ask for them, up to the database: whatever the question
 * is, the answer is jobs or a sentence, and never an error of SQL.
 */
#include <stdio.h>
#include <stdlib.h>

#include "db/db.h"
#include "fuzz.h"
#include "proto/msg_json.h"
#include "query/match.h"
#include "query/search.h"
#include "rt/file.h"
#include "util/clock.h"
#include "view.h"

#define JOBS 20

static struct view *view_of_jobs(void)
{
	static struct view v;
	static bool is_open;
	char dir[64] = "/tmp/corvo-fuzz-view-XXXXXX";
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (is_open)
		return &v;
	is_open = true;
	CHECK(mkdtemp(dir) != NULL);
	CHECK(view_init(&v, dir, &why) == 0 && view_open(&v, &why) == 0);
	for (unsigned i = 0; i < JOBS; i++) {
		char id[32];
		struct m_job j = { 0 };
		struct m_tail_reply r = { .last_seq = i + 1,
					  .jobs = &j,
					  .jobs_n = 1 };

		(void)snprintf(id, sizeof(id), "job_%06u", i);
		MSG_SET(&j, job, id, str_from(id));
		MSG_SET(&j, job, queue, STR("q"));
		MSG_SET(&j, job, state, 1 + i % 8);
		MSG_SET(&j, job, priority, i % 3);
		MSG_SET(&j, job, payload, STR("{\"n\": 1, \"t\": \"a b\"}"));
		MSG_SET(&j, job, tags, STR("{\"a\": \"b\"}"));
		MSG_SET(&j, job, created_at, (1794700000 + i) * NS_PER_S);
		CHECK(mirror_apply(v.mirror, &r) == 0);
	}
	CHECK(dir_remove(dir) == 0); /* it stays open */
	return &v;
}

static void ask(unsigned id, const void *m)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);
	struct query *q = view_of_jobs()->readers[0];
	struct query_ask a = { .id = id,
			       .request = m,
			       .deadline_ns = clock_mono_ns() + NS_PER_S };
	int r = query_run(q, &a, &out);

	CHECK(r == 0 || r == -ERR_REQUEST_TIMEOUT ||
	      (r == -ERR_VALIDATION_ERROR && *query_why(q) != '\0'));
}

static void from_json(unsigned id, struct str in)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	const struct msg_desc *d = query_info(id)->request;
	struct arena a = ARENA_INIT;
	struct msg_reader rd = { .a = &a, .why = &why };
	void *m = arena_zalloc(&a, d->size);
	struct json_error e;

	if (json_validate(in, LIMIT_JSON_DEPTH, &e) &&
	    json_type_of(json_root(in)) == JSON_OBJECT &&
	    msg_from_json(&rd, d, json_root(in), m) == 0)
		ask(id, m);
	arena_done(&a);
}

static void words(struct str in)
{
	struct m_fulltext m = { 0 };

	MSG_SET(&m, fulltext, q, in);
	ask(QUERY_FULLTEXT, &m);
}

static void cursor(struct str in)
{
	struct arena a = ARENA_INIT;
	struct cursor c, again;

	if (cursor_parse(in, &c)) {
		struct str text = cursor_format(&c, &a);

		CHECK(cursor_parse(text, &again));
		CHECK(str_eq(text, cursor_format(&again, &a)));
	}
	arena_done(&a);
}

void fuzz_one(struct str in)
{
	switch (fuzz_choice(&in, 4)) {
	case 0:
		words(in);
		break;
	case 1:
		cursor(in);
		break;
	default:
		from_json(QUERY_SEARCH_JOBS, in);
	}
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	static const char *const texts[] = {
		"{\"queue\": \"q\", \"state\": [\"pending\", \"dead\"], "
		"\"tags\": {\"a\": \"b\"}}",
		"{\"payload_jq\": \".n == 1 and (.t | contains(\\\"a\\\"))\", "
		"\"sort\": \"attempt\", \"order\": \"asc\", \"limit\": 3}",
		"{\"text\": \"a* \\\"b c\\\" user@example.com\"}",
		"{\"job_id_prefix\": \"job_0\", \"created_after\": "
		"\"2026-01-01T00:00:00Z\", \"priority\": \"high\"}",
		"{\"worker_id\": \"w\", \"has_errors\": true, \"ids_only\": "
		"true}",
	};
	unsigned how = (unsigned)rng_below(rng, 4);
	struct cursor c = { .sort = SORT_CREATED, .seen = 1 };
	struct arena a = ARENA_INIT;

	buf_putc(out, (char)how);
	if (how == 0) {
		buf_puts(out, "\"a b\"* job_000 OR NEAR(");
	} else if (how == 1) {
		spot_set(&c.from, STR("2026-01-01T00:00:00Z"), STR("job_1"));
		buf_put_str(out, cursor_format(&c, &a));
	} else {
		buf_puts(out, texts[rng_below(rng, ARRAY_SIZE(texts))]);
	}
	arena_done(&a);
}
