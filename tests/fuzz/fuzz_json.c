/*
 * JSON of clients. What is valid can be read to its last member, and written
 * again with the same meaning.
 */
#include "fuzz.h"
#include "proto/limits.h"
#include "util/json.h"

static void numbers(struct json v)
{
	uint64_t u;
	int64_t i;
	double d;

	if (json_u64(v, &u) && json_i64(v, &i))
		CHECK((uint64_t)i == u);
	(void)json_double(v, &d);
}

static void copy(struct json v, struct arena *a, struct json_writer *w)
{
	enum json_type type = json_type_of(v);
	bool is_list = type == JSON_ARRAY || type == JSON_OBJECT;
	struct json_iter it = { 0 };
	struct json member;
	struct str key;
	size_t n = 0;

	numbers(v);
	if (is_list)
		it = json_iter(v);
	if (type == JSON_OBJECT) {
		jw_object(w);
		for (; json_next_member(&it, a, &key, &member); n++) {
			jw_key_str(w, key);
			copy(member, a, w);
		}
		jw_object_end(w);
	} else if (type == JSON_ARRAY) {
		jw_array(w);
		for (; json_next_item(&it, &member); n++)
			copy(member, a, w);
		jw_array_end(w);
	} else if (type == JSON_STRING) {
		jw_str(w, json_string(v, a));
	} else {
		jw_raw(w, v.raw);
	}
	CHECK(!is_list || n == json_count(v));
}

static void write_again(struct str in, struct buf *out)
{
	struct json_writer w = JSON_WRITER(out);
	struct arena a = ARENA_INIT;

	copy(json_root(in), &a, &w);
	arena_done(&a);
}

void fuzz_one(struct str in)
{
	_cleanup_(buf_done) struct buf once = BUF_INIT(0);
	_cleanup_(buf_done) struct buf twice = BUF_INIT(0);
	_cleanup_(buf_done) struct buf plain = BUF_INIT(0);
	struct json_error e = { 0 };

	CHECK(buf_reserve(&plain, in.n + 1) != NULL);
	CHECK(json_unescape(in, plain.p) <= in.n);
	if (!json_validate(in, LIMIT_JSON_DEPTH, &e)) {
		CHECK(e.pos <= in.n && e.text != NULL);
		return;
	}
	write_again(in, &once);
	CHECK(json_validate(buf_str(&once), LIMIT_JSON_DEPTH, &e));
	write_again(buf_str(&once), &twice);
	CHECK(str_eq(buf_str(&once), buf_str(&twice)));
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	static const char *const texts[] = {
		"{\"queue\": \"a\", \"payload\": {\"n\": [1, -2.5e3, null]}}",
		"[\"\\ud83d\\ude00\\u0000\\n\", true, {\"a\\tb\": 1}]",
		"[[[[[[0]]]]], 18446744073709551615, -9223372036854775808]",
		" \"text\" ",
	};

	buf_puts(out, texts[rng_below(rng, ARRAY_SIZE(texts))]);
}
