/*
 * json_validate. Reading validated text and writing are in test_json_read.c
 * and test_json_write.c.
 */
#include "util/json.h"

#include "lib/testlib.h"

#define DEPTH 16

static bool is_valid(struct str text)
{
	struct json_error err = { 0 };
	bool ok = json_validate(text, DEPTH, &err);

	if (!ok) {
		assert_non_null(err.text);
		assert_true(err.pos <= text.n);
	}
	return ok;
}

static const char *const accepted_texts[] = {
	/* scalars */
	"null",
	"true",
	"false",
	"0",
	"-0",
	"1",
	"-1",
	"10",
	"1234567890",
	"0.0",
	"0.5",
	"-0.5",
	"1.25",
	"0e0",
	"0E0",
	"1e5",
	"1E5",
	"1e+5",
	"1e-5",
	"1.5e300",
	"1e999999",
	"-12.5E-07",
	"0.00000000000000000001",
	"123456789012345678901234567890",
	/* strings */
	"\"\"",
	"\"a\"",
	"\"abcdefgh\"",
	"\"abcdefghijklmnopqrstuvwxyz\"",
	"\" \"",
	"\"\x7f\"",
	"\"\\\"\"",
	"\"\\\\\"",
	"\"\\/\"",
	"\"\\b\\f\\n\\r\\t\"",
	"\"/\"",
	"\"\\u0000\"",
	"\"\\u0041\"",
	"\"\\uaBcD\"",
	"\"\\ud7ff\"",
	"\"\\ue000\"",
	"\"\\uffff\"",
	"\"\\ud83d\\ude00\"",
	"\"\\uD800\\uDC00\"",
	"\"\\udbff\\udfff\"",
	"\"'\"",
	"\"{[,:]}\"",
	/* containers */
	"[]",
	"{}",
	"[[]]",
	"[{}]",
	"{\"a\":{}}",
	"{\"a\":[]}",
	"[1]",
	"[1,2,3]",
	"[null,true,false,\"\",0,[],{}]",
	"{\"a\":1}",
	"{\"a\":1,\"b\":2}",
	"{\"\":\"\"}",
	"{\"a\":1,\"a\":2}",
	"{\"a\\n\":1}",
	"[[[[]]],[[]],{\"x\":[{}]}]",
	"{\"a\":{\"b\":{\"c\":[1,{\"d\":null}]}}}",
	/* white space */
	" 1",
	"1 ",
	"\t\r\n 1\t\r\n ",
	" [ ] ",
	" { } ",
	"[ 1 , 2 ]",
	"{ \"a\" : 1 , \"b\" : [ ] }",
	"[\n\t1\r\n]",
	"\n\n\n{\n}\n\n",
};

static void test_accepts(void **state _unused_)
{
	for (size_t i = 0; i < ARRAY_SIZE(accepted_texts); i++)
		if (!is_valid(str_from(accepted_texts[i])))
			fail_msg("refused: %s", accepted_texts[i]);
}

struct refusal {
	struct str text;
	size_t pos;
	const char *why; /* NULL: the end of the input */
};

static void check_refusals(const struct refusal *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct str text = cases[i].text;
		const char *why = cases[i].why;
		struct json_error err = { 0 };

		if (json_validate(text, DEPTH, &err))
			fail_msg("accepted: %.*s", STR_ARG(text));
		if (why == NULL)
			why = "unexpected end of input";
		if (err.pos != cases[i].pos || strcmp(err.text, why) != 0)
			fail_msg("%.*s: got %zu %s, expected %zu %s",
				 STR_ARG(text), err.pos, err.text, cases[i].pos,
				 why);
	}
}

#define BAD(text, pos, why)                                \
	{                                                  \
		{ (text), sizeof(text) - 1 }, (pos), (why) \
	}

