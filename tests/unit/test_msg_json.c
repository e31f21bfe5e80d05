/* Requests from JSON: every rule, with the text a client is given. */
#include "proto/msg_json.h"

#include "lib/testlib.h"

struct result {
	int r;
	struct buf why;
	struct arena a;
	union {
		struct m_enqueue enqueue;
		struct m_fetch fetch;
		struct m_fail fail;
		struct m_heartbeat heartbeat;
		struct m_enqueue_batch batch;
		char room[1024];
	};
};

static void read_into(const struct msg_desc *d, struct str text,
		      struct result *ret)
{
	struct json_error err;

	memset(ret, 0, sizeof(*ret));
	assert_true(d->size <= sizeof(ret->room));
	if (!json_validate(text, LIMIT_JSON_DEPTH, &err))
		fail_msg("%.*s: %zu %s", STR_ARG(text), err.pos, err.text);
	ret->r = msg_from_json(
	    &(struct msg_reader){ .a = &ret->a, .why = &ret->why }, d,
	    json_root(text), ret->room);
}

static void result_done(struct result *res)
{
	buf_done(&res->why);
	arena_done(&res->a);
}

#define Q "\"queue\":\"q\","

/* why NULL: accepted. code 0 beside a text: ERR_VALIDATION_ERROR. */
static const struct {
	const struct msg_desc *d;
	const char *text;
	const char *why;
	int code;
} cases[] = {
	/* enums that are read in any case */
	{ &msg_ack, "{\"job_id\":\"j\",\"step_status\":\" Exit\\n\"}",
	  "job_id is required", 0 },
	{ &msg_ack_item, "{\"job_id\":\"j\",\"step_status\":\" Exit\\n\"}",
	  NULL, 0 },
	{ &msg_ack_item, "{\"job_id\":\"j\",\"step_status\":\"\"}", NULL, 0 },
	{ &msg_ack_item, "{\"job_id\":\"j\",\"step_status\":\"exits\"}",
	  "step_status: must be one of continue, exit", 0 },
	/* objects, unknown and repeated members */
	{ &msg_enqueue, "[]", "the body must be an object, not an array", 0 },
	{ &msg_enqueue, "7", "the body must be an object, not a number", 0 },
	{ &msg_enqueue, "{}", "queue is required", 0 },
	{ &msg_heartbeat, "{}", NULL, 0 },
	{ &msg_enqueue, "{" Q "\"colour\":\"red\",\"x\":[{}]}", NULL, 0 },
	{ &msg_enqueue, "{\"queue\":\"a\",\"queue\":\"a\"}",
	  "member \"queue\" is given twice", ERR_PARSE_ERROR },
	{ &msg_enqueue, "{\"queue\":\"a\",\"q\\u0075eue\":\"b\"}",
	  "member \"queue\" is given twice", ERR_PARSE_ERROR },
	{ &msg_enqueue, "{" Q "\"payload\":null,\"payload\":1}",
	  "member \"payload\" is given twice", ERR_PARSE_ERROR },
	{ &msg_enqueue, "{" Q "\"x\":1,\"y\":2,\"x\":3}",
	  "member \"x\" is given twice", ERR_PARSE_ERROR },
	{ &msg_enqueue, "{" Q "\"x\":1,\"y\":2,\"\\u0078\":3}",
	  "member \"x\" is given twice", ERR_PARSE_ERROR },
	{ &msg_enqueue, "{" Q "\"job_id\":1,\"job_id\":2}",
	  "member \"job_id\" is given twice", ERR_PARSE_ERROR },
	{ &msg_enqueue, "{" Q "\"\":1,\"\":2}", "member \"\" is given twice",
	  ERR_PARSE_ERROR },
	{ &msg_enqueue, "{" Q "\"payload\":{\"a\":1,\"a\":2}}", NULL, 0 },
	{ &msg_enqueue_batch, "{\"jobs\":[{\"queue\":\"a\",\"queue\":\"b\"}]}",
	  "jobs[0]: member \"queue\" is given twice", ERR_PARSE_ERROR },
	{ &msg_enqueue, "{" Q "\"job_id\":{\"not\":\"read\"}}", NULL, 0 },

	/* queue names */
	{ &msg_enqueue, "{\"queue\":\"\"}", "queue is required", 0 },
	{ &msg_enqueue, "{\"queue\":null}", "queue is required", 0 },
	{ &msg_enqueue, "{\"queue\":5}",
	  "queue: must be a string, not a number", 0 },
	{ &msg_enqueue, "{\"queue\":[\"q\"]}",
	  "queue: must be a string, not an array", 0 },
	{ &msg_enqueue, "{\"queue\":\"E-mail \\u00e4/x\"}", NULL, 0 },
	{ &msg_enqueue, "{\"queue\":\"a\\nb\"}",
	  "queue: a queue name must not have control characters", 0 },
	{ &msg_enqueue, "{\"queue\":\"a\\u0000b\"}",
	  "queue: a queue name must not have control characters", 0 },
	{ &msg_enqueue, "{\"queue\":\"a\\u0085b\"}",
	  "queue: a queue name must not have control characters", 0 },
	{ &msg_enqueue, "{\"queue\":\" a\"}",
	  "queue: a queue name must not start or end with a space", 0 },
	{ &msg_enqueue, "{\"queue\":\"a \"}",
	  "queue: a queue name must not start or end with a space", 0 },
	{ &msg_search, "{\"queue\":\"\"}", NULL, 0 }, /* no filter */
	{ &msg_search, "{\"queue\":\" \"}",
	  "queue: a queue name must not start or end with a space", 0 },

	/* whole numbers */
	{ &msg_enqueue, "{" Q "\"max_retries\":0}", NULL, 0 },
	{ &msg_enqueue, "{" Q "\"max_retries\":1000000}", NULL, 0 },
	{ &msg_enqueue, "{" Q "\"max_retries\":1000001}",
	  "max_retries: must be a whole number from 0 to 1000000", 0 },
	{ &msg_enqueue, "{" Q "\"max_retries\":-1}",
	  "max_retries: must be a whole number from 0 to 1000000", 0 },
	{ &msg_enqueue, "{" Q "\"max_retries\":1.5}",
	  "max_retries: must be a whole number from 0 to 1000000", 0 },
	{ &msg_enqueue, "{" Q "\"max_retries\":1e999}",
	  "max_retries: must be a whole number from 0 to 1000000", 0 },
	{ &msg_enqueue, "{" Q "\"max_retries\":\"3\"}",
	  "max_retries: must be a number, not a string", 0 },
	{ &msg_enqueue, "{" Q "\"max_retries\":true}",
	  "max_retries: must be a number, not a boolean", 0 },
	{ &msg_fetch, "{\"queues\":[\"q\"],\"count\":4294967296}",
	  "count: must be a whole number from 0 to 4294967295", 0 },
	{ &msg_ack_batch,
	  "{\"acks\":[{\"job_id\":\"j\","
	  "\"lease_token\":18446744073709551615}]}",
	  NULL, 0 },
	{ &msg_ack_batch,
	  "{\"acks\":[{\"job_id\":\"j\","
	  "\"lease_token\":18446744073709551616}]}",
	  "acks[0].lease_token: must be a whole number from 0 to "
	  "18446744073709551615",
	  0 },

	/* fractions */
	{ &msg_enqueue, "{" Q "\"retry_jitter\":0}", NULL, 0 },
	{ &msg_enqueue, "{" Q "\"retry_jitter\":1}", NULL, 0 },
	{ &msg_enqueue, "{" Q "\"retry_jitter\":0.25}", NULL, 0 },
	{ &msg_enqueue, "{" Q "\"retry_jitter\":1.01}",
	  "retry_jitter: must be a number from 0 to 1", 0 },
	{ &msg_enqueue, "{" Q "\"retry_jitter\":-0.5}",
	  "retry_jitter: must be a number from 0 to 1", 0 },
	{ &msg_enqueue, "{" Q "\"retry_jitter\":1e999}",
	  "retry_jitter: is too large a number", 0 },
	{ &msg_enqueue, "{" Q "\"retry_jitter\":\"half\"}",
	  "retry_jitter: must be a number, not a string", 0 },

	/* booleans */
	{ &msg_fail, "{\"retry\":false}", "job_id is required", 0 },
	{ &msg_fail, "{\"retry\":0}",
	  "retry: must be true or false, not a number", 0 },
	{ &msg_fail, "{\"requeue\":\"yes\"}",
	  "requeue: must be true or false, not a string", 0 },

	/* durations */
	{ &msg_enqueue, "{" Q "\"retry_base_delay\":\"1h30m\"}", NULL, 0 },
	{ &msg_enqueue, "{" Q "\"retry_base_delay\":\"soon\"}",
	  "retry_base_delay: must be a duration such as \"90s\", \"1h30m\" "
	  "or \"500ms\"",
	  0 },
	{ &msg_enqueue, "{" Q "\"retry_base_delay\":\"-5s\"}",
	  "retry_base_delay: must be a duration such as \"90s\", \"1h30m\" "
	  "or \"500ms\"",
	  0 },
	{ &msg_enqueue, "{" Q "\"retry_base_delay\":\"\"}", NULL, 0 },
	{ &msg_enqueue, "{" Q "\"retry_base_delay\":-1}",
	  "retry_base_delay: must not be negative", 0 },
	{ &msg_enqueue, "{" Q "\"retry_base_delay\":-0.001}",
	  "retry_base_delay: must not be negative", 0 },
	{ &msg_enqueue, "{" Q "\"retry_base_delay\":1e30}",
	  "retry_base_delay: must be at most 100 years", 0 },
	{ &msg_enqueue, "{" Q "\"retry_base_delay\":99999999999}",
	  "retry_base_delay: must be at most 100 years", 0 },
	{ &msg_enqueue, "{" Q "\"expire_after\":\"1000000h\"}",
	  "expire_after: must be at most 100 years", 0 },
	{ &msg_enqueue, "{" Q "\"retry_base_delay\":{}}",
	  "retry_base_delay: must be a duration or a number of seconds, not "
	  "an object",
	  0 },
	{ &msg_enqueue, "{" Q "\"retry_base_delay_ms\":1.5}",
	  "retry_base_delay_ms: must be a whole number of milliseconds, 0 or "
	  "more",
	  0 },
	{ &msg_enqueue, "{" Q "\"retry_base_delay_ms\":-1}",
	  "retry_base_delay_ms: must be a whole number of milliseconds, 0 or "
	  "more",
	  0 },
	{ &msg_enqueue, "{" Q "\"retry_base_delay_ms\":\"5\"}",
	  "retry_base_delay_ms: must be a number, not a string", 0 },
	{ &msg_enqueue, "{" Q "\"retry_base_delay_ms\":18446744073709551615}",
	  "retry_base_delay_ms: must be at most 100 years", 0 },
	{ &msg_enqueue,
	  "{" Q "\"retry_base_delay\":\"5s\",\"retry_base_delay_ms\":5000}",
	  NULL, 0 },
	{ &msg_enqueue,
	  "{" Q "\"retry_base_delay_ms\":5001,\"retry_base_delay\":5}",
	  "retry_base_delay: differs from retry_base_delay_ms", 0 },
	{ &msg_enqueue,
	  "{" Q "\"retry_base_delay_ms\":1,\"retry_base_delay_ms\":1}",
	  "member \"retry_base_delay_ms\" is given twice", ERR_PARSE_ERROR },
	{ &msg_enqueue, "{" Q "\"queue_ms\":1,\"max_retries_ms\":\"x\"}", NULL,
	  0 },
	{ &msg_fetch, "{\"queues\":[\"q\"],\"timeout\":-3}",
	  "timeout: must not be negative", 0 },

	/* times */
	{ &msg_enqueue, "{" Q "\"scheduled_at\":\"2026-02-11T10:00:00+02:00\"}",
	  NULL, 0 },
	{ &msg_enqueue, "{" Q "\"scheduled_at\":\"tomorrow\"}",
	  "scheduled_at: must be a time of the years 1970 to 2200 such as "
	  "\"2026-02-11T10:00:00Z\"",
	  0 },
	{ &msg_enqueue, "{" Q "\"scheduled_at\":\"2026-02-30T10:00:00Z\"}",
	  "scheduled_at: must be a time of the years 1970 to 2200 such as "
	  "\"2026-02-11T10:00:00Z\"",
	  0 },
	{ &msg_enqueue, "{" Q "\"scheduled_at\":1770000000}",
	  "scheduled_at: must be a string, not a number", 0 },

	/* named values */
	{ &msg_enqueue, "{" Q "\"priority\":\"critical\"}", NULL, 0 },
	{ &msg_enqueue, "{" Q "\"priority\":\"urgent\"}",
	  "priority: must be one of critical, high, normal", 0 },
	{ &msg_enqueue, "{" Q "\"priority\":\"High\"}",
	  "priority: must be one of critical, high, normal", 0 },
	{ &msg_enqueue, "{" Q "\"priority\":\"\"}",
	  "priority: must be one of critical, high, normal", 0 },
	{ &msg_enqueue, "{" Q "\"priority\":1}",
	  "priority: must be a string, not a number", 0 },
	{ &msg_enqueue_reply, "{\"status\":\"asleep\"}",
	  "status: must be one of pending, active, held, completed, retrying, "
	  "dead, cancelled, scheduled",
	  0 },

	/* raw members */
	{ &msg_enqueue, "{" Q "\"payload\":[1, 2]}", NULL, 0 },
	{ &msg_enqueue, "{" Q "\"tags\":{\"a\":\"b\"}}", NULL, 0 },
	{ &msg_enqueue, "{" Q "\"tags\":[]}",
	  "tags: must be an object, not an array", 0 },
	{ &msg_enqueue, "{" Q "\"tags\":\"a=b\"}",
	  "tags: must be an object, not a string", 0 },
	{ &msg_enqueue, "{" Q "\"tags\":null}", NULL, 0 },
	{ &msg_enqueue, "{" Q "\"tags\":{\"a\":\"b\",\"n\":7}}",
	  "tags.n: must be a string, not a number", 0 },
	{ &msg_search, "{\"tags\":{\"a\":null}}",
	  "tags.a: must be a string, not null", 0 },

	/* lists */
	{ &msg_fetch, "{\"queues\":[\"a\",\"b\"]}", NULL, 0 },
	{ &msg_fetch, "{}", "queues is required", 0 },
	{ &msg_fetch, "{\"queues\":[]}", "queues is required", 0 },
	{ &msg_fetch, "{\"queues\":\"q\"}",
	  "queues: must be an array, not a string", 0 },
	{ &msg_fetch, "{\"queues\":[\"q\",3]}",
	  "queues[1]: must be a string, not a number", 0 },
	{ &msg_fetch, "{\"queues\":[\"q\",\"\"]}",
	  "queues[1]: a queue name must be 1 to 255 bytes long", 0 },
	{ &msg_fetch, "{\"queues\":[\"q\\t\"]}",
	  "queues[0]: a queue name must not have control characters", 0 },

	/* nested messages */
	{ &msg_enqueue_batch, "{\"jobs\":[]}", "jobs is required", 0 },
	{ &msg_enqueue_batch, "{\"jobs\":{}}",
	  "jobs: must be an array, not an object", 0 },
	{ &msg_enqueue_batch, "{\"jobs\":[{\"queue\":\"a\"},null]}",
	  "jobs[1]: must be an object, not null", 0 },
	{ &msg_enqueue_batch, "{\"jobs\":[{\"queue\":\"a\"},{}]}",
	  "jobs[1].queue is required", 0 },
	{ &msg_enqueue_batch,
	  "{\"jobs\":[{\"queue\":\"a\"},{\"queue\":\"b\",\"tags\":1}]}",
	  "jobs[1].tags: must be an object, not a number", 0 },
	{ &msg_enqueue_batch,
	  "{\"jobs\":[{\"queue\":\"a\",\"expire_after_ms\":-1}]}",
	  "jobs[0].expire_after_ms: must be a whole number of milliseconds, "
	  "0 or more",
	  0 },
	{ &msg_ack_batch,
	  "{\"acks\":[{\"job_id\":\"a\"},{\"job_id\":\"b\"},{}]}",
	  "acks[2].job_id is required", 0 },
	{ &msg_heartbeat, "{\"jobs\":[{\"job_id\":\"j\",\"progress\":[1]}]}",
	  NULL, 0 },
	{ &msg_heartbeat, "{\"jobs\":[{\"job_id\":7}]}",
	  "jobs[0].job_id: must be a string, not a number", 0 },
};

