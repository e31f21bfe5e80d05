/*
 * What servers answer the command line: what leaves for the terminal is text
 * without control characters, whatever came.
 */
#include <stdio.h>
#include <unistd.h>

#include "answer.h"
#include "fuzz.h"
#include "out.h"
#include "proto/limits.h"

/* Where standard output goes while an input is looked at. */
static int sink(void)
{
	static int fd;

	if (fd == 0) {
		out_open();
		fd = dup(STDERR_FILENO);
		CHECK(fd >= 0 && freopen("/dev/null", "w", stdout) != NULL);
	}
	return fd;
}

static void table(struct json v)
{
	static const struct out_column columns[] = {
		{ "ID", "id", false, NULL },
		{ "BRIEF", "text", false, out_brief },
		{ "AT", "at", true, out_time },
		{ "BYTES", "bytes", true, out_bytes },
		{ "SECONDS", "seconds", true, out_seconds },
	};

	out_table(v, columns, ARRAY_SIZE(columns));
}

static void clean(struct str in)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	out_put_clean(&b, in);
	for (size_t i = 0; i < b.n; i++)
		CHECK((unsigned char)b.p[i] >= ' ' || b.p[i] == '\t');
}

void fuzz_one(struct str in)
{
	struct arena a = ARENA_INIT;
	struct json_error e;
	struct json v, list;

	(void)sink();
	clean(in);
	out_line(in);
	if (!json_validate(in, LIMIT_JSON_DEPTH + 8, &e))
		return;
	v = json_root(in);
	out_json(in);
	out_raw_json(in);
	(void)answer_number(v, "total");
	(void)answer_is(v, "status", "ok");
	if (answer_list(in, "jobs", &a, &list))
		table(list);
	if (json_type_of(v) == JSON_ARRAY)
		table(v);
	else if (json_type_of(v) == JSON_OBJECT)
		out_new_job("job", v);
	arena_done(&a);
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	static const char *const texts[] = {
		"{\"jobs\": [{\"id\": \"j\", \"text\": \"a\\nb\\u001b[2J\", "
		"\"at\": \"2026-02-11T10:00:00Z\", \"bytes\": 2048, "
		"\"seconds\": 1.5}], \"total\": 3, \"status\": \"ok\"}",
		"[{\"id\": 5, \"at\": \"x\", \"bytes\": -1, \"seconds\": "
		"1e300}, 7, null]",
		"\x1b]0;title\x07",
	};

	buf_puts(out, texts[rng_below(rng, ARRAY_SIZE(texts))]);
}
