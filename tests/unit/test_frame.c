/* Envelopes: round trips, and every way to break them. */
#include "proto/frame.h"

#include "lib/testlib.h"
#include "proto/mpk.h"

static void write_requests(struct buf *b, size_t n)
{
	struct frame_writer w;

	frame_begin(&w, b, FRAME_REQUEST, 42);
	for (size_t i = 0; i < n; i++) {
		struct frame_request r = { .id = i << 40,
					   .op = OP_FETCH,
					   .flags = i % 2 ? FRAME_RESEND : 0,
					   .deadline_ns = i << 50,
					   .key = STR("mail"),
					   .body = STR("\x81\x01\xa1q") };

		frame_add_request(&w, &r);
	}
	frame_end(&w);
}

static void write_replies(struct buf *b)
{
	static const int errs[] = { 0, ERR_NOT_FOUND, -ERR_NOT_FOUND };
	struct frame_writer w;

	frame_begin(&w, b, FRAME_REPLY, 1);
	for (size_t i = 0; i < ARRAY_SIZE(errs); i++) {
		struct frame_reply r = { .id = i,
					 .err = errs[i],
					 .seq = UINT64_MAX,
					 .body = STR("\x80") };

		frame_add_reply(&w, &r);
	}
	frame_end(&w);
}

static void write_hello(struct buf *b)
{
	struct frame_hello h = { .proc = PROC_HTTPD,
				 .number = 2,
				 .pid = 4711,
				 .defs_hash = corvo_defs_hash,
				 .version = str_from(corvo_version) };
	struct frame_writer w;

	frame_begin(&w, b, FRAME_HELLO, 0);
	frame_add_hello(&w, &h);
	frame_end(&w);
}

static void write_cancels(struct buf *b)
{
	struct frame_writer w;

	frame_begin(&w, b, FRAME_CANCEL, 3);
	frame_add_cancel(&w, 7);
	frame_add_cancel(&w, UINT64_MAX);
	frame_end(&w);
}

static void write_part(struct buf *b)
{
	struct frame_part p = { UINT64_MAX, STR("some of them") };
	struct frame_writer w;

	frame_begin(&w, b, FRAME_PART, 3);
	frame_add_part(&w, &p);
	frame_end(&w);
}

static void write_entry(struct buf *b)
{
	struct frame_writer w;

	entry_begin_for(&w, b, 1700000000 * NS_PER_S, UINT64_MAX - 1,
			(struct entry_caller[]){ { UINT64_MAX, 7 }, { 1, 0 } },
			2);
	for (uint32_t i = 1; i < 20; i++)
		entry_add(&w, &(struct entry_item){ .op = i,
						    .flags = FRAME_RESEND,
						    .body = STR("\x80"),
						    .caller = i % 3,
						    .id = i << 20 });
	entry_end(&w);
}

/* As release 0.4.0 wrote it. */
static void write_old_entry(struct buf *b)
{
	mpk_array(b, 4);
	mpk_u64(b, 1);
	mpk_u64(b, 1700000000 * NS_PER_S);
	mpk_u64(b, 5);
	mpk_array(b, 1);
	mpk_array(b, 3);
	mpk_u64(b, OP_ACK);
	mpk_u64(b, FRAME_RESEND);
	mpk_bin(b, STR("\x80"));
}

static void test_requests(void **state _unused_)
{
	static const size_t counts[] = { 0, 1, 15, 16, 1000, 70000 };
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(arena_done) struct arena a = ARENA_INIT;

	for (size_t c = 0; c < ARRAY_SIZE(counts); c++) {
		struct frame f;

		write_requests(&b, counts[c]);
		assert_int_equal(frame_decode(buf_str(&b), &a, &f), 0);
		assert_int_equal(f.kind, FRAME_REQUEST);
		assert_int_equal(f.epoch, 42);
		assert_int_equal(f.n, counts[c]);
		for (size_t i = 0; i < f.n; i++) {
			assert_true(f.requests[i].id == i << 40);
			assert_int_equal(f.requests[i].op, OP_FETCH);
			assert_int_equal(f.requests[i].flags, i % 2);
			assert_true(f.requests[i].deadline_ns == i << 50);
			assert_str_is(f.requests[i].key, "mail");
			assert_int_equal(f.requests[i].body.n, 4);
		}
		arena_reset(&a);
	}
}

