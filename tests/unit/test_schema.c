/*
 * util/schema.h: which schemas are read, which documents fit, and where one
 * that does not is said to be wrong.
 */
#include "lib/testlib.h"

#include "util/json.h"
#include "util/schema.h"

#define DEPTH_MAX 64

static struct str valid(const char *text)
{
	struct json_error e;

	assert_true(json_validate(str_from(text), DEPTH_MAX, &e));
	return str_from(text);
}

/* The document fits when why is NULL, else this is what is wrong with it. */
static void look(const char *schema, const char *document, const char *why)
{
	struct arena a = ARENA_INIT;
	struct buf b = BUF_INIT(0);
	const struct schema *s = schema_read(valid(schema), "schema", &a, &b);
	struct str text = document[0] != '\0' ? valid(document) : STR_NULL;

	if (s == NULL)
		fail_msg("%s: %.*s", schema, STR_ARG(buf_str(&b)));
	if (schema_fits(s, text, "result", &a, &b) != (why == NULL) ||
	    (why != NULL && !str_is(buf_str(&b), why)))
		fail_msg("%s by %s: \"%.*s\" instead of \"%s\"", document,
			 schema, STR_ARG(buf_str(&b)), why);
	buf_done(&b);
	arena_done(&a);
}

static void refused(const char *schema, const char *why)
{
	struct arena a = ARENA_INIT;
	struct buf b = BUF_INIT(0);

	assert_null(schema_read(valid(schema), "schema", &a, &b));
	assert_str_is(buf_str(&b), why);
	buf_done(&b);
	arena_done(&a);
}

static void test_types(void **state)
{
	(void)state;
	look("{\"type\":\"string\"}", "\"a\"", NULL);
	look("{\"type\":\"string\"}", "5", "result: must be of type string");
	look("{\"type\":[\"null\",\"array\"]}", "null", NULL);
	look("{\"type\":[\"null\",\"array\"]}", "", NULL);
	look("{\"type\":[\"null\",\"array\"]}", "[1]", NULL);
	look("{\"type\":[\"null\",\"array\"]}", "{}",
	     "result: must be of type null or array");
	look("{\"type\":\"object\"}", "", "result: must be of type object");
	look("{\"type\":\"boolean\"}", "false", NULL);
	look("{\"type\":\"number\"}", "1.5", NULL);
	look("{\"type\":\"number\"}", "1", NULL);
	look("{\"type\":\"integer\"}", "1.0", NULL);
	look("{\"type\":\"integer\"}", "3e2", NULL);
	look("{\"type\":\"integer\"}", "123456789012345678901234567890", NULL);
	look("{\"type\":\"integer\"}", "1.5",
	     "result: must be of type integer");
	look("{}", "[{}]", NULL);
	look("true", "5", NULL);
	look("false", "5", "result: must not be there");
}

static void test_values(void **state)
{
	(void)state;
	look("{\"enum\":[\"yes\",1,null]}", "\"y\\u0065s\"", NULL);
	look("{\"enum\":[\"yes\",1,null]}", "1.0", NULL);
	look("{\"enum\":[\"yes\",1,null]}", "", NULL);
	look("{\"enum\":[\"yes\",1,null]}", "\"1\"",
	     "result: is none of the values it may have");
	look("{\"enum\":[true]}", "false",
	     "result: is none of the values it may have");
	look("{\"enum\":[\"b\",\"d\",\"a\",\"c\",2,true,-1]}", "\"c\"", NULL);
	look("{\"enum\":[\"b\",\"d\",\"a\",\"c\",2,true,-1]}", "-1e0", NULL);
	look("{\"enum\":[\"b\",\"d\",\"a\",\"c\",2,true,-1]}", "1",
	     "result: is none of the values it may have");
	look("{\"enum\":[1]}", "[1]",
	     "result: is none of the values it may have");
	look("{\"const\":7}", "7", NULL);
	look("{\"const\":7}", "8", "result: is none of the values it may have");
}

static void test_numbers(void **state)
{
	const char *range = "{\"minimum\":0,\"maximum\":1}";
	const char *open = "{\"exclusiveMinimum\":0,\"exclusiveMaximum\":1}";

	(void)state;
	look(range, "0", NULL);
	look(range, "1", NULL);
	look(range, "-0.5", "result: must be at least 0");
	look(range, "1.5", "result: must be at most 1");
	look(range, "\"2\"", NULL); /* of numbers alone */
	look(open, "0", "result: must be more than 0");
	look(open, "1", "result: must be less than 1");
	look(open, "0.5", NULL);
	look("{\"maximum\":0.1}", "0.2", "result: must be at most 0.1");
	look(range, "1e999", "result: is too large a number");
}

static void test_lengths(void **state)
{
	const char *text = "{\"minLength\":2,\"maxLength\":3}";
	const char *list = "{\"minItems\":1,\"maxItems\":2}";

	(void)state;
	look(text, "\"\\u00e4\xc3\xa4\"", NULL); /* characters, not bytes */
	look(text, "\"a\"", "result: must have at least 2 characters");
	look(text, "\"abcd\"", "result: must have at most 3 characters");
	look(list, "[1,2]", NULL);
	look(list, "[]", "result: must have at least 1 items");
	look(list, "[1,2,3]", "result: must have at most 2 items");
}

