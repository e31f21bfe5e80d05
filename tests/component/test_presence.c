/*
 * Who is there: bounded, however many names come, and those whose fetches wait
 * are kept.
 */
#include "propose/presence.h"

#include "lib/testlib.h"
#include "proto/limits.h"

#define WAITING 100
#define NAMES   (3 * LIMIT_WORKERS)

static struct presence_time at(uint64_t s)
{
	return (struct presence_time){ .mono_ns = s * NS_PER_S,
				       .wall_ns = (1000 + s) * NS_PER_S };
}

static struct present *ask(struct presence *p, unsigned i, struct str queue,
			   uint64_t s)
{
	struct m_fetch m = { 0 };
	char name[32];

	snprintf(name, sizeof(name), "w%u", i);
	MSG_SET(&m, fetch, worker_id, str_from(name));
	MSG_SET_LIST(&m, fetch, queues, &queue, 1);
	return presence_ask(p, &m, at(s));
}

static struct present *find(const struct presence *p, const char *id)
{
	return hmap_get(&p->workers, str_from(id));
}

static void test_bounded_and_waiting_ones_are_kept(void **state _unused_)
{
	struct present *waiting[WAITING];
	struct presence p;

	presence_init(&p);
	for (unsigned i = 0; i < WAITING; i++)
		waiting[i] = ask(&p, i, STR("q"), 0);
	for (unsigned i = WAITING; i < NAMES; i++) {
		presence_leave(&p, ask(&p, i, STR("q"), 1), at(1));
		assert_true(p.workers.n <= LIMIT_WORKERS);
	}
	assert_int_equal(p.workers.n, LIMIT_WORKERS);
	assert_ptr_equal(find(&p, "w0"), waiting[0]);
	assert_ptr_equal(find(&p, "w99"), waiting[WAITING - 1]);
	assert_null(find(&p, "w100"));
	for (unsigned i = 0; i < WAITING; i++)
		presence_leave(&p, waiting[i], at(3));
	presence_done(&p);
}

static void test_no_room_where_all_wait(void **state _unused_)
{
	struct present **all = xcalloc(LIMIT_WORKERS, sizeof(struct present *));
	struct presence p;

	presence_init(&p);
	for (unsigned i = 0; i < LIMIT_WORKERS; i++)
		all[i] = ask(&p, i, STR("q"), 0);
	assert_null(ask(&p, LIMIT_WORKERS, STR("q"), 1));
	presence_heard(&p, STR("another"), at(1));
	assert_int_equal(p.workers.n, LIMIT_WORKERS);
	presence_leave(&p, all[7], at(2));
	presence_heard(&p, STR("another"), at(3));
	assert_null(find(&p, "w7"));
	for (unsigned i = 0; i < LIMIT_WORKERS; i++)
		if (i != 7)
			presence_leave(&p, all[i], at(4));
	presence_done(&p);
	free(all);
}

static void test_forgotten_after_a_day_of_silence(void **state _unused_)
{
	struct presence p;
	struct present *w;

	presence_init(&p);
	w = ask(&p, 1, STR("q"), 0);
	presence_leave(&p, ask(&p, 2, STR("q"), 0), at(0));
	presence_leave(&p, ask(&p, 3, STR("q"), 0), at(0));
	presence_heard(&p, STR("w3"), at(10));
	presence_forget(&p, at(LIMIT_WORKER_IDLE_S - 1));
	assert_int_equal(p.workers.n, 3);
	presence_forget(&p, at(LIMIT_WORKER_IDLE_S));
	assert_null(find(&p, "w2"));
	assert_non_null(find(&p, "w3"));
	presence_forget(&p, at(2 * LIMIT_WORKER_IDLE_S));
	assert_ptr_equal(find(&p, "w1"), w); /* it waits */
	assert_int_equal(p.workers.n, 1);
	presence_leave(&p, w, at(2 * LIMIT_WORKER_IDLE_S));
	presence_done(&p);
}

/* No copy is made for the same queues, and long lists are cut. */
static void test_queues(void **state _unused_)
{
	struct str many[LIMIT_FETCH_QUEUES], name;
	struct m_fetch m = { 0 };
	struct presence p;
	struct present *w;
	size_t pos = 0, n = 0;
	const char *kept;

	presence_init(&p);
	w = ask(&p, 1, STR("a"), 0);
	kept = w->queues;
	assert_ptr_equal(ask(&p, 1, STR("a"), 1), w);
	assert_ptr_equal(w->queues, kept);
	presence_leave(&p, ask(&p, 1, STR("b"), 2), at(2));
	assert_true(presence_next_queue(w, &pos, &name));
	assert_str_is(name, "b");
	assert_false(presence_next_queue(w, &pos, &name));
	for (size_t i = 0; i < LIMIT_FETCH_QUEUES; i++)
		many[i] = STR("a-name-of-some-length");
	MSG_SET(&m, fetch, worker_id, STR("w1"));
	MSG_SET_LIST(&m, fetch, queues, many, LIMIT_FETCH_QUEUES);
	assert_ptr_equal(presence_ask(&p, &m, at(3)), w);
	assert_true(w->queues_n <= LIMIT_WORKER_QUEUES);
	for (pos = 0; presence_next_queue(w, &pos, &name); n++)
		assert_str_is(name, "a-name-of-some-length");
	assert_int_equal(n, LIMIT_WORKER_QUEUES / 22);
	for (int i = 0; i < 3; i++)
		presence_leave(&p, w, at(4));
	presence_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bounded_and_waiting_ones_are_kept),
		cmocka_unit_test(test_no_room_where_all_wait),
		cmocka_unit_test(test_forgotten_after_a_day_of_silence),
		cmocka_unit_test(test_queues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
