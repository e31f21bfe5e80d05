/*
 * Work on a thread of its own: in order, its ends on the loop's thread, and
 * nothing lost when the worker goes while there is work left.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/testlib.h"
#include "rt/worker.h"
#include "util/giveway.h"

#define TASKS 1000

struct world {
	struct loop *loop;
	struct worker *worker;
	pthread_t caller;
	size_t worked;    /* by the thread, then read by the loop */
	size_t done;      /* by the loop */
	atomic_bool hold; /* the thread waits while it is set */
	int nice;         /* of the thread */
};

struct task {
	struct world *w;
	size_t number;
};

static void work(void *ctx)
{
	struct task *t = ctx;

	/* not the test's thread, where alone assert_ may be used */
	CHECK(!pthread_equal(pthread_self(), t->w->caller));
	while (atomic_load(&t->w->hold))
		(void)sched_yield();
	t->w->nice = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
	CHECK(t->w->worked++ == t->number);
}

static void done(void *ctx)
{
	struct task *t = ctx;

	assert_true(pthread_equal(pthread_self(), t->w->caller));
	assert_int_equal(t->w->done++, t->number);
	if (t->w->done == TASKS)
		loop_stop(t->w->loop);
}

static void start(struct world *w, struct task *tasks)
{
	*w = (struct world){ .loop = loop_new(), .caller = pthread_self() };
	w->worker = worker_new(w->loop, "seven", 7);
	atomic_store(&w->hold, true);
	for (size_t i = 0; i < TASKS; i++) {
		tasks[i] = (struct task){ .w = w, .number = i };
		worker_run(w->worker, work, done, &tasks[i]);
	}
	assert_int_equal(w->done, 0); /* never inside worker_run */
}

static void test_in_order_and_back_on_the_loop(void **state _unused_)
{
	static struct task tasks[TASKS];
	struct world w;

	start(&w, tasks);
	atomic_store(&w.hold, false);
	loop_run(w.loop);
	assert_int_equal(w.done, TASKS);
	assert_true(w.nice >= 7); /* more, when the test has more itself */
	worker_free(w.worker);
	assert_int_equal(w.done, TASKS);
	loop_free(w.loop);
}

static void test_free_finishes_what_was_given(void **state _unused_)
{
	static struct task tasks[TASKS];
	struct world w;

	start(&w, tasks);
	atomic_store(&w.hold, false);
	worker_free(w.worker);
	assert_int_equal(w.worked, TASKS);
	assert_int_equal(w.done, TASKS);
	loop_free(w.loop);
	worker_free(NULL);
}

struct portions {
	struct worker *worker;
	unsigned done;
};

static void do_portion(void *ctx _unused_)
{
}

/* There is always one more. */
static void next_portion(void *ctx)
{
	struct portions *p = ctx;

	p->done++;
	if (!worker_is_ending(p->worker))
		worker_run(p->worker, do_portion, next_portion, p);
}

static void test_work_in_portions_ends_with_the_worker(void **state _unused_)
{
	struct loop *l = loop_new();
	struct portions p = { .worker = worker_new(l, "portions", 0) };

	worker_run(p.worker, do_portion, next_portion, &p);
	worker_free(p.worker);
	assert_int_equal(p.done, 1);
	loop_free(l);
}

struct polite {
	struct loop *loop;
	bool gave_way;
};

static void be_polite(void *ctx)
{
	((struct polite *)ctx)->gave_way = give_way();
}

static void end_loop(void *ctx)
{
	loop_stop(((struct polite *)ctx)->loop);
}

static bool gives_way(int nice)
{
	struct polite p = { .loop = loop_new() };
	struct worker *w = worker_new(p.loop, "polite", nice);

	worker_run(w, be_polite, end_loop, &p);
	loop_run(p.loop);
	worker_free(w);
	loop_free(p.loop);
	return p.gave_way;
}

static void test_only_work_of_low_priority_gives_way(void **state _unused_)
{
	assert_true(gives_way(7));
	assert_false(gives_way(0));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order_and_back_on_the_loop),
		cmocka_unit_test(test_free_finishes_what_was_given),
		cmocka_unit_test(test_work_in_portions_ends_with_the_worker),
		cmocka_unit_test(test_only_work_of_low_priority_gives_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
