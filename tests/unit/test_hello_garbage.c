/*
 * The handshake between nodes, with those who do not speak it.
 */
#include "hello_talk.h"

static void assert_garbage(struct hello *h, struct str bytes)
{
	h->out_n = 0;
	assert_int_equal(feed(h, bytes, 7), HELLO_GARBAGE);
	assert_int_equal(h->out_n, 0);
}

static void other_protocols_get_no_answer(void **state _unused_)
{
	static const struct str rows[] = {
		{ "GET / HTTP/1.1\r\n\r\n", 18 }, /* 18245 bytes? */
		{ "\0\0", 2 },
		{ "\x04\x01", 2 },
		{ "\xff\xff", 2 },
		{ "\0\1\1", 3 },
		{ "\0\1\4", 3 },                /* OK, of a dialer */
		{ "\0\3\5\1x", 5 },             /* REFUSED, as the first word */
		{ "\0\5\1CRVQ", 7 },            /* another magic */
		{ "\0\x09\1CRVP\0\0\0\1", 11 }, /* version 0 */
		{ "\0\x09\1CRVP\0\2\0\1", 11 }, /* 2 to 1 */
		{ "\0\x09\1CRVP\0\1\0\1", 11 }, /* and nothing more */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct talk t = talk_of();

		hello_listen(&t.l, &t.b, SECRET, t.nonce_l);
		assert_garbage(&t.l, rows[i]);
		if (i == 6)
			continue; /* which a dialer understands */
		hello_dial(&t.d, &t.a, SECRET, t.nonce_d, PURPOSE_RPC);
		assert_garbage(&t.d, rows[i]);
	}
}

/* A HELLO_D whose byte at `at` is `value`. */
static enum hello_verdict listen_to(size_t at, unsigned char value,
				    struct talk *t)
{
	*t = talk_of();
	hello_dial(&t->d, &t->a, SECRET, t->nonce_d, PURPOSE_RPC);
	hello_listen(&t->l, &t->b, SECRET, t->nonce_l);
	t->d.out[2 + at] = value;
	return feed(&t->l, str_of(t->d.out, t->d.out_n), 1000);
}

static void members_that_cannot_be_are_garbage(void **state _unused_)
{
	const size_t purpose = 9, id = 26, name = 34, address = 34 + 1 + 6;
	struct talk t;

	assert_int_equal(listen_to(purpose, PURPOSE_RPC, &t), HELLO_GOES_ON);
	assert_int_equal(listen_to(purpose, 0, &t), HELLO_REFUSED);
	assert_int_equal(t.l.code, HELLO_BAD_PURPOSE);
	assert_int_equal(listen_to(purpose, PURPOSE_END, &t), HELLO_REFUSED);
	assert_int_equal(listen_to(id + 7, 0, &t), HELLO_GARBAGE);
	assert_int_equal(listen_to(name, 0, &t), HELLO_GARBAGE);
	assert_int_equal(listen_to(name, 65, &t), HELLO_GARBAGE);
	assert_int_equal(listen_to(name, 255, &t), HELLO_GARBAGE);
	assert_int_equal(listen_to(name + 1, '\n', &t), HELLO_GARBAGE);
	assert_int_equal(listen_to(name + 1, '\0', &t), HELLO_GARBAGE);
	assert_int_equal(listen_to(address, 0, &t), HELLO_GARBAGE);
	assert_int_equal(listen_to(address, 255, &t), HELLO_GARBAGE);
	assert_int_equal(listen_to(address + 1, '\x1b', &t), HELLO_GARBAGE);
	assert_int_equal(listen_to(address + 1, ' ', &t), HELLO_GARBAGE);
}

/* A later version says more of itself: it is proven, and otherwise ignored. */
static bool add_member(struct talk *t, bool by_dialer, struct buf *m)
{
	uint16_t n = htobe16((uint16_t)(m->n - 2 + 5));

	if (t->messages != 1)
		return true;
	assert_true(by_dialer);
	buf_puts(m, "extra");
	memcpy(m->p, &n, sizeof(n));
	memcpy(t->d.d + t->d.d_n, "extra", 5); /* as if it had sent it */
	t->d.d_n += 5;
	return true;
}

static void what_a_later_version_adds_is_ignored(void **state _unused_)
{
	struct talk t = talk_of();

	t.between = add_member;
	talk_run(&t);
	assert_int_equal(t.vd, HELLO_DONE);
	assert_int_equal(t.vl, HELLO_DONE);
	talk_done(&t);
}

static void words_of_a_refusal_are_safe_to_be_logged(void **state _unused_)
{
	struct talk t = talk_of();
	_cleanup_(buf_done) struct buf m = BUF_INIT(0);
	uint16_t n = htobe16(HELLO_BYTES);

	hello_dial(&t.d, &t.a, SECRET, t.nonce_d, PURPOSE_RPC);
	t.d.out_n = 0;
	buf_append(&m, &n, sizeof(n));
	buf_append(&m, "\x05\x63no\nroot\x1b[2J\xff", 14);
	while (m.n < 2 + HELLO_BYTES)
		buf_putc(&m, 'x');
	assert_int_equal(feed(&t.d, buf_str(&m), 1000), HELLO_REFUSED);
	assert_true(str_starts(str_from(t.d.why), STR("no?root?[2J?")));
	assert_int_equal(strlen(t.d.why), HELLO_WHY_BYTES - 1);
	assert_int_equal(t.d.code, 0x63);
}

/* Any bytes, and messages garbled by chance: nobody is believed. */
static bool garble(struct talk *t, bool by_dialer _unused_, struct buf *m)
{
	uint64_t n = rng_below(t->rng, 4);

	while (n-- > 0)
		m->p[rng_below(t->rng, m->n)] ^=
		    (char)(1 + rng_below(t->rng, 255));
	if (rng_below(t->rng, 8) == 0)
		m->n = 1 + rng_below(t->rng, m->n);
	return true;
}

static void feed_noise(struct hello *h, struct rng *r)
{
	char noise[64];

	for (int i = 0; i < 100 && hello_want(h) > 0; i++) {
		size_t most = 1 + rng_below(r, sizeof(noise));
		size_t n = MIN(hello_want(h), most);

		for (size_t b = 0; b < n; b++)
			noise[b] =
			    (char)(rng_below(r, 3) == 0 ? rng_u64(r)
							: rng_below(r, 6));
		h->out_n = 0;
		if (is_over(hello_feed(h, noise, n)))
			break;
	}
}

static void any_bytes_are_survived(void **state _unused_)
{
	struct rng r;

	test_rng(&r);
	for (int round = 0; round < 20000; round++) {
		struct talk t = talk_of();

		t.rng = &r;
		t.between = garble;
		t.secret_b = STR("of another"); /* nobody may come through */
		talk_run(&t);
		assert_int_not_equal(t.vd, HELLO_DONE);
		assert_int_not_equal(t.vl, HELLO_DONE);
		talk_done(&t);
		hello_listen(&t.l, &t.b, SECRET, t.nonce_l);
		feed_noise(&t.l, &r);
		hello_dial(&t.d, &t.a, SECRET, t.nonce_d, PURPOSE_RPC);
		feed_noise(&t.d, &r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_protocols_get_no_answer),
		cmocka_unit_test(members_that_cannot_be_are_garbage),
		cmocka_unit_test(what_a_later_version_adds_is_ignored),
		cmocka_unit_test(words_of_a_refusal_are_safe_to_be_logged),
		cmocka_unit_test(any_bytes_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
