#include "rpc/pb/wire.h"

#include "pb_world.h"

#define BYTES(lit) str_of(lit, sizeof(lit) - 1)

/* Reads it as that message; 0 or -ERR_. */
static int reads(struct pb_world *w, const struct pb_desc *d, struct str in,
		 void *m)
{
	struct msg_reader rd = pb_reader(w);

	memset(m, 0, d->msg->size);
	return pb_read(&rd, d, in, m);
}

#define assert_refused(w, d, in, m, err, text)                \
	do {                                                  \
		assert_int_equal(reads(w, d, in, m), -(err)); \
		assert_str_is(buf_str(&(w)->why), text);      \
	} while (0)

static void test_kinds_fit_types(void **state _unused_)
{
	const struct pb_desc *d;

	for (size_t i = 0; (d = pb_desc_at(i)) != NULL; i++) {
		for (size_t k = 0; k < d->n; k++) {
			const struct pb_field *f = &d->fields[k];
			const struct field_desc *m;

			assert_true(strlen(f->name) < PB_NAME_BYTES);
			if (k > 0)
				assert_true(f[-1].number < f->number);
			if (f->flags & (PB_UNUSED | PB_FOUND))
				continue;
			m = pb_member(d, f);
			if (f->type == PB_message)
				assert_ptr_equal(f->sub->msg, m->sub);
			assert_int_equal((f->flags & PB_REPEATED) != 0,
					 m->kind == K_strs ||
					     m->kind == K_msgs);
			if (f->type == PB_json)
				assert_true(m->kind == K_raw ||
					    m->kind == K_msg);
			if (f->type == PB_word || f->type == PB_enum)
				assert_int_equal(m->kind, K_enum);
			if (f->type == PB_time || f->type == PB_ns)
				assert_int_equal(m->kind, K_time);
			if (f->type == PB_ms)
				assert_true(m->kind == K_dur ||
					    m->kind == K_secs);
			if (f->type == PB_dur)
				assert_int_equal(m->kind, K_dur);
			if (f->type == PB_secs)
				assert_int_equal(m->kind, K_secs);
			if (f->type == PB_double)
				assert_true(m->kind == K_f64 ||
					    m->kind == K_nano);
			if (f->type == PB_bool)
				assert_int_equal(m->kind, K_bool);
		}
	}
}

static void test_an_enqueue_is_read(void **state)
{
	struct pb_world *w = *state;
	struct m_enqueue m;

	assert_int_equal(reads(w, &pb_EnqueueRequest,
			       BYTES("\x0a\x01q"
				     "\x12\x07{\"a\":1}"
				     "\xa2\x06\x04high"
				     "\xb8\x06\x00"),
			       &m),
			 0);
	assert_str_is(m.queue, "q");
	assert_str_is(m.payload, "{\"a\":1}");
	assert_int_equal(m.priority, PRIORITY_HIGH);
	/* 0 milliseconds of the first delay are not the default ones */
	assert_true(MSG_HAS(&m, enqueue, retry_base_delay));
	assert_false(MSG_HAS(&m, enqueue, max_retries));
	assert_int_equal(w->ignored.n, 0);
}

static void test_no_queue_is_refused(void **state)
{
	struct pb_world *w = *state;
	struct m_enqueue m;

	assert_refused(w, &pb_EnqueueRequest, BYTES("\x12\x02{}"), &m,
		       ERR_VALIDATION_ERROR, "queue is required");
}

static void test_a_payload_must_be_json(void **state)
{
	struct pb_world *w = *state;
	struct m_enqueue m;

	assert_refused(w, &pb_EnqueueRequest, BYTES("\x0a\x01q\x12\x02{]"), &m,
		       ERR_VALIDATION_ERROR,
		       "payload_json: must be JSON; at byte 1: expected a "
		       "string as member name");
	assert_refused(w, &pb_EnqueueRequest,
		       BYTES("\x0a\x01q\xea\x06\x07{\"a\":1}"), &m,
		       ERR_VALIDATION_ERROR,
		       "tags_json.a: must be a string, not a number");
}