static void test_refuses_structure(void **state _unused_)
{
	static const struct refusal cases[] = {
		BAD("", 0, NULL),
		BAD(" ", 1, NULL),
		BAD("\n\n", 2, NULL),
		BAD("[", 1, NULL),
		BAD("{", 1, NULL),
		BAD("[1", 2, NULL),
		BAD("[1,", 3, NULL),
		BAD("{\"a\"", 4, NULL),
		BAD("{\"a\":", 5, NULL),
		BAD("{\"a\":1", 6, NULL),
		BAD("{\"a\":1,", 7, NULL),
		BAD("]", 0, "expected a value"),
		BAD("}", 0, "expected a value"),
		BAD(",", 0, "expected a value"),
		BAD(":", 0, "expected a value"),
		BAD("[,]", 1, "expected a value"),
		BAD("[1,]", 3, "expected a value"),
		BAD("[1,,2]", 3, "expected a value"),
		BAD("[1 2]", 3, "expected ',' or ']'"),
		BAD("[1:2]", 2, "expected ',' or ']'"),
		BAD("[1}", 2, "expected ',' or ']'"),
		BAD("[}", 1, "expected a value"),
		BAD("{]", 1, "expected a string as member name"),
		BAD("{,}", 1, "expected a string as member name"),
		BAD("{1:2}", 1, "expected a string as member name"),
		BAD("{a:1}", 1, "expected a string as member name"),
		BAD("{'a':1}", 1, "expected a string as member name"),
		BAD("{\"a\":1,}", 7, "expected a string as member name"),
		BAD("{\"a\" 1}", 5, "expected ':'"),
		BAD("{\"a\"}", 4, "expected ':'"),
		BAD("{\"a\",\"b\"}", 4, "expected ':'"),
		BAD("{\"a\":}", 5, "expected a value"),
		BAD("{\"a\":1 \"b\":2}", 7, "expected ',' or '}'"),
		BAD("{\"a\":1]", 6, "expected ',' or '}'"),
		BAD("1 2", 2, "unexpected text after the value"),
		BAD("[]]", 2, "unexpected text after the value"),
		BAD("{}{}", 2, "unexpected text after the value"),
		BAD("null,", 4, "unexpected text after the value"),
		BAD("\"a\" x", 4, "unexpected text after the value"),
		BAD("1\0", 1, "unexpected text after the value"),
		BAD("\0", 0, "expected a value"),
		BAD("[1\0]", 2, "expected ',' or ']'"),
		BAD("[1,\f2]", 3, "expected a value"),
		BAD("\v1", 0, "expected a value"),
		BAD("1\xc2\xa0", 1, "unexpected text after the value"),
		BAD("\xef\xbb\xbf"
		    "1",
		    0, "expected a value"),
		BAD("[1] // no", 4, "unexpected text after the value"),
		BAD("/* no */ 1", 0, "expected a value"),
	};

	check_refusals(cases, ARRAY_SIZE(cases));
}

static void test_refuses_scalars(void **state _unused_)
{
	static const struct refusal cases[] = {
		BAD("n", 1, NULL),
		BAD("nul", 3, NULL),
		BAD("tru", 3, NULL),
		BAD("fals", 4, NULL),
		BAD("nulL", 3, "unknown literal"),
		BAD("nil", 1, "unknown literal"),
		BAD("True", 0, "expected a value"),
		BAD("NaN", 0, "expected a value"),
		BAD("Infinity", 0, "expected a value"),
		BAD("-Infinity", 1, "expected a digit"),
		BAD("undefined", 0, "expected a value"),
		BAD("nullx", 4, "unexpected text after the value"),
		BAD("-", 1, NULL),
		BAD("1.", 2, NULL),
		BAD("1e", 2, NULL),
		BAD("1e+", 3, NULL),
		BAD("+1", 0, "expected a value"),
		BAD(".5", 0, "expected a value"),
		BAD("--1", 1, "expected a digit"),
		BAD("-a", 1, "expected a digit"),
		BAD("00", 1, "number with a leading zero"),
		BAD("01", 1, "number with a leading zero"),
		BAD("-01", 2, "number with a leading zero"),
		BAD("[012]", 2, "number with a leading zero"),
		BAD("1.e5", 2, "expected a digit"),
		BAD("1.-5", 2, "expected a digit"),
		BAD("[1.]", 3, "expected a digit"),
		BAD("1ee5", 2, "expected a digit"),
		BAD("1e5.5", 3, "unexpected text after the value"),
		BAD("1e+-5", 3, "expected a digit"),
		BAD("0x10", 1, "unexpected text after the value"),
		BAD("1_000", 1, "unexpected text after the value"),
		BAD("1.2.3", 3, "unexpected text after the value"),
	};

	check_refusals(cases, ARRAY_SIZE(cases));
}

