/* The tables: each row is complete and its lookups find it. */
#include "proto/job.h"
#include "proto/proto.h"
#include "util/clock.h"

#include "lib/testlib.h"

/* A sentence for the reference pages. */
static void assert_doc(const char *name, const char *doc)
{
	size_t n = doc != NULL ? strlen(doc) : 0;

	if (n == 0 || doc[n - 1] != '.')
		fail_msg("%s: \"%s\" is no sentence", name, doc);
}

static void test_messages(void **state _unused_)
{
	const struct msg_desc *d;

	for (size_t i = 0; (d = msg_at(i)) != NULL; i++) {
		assert_doc(d->name, d->doc);
		assert_true(d->n <= 64);
		for (size_t f = 0; f < d->n; f++) {
			const struct field_desc *fd = &d->fields[f];

			assert_doc(fd->name, fd->doc);
			assert_int_equal(fd->name_len, strlen(fd->name));
			assert_int_equal(d->by_tag[fd->tag], f + 1);
			assert_true(fd->offset >= sizeof(uint64_t));
			/* an enum has its values, a text may have words */
			assert_true(fd->kind != K_enum || fd->values != NULL);
			assert_true(fd->values == NULL || fd->kind == K_enum ||
				    fd->kind == K_str || fd->kind == K_strs);
			assert_int_equal(fd->kind == K_msg ||
					     fd->kind == K_msgs,
					 fd->sub != NULL);
			assert_int_equal(fd->kind == K_strs ||
					     fd->kind == K_msgs,
					 fd->count_offset != 0);
		}
	}
}

static void test_ops(void **state _unused_)
{
	const struct call_info *c;
	size_t i;

	for (i = 0; (c = op_at(i)) != NULL; i++) {
		assert_ptr_equal(op_info(c->id), c);
		assert_null(query_info(c->id));
		assert_non_null(c->request);
		assert_non_null(c->reply);
		assert_true(!(c->who & OP_CLIENT) != !(c->who & OP_SERVER));
		assert_doc(c->name, c->doc);
	}
	assert_true(i > 10);
	assert_string_equal(op_info(OP_ACK)->name, "ack");
	assert_ptr_equal(op_info(OP_ACK)->request, &msg_ack);
	assert_null(op_info(0));
	assert_null(op_info(OP_ID_MAX));
	assert_null(op_info(UINT32_MAX));
}

static void test_queries(void **state _unused_)
{
	const struct call_info *c;
	size_t i;

	for (i = 0; (c = query_at(i)) != NULL; i++) {
		assert_ptr_equal(query_info(c->id), c);
		assert_null(op_info(c->id));
		assert_non_null(c->request);
		assert_non_null(c->reply);
		assert_doc(c->name, c->doc);
	}
	assert_true(i > 5);
	assert_null(query_info(1000));
	assert_null(query_info(OP_ACK));
}

static void test_what_changes_something(void **state _unused_)
{
	static const unsigned queries[] = {
		QUERY_CLUSTER_JOIN,     QUERY_CLUSTER_REMOVE,
		QUERY_CLUSTER_TRANSFER, QUERY_CLUSTER_ADD,
		QUERY_CLUSTER_LEAVE,
	};
	const struct call_info *c;
	size_t n = 0;

	for (size_t i = 0; (c = op_at(i)) != NULL; i++)
		assert_true(call_changes(c->id));
	for (size_t i = 0; (c = query_at(i)) != NULL; i++)
		n += call_changes(c->id);
	assert_int_equal(n, ARRAY_SIZE(queries));
	for (size_t i = 0; i < n; i++)
		assert_true(call_changes(queries[i]));
	assert_false(call_changes(0));
	assert_false(call_changes(UINT32_MAX));
}

static void test_metrics(void **state _unused_)
{
	const struct metric_info *m;
	size_t i;

	for (i = 0; (m = metric_at(i)) != NULL; i++) {
		assert_ptr_equal(metric_info(m->id), m);
		assert_true(str_starts(str_from(m->name), STR("corvo_")));
		assert_true(m->proc < PROC_MAX);
		assert_doc(m->name, m->help);
		/* Prometheus: counters end in _total. */
		if (m->type == METRIC_COUNTER_TYPE)
			assert_non_null(strstr(m->name, "_total"));
	}
	assert_true(i > 10);
	assert_null(metric_info(0));
}

static void test_procs(void **state _unused_)
{
	for (int p = 0; p < PROC_MAX; p++) {
		const struct proc_info *info = proc_info((enum proc_id)p);

		assert_non_null(info->name);
		assert_non_null(info->program);
		assert_non_null(info->doc);
	}
	assert_string_equal(proc_info(PROC_RAFTD)->program, "corvo-raftd");
}

static void test_version(void **state _unused_)
{
	assert_true(strlen(corvo_version) >= 5);
	assert_true(corvo_defs_hash != 0);
}

/* What a node passes on for a cluster that does not know all of it yet. */
static void test_an_op_is_made_for_the_level_there_is(void **state _unused_)
{
	_cleanup_(arena_done) struct arena a = { 0 };
	_cleanup_(buf_done) struct buf b = BUF_INIT(0), out = BUF_INIT(0);
	const struct call_info *op = op_info(OP_ENQUEUE);
	struct m_enqueue m = { 0 };
	struct str body;

	MSG_SET(&m, enqueue, job_id, STR("job_1"));
	MSG_SET(&m, enqueue, expire_after, NS_PER_S);
	MSG_SET(&m, enqueue, as_numbers, DUR_EXPIRE_AFTER);
	msg_encode(&msg_enqueue, &m, &b);
	body = buf_str(&b);
	assert_int_equal(op_level(op, 2, &body, &a, &out), 2);
	assert_ptr_equal(body.p, b.p);
	assert_int_equal(op_level(op, 1, &body, &a, &out), 1);
	assert_int_equal(msg_decode(&msg_enqueue, body, &a, &m), 0);
	assert_false(MSG_HAS(&m, enqueue, as_numbers));
	assert_int_equal(m.expire_after, NS_PER_S);

	MSG_SET(&m, enqueue, expected_cost, 1); /* not to be gone without */
	buf_clear(&b);
	msg_encode(&msg_enqueue, &m, &b);
	body = buf_str(&b);
	assert_int_equal(op_level(op, 1, &body, &a, &out), 2);
	assert_ptr_equal(body.p, b.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_ops),
		cmocka_unit_test(test_queries),
		cmocka_unit_test(test_what_changes_something),
		cmocka_unit_test(test_metrics),
		cmocka_unit_test(test_procs),
		cmocka_unit_test(test_version),
		cmocka_unit_test(test_an_op_is_made_for_the_level_there_is),
	};

	return cmocka_run_group_tests_name("proto", tests, NULL, NULL);
}