static void test_objects_and_lists(void **state)
{
	const char *schema =
	    "{\"type\":\"object\",\"title\":\"an order\",\"properties\":{"
	    "\"items\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
	    "\"properties\":{\"price\":{\"type\":\"number\",\"minimum\":0}},"
	    "\"required\":[\"price\",\"name\"]}},\"note\":true},"
	    "\"required\":[\"items\"],\"additionalProperties\":false}";

	(void)state;
	look(schema, "{\"items\":[{\"price\":1,\"name\":\"a\",\"x\":[]}]}",
	     NULL);
	look(schema, "{\"note\":1}", "result.items: is missing");
	look(schema, "{\"items\":[],\"more\":1}",
	     "result.more: must not be there");
	look(schema,
	     "{\"items\":[{\"price\":1,\"name\":\"a\"},{\"price\":\"1\"}]}",
	     "result.items[1].price: must be of type number");
	look(schema, "{\"items\":[{\"price\":1}]}",
	     "result.items[0].name: is missing");
	look("{\"additionalProperties\":{\"type\":\"string\"}}", "{\"a\":1}",
	     "result.a: must be of type string");
	look("{\"properties\":{\"a\":false}}", "{\"a\":1}",
	     "result.a: must not be there");
	/* a name that comes twice must be right both times */
	look("{\"properties\":{\"a\":{\"type\":\"null\"}}}",
	     "{\"a\":null,\"a\":1}", "result.a: must be of type null");
}

static void test_what_is_no_schema_of_ours_is_refused(void **state)
{
	(void)state;
	refused("5", "schema: must be an object, true or false");
	refused("{\"properties\":{\"a\":{\"pattern\":\"^a\"}}}",
		"schema.properties.a.pattern: this rule is not supported");
	refused("{\"$ref\":\"#\"}", "schema.$ref: this rule is not supported");
	refused("{\"oneOf\":[{}]}", "schema.oneOf: this rule is not supported");
	refused("{\"type\":\"text\"}",
		"schema.type: must be of null, boolean, integer, number, "
		"string, array and object");
	refused("{\"type\":[]}", "schema.type: must not be empty");
	refused("{\"enum\":[]}", "schema.enum: must be a list of 1 to 256 "
				 "values");
	refused("{\"enum\":[[1]]}",
		"schema.enum: must be of texts, numbers, true, false and "
		"null");
	refused("{\"const\":{}}",
		"schema.const: must be of texts, numbers, true, false and "
		"null");
	refused("{\"enum\":[1],\"const\":1}",
		"schema.const: must not stand beside enum or const");
	refused("{\"type\":\"null\",\"minItems\":1,\"type\":\"array\"}",
		"schema.type: is given twice");
	refused("{\"properties\":{\"a\":{},\"a\":false}}",
		"schema.properties.a: is given twice");
	refused("{\"properties\":[]}", "schema.properties: must be an object");
	refused("{\"required\":\"a\"}",
		"schema.required: must be a list of names");
	refused("{\"required\":[1]}",
		"schema.required: must be a list of names");
	refused("{\"items\":[{}]}",
		"schema.items: must be an object, true or false");
	refused("{\"minimum\":\"0\"}", "schema.minimum: must be a number");
	refused("{\"maxLength\":-1}", "schema.maxLength: must be a whole "
				      "number that is not negative");
	refused("{\"additionalProperties\":1}",
		"schema.additionalProperties: must be an object, true or "
		"false");
}

/* Names of any length, and many of them: words stay short. */
static void test_bounds(void **state)
{
	struct buf b = BUF_INIT(0), want = BUF_INIT(0);

	(void)state;
	buf_puts(&b, "{\"required\":[");
	for (int i = 0; i < SCHEMA_NAMES_MAX; i++)
		buf_printf(&b, "%s\"n%d\"", i > 0 ? "," : "", i);
	buf_puts(&b, "]}");
	buf_putc(&b, '\0');
	look(b.p, "{}", "result.n0: is missing");
	b.n -= 3;
	buf_puts(&b, ",\"one more\"]}");
	buf_putc(&b, '\0');
	refused(b.p, "schema.required: there may be at most 256 names");
	buf_clear(&b);
	buf_puts(&b, "{\"");
	for (int i = 0; i < 1000; i++)
		buf_puts(&b, "\xe2\x82\xac");
	buf_puts(&b, "\":1}");
	buf_putc(&b, '\0');
	buf_puts(&want, "result.");
	for (int i = 0; i < 21; i++)
		buf_puts(&want, "\xe2\x82\xac");
	buf_puts(&want, ": must not be there");
	buf_putc(&want, '\0');
	look("{\"additionalProperties\":false}", b.p, want.p);
	buf_done(&b);
	buf_done(&want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_objects_and_lists),
		cmocka_unit_test(test_what_is_no_schema_of_ours_is_refused),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests_name("schema", tests, NULL, NULL);
}