static void test_cases(void **state _unused_)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(result_done) struct result res;
		int want =
		    cases[i].code != 0 ? cases[i].code : ERR_VALIDATION_ERROR;

		read_into(cases[i].d, str_from(cases[i].text), &res);
		if (cases[i].why == NULL) {
			if (res.r != 0)
				fail_msg("%s: %.*s", cases[i].text,
					 STR_ARG(buf_str(&res.why)));
			continue;
		}
		if (res.r != -want || !str_is(buf_str(&res.why), cases[i].why))
			fail_msg("%s: %d \"%.*s\"", cases[i].text, res.r,
				 STR_ARG(buf_str(&res.why)));
	}
	assert_true(ARRAY_SIZE(cases) >= 60);
}

static void test_values(void **state _unused_)
{
	_cleanup_(result_done) struct result res;
	const struct m_enqueue *e = &res.enqueue;

	read_into(&msg_enqueue,
		  STR("{\"queue\":\"e\\u006dail\", \"payload\" : [1, {\"a\":2}]"
		      ",\"priority\":\"high\",\"max_retries\":7,"
		      "\"retry_backoff\":\"linear\",\"retry_base_delay\":1.5,"
		      "\"retry_max_delay\":\"1m\",\"retry_jitter\":0.5,"
		      "\"scheduled_at\":\"1970-01-01T00:00:01.5Z\","
		      "\"expire_after_ms\":1500,\"tags\":{ },"
		      "\"worker_id\":\"\",\"parent_id\":\"\"}"),
		  &res);
	assert_int_equal(res.r, 0);
	assert_str_is(e->queue, "email");
	assert_str_is(e->payload, "[1, {\"a\":2}]");
	assert_int_equal(e->priority, PRIORITY_HIGH);
	assert_int_equal(e->max_retries, 7);
	assert_int_equal(e->retry_backoff, BACKOFF_LINEAR);
	assert_int_equal(e->retry_base_delay, 1500 * NS_PER_MS);
	assert_int_equal(e->retry_max_delay, 60 * NS_PER_S);
	assert_true(e->retry_jitter == 0.5);
	assert_int_equal(e->scheduled_at, 1500 * NS_PER_MS);
	assert_int_equal(e->expire_after, 1500 * NS_PER_MS);
	assert_str_is(e->tags, "{ }");
	assert_false(MSG_HAS(e, enqueue, parent_id));
	assert_false(MSG_HAS(e, enqueue, checkpoint));
	assert_false(MSG_HAS(e, enqueue, job_id));
}

