/*
 * Deliveries to inbound webhooks: signatures with known answers, what must not
 * be let in, and the job a delivery becomes.
 */
#include "hook/hook.h"

#include "lib/testlib.h"
#include "util/sha256.h"

#define NOW (1614265330 * NS_PER_S)

struct world {
	struct arena a;
	struct m_hook h;
	struct hook_delivery d;
	struct m_enqueue job;
	struct buf why;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	MSG_SET(&w->h, hook, name, STR("test"));
	MSG_SET(&w->h, hook, queue, STR("q"));
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	arena_done(&w->a);
	buf_done(&w->why);
	free(w);
	return 0;
}

static void header(struct world *w, const char *name, const char *value)
{
	hook_add_header(&w->d.headers, str_from(name), str_from(value), &w->a);
}

static void by(struct world *w, enum hook_verify v, const char *secret)
{
	MSG_SET(&w->h, hook, verify, v);
	MSG_SET(&w->h, hook, secret, str_from(secret));
	w->d.headers.n = 0;
}

static bool is_in(struct world *w)
{
	buf_clear(&w->why);
	return hook_verify(&w->h, &w->d, NOW, &w->why) == 0;
}

static void assert_out(struct world *w, const char *text)
{
	buf_clear(&w->why);
	assert_int_equal(hook_verify(&w->h, &w->d, NOW, &w->why),
			 -ERR_SIGNATURE_ERROR);
	assert_str_is(buf_str(&w->why), text);
}

/* --- who --- */

