/*
 * What receivers of pushed jobs answer: the job has an outcome, and what is
 * kept of the answer is JSON with bounds.
 */
#include <string.h>

#include "fuzz.h"
#include "proto/limits.h"
#include "push/outcome.h"
#include "util/json.h"

#define NOW    (1614265330 * NS_PER_S)
#define DAY_NS (86400 * NS_PER_S)

/* The call whose answer is looked at; in the place of push/caller.c. */
struct call {
	const char *type, *retry, *location;
};

const char *call_header(struct call *c, const char *name)
{
	if (strcmp(name, "content-type") == 0)
		return c->type;
	if (strcmp(name, "retry-after") == 0)
		return c->retry;
	return strcmp(name, "location") == 0 ? c->location : NULL;
}

/* A line; NULL: it is empty. */
static const char *take_line(struct str *in, struct arena *a)
{
	struct str line;

	(void)str_split(*in, '\n', &line, in);
	return line.n > 0 ? arena_cstr(a, line) : NULL;
}

static void judge(const struct outcome *o)
{
	struct json_error e;

	CHECK(json_validate(o->response, LIMIT_JSON_DEPTH, &e));
	CHECK(o->result.n == 0 ||
	      json_validate(o->result, LIMIT_JSON_DEPTH, &e));
	CHECK(str_is_utf8(o->response));
	CHECK((o->kind == OUTCOME_FAILED) == (o->error != NULL));
	CHECK(!o->has_wait || o->wait_ns <= DAY_NS);
}

void fuzz_one(struct str in)
{
	static const unsigned statuses[] = { 200, 202, 204, 301, 400,
					     404, 429, 500, 503 };
	struct arena a = ARENA_INIT;
	struct call_answer answer = {
		.class = (enum call_class)fuzz_choice(&in, CALL_HTTP),
		.status = statuses[fuzz_choice(&in, ARRAY_SIZE(statuses))],
	};
	struct call c;
	struct outcome o;

	answer.cut = fuzz_choice(&in, 8) == 0;
	c.retry = take_line(&in, &a);
	c.type = take_line(&in, &a);
	c.location = take_line(&in, &a);
	answer.location = c.location;
	if (answer.class != CALL_ANSWERED)
		answer.error = c.type != NULL ? c.type : "";
	answer.body = in;
	outcome_judge(&c, &answer, "http://h/", true, NOW, &a, &o);
	judge(&o);
	outcome_judge_sdb(&c, &answer, "http://h/", &a, &o);
	judge(&o);
	arena_done(&a);
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	static const char *const waits[] = { "", "120",
					     "Sun, 06 Nov 1994 08:49:37 GMT",
					     "Fri, 31 Dec 9999 23:59:59 GMT" };
	static const char *const types[] = { "", "text/plain",
					     "application/json" };
	static const char *const bodies[] = { "{\"n\": [1, 2]}", "\xc3\xa4",
					      "not found" };

	/* nothing went wrong, or the status says what */
	buf_putc(out, (char)(rng_below(rng, 4) == 0 ? rng_u64(rng) : 0));
	buf_putc(out, (char)rng_u64(rng));
	buf_putc(out, (char)rng_u64(rng));
	buf_printf(out, "%s\n%s\n\n%s",
		   waits[rng_below(rng, ARRAY_SIZE(waits))],
		   types[rng_below(rng, ARRAY_SIZE(types))],
		   bodies[rng_below(rng, ARRAY_SIZE(bodies))]);
}