static void test_durations(void **state _unused_)
{
	static const struct {
		const char *member;
		uint64_t ns;
	} good[] = {
		{ "\"timeout\":0", 0 },
		{ "\"timeout\":-0", 0 },
		{ "\"timeout\":0.0", 0 },
		{ "\"timeout\":30", 30 * NS_PER_S },
		{ "\"timeout\":0.25", 250 * NS_PER_MS },
		{ "\"timeout\":1e-9", 1 },
		{ "\"timeout\":1e2", 100 * NS_PER_S },
		{ "\"timeout\":3155760000", LIMIT_DURATION_S * NS_PER_S },
		{ "\"timeout\":\"0s\"", 0 },
		{ "\"timeout\":\"90s\"", 90 * NS_PER_S },
		{ "\"timeout\":\"1h30m\"", 5400 * NS_PER_S },
		{ "\"timeout\":\"500ms\"", 500 * NS_PER_MS },
		{ "\"timeout_ms\":1", NS_PER_MS },
		{ "\"timeout_ms\":0", 0 },
		{ "\"timeout\":\"1.5ms\",\"timeout_ms\":1", 1500 * NS_PER_US },
		{ "\"timeout_ms\":1,\"timeout\":\"1.5ms\"", 1500 * NS_PER_US },
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		_cleanup_(result_done) struct result res;
		char text[200];

		snprintf(text, sizeof(text), "{\"queues\":[\"q\"],%s}",
			 good[i].member);
		read_into(&msg_fetch, str_from(text), &res);
		if (res.r != 0 || res.fetch.timeout != good[i].ns)
			fail_msg("%s: %d, %llu", text, res.r,
				 (unsigned long long)res.fetch.timeout);
		assert_true(MSG_HAS(&res.fetch, fetch, timeout));
	}
}