static const char *hex_of(struct world *w, const char *secret, const char *text)
{
	unsigned char digest[SHA256_BYTES];
	struct hmac_sha256 m;
	char *hex = arena_alloc(&w->a, 2 * SHA256_BYTES + 1);

	hmac_sha256_init(&m, str_from(secret));
	hmac_sha256_add(&m, str_from(text));
	hmac_sha256_end(&m, digest);
	for (size_t i = 0; i < SHA256_BYTES; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	return hex;
}

/* The example of GitHub's own documentation. */
static void test_github(void **state)
{
	struct world *w = *state;

	by(w, HOOK_VERIFY_GITHUB, "It's a Secret to Everybody");
	w->d.body = STR("Hello, World!");
	assert_out(w, "the header X-Hub-Signature-256 is missing");
	header(w, "X-Hub-Signature-256",
	       "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c"
	       "8b043e17");
	assert_true(is_in(w));
	w->d.body = STR("Hello, World! ");
	assert_out(w, "X-Hub-Signature-256 is wrong");
	w->d.body = STR("Hello, World!");
	MSG_SET(&w->h, hook, secret, STR("another"));
	assert_false(is_in(w));
	MSG_SET(&w->h, hook, previous_secret,
		STR("It's a Secret to Everybody"));
	assert_true(is_in(w));
}

/* The example of the Standard Webhooks libraries. */
static void test_standard(void **state)
{
	struct world *w = *state;

	by(w, HOOK_VERIFY_STANDARD, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
	w->d.body = STR("{\"test\": 2432232314}");
	header(w, "webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek");
	header(w, "webhook-timestamp", "1614265330");
	assert_out(w, "the header Webhook-Id or Webhook-Signature is missing");
	header(w, "webhook-signature",
	       "v1a,x v2,x v1,bm9ldHUjKzFob2VudXRob2VodWUzMjRvdWVvdW9ldQo= "
	       "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
	assert_true(is_in(w));
	w->d.headers.list[0].value = STR("msg_another");
	assert_out(w, "Webhook-Signature is wrong");
}

static void test_slack(void **state)
{
	struct world *w = *state;
	const char *hex =
	    hex_of(w, "8f742231b10e", "v0:1614265330:token=xyz&text=94070");

	by(w, HOOK_VERIFY_SLACK, "8f742231b10e");
	w->d.body = STR("token=xyz&text=94070");
	header(w, "X-Slack-Request-Timestamp", "1614265330");
	assert_out(w, "the header X-Slack-Signature is missing");
	header(w, "X-Slack-Signature",
	       arena_cstr(&w->a, arena_printf(&w->a, "v0=%s", hex)));
	assert_true(is_in(w));
	w->d.headers.list[0].value = STR("1614265331");
	assert_out(w, "X-Slack-Signature is wrong");
}

static void stripe(struct world *w, const char *t, const char *rest)
{
	const char *text = arena_cstr(&w->a, arena_printf(&w->a, "%s.{}", t));

	by(w, HOOK_VERIFY_STRIPE, "whsec_plain");
	w->d.body = STR("{}");
	header(w, "Stripe-Signature",
	       arena_cstr(&w->a,
			  arena_printf(&w->a, "t=%s,v0=00, v1=%s%s", t,
				       hex_of(w, "whsec_plain", text), rest)));
}

static void test_stripe_and_its_time(void **state)
{
	static const char late[] = "the time of the delivery is further from "
				   "now than the tolerance allows";
	struct world *w = *state;

	stripe(w, "1614265330", "");
	assert_true(is_in(w));
	stripe(w, "1614265330", ",v1=abcd");
	assert_true(is_in(w));
	stripe(w, "1614265030", "");
	assert_true(is_in(w));
	stripe(w, "1614265029", "");
	assert_out(w, late);
	stripe(w, "1614265631", "");
	assert_out(w, late);
	MSG_SET(&w->h, hook, tolerance, 301 * NS_PER_S);
	assert_true(is_in(w));
	stripe(w, "soon", "");
	assert_out(w, "the time of the delivery is missing, or no number of "
		      "seconds");
	stripe(w, "99999999999999999999", "");
	assert_false(is_in(w));
	by(w, HOOK_VERIFY_STRIPE, "whsec_plain");
	assert_out(w, "the header Stripe-Signature is missing");
	header(w, "Stripe-Signature", "t=1614265330");
	assert_out(w, "Stripe-Signature is wrong");
}

static void test_token(void **state)
{
	struct world *w = *state;

	by(w, HOOK_VERIFY_TOKEN, "abc");
	assert_out(w, "the delivery has no token");
	header(w, "Authorization", "Basic abc");
	assert_out(w, "the delivery has no token");
	w->d.headers.n = 0;
	header(w, "Authorization", "bearer abc");
	assert_true(is_in(w));
	w->d.headers.n = 0;
	header(w, "Authorization", "Bearer abcd");
	assert_out(w, "the token of the delivery is wrong");
	MSG_SET(&w->h, hook, token_header, STR("X-Gitlab-Token"));
	assert_out(w, "the delivery has no token");
	header(w, "X-GITLAB-token", "abc");
	assert_true(is_in(w));
	/* an empty second secret is nobody's */
	MSG_SET(&w->h, hook, secret, STR("other"));
	assert_false(is_in(w));
}

static void test_without_a_check(void **state)
{
	struct world *w = *state;

	assert_true(is_in(w));
	MSG_SET(&w->h, hook, verify, 77); /* of a later version */
	assert_false(is_in(w));
}

/* --- what becomes of it --- */

static void map(struct world *w)
{
	buf_clear(&w->why);
	if (hook_map(&w->h, &w->d, &w->a, &w->job, &w->why) != 0)
		fail_msg("%.*s", STR_ARG(buf_str(&w->why)));
}

static void assert_unmapped(struct world *w, const char *text)
{
	buf_clear(&w->why);
	assert_int_equal(hook_map(&w->h, &w->d, &w->a, &w->job, &w->why),
			 -ERR_VALIDATION_ERROR);
	assert_str_is(buf_str(&w->why), text);
}

static void test_a_body_is_kept_exactly(void **state)
{
	struct world *w = *state;
	static const char *const json[] = { " {\"a\" : 1.0e2 }\n", "[1]",
					    "\"x\"", "null" };

	for (size_t i = 0; i < ARRAY_SIZE(json); i++) {
		w->d.body = str_from(json[i]);
		map(w);
		assert_str_is(w->job.payload, json[i]);
	}
	w->d.body = STR("");
	map(w);
	assert_str_is(w->job.payload, "{}");
	w->d.body = STR("a=1&b=\"2\"\n");
	map(w);
	assert_str_is(w->job.payload, "\"a=1&b=\\\"2\\\"\\n\"");
	w->d.body = STR("\xff\x00");
	map(w);
	assert_str_is(w->job.payload, "{\"base64\":\"/wA=\"}");
}

static void fill(struct world *w)
{
	w->d.body = STR("{\"kind\": \"push\", \"n\": 5, \"o\": {\"x\": 1.50},"
			" \"null\": null}");
	header(w, "X-Event", "created");
	header(w, "x-event", "again");
	header(w, "X-Latin", "caf\xe9");
	header(w, "Authorization", "Bearer abc");
	header(w, "Cookie", "c");
	hook_add_argument(&w->d.query, STR("team"), STR("red"), &w->a);
	hook_add_argument(&w->d.query, STR("team"), STR("blue"), &w->a);
}

static void test_places(void **state)
{
	struct world *w = *state;

	fill(w);
	MSG_SET(&w->h, hook, queue, STR(".body.kind"));
	MSG_SET(&w->h, hook, payload,
		STR("{\"e\":\".headers[\\\"x-event\\\"]\",\"o\":\".body.o\","
		    "\"l\":\".headers[\\\"x-latin\\\"]\",\"no\":\".body.no\","
		    "\"t\":\"text\",\"hook\":\".hook\"}"));
	MSG_SET(&w->h, hook, tags,
		STR("{\"team\":\".query.team\",\"n\":\".body.n\","
		    "\"no\":\".body.null\",\"from\":\"x\"}"));
	MSG_SET(&w->h, hook, unique_key, STR(".body.n"));
	MSG_SET(&w->h, hook, unique_period, 5 * NS_PER_S);
	MSG_SET(&w->h, hook, priority, PRIORITY_HIGH);
	MSG_SET(&w->h, hook, max_retries, 2);
	map(w);
	assert_str_is(w->job.queue, "push");
	assert_str_is(
	    w->job.payload,
	    "{\"e\":\"created, again\",\"o\":{\"x\": 1.50},"
	    "\"l\":\"caf\xc3\xa9\",\"t\":\"text\",\"hook\":\"test\"}");
	assert_str_is(w->job.tags,
		      "{\"team\":\"red\",\"n\":\"5\",\"from\":\"x\"}");
	assert_str_is(w->job.unique_key, "5");
	assert_int_equal(w->job.unique_period, 5 * NS_PER_S);
	assert_int_equal(w->job.priority, PRIORITY_HIGH);
	assert_int_equal(w->job.max_retries, 2);
	assert_false(MSG_HAS(&w->job, enqueue, idempotency_key));
}

static void test_what_logs_in_is_not_handed_on(void **state)
{
	struct world *w = *state;

	fill(w);
	header(w, "X-Gitlab-Token", "t");
	MSG_SET(&w->h, hook, token_header, STR("X-GitLab-Token"));
	MSG_SET(&w->h, hook, payload, STR("{\"h\":\".headers\"}"));
	map(w);
	assert_str_is(w->job.payload, "{\"h\":{\"x-event\":\"created, again\","
				      "\"x-latin\":\"caf\xc3\xa9\"}}");
}

static void test_the_raw_body_in_a_member(void **state)
{
	struct world *w = *state;

	w->d.body = STR("\xff\x00 {");
	MSG_SET(&w->h, hook, payload,
		STR("{\"raw\":\".raw\",\"body\":\".body.base64\"}"));
	map(w);
	assert_str_is(w->job.payload,
		      "{\"raw\":\"/wAgew==\",\"body\":\"/wAgew==\"}");
}

static void test_places_that_do_not_fit(void **state)
{
	struct world *w = *state;
	_cleanup_(buf_done) struct buf deep = BUF_INIT(0);

	fill(w);
	MSG_SET(&w->h, hook, queue, STR(".body.no"));
	assert_unmapped(w, "queue: there is nothing at .body.no");
	MSG_SET(&w->h, hook, queue, STR(".body.o"));
	assert_unmapped(w, "queue: .body.o is an object in this delivery; it "
			   "must be a text, a number, true or false");
	MSG_SET(&w->h, hook, queue, STR("q"));
	MSG_SET(&w->h, hook, tags, STR("{\"a\":\".query\"}"));
	assert_unmapped(w, "tags.a: .query is an object in this delivery; it "
			   "must be a text, a number, true or false");
	MSG_SET(&w->h, hook, tags, STR("{}"));
	for (int i = 0; i < LIMIT_JSON_DEPTH; i++)
		buf_putc(&deep, '[');
	for (int i = 0; i < LIMIT_JSON_DEPTH; i++)
		buf_putc(&deep, ']');
	w->d.body = buf_str(&deep);
	map(w);
	assert_str_is(w->job.payload, arena_cstr(&w->a, buf_str(&deep)));
	MSG_SET(&w->h, hook, payload, STR("{\"a\":\".body\"}"));
	assert_unmapped(w, "payload: would have more than 64 levels");
}

static void test_delivery_ids(void **state)
{
	static const struct {
		enum hook_verify by;
		const char *header, *id, *body;
	} all[] = {
		{ HOOK_VERIFY_GITHUB, "X-Hub-Signature-256", "d1", "{}" },
		{ HOOK_VERIFY_STANDARD, "Webhook-Id", "d1", "{}" },
		{ HOOK_VERIFY_STRIPE, "x", "y", "{\"id\":\"d1\"}" },
		{ HOOK_VERIFY_SLACK, "x", "y", "{\"event_id\":\"d1\"}" },
		{ HOOK_VERIFY_TOKEN, "Idempotency-Key", "d1", "{}" },
		{ HOOK_VERIFY_NONE, "Idempotency-Key", "d1", "{}" },
	};
	struct world *w = *state;
	char *longest = arena_alloc(&w->a, 300);
	uint64_t hash = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		by(w, all[i].by, "s");
		w->d.body = str_from(all[i].body);
		header(w, all[i].header, all[i].id);
		map(w);
		assert_str_is(w->job.idempotency_key, "\x1ftest\x1f"
						      "d1");
		assert_true(i == 0 || hash == w->job.idempotency_hash);
		hash = w->job.idempotency_hash;
		assert_int_equal(hash & 1, 0);
	}
	memset(longest, 'x', 300);
	by(w, HOOK_VERIFY_NONE, "");
	MSG_SET(&w->h, hook, delivery_id, STR(".query.d"));
	hook_add_argument(&w->d.query, STR("d"), str_of(longest, 300), &w->a);
	map(w);
	assert_int_equal(w->job.idempotency_key.n, 6 + 43);
}

static void test_a_challenge_of_slack(void **state)
{
	struct world *w = *state;
	struct str text;

	w->d.body = STR("{\"type\":\"url_verification\",\"challenge\":\"c\"}");
	assert_false(hook_is_challenge(&w->h, &w->d, &w->a, &text));
	by(w, HOOK_VERIFY_SLACK, "s");
	assert_true(hook_is_challenge(&w->h, &w->d, &w->a, &text));
	assert_str_is(text, "c");
	w->d.body = STR("{\"type\":\"event\",\"challenge\":\"c\"}");
	assert_false(hook_is_challenge(&w->h, &w->d, &w->a, &text));
	w->d.body = STR("[1]");
	assert_false(hook_is_challenge(&w->h, &w->d, &w->a, &text));
}

/* --- what cannot be set --- */

static void assert_bad(struct world *w, const struct m_set_hook *m,
		       const char *text)
{
	buf_clear(&w->why);
	assert_int_equal(hook_check(m, &w->a, &w->why), -ERR_VALIDATION_ERROR);
	assert_str_is(buf_str(&w->why), text);
}

static struct m_set_hook some(enum hook_verify v)
{
	struct m_set_hook m = { 0 };

	MSG_SET(&m, set_hook, queue, STR("q"));
	MSG_SET(&m, set_hook, verify, v);
	return m;
}

static void test_settings_that_cannot_be(void **state)
{
	struct world *w = *state;
	struct m_set_hook m = some(HOOK_VERIFY_NONE);

	assert_int_equal(hook_check(&m, &w->a, &w->why), 0);
	assert_int_equal(w->why.n, 0);
	MSG_SET(&m, set_hook, queue, STR(" q"));
	assert_bad(w, &m,
		   "queue: a queue name must not start or end with a "
		   "space");
	MSG_SET(&m, set_hook, queue, STR(".body["));
	assert_bad(w, &m,
		   "queue: expected a key in quotes or an index at byte "
		   "6 of \".body[\"");
	m = some(HOOK_VERIFY_NONE);
	MSG_SET(&m, set_hook, unique_key, STR(".a == 1"));
	assert_bad(w, &m,
		   "unique_key: expected the end of the path at byte 3 "
		   "of \".a == 1\"");
	m = some(HOOK_VERIFY_NONE);
	MSG_SET(&m, set_hook, tags, STR("{\"a\":\".a.\"}"));
	assert_bad(w, &m,
		   "tags: expected a key; others than names go in "
		   "quotes at byte 3 of \".a.\"");
	m = some(HOOK_VERIFY_NONE);
	MSG_SET(&m, set_hook, tags, STR("{\"a\":\".body\",\"b\":\".bodyx\"}"));
	assert_bad(w, &m,
		   "tags: a delivery has no place \".bodyx\"; there are "
		   ".body, .headers, .query, .hook and .raw");
	m = some(HOOK_VERIFY_NONE);
	MSG_SET(&m, set_hook, payload, STR("{\"a\":\".\",\"b\":\".[0]\"}"));
	assert_bad(w, &m,
		   "payload: a delivery has no place \".[0]\"; there are "
		   ".body, .headers, .query, .hook and .raw");
	m = some(HOOK_VERIFY_NONE);
	MSG_SET(&m, set_hook, delivery_id, STR("id"));
	assert_bad(w, &m,
		   "delivery_id: must be a place in the delivery, such "
		   "as .body.id");
	m = some(HOOK_VERIFY_NONE);
	MSG_SET(&m, set_hook, unique_period, NS_PER_S);
	assert_bad(w, &m, "unique_period: goes with unique_key");
}

static void test_ways_to_verify_that_cannot_be(void **state)
{
	struct world *w = *state;
	struct m_set_hook m = some(HOOK_VERIFY_STANDARD);

	MSG_SET(&m, set_hook, secret, STR("not base64!"));
	assert_bad(w, &m,
		   "secret: must be base64, perhaps with whsec_ before "
		   "it");
	MSG_SET(&m, set_hook, secret, STR("whsec_"));
	assert_bad(w, &m,
		   "secret: must be base64, perhaps with whsec_ before "
		   "it");
	m = some(HOOK_VERIFY_TOKEN);
	MSG_SET(&m, set_hook, secret, STR("a b"));
	assert_bad(w, &m, "secret: a token must be of visible characters");
	MSG_SET(&m, set_hook, secret, STR("ab"));
	MSG_SET(&m, set_hook, token_header, STR("a\r\nb"));
	assert_bad(w, &m, "token_header: must be the name of a header");
	MSG_SET(&m, set_hook, verify, HOOK_VERIFY_GITHUB);
	assert_bad(w, &m, "token_header: goes with verify token");
	m = some(HOOK_VERIFY_GITHUB);
	MSG_SET(&m, set_hook, tolerance, NS_PER_S);
	assert_bad(w, &m,
		   "tolerance: goes with verify stripe, slack or standard");
	m = some(HOOK_VERIFY_SLACK);
	MSG_SET(&m, set_hook, tolerance, NS_PER_S - 1);
	assert_bad(w, &m, "tolerance: must be from 1s to 24h");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_github),
		TEST(test_standard),
		TEST(test_slack),
		TEST(test_stripe_and_its_time),
		TEST(test_token),
		TEST(test_without_a_check),
		TEST(test_a_body_is_kept_exactly),
		TEST(test_places),
		TEST(test_what_logs_in_is_not_handed_on),
		TEST(test_the_raw_body_in_a_member),
		TEST(test_places_that_do_not_fit),
		TEST(test_delivery_ids),
		TEST(test_a_challenge_of_slack),
		TEST(test_settings_that_cannot_be),
		TEST(test_ways_to_verify_that_cannot_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