static void test_refuses_strings(void **state _unused_)
{
	static const char control[] = "control character in a string";
	static const struct refusal cases[] = {
		BAD("\"", 1, NULL),
		BAD("\"abc", 4, NULL),
		BAD("\"abcdefghijkl", 13, NULL),
		BAD("\"\\", 2, NULL),
		BAD("\"\\\"", 3, NULL),
		BAD("\"\\u", 3, NULL),
		BAD("\"\\u00", 5, NULL),
		BAD("\"\\ud83d", 7, NULL),
		BAD("\"\\ud83d\\", 8, NULL),
		BAD("\"\\ud83d\\u", 9, NULL),
		BAD("\"\\ud83d\\ude0", 12, NULL),
		BAD("'a'", 0, "expected a value"),
		BAD("\"\n\"", 1, control),
		BAD("\"\t\"", 1, control),
		BAD("\"\0\"", 1, control),
		BAD("\"ab\x1f\"", 3, control),
		BAD("\"abcdefgh\x01zzzzzzz\"", 9, control),
		BAD("\"abcdefghijk\0zzzz\"", 12, control),
		BAD("\"\\a\"", 2, "unknown escape"),
		BAD("\"\\x41\"", 2, "unknown escape"),
		BAD("\"\\'\"", 2, "unknown escape"),
		BAD("\"\\U0041\"", 2, "unknown escape"),
		BAD("\"\\\n\"", 2, "unknown escape"),
		BAD("\"\\u004\"", 6, "expected a hex digit"),
		BAD("\"\\u00g0\"", 5, "expected a hex digit"),
		BAD("\"\\u 041\"", 3, "expected a hex digit"),
		BAD("\"\\u+041\"", 3, "expected a hex digit"),
		BAD("\"\\ud83d\"", 7, "unpaired surrogate"),
		BAD("\"\\ud83dx\"", 7, "unpaired surrogate"),
		BAD("\"\\ud83d\\n\"", 8, "unpaired surrogate"),
		BAD("\"\\ud83d\\u0041\"", 7, "unpaired surrogate"),
		BAD("\"\\ud83d\\ud83d\"", 7, "unpaired surrogate"),
		BAD("\"a\\ude00\"", 2, "unpaired surrogate"),
		BAD("\"\\ude00\\ud83d\"", 1, "unpaired surrogate"),
		BAD("{\"a\n\":1}", 3, control),
	};

	check_refusals(cases, ARRAY_SIZE(cases));
}

static void test_utf8(void **state _unused_)
{
	static const char *const good[] = {
		"\"\xc2\x80\"",
		"\"\xdf\xbf\"",
		"\"\xe0\xa0\x80\"",
		"\"\xed\x9f\xbf\"",
		"\"\xee\x80\x80\"",
		"\"\xef\xbf\xbf\"",
		"\"\xf0\x90\x80\x80\"",
		"\"\xf4\x8f\xbf\xbf\"",
		"\"Zo\xc3\xab \xe2\x82\xac \xf0\x9f\x98\x80\xf0\x9f\x98\x80\"",
		"{\"\xc3\xa9\":1}",
	};
	static const char why[] = "invalid UTF-8";
	static const struct refusal bad[] = {
		BAD("\"\x80\"", 1, why),
		BAD("\"\xbf\"", 1, why),
		BAD("\"\xc0\x80\"", 1, why),
		BAD("\"\xc1\xbf\"", 1, why),
		BAD("\"\xc3\"", 1, why),
		BAD("\"\xc3(\"", 1, why),
		BAD("\"\xe0\x9f\xbf\"", 1, why),
		BAD("\"\xe2\x82\"", 1, why),
		BAD("\"\xed\xa0\x80\"", 1, why),
		BAD("\"\xed\xbf\xbf\"", 1, why),
		BAD("\"\xf0\x8f\xbf\xbf\"", 1, why),
		BAD("\"\xf0\x9f\x98\"", 1, why),
		BAD("\"\xf4\x90\x80\x80\"", 1, why),
		BAD("\"\xf5\x80\x80\x80\"", 1, why),
		BAD("\"\xff\"", 1, why),
		BAD("\"abcdefgh\xfe\"", 9, why),
		BAD("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc3\"", 10, why),
		BAD("\"\xc3\xa9 \xc3\xa9\x80\"", 6, why),
		BAD("\"\xc3", 1, why),
		BAD("{\"\xff\":1}", 2, why),
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (!is_valid(str_from(good[i])))
			fail_msg("refused: %s", good[i]);
	check_refusals(bad, ARRAY_SIZE(bad));
}

/* A special byte at each place of the words that are read at once. */
static void test_string_offsets(void **state _unused_)
{
	char text[48];

	for (size_t n = 3; n <= sizeof(text); n++) {
		for (size_t at = 1; at < n - 1; at++) {
			struct json_error err;

			memset(text, 'x', n);
			text[0] = text[n - 1] = '"';
			text[at] = '\x1f';
			assert_false(json_validate(str_of(text, n), 1, &err));
			assert_int_equal(err.pos, at);
			text[at] = '"';
			assert_false(json_validate(str_of(text, n), 1, &err));
			assert_int_equal(err.pos, at + 1);
			text[at] = '\x80';
			assert_false(json_validate(str_of(text, n), 1, &err));
			assert_int_equal(err.pos, at);
			text[at] = '\x7f';
			assert_true(json_validate(str_of(text, n), 1, &err));
		}
	}
}

static const char document[] =
    " {\"queue\":\"mail\",\"n\":[-1.5e+3,0,10],\"o\":{\"t\":true,\"f\":false,"
    "\"z\":null},\"s\":\"\\u0041\\ud83d\\ude00\\n\xc3\xab\xf0\x9f\x98\x80\","
    "\"e\":[[],{}]}";

/* The exact memory of each prefix, so that ASan sees a byte too far. */
static void test_every_truncation_is_refused(void **state _unused_)
{
	size_t n = sizeof(document) - 1;

	assert_true(is_valid(STR(document)));
	for (size_t cut = 0; cut < n; cut++) {
		char *text = xmalloc(cut);
		struct json_error err = { 0 };

		memcpy(text, document, cut);
		if (json_validate(str_of(text, cut), DEPTH, &err))
			fail_msg("accepted the first %zu bytes", cut);
		assert_true(err.pos <= cut);
		/* Nothing before the cut is wrong but a cut UTF-8 sequence. */
		if (strcmp(err.text, "invalid UTF-8") != 0) {
			assert_int_equal(err.pos, cut);
			assert_string_equal(err.text,
					    "unexpected end of input");
		}
		free(text);
	}
}

static void test_depth(void **state _unused_)
{
	static const char open[] = "[{\"a\":";
	struct json_error err;

	assert_true(json_validate(STR("1"), 0, &err));
	assert_false(json_validate(STR("[]"), 0, &err));
	assert_int_equal(err.pos, 0);
	assert_string_equal(err.text, "nested too deeply");
	assert_true(json_validate(STR("[]"), 1, &err));
	assert_true(json_validate(STR("[[],[],{}]"), 2, &err));
	assert_false(json_validate(STR("[[],[[]]]"), 2, &err));
	assert_int_equal(err.pos, 5);
	assert_false(json_validate(STR("{\"a\":{\"b\":{}}}"), 2, &err));
	assert_int_equal(err.pos, 10);

	/* A wish past 128 is not followed, however deep the text is. */
	for (unsigned depth = 127; depth <= 200; depth++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);

		for (unsigned i = 0; i < depth; i++)
			buf_append(&b, i % 2 ? open + 1 : open, i % 2 ? 5 : 1);
		buf_putc(&b, '0');
		for (unsigned i = depth; i-- > 0;)
			buf_putc(&b, i % 2 ? '}' : ']');
		assert_int_equal(json_validate(buf_str(&b), 1000000, &err),
				 depth <= 128);
		assert_true(json_validate(buf_str(&b), depth, &err) ==
			    (depth <= 128));
	}
}