/* A member of n bytes beside a queue. */
static void assert_limit(const char *before, size_t n, const char *after,
			 const char *why)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	_cleanup_(result_done) struct result res;

	buf_puts(&text, before);
	for (size_t i = 0; i < n; i++)
		buf_putc(&text, 'x');
	buf_puts(&text, after);
	read_into(&msg_enqueue, buf_str(&text), &res);
	if (why == NULL && res.r != 0)
		fail_msg("%s: %.*s", before, STR_ARG(buf_str(&res.why)));
	if (why != NULL)
		assert_str_is(buf_str(&res.why), why);
}

static void test_byte_limits(void **state _unused_)
{
	assert_limit("{\"queue\":\"", 255, "\"}", NULL);
	assert_limit("{\"queue\":\"", 256, "\"}",
		     "queue: must be at most 255 bytes");
	assert_limit("{" Q "\"parent_id\":\"", 64, "\"}", NULL);
	assert_limit("{" Q "\"parent_id\":\"", 65, "\"}",
		     "parent_id: must be at most 64 bytes");
	assert_limit("{" Q "\"tags\":{\"a\":\"", 16384 - 8, "\"}}", NULL);
	assert_limit("{" Q "\"tags\":{\"a\":\"", 16384 - 7, "\"}}",
		     "tags: must be at most 16384 bytes");
	assert_limit("{" Q "\"checkpoint\":\"", (4 << 20) - 1, "\"}",
		     "checkpoint: must be at most 4194304 bytes");
	msg_limit_checkpoints(1000);
	assert_limit("{" Q "\"checkpoint\":\"", 998, "\"}", NULL);
	assert_limit("{" Q "\"checkpoint\":\"", 999, "\"}",
		     "checkpoint: must be at most 1000 bytes");
	msg_limit_checkpoints(LIMIT_CHECKPOINT_BYTES);
	assert_limit("{" Q "\"payload\":\"", 1 << 20, "\"}", NULL);
}