static void test_refusals_name_the_field(void **state)
{
	struct pb_world *w = *state;
	struct m_ack_batch m;
	struct m_lifecycle l;

	assert_refused(w, &pb_AckBatchRequest, STR_NULL, &m,
		       ERR_VALIDATION_ERROR, "items is required");
	assert_refused(w, &pb_AckBatchRequest,
		       BYTES("\x0a\x03\x0a\x01j\x0a\x00"), &m,
		       ERR_VALIDATION_ERROR, "items[1].job_id is required");
	assert_refused(w, &pb_LifecycleStreamRequest,
		       BYTES("\x42\x09\x0a\x01q\xa2\x06\x03low"), &l,
		       ERR_VALIDATION_ERROR,
		       "enqueues[0].priority: must be one of critical, high, "
		       "normal");
	assert_refused(w, &pb_LifecycleStreamRequest,
		       BYTES("\x3a\x05\x12\x03 } "), &l, ERR_VALIDATION_ERROR,
		       "acks[0].result_json: must be JSON; at byte 1: expected "
		       "a value");
}

static void test_negative_numbers(void **state)
{
	struct pb_world *w = *state;
	struct str minus_one =
	    BYTES("\x0a\x01q\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	struct m_fetch m;

	assert_refused(w, &pb_FetchBatchRequest, minus_one, &m,
		       ERR_VALIDATION_ERROR, "count: must not be negative");
	w->compat_03 = true;
	assert_int_equal(reads(w, &pb_FetchBatchRequest, minus_one, &m), 0);
	assert_false(MSG_HAS(&m, fetch, count));
}

static void test_bad_bytes_are_refused(void **state)
{
	static const struct {
		struct str in;
		const char *why;
	} rows[] = {
		{ { "\x0a", 1 },
		  "invalid protobuf at byte 1: a value is "
		  "longer than what is left" },
		{ { "\x0a\x05q", 3 },
		  "invalid protobuf at byte 2: a value is "
		  "longer than what is left" },
		{ { "\x00\x00", 2 },
		  "invalid protobuf at byte 1: a field cannot be read" },
		{ { "\x0f", 1 },
		  "invalid protobuf at byte 1: a field cannot be read" },
		{ { "\x08\x01", 2 }, "queue: is not of the type string" },
		{ { "\xa8\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 12 },
		  "invalid protobuf at byte 12: a number is cut off or too "
		  "long" },
		{ { "\xa8\x06\x80", 3 },
		  "invalid protobuf at byte 3: a number is cut off or too "
		  "long" },
		{ { "\xc4\x3e", 2 },
		  "invalid protobuf at byte 2: a group "
		  "ends that is not open" },
		{ { "\xc3\x3e", 2 },
		  "invalid protobuf at byte 2: a group does not end" },
		{ { "\xc9\x06\x01\x02", 4 },
		  "invalid protobuf at byte 2: a value is cut off" },
	};
	struct pb_world *w = *state;
	struct m_enqueue m;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_refused(w, &pb_EnqueueRequest, rows[i].in, &m,
			       ERR_PARSE_ERROR, rows[i].why);
	assert_refused(w, &pb_EnqueueRequest, BYTES("\x0a\x01\xff"), &m,
		       ERR_VALIDATION_ERROR, "queue: must be UTF-8");
}

static void test_groups_have_a_depth(void **state)
{
	struct pb_world *w = *state;
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct m_enqueue m;

	for (size_t i = 0; i < 100000; i++)
		wire_put_tag(&b, 1000, WIRE_GROUP);
	assert_int_equal(reads(w, &pb_EnqueueRequest, buf_str(&b), &m),
			 -ERR_PARSE_ERROR);
	assert_non_null(
	    strstr(arena_cstr(&w->a, buf_str(&w->why)), "nested too deeply"));
}

static void test_lists_have_limits(void **state)
{
	struct pb_world *w = *state;
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct m_ack_batch acks;
	struct m_fetch fetch;

	for (size_t i = 0; i <= LIMIT_ACK_BATCH; i++)
		wire_put_bytes(&b, 1, BYTES("\x0a\x01j"));
	assert_refused(w, &pb_AckBatchRequest, buf_str(&b), &acks,
		       ERR_VALIDATION_ERROR,
		       "items[512]: there may be at most 512");
	b.n -= 5;
	assert_int_equal(reads(w, &pb_AckBatchRequest, buf_str(&b), &acks), 0);
	assert_int_equal(acks.acks_n, LIMIT_ACK_BATCH);
	assert_str_is(acks.acks[LIMIT_ACK_BATCH - 1].job_id, "j");
	buf_clear(&b);
	for (size_t i = 0; i <= LIMIT_LIST_TEXTS; i++)
		wire_put_bytes(&b, 1, STR("q"));
	assert_int_equal(reads(w, &pb_FetchRequest, buf_str(&b), &fetch),
			 -ERR_VALIDATION_ERROR);
}

static void test_what_is_ignored_is_named(void **state)
{
	struct pb_world *w = *state;
	struct m_lifecycle m;

	/* fields of a later version */
	assert_int_equal(reads(w, &pb_LifecycleStreamRequest,
			       BYTES("\x3a\x05\x0a\x01j\x48\x01"
				     "\xc0\x3e\x05"),
			       &m),
			 0);
	assert_int_equal(w->ignored.n, 2);
	assert_str_is(w->ignored.paths[0], "acks[0].field_9");
	assert_str_is(w->ignored.paths[1], "field_1000");
}

static void test_of_a_oneof_the_last_counts(void **state)
{
	struct pb_world *w = *state;
	struct m_reflect_ask m;

	assert_int_equal(reads(w, &pb_ServerReflectionRequest,
			       BYTES("\x1a\x01"
				     "f\x3a\x00"),
			       &m),
			 0);
	assert_false(MSG_HAS(&m, reflect_ask, file_by_filename));
	assert_true(MSG_HAS(&m, reflect_ask, list_services));
}

static void test_long_messages_have_long_lengths(void **state)
{
	struct pb_world *w = *state;
	static char text[40000];
	struct m_fetched job = { 0 };
	struct m_fetch_reply m = { 0 }, back;
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);

	memset(text, '1', sizeof(text));
	for (size_t n = 100; n < sizeof(text); n = n * 3 / 2) {
		MSG_SET(&job, fetched, payload, str_of(text, n));
		MSG_SET_LIST(&m, fetch_reply, jobs, &job, 1);
		buf_clear(&out);
		pb_write(&pb_FetchBatchResponse, &m, &out);
		assert_int_equal(
		    reads(w, &pb_FetchBatchResponse, buf_str(&out), &back), 0);
		assert_int_equal(back.jobs[0].payload.n, n);
	}
}

static void test_no_job_is_an_empty_answer(void **state _unused_)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);
	struct m_fetched m = { 0 };

	pb_write(&pb_FetchResponse, &m, &out);
	assert_int_equal(out.n, 0);
	MSG_SET(&m, fetched, job_id, STR("j"));
	pb_write(&pb_FetchResponse, &m, &out);
	assert_int_equal(out.n, 5);
	assert_memory_equal(out.p, "\x08\x01\x12\x01j", 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds_fit_types),
		PB_TEST(test_an_enqueue_is_read),
		PB_TEST(test_no_queue_is_refused),
		PB_TEST(test_a_payload_must_be_json),
		PB_TEST(test_refusals_name_the_field),
		PB_TEST(test_negative_numbers),
		PB_TEST(test_bad_bytes_are_refused),
		PB_TEST(test_groups_have_a_depth),
		PB_TEST(test_lists_have_limits),
		PB_TEST(test_what_is_ignored_is_named),
		PB_TEST(test_of_a_oneof_the_last_counts),
		PB_TEST(test_long_messages_have_long_lengths),
		cmocka_unit_test(test_no_job_is_an_empty_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
