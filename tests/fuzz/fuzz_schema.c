/*
 * Schemas of results, and results: both are from clients, and valid JSON.
 */
#include "fuzz.h"
#include "proto/limits.h"
#include "util/json.h"
#include "util/schema.h"

#define SCHEMA                                                       \
	"{\"type\": [\"object\", \"null\"], \"properties\": "        \
	"{\"a\": {\"enum\": [1, \"x\", null]}, "                     \
	"\"b\": {\"type\": \"array\", \"items\": {\"minimum\": -1, " \
	"\"exclusiveMaximum\": 5.5}, \"maxItems\": 3}, "             \
	"\"c\": {\"type\": \"string\", \"minLength\": 1, "           \
	"\"maxLength\": 3}}, \"required\": [\"a\"], "                \
	"\"additionalProperties\": false}"
#define DOCUMENT "{\"a\": 1, \"b\": [1, 5.25], \"c\": \"\\ud83d\\ude00\"}"

static bool is_json(struct str s)
{
	struct json_error e;

	return json_validate(s, LIMIT_JSON_DEPTH, &e);
}

void fuzz_one(struct str in)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	unsigned how = fuzz_choice(&in, 3);
	struct str text = in, document = STR(DOCUMENT);
	struct arena a = ARENA_INIT;
	const struct schema *s;

	if (how == 1)
		text = STR(SCHEMA), document = in;
	else if (how == 2)
		(void)str_split(in, '\n', &text, &document);
	if (!is_json(text) || (document.n > 0 && !is_json(document)))
		return;
	s = schema_read(text, "result_schema", &a, &why);
	CHECK((s == NULL) == (why.n > 0));
	if (s != NULL) {
		bool fits = schema_fits(s, document, "result", &a, &why);

		CHECK(fits == (why.n == 0));
	}
	arena_done(&a);
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	unsigned how = (unsigned)rng_below(rng, 3);

	buf_putc(out, (char)how);
	buf_puts(out, how == 1 ? DOCUMENT : SCHEMA);
	if (how == 2)
		buf_puts(out, "\n" DOCUMENT);
}