static void repeat(struct buf *b, const char *open, const char *item, size_t n,
		   const char *close)
{
	buf_puts(b, open);
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			buf_putc(b, ',');
		buf_puts(b, item);
	}
	buf_puts(b, close);
}

static void assert_count(const struct msg_desc *d, const char *open,
			 const char *item, size_t max, const char *why)
{
	for (size_t n = max; n <= max + 1; n++) {
		_cleanup_(buf_done) struct buf text = BUF_INIT(0);
		_cleanup_(result_done) struct result res;

		repeat(&text, open, item, n, "]}");
		read_into(d, buf_str(&text), &res);
		if (n == max)
			assert_int_equal(res.r, 0);
		else
			assert_str_is(buf_str(&res.why), why);
	}
}

static void test_item_limits(void **state _unused_)
{
	assert_count(&msg_fetch, "{\"queues\":[", "\"q\"", 256,
		     "queues: must have at most 256 items");
	assert_count(&msg_enqueue_batch, "{\"jobs\":[", "{\"queue\":\"q\"}",
		     10000, "jobs: must have at most 10000 items");
	assert_count(&msg_ack_batch, "{\"acks\":[", "{\"job_id\":\"j\"}", 512,
		     "acks: must have at most 512 items");
	assert_count(&msg_heartbeat, "{\"jobs\":[", "{\"job_id\":\"j\"}", 2048,
		     "jobs: must have at most 2048 items");
}