static void test_others(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	struct frame f;

	write_hello(&b);
	assert_int_equal(frame_decode(buf_str(&b), &a, &f), 0);
	assert_int_equal(f.kind, FRAME_HELLO);
	assert_int_equal(f.hello.proc, PROC_HTTPD);
	assert_int_equal(f.hello.number, 2);
	assert_int_equal(f.hello.pid, 4711);
	assert_true(f.hello.defs_hash == corvo_defs_hash);
	assert_str_is(f.hello.version, corvo_version);

	write_cancels(&b);
	assert_int_equal(frame_decode(buf_str(&b), &a, &f), 0);
	assert_int_equal(f.n, 2);
	assert_true(f.cancels[0] == 7 && f.cancels[1] == UINT64_MAX);

	write_replies(&b);
	assert_int_equal(frame_decode(buf_str(&b), &a, &f), 0);
	assert_int_equal(f.n, 3);
	assert_int_equal(f.replies[1].err, ERR_NOT_FOUND);
	assert_int_equal(f.replies[2].err, -ERR_NOT_FOUND);
	assert_true(f.replies[2].seq == UINT64_MAX);
	assert_int_equal(f.replies[2].body.n, 1);

	write_part(&b);
	assert_int_equal(frame_decode(buf_str(&b), &a, &f), 0);
	assert_int_equal(f.kind, FRAME_PART);
	assert_true(f.part.size == UINT64_MAX);
	assert_str_is(f.part.bytes, "some of them");
}

static void test_entry(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	struct entry e;

	write_entry(&b);
	assert_int_equal(entry_decode(buf_str(&b), &a, &e), 0);
	assert_int_equal(e.format, STORED_FORMAT);
	assert_true(e.now_ns == 1700000000 * NS_PER_S);
	assert_true(e.seed == UINT64_MAX - 1);
	assert_int_equal(e.n, 19);
	assert_int_equal(e.items[18].op, 19);
	assert_int_equal(e.items[18].flags, FRAME_RESEND);
	assert_int_equal(e.items[0].body.n, 1);
	assert_int_equal(e.callers_n, 2);
	assert_true(e.callers[0].origin == UINT64_MAX);
	assert_int_equal(e.callers[0].done, 7);
	assert_int_equal(e.items[18].caller, 1);
	assert_int_equal(e.items[18].id, 19 << 20);
	assert_int_equal(e.items[2].caller, 0);
}

static void test_entry_names_a_caller_it_has(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	struct frame_writer w;
	struct entry e;

	entry_begin(&w, &b, 1, 1);
	entry_add(&w, &(struct entry_item){
			  .op = OP_ACK, .body = STR("\x80"), .caller = 1 });
	entry_end(&w);
	assert_int_equal(entry_decode(buf_str(&b), &a, &e), -ERR_BAD_MESSAGE);
}

/* The format is the second byte. */
static void test_entry_of_another_format(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	struct entry e;

	write_old_entry(&b);
	assert_int_equal(entry_decode(buf_str(&b), &a, &e), 0);
	assert_int_equal(e.format, 1);
	assert_int_equal(e.n, 1);
	assert_int_equal(e.callers_n, 0);
	assert_int_equal(e.items[0].op, OP_ACK);
	assert_int_equal(e.items[0].caller, 0);
	b.p[1] = STORED_FORMAT; /* whose shape it does not have */
	assert_int_equal(entry_decode(buf_str(&b), &a, &e), -ERR_BAD_MESSAGE);
	buf_clear(&b);
	write_entry(&b);
	b.p[1] = STORED_FORMAT + 1;
	assert_int_equal(entry_decode(buf_str(&b), &a, &e), -ERR_BAD_MESSAGE);
	assert_int_equal(entry_format(buf_str(&b)), STORED_FORMAT + 1);
	b.p[1] = 0;
	assert_int_equal(entry_decode(buf_str(&b), &a, &e), -ERR_BAD_MESSAGE);
	assert_int_equal(entry_format(STR("")), 0);
	assert_int_equal(entry_format(STR("\x90")), 0);
	assert_int_equal(entry_format(STR("\x05")), 0);
}

static int decode_any(struct str in, struct arena *a)
{
	struct frame f;
	struct entry e;
	int as_entry = entry_decode(in, a, &e);
	int as_frame = frame_decode(in, a, &f);

	return as_frame == 0 || as_entry == 0 ? 0 : as_frame;
}

static void write_any(struct buf *b, int which)
{
	switch (which) {
	case 0:
		write_requests(b, 3);
		break;
	case 1:
		write_hello(b);
		break;
	case 2:
		write_cancels(b);
		break;
	case 3:
		write_replies(b);
		break;
	case 4:
		write_part(b);
		break;
	default:
		write_entry(b);
		break;
	}
}

