/*
 * Long deliveries to inbound webhooks: what is done with them is done in steps,
 * and a delivery that names many signatures costs no more than another.
 */
#include "hook/hook.h"
#include "lib/testlib.h"
#include "util/turn.h"

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
	struct world *w = xcalloc(1, sizeof(*w));

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

#define LONG_BODY  (256u << 10)
#define PER_LOOK   (64u << 10) /* bytes, at most, without a look */
#define SIGNATURES 100

static void look(void *ctx)
{
	(*(unsigned *)ctx)++;
}

/* How often others might have had a turn while the webhook was served. */
static unsigned looks_of(struct world *w, bool is_mapped)
{
	static const bool over = false;
	unsigned looks = 0;

	turn_take_by(look, &over, &looks);
	turn_open();
	buf_clear(&w->why);
	if (is_mapped)
		assert_int_equal(
		    hook_map(&w->h, &w->d, &w->a, &w->job, &w->why), 0);
	else
		assert_int_not_equal(hook_verify(&w->h, &w->d, NOW, &w->why),
				     0);
	turn_close();
	turn_take_by(NULL, NULL, NULL);
	return looks;
}

static struct str long_body(struct world *w, const char *begin, char c)
{
	size_t n = strlen(begin);
	char *p = arena_alloc(&w->a, LONG_BODY);

	memset(p, c, LONG_BODY);
	memcpy(p, begin, n);
	return str_of(p, LONG_BODY);
}

/* Each in its own form, all of them wrong. */
static void name_signatures(struct world *w, enum hook_verify v, unsigned n)
{
	static const char hex[] =
	    ",v1=0000000000000000000000000000000000000000000000000000000000"
	    "000000";
	static const char base64[] =
	    " v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
	bool is_stripe = v == HOOK_VERIFY_STRIPE;
	struct buf b = BUF_INIT(0);

	by(w, v, is_stripe ? "one" : "b25l");
	MSG_SET(&w->h, hook, previous_secret, w->h.secret);
	buf_puts(&b, is_stripe ? "t=1614265330" : "v0,x");
	while (n-- > 0)
		buf_puts(&b, is_stripe ? hex : base64);
	buf_putc(&b, '\0');
	header(w, is_stripe ? "Stripe-Signature" : "Webhook-Signature",
	       arena_cstr(&w->a, str_from(b.p)));
	header(w, "Webhook-Id", "id");
	header(w, "Webhook-Timestamp", "1614265330");
	buf_done(&b);
}

static void test_many_signatures_cost_no_more_than_one(void **state)
{
	static const enum hook_verify all[] = { HOOK_VERIFY_STRIPE,
						HOOK_VERIFY_STANDARD };
	struct world *w = *state;
	unsigned one;

	w->d.body = long_body(w, "", 'x');
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		name_signatures(w, all[i], 1);
		one = looks_of(w, false);
		assert_true(one >= LONG_BODY / PER_LOOK);
		name_signatures(w, all[i], SIGNATURES);
		assert_true(looks_of(w, false) < 2 * one);
	}
}

static void test_long_bodies_are_mapped_in_steps(void **state)
{
	struct world *w = *state;

	w->d.body = long_body(w, "text ", '\n');
	assert_true(looks_of(w, true) >= LONG_BODY / PER_LOOK);
	w->d.body = long_body(w, "\xff", 'x');
	assert_true(looks_of(w, true) >= LONG_BODY / PER_LOOK);
	by(w, HOOK_VERIFY_GITHUB, "secret");
	header(w, "Content-Type", "application/x-www-form-urlencoded");
	w->d.body = long_body(w, "payload=%20", '+');
	assert_true(looks_of(w, true) >= 3 * LONG_BODY / PER_LOOK);
	w->d.body = long_body(w, "", '&');
	assert_true(looks_of(w, true) >= LONG_BODY / PER_LOOK);
	w->d.headers.n = 0;
	MSG_SET(&w->h, hook, payload, STR("{\"r\": \".raw\"}"));
	w->d.body = long_body(w, "1", ' ');
	assert_true(looks_of(w, true) >= 3 * LONG_BODY / PER_LOOK);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    test_many_signatures_cost_no_more_than_one, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(
		    test_long_bodies_are_mapped_in_steps, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