/* Many unknown members: found quickly, whatever their order. */
static void test_many_members(void **state _unused_)
{
	for (int twin = 0; twin < 2; twin++) {
		_cleanup_(buf_done) struct buf text = BUF_INIT(0);
		_cleanup_(result_done) struct result res;

		buf_puts(&text, "{\"queue\":\"q\"");
		for (int i = 0; i < 200000; i++)
			buf_printf(&text, ",\"m%d\":%d", i, i);
		if (twin)
			buf_puts(&text, ",\"m77\":0");
		buf_putc(&text, '}');
		read_into(&msg_enqueue, buf_str(&text), &res);
		assert_int_equal(res.r, twin ? -ERR_PARSE_ERROR : 0);
		assert_str_is(buf_str(&res.why),
			      twin ? "member \"m77\" is given twice" : "");
	}
}

/* A long name is cut, and not inside a character. */
static void test_long_name_in_text(void **state _unused_)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	_cleanup_(result_done) struct result res;

	buf_putc(&text, '{');
	for (int twice = 0; twice < 2; twice++) {
		buf_puts(&text, twice ? ",\"x" : "\"x");
		for (int i = 0; i < 100; i++)
			buf_puts(&text, "\xc3\xa4");
		buf_puts(&text, "\":1");
	}
	buf_putc(&text, '}');
	read_into(&msg_enqueue, buf_str(&text), &res);
	assert_int_equal(res.r, -ERR_PARSE_ERROR);
	assert_true(str_is_utf8(buf_str(&res.why)));
	assert_true(res.why.n < 120);
}

