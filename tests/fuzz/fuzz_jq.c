/*
 * Conditions on documents, paths, and approval policies that are made of them:
 * both the condition and the document are from clients.
 */
#include "fuzz.h"
#include "jq/jq.h"
#include "jq/policy.h"
#include "proto/limits.h"

#define DOCUMENT                                                            \
	"{\"a\": {\"b\": [1, -2.5, \"t\\u00e9xt\", null, {\"c\": true}]}, " \
	"\"n\": 100, \"a key\": \"value\", \"list\": [\"x\", \"y\"]}"

static bool condition(struct str text, struct str document)
{
	struct jq_error e = { 0 };
	struct arena a = ARENA_INIT;
	struct jq *jq = jq_parse(text, &a, &e);
	bool first = false;

	if (jq == NULL) {
		CHECK(e.text != NULL && e.pos <= text.n);
	} else {
		first = jq_matches(jq, document);
		CHECK(jq_matches(jq, document) == first);
		CHECK(jq_tests(jq) > 0);
		jq_done(jq);
	}
	arena_done(&a);
	return first;
}

static void path(struct str text, struct str document)
{
	struct jq_error e = { 0 };
	struct arena a = ARENA_INIT;
	struct jq *jq = jq_parse_path(text, &a, &e);
	struct json_error bad;
	struct json found;

	if (jq == NULL)
		CHECK(e.text != NULL && e.pos <= text.n);
	else if (json_validate(document, LIMIT_JSON_DEPTH, &bad) &&
		 jq_find(jq, document, &found))
		CHECK(json_validate(found.raw, LIMIT_JSON_DEPTH, &bad));
	jq_done(jq);
	arena_done(&a);
}

static void policy(struct str text, struct str document)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct policy_subject s = { .queue = STR("q"),
				    .tags = STR("{\"a\": \"b\"}"),
				    .payload = document };
	struct arena a = ARENA_INIT;
	struct m_policy m = { 0 };
	struct policy p = { 0 };

	MSG_SET(&m, policy, payload_jq, text);
	if (policy_read(&m, &a, &p, &why)) {
		(void)policy_matches(&p, &s);
		policy_done(&p);
	}
	arena_done(&a);
}

void fuzz_one(struct str in)
{
	unsigned how = fuzz_choice(&in, 6);
	struct str text = in, document = STR(DOCUMENT);

	if (how >= 3)
		(void)str_split(in, '\n', &text, &document);
	switch (how % 3) {
	case 0:
		(void)condition(text, document);
		break;
	case 1:
		path(text, document);
		break;
	default:
		policy(text, document);
	}
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	static const char *const texts[] = {
		".a.b[0] == 1 and (.n > 100 or not .list | contains(\"x\"))",
		".a.b | length >= 5",
		".[\"a key\"] | startswith(\"val\")",
		".a.b[-1].c == true | not",
		".a.b[2] != \"t\\u00e9xt\"",
	};
	static const char *const paths[] = { ".a.b[4].c", ".\"a key\"", "." };
	unsigned how = (unsigned)rng_below(rng, 6);

	buf_putc(out, (char)how);
	if (how % 3 == 1)
		buf_puts(out, paths[rng_below(rng, ARRAY_SIZE(paths))]);
	else
		buf_puts(out, texts[rng_below(rng, ARRAY_SIZE(texts))]);
	if (how >= 3)
		buf_puts(out, "\n" DOCUMENT);
}