static void test_very_deep_text_is_cheap(void **state _unused_)
{
	size_t n = 1 << 20;
	char *text = xmalloc(n);
	struct json_error err;

	memset(text, '[', n);
	assert_false(json_validate(str_of(text, n), 64, &err));
	assert_int_equal(err.pos, 64);
	free(text);
}

static void walk(struct json v, struct arena *a)
{
	struct json_iter it;
	struct json item;
	struct str key;
	double d;

	switch (json_type_of(v)) {
	case JSON_STRING:
		assert_true(str_is_utf8(json_string(v, a)));
		break;
	case JSON_NUMBER:
		(void)json_double(v, &d);
		break;
	case JSON_ARRAY:
		it = json_iter(v);
		while (json_next_item(&it, &item))
			walk(item, a);
		break;
	case JSON_OBJECT:
		it = json_iter(v);
		while (json_next_member(&it, a, &key, &item))
			walk(item, a);
		break;
	case JSON_NULL:
	case JSON_BOOL:
		break;
	}
}

/*
 * Changed bytes: whatever the verdict, no byte outside is read, and what is
 * accepted can be walked from end to end.
 */
static void test_random_changes(void **state _unused_)
{
	static const char alphabet[] =
	    "\"\\{}[],:0123456789.eE+-tfnul \n\xc3\xab";
	size_t n = sizeof(document) - 1;
	struct arena a = ARENA_INIT;
	int accepted = 0;
	struct rng r;

	test_rng(&r);
	for (int i = 0; i < 50000; i++) {
		size_t len = n - (i % 4 ? 0 : rng_below(&r, n));
		char *text = xmalloc(len);
		struct json_error err;

		memcpy(text, document, len);
		for (uint64_t k = rng_below(&r, 4); k > 0 && len > 0; k--)
			text[rng_below(&r, len)] =
			    alphabet[rng_below(&r, sizeof(alphabet))];
		if (json_validate(str_of(text, len), DEPTH, &err)) {
			walk(json_root(str_of(text, len)), &a);
			accepted++;
		} else {
			assert_true(err.pos <= len);
		}
		free(text);
		arena_reset(&a);
	}
	assert_true(accepted > 1000);
	arena_done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accepts),
		cmocka_unit_test(test_refuses_structure),
		cmocka_unit_test(test_refuses_scalars),
		cmocka_unit_test(test_refuses_strings),
		cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_string_offsets),
		cmocka_unit_test(test_every_truncation_is_refused),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_very_deep_text_is_cheap),
		cmocka_unit_test(test_random_changes),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