static void test_path_members(void **state _unused_)
{
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct m_ack ack = { 0 };
	struct m_queue_ref ref = { 0 };

	MSG_SET(&ack, ack, job_id, STR("job_1"));
	assert_int_equal(
	    msg_from_json(
		&(struct msg_reader){ .a = &a, .why = &why }, &msg_ack,
		json_root(STR("{\"job_id\":\"other\",\"result\":1}")), &ack),
	    0);
	assert_str_is(ack.job_id, "job_1");
	assert_str_is(ack.result, "1");

	assert_int_equal(msg_check(&msg_queue_ref, &ref, &why),
			 -ERR_VALIDATION_ERROR);
	assert_str_is(buf_str(&why), "queue is required");
	MSG_SET(&ref, queue_ref, queue, STR("a\xff"));
	buf_clear(&why);
	assert_int_equal(msg_check(&msg_queue_ref, &ref, &why),
			 -ERR_VALIDATION_ERROR);
	assert_str_is(buf_str(&why), "queue: must be UTF-8");
	MSG_SET(&ref, queue_ref, queue, STR("mail"));
	assert_int_equal(msg_check(&msg_queue_ref, &ref, &why), 0);
}

static void test_queue_names(void **state _unused_)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	assert_int_equal(queue_name_check(STR("a b/c.d:\xc2\xa0"), &why), 0);
	assert_int_equal(queue_name_check(STR("\x7f"), &why),
			 -ERR_VALIDATION_ERROR);
	buf_clear(&why);
	assert_int_equal(queue_name_check(STR("\xc3"), &why),
			 -ERR_VALIDATION_ERROR);
	assert_str_is(buf_str(&why), "a queue name must be UTF-8");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_byte_limits),
		cmocka_unit_test(test_item_limits),
		cmocka_unit_test(test_many_members),
		cmocka_unit_test(test_long_name_in_text),
		cmocka_unit_test(test_path_members),
		cmocka_unit_test(test_queue_names),
	};

	return cmocka_run_group_tests_name("msg_json", tests, NULL, NULL);
}