static void test_truncation(void **state _unused_)
{
	for (int which = 0; which < 6; which++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);
		_cleanup_(arena_done) struct arena a = ARENA_INIT;

		write_any(&b, which);
		for (size_t n = 0; n < b.n; n++) {
			char *part = xmalloc(n + 1);

			memcpy(part, b.p, n);
			assert_int_equal(decode_any(str_of(part, n), &a),
					 -ERR_BAD_MESSAGE);
			free(part);
		}
		buf_putc(&b, 1);
		assert_int_equal(decode_any(buf_str(&b), &a), -ERR_BAD_MESSAGE);
	}
}

static void test_byte_flips(void **state _unused_)
{
	struct rng rng;

	test_rng(&rng);
	for (int which = 0; which < 6; which++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);
		_cleanup_(arena_done) struct arena a = ARENA_INIT;

		write_any(&b, which);
		for (int i = 0; i < 5000; i++) {
			size_t at = rng_below(&rng, b.n);
			char was = b.p[at];

			b.p[at] = (char)rng_u64(&rng);
			(void)decode_any(buf_str(&b), &a);
			b.p[at] = was;
			arena_reset(&a);
		}
	}
}

static void test_wrong_shapes(void **state _unused_)
{
	static const struct str bad[] = {
		STR("\x94\x01\x02\x01\x90"),         /* version */
		STR("\x94\x02\x09\x01\x90"),         /* kind */
		STR("\x94\x02\x00\x01\x90"),         /* kind */
		STR("\x94\x02\x02\xff\x90"),         /* epoch */
		STR("\x93\x02\x02\x01"),             /* too short */
		STR("\x95\x02\x02\x01\x90\x01"),     /* too long */
		STR("\x94\x02\x02\x01\x80"),         /* items no array */
		STR("\x94\x02\x02\x01\x91\x01"),     /* request no array */
		STR("\x94\x02\x01\x01\x90"),         /* hello without item */
		STR("\x94\x02\x01\x01\x91\x91\x01"), /* short hello */
		STR("\x94\x02\x03\x01\x91\xa1x"),    /* cancel text */
		STR("\x94\x02\x04\x01\x91\x94\x01\xce\xff\xff\xff\xff\x01\xa0"),
		STR("\x94\x02\x02\x01\x91\x97\x01\xcf\0\0\0\1\0\0\0\0\x01"
		    "\x01\x01\xa0\xa0"), /* op above 32 bits */
	};
	_cleanup_(arena_done) struct arena a = ARENA_INIT;
	struct frame f;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (frame_decode(bad[i], &a, &f) != -ERR_BAD_MESSAGE)
			fail_msg("case %zu was accepted", i);
	/* A longer hello is a newer program, which must be told apart. */
	assert_int_equal(
	    frame_decode(STR("\x94\x02\x01\x01\x91\x97\x01\x02\x03\x04\xa1"
			     "5\x06\xc0"),
			 &a, &f),
	    0);
}

static void test_full(void **state _unused_)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(100);

	write_requests(&b, 50);
	assert_true(b.full);
	write_requests(&b, 1); /* begins anew */
	assert_false(b.full);
}

/* What was sent before may have been done then. */
static void test_refusals(void **state _unused_)
{
	struct frame_request r = { .op = QUERY_CLUSTER_REMOVE };

	assert_int_equal(frame_refusal(&r, ERR_SHUTTING_DOWN),
			 ERR_SHUTTING_DOWN);
	assert_int_equal(frame_late(&r), ERR_LEADER_UNAVAILABLE);
	r.flags = FRAME_RESEND;
	assert_int_equal(frame_refusal(&r, ERR_SHUTTING_DOWN),
			 ERR_OUTCOME_UNKNOWN);
	assert_int_equal(frame_late(&r), ERR_OUTCOME_UNKNOWN);
	r.op = QUERY_WHY;
	assert_int_equal(frame_refusal(&r, ERR_SHUTTING_DOWN),
			 ERR_SHUTTING_DOWN);
	assert_int_equal(frame_late(&r), ERR_REQUEST_TIMEOUT);
	r.op = OP_ENQUEUE; /* has the answer of the first time */
	assert_int_equal(frame_refusal(&r, ERR_OVERLOADED), ERR_OVERLOADED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_entry),
		cmocka_unit_test(test_entry_of_another_format),
		cmocka_unit_test(test_entry_names_a_caller_it_has),
		cmocka_unit_test(test_truncation),
		cmocka_unit_test(test_byte_flips),
		cmocka_unit_test(test_wrong_shapes),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
