/*
 * The loop: timers are never early, everything may be removed in callbacks,
 * and the end of a turn is never missed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/testlib.h"
#include "rt/loop.h"
#include "util/clock.h"

#define TIMERS 300

struct shot {
	struct loop *loop;
	struct loop_timer *timer;
	uint64_t due_ns;
	unsigned *left;
	uint64_t *worst_ns;
};

static void on_shot(void *ctx)
{
	struct shot *s = ctx;
	uint64_t now_ns = clock_mono_ns();

	assert_true(now_ns >= s->due_ns);
	*s->worst_ns = MAX(*s->worst_ns, now_ns - s->due_ns);
	loop_timer_remove(s->timer);
	if (--*s->left == 0)
		loop_stop(s->loop);
}

static void test_timers_are_not_early(void **state)
{
	struct loop *l = loop_new();
	struct shot shots[TIMERS];
	unsigned left = TIMERS;
	uint64_t worst_ns = 0;
	struct rng r;

	(void)state;
	test_rng(&r);
	for (size_t i = 0; i < TIMERS; i++) {
		uint64_t after_ns = 1 + rng_below(&r, 40 * NS_PER_MS);

		shots[i] = (struct shot){ .loop = l,
					  .left = &left,
					  .worst_ns = &worst_ns };
		shots[i].timer = loop_timer_add(l, on_shot, &shots[i]);
		shots[i].due_ns = clock_mono_ns() + after_ns;
		loop_timer_arm(shots[i].timer, after_ns);
	}
	loop_run(l);
	print_message("latest timer: %llu us late\n",
		      (unsigned long long)(worst_ns / NS_PER_US));
	loop_free(l);
}

/* --- a timer of 0 --- */

struct soon {
	struct loop *loop;
	struct loop_timer *timer;
	unsigned runs, turns, reads;
	int fds[2];
};

static void on_soon(void *ctx)
{
	struct soon *s = ctx;

	if (++s->runs == 100)
		loop_stop(s->loop);
	loop_timer_arm(s->timer, 0);
}

static void on_turn(void *ctx)
{
	struct soon *s = ctx;

	s->turns++;
}

static void on_readable(void *ctx, int fd, int events)
{
	struct soon *s = ctx;

	(void)fd;
	assert_int_equal(events, LOOP_READ);
	s->reads++;
}

/* One that arms itself again lets descriptors and the turn's end run. */
static void test_soon(void **state)
{
	struct soon s = { .loop = loop_new() };

	(void)state;
	assert_return_code(pipe2(s.fds, O_CLOEXEC | O_NONBLOCK), errno);
	assert_int_equal(write(s.fds[1], "x", 1), 1);
	(void)loop_fd_add(s.loop, s.fds[0], LOOP_READ, on_readable, &s);
	s.timer = loop_timer_add(s.loop, on_soon, &s);
	loop_on_turn_end(s.loop, on_turn, &s);
	loop_timer_arm(s.timer, 0);
	loop_run(s.loop);
	assert_int_equal(s.runs, 100);
	assert_true(s.turns >= 99);
	assert_true(s.reads >= 99);
	/* both are still there, the timer armed */
	loop_free(s.loop);
	(void)close(s.fds[0]);
	(void)close(s.fds[1]);
}

static void on_disarmed(void *ctx)
{
	(void)ctx;
	fail_msg("a disarmed timer fired");
}

static void on_stop(void *ctx)
{
	loop_stop(ctx);
}

static void test_disarm(void **state)
{
	struct loop *l = loop_new();
	struct loop_timer *soon = loop_timer_add(l, on_disarmed, NULL);
	struct loop_timer *later = loop_timer_add(l, on_disarmed, NULL);
	struct loop_timer *stop = loop_timer_add(l, on_stop, l);

	(void)state;
	loop_timer_arm(soon, 0);
	loop_timer_arm(later, NS_PER_MS);
	loop_timer_arm(stop, 5 * NS_PER_MS);
	loop_timer_disarm(soon);
	loop_timer_disarm(later);
	loop_run(l);
	/* far ones do not overflow; an earlier arming is replaced */
	loop_timer_arm(later, UINT64_MAX);
	loop_timer_arm(stop, UINT64_MAX);
	loop_timer_arm(stop, 0);
	loop_run(l);
	loop_free(l);
}

/* --- removal in callbacks --- */

struct pair {
	struct loop *loop;
	struct loop_fd *a, *b;
	struct loop_timer *ta, *tb;
	unsigned calls;
};

static void on_either_fd(void *ctx, int fd, int events)
{
	struct pair *p = ctx;

	(void)fd;
	(void)events;
	p->calls++;
	/* the other one is due in the same turn */
	loop_fd_remove(p->a);
	loop_fd_remove(p->b);
	loop_stop(p->loop);
}

static void test_remove_descriptors(void **state)
{
	struct pair p = { .loop = loop_new() };
	int x[2], y[2];

	(void)state;
	assert_return_code(pipe2(x, O_CLOEXEC), errno);
	assert_return_code(pipe2(y, O_CLOEXEC), errno);
	assert_int_equal(write(x[1], "x", 1), 1);
	assert_int_equal(write(y[1], "y", 1), 1);
	p.a = loop_fd_add(p.loop, x[0], LOOP_READ, on_either_fd, &p);
	p.b = loop_fd_add(p.loop, y[0], LOOP_READ, on_either_fd, &p);
	loop_run(p.loop);
	assert_int_equal(p.calls, 1);
	/* a descriptor that was removed can be watched again at once */
	p.a = loop_fd_add(p.loop, x[0], LOOP_READ, on_either_fd, &p);
	p.b = loop_fd_add(p.loop, y[0], LOOP_READ, on_either_fd, &p);
	loop_run(p.loop);
	assert_int_equal(p.calls, 2);
	loop_free(p.loop);
	for (int i = 0; i < 2; i++) {
		(void)close(x[i]);
		(void)close(y[i]);
	}
}

static void on_either_timer(void *ctx)
{
	struct pair *p = ctx;

	p->calls++;
	loop_timer_remove(p->ta);
	loop_timer_remove(p->tb);
	loop_stop(p->loop);
}

static void test_remove_timers(void **state)
{
	(void)state;
	for (uint64_t after_ns = 0; after_ns < 2 * NS_PER_MS;
	     after_ns += NS_PER_MS) {
		struct pair p = { .loop = loop_new() };

		p.ta = loop_timer_add(p.loop, on_either_timer, &p);
		p.tb = loop_timer_add(p.loop, on_either_timer, &p);
		loop_timer_arm(p.ta, after_ns);
		loop_timer_arm(p.tb, after_ns);
		loop_run(p.loop);
		assert_int_equal(p.calls, 1);
		loop_free(p.loop);
	}
}

/* --- errors of descriptors --- */

struct broken {
	struct loop *loop;
	struct loop_fd *watch;
	unsigned calls;
};

static void on_broken(void *ctx, int fd, int events)
{
	struct broken *b = ctx;

	(void)fd;
	assert_true((events & LOOP_WRITE) != 0);
	/* kept at first: the error must be told again */
	if (++b->calls < 3)
		return;
	loop_fd_remove(b->watch);
	loop_stop(b->loop);
}

/* A pipe without a reader is in an error condition. */
static void test_error_condition(void **state)
{
	struct broken b = { .loop = loop_new() };
	int fds[2];

	(void)state;
	assert_return_code(pipe2(fds, O_CLOEXEC), errno);
	(void)close(fds[0]);
	b.watch = loop_fd_add(b.loop, fds[1], LOOP_WRITE, on_broken, &b);
	loop_run(b.loop);
	assert_int_equal(b.calls, 3);
	loop_free(b.loop);
	(void)close(fds[1]);
}

/* --- the end of a turn --- */

struct turns {
	struct loop *loop;
	struct loop_timer *timer;
	unsigned todo; /* gathered, must be gone before the loop sleeps */
	unsigned rounds;
	int fds[2];
};

static void gather(struct turns *t)
{
	assert_int_equal(t->todo, 0);
	t->todo++;
	if (++t->rounds == 20)
		loop_stop(t->loop);
}

static void turns_timer(void *ctx)
{
	struct turns *t = ctx;

	gather(t);
	assert_int_equal(write(t->fds[1], "x", 1), 1);
}

static void turns_fd(void *ctx, int fd, int events)
{
	struct turns *t = ctx;
	char c;

	(void)events;
	assert_int_equal(read(fd, &c, 1), 1);
	gather(t);
	loop_timer_arm(t->timer, t->rounds % 4 < 2 ? 0 : NS_PER_MS);
}

static void turns_end(void *ctx)
{
	struct turns *t = ctx;

	t->todo = 0;
}

static void test_turn_end(void **state)
{
	struct turns t = { .loop = loop_new() };

	(void)state;
	assert_return_code(pipe2(t.fds, O_CLOEXEC), errno);
	(void)loop_fd_add(t.loop, t.fds[0], LOOP_READ, turns_fd, &t);
	t.timer = loop_timer_add(t.loop, turns_timer, &t);
	loop_on_turn_end(t.loop, turns_end, &t);
	loop_timer_arm(t.timer, 0);
	loop_run(t.loop);
	/* also of the turn that stopped the loop */
	assert_int_equal(t.todo, 0);
	loop_free(t.loop);
	(void)close(t.fds[0]);
	(void)close(t.fds[1]);
}

/* --- work --- */

struct job {
	struct loop *loop;
	pthread_t caller, worker;
	bool done;
};

static void job_work(void *ctx)
{
	struct job *j = ctx;

	j->worker = pthread_self();
}

/* First it is read, then left alone, then written. */
struct fickle {
	struct loop *loop;
	struct loop_fd *watch;
	struct loop_timer *later;
	unsigned reads, writes;
};

static void on_fickle(void *ctx, int fd, int events)
{
	struct fickle *f = ctx;

	(void)fd;
	f->reads += (events & LOOP_READ) != 0;
	f->writes += (events & LOOP_WRITE) != 0;
	loop_fd_watch(f->watch, 0);
	loop_timer_arm(f->later, 10 * NS_PER_MS);
}

static void on_fickle_later(void *ctx)
{
	struct fickle *f = ctx;

	if (f->writes > 0)
		loop_stop(f->loop);
	else
		loop_fd_watch(f->watch, LOOP_WRITE);
}

static void test_what_is_watched_may_change(void **state)
{
	struct fickle f = { .loop = loop_new() };
	int x[2];

	(void)state;
	assert_return_code(socketpair(AF_UNIX, SOCK_STREAM, 0, x), errno);
	assert_int_equal(write(x[1], "z", 1), 1);
	f.watch = loop_fd_add(f.loop, x[0], LOOP_READ, on_fickle, &f);
	f.later = loop_timer_add(f.loop, on_fickle_later, &f);
	loop_run(f.loop);
	/* the byte is still there, and nobody wanted to know any more */
	assert_int_equal(f.reads, 1);
	assert_int_equal(f.writes, 1);
	loop_free(f.loop);
	(void)close(x[0]);
	(void)close(x[1]);
}

static void be_slow(void *ctx)
{
	uint64_t end_ns = clock_mono_ns() + 30 * NS_PER_MS;

	while (clock_mono_ns() < end_ns)
		continue;
	loop_stop(ctx);
}

static uint64_t longer_than(const struct hist *h, uint64_t ns)
{
	uint64_t n = h->total;

	for (size_t i = 0; i < HIST_BOUNDS && hist_short.ns[i] <= ns; i++)
		n -= h->count[i];
	return n;
}

static uint64_t turns_longer_than(struct loop *l, uint64_t ns)
{
	struct hist h;

	loop_turns(l, &h);
	return longer_than(&h, ns);
}

static uint64_t turns_of_more_work_than(struct loop *l, uint64_t ns)
{
	struct hist h;

	loop_turns_work(l, &h);
	return longer_than(&h, ns);
}

/* What a timer does belongs to the turn, what the loop sleeps does not. */
static void test_turns_are_timed(void **state)
{
	struct loop *l = loop_new();
	struct loop_timer *t = loop_timer_add(l, be_slow, l);
	struct loop_timer *last = loop_timer_add(l, on_stop, l);

	(void)state;
	assert_int_equal(turns_longer_than(l, 0), 0);
	loop_timer_arm(t, NS_PER_MS);
	loop_run(l);
	loop_timer_arm(last, NS_PER_MS); /* the turn ends with the next sleep */
	loop_run(l);
	assert_true(turns_longer_than(l, 20 * NS_PER_MS) >= 1);
	loop_free(l);
}

static void be_away(void *ctx)
{
	struct pollfd nobody = { .fd = -1 };

	(void)poll(&nobody, 1, 30);
	loop_stop(ctx);
}

/* A turn that was kept from the processor took long and worked little. */
static void test_the_work_of_turns_is_counted(void **state)
{
	struct loop *l = loop_new();
	struct loop_timer *away = loop_timer_add(l, be_away, l);
	struct loop_timer *slow = loop_timer_add(l, be_slow, l);
	struct loop_timer *last = loop_timer_add(l, on_stop, l);

	(void)state;
	loop_timer_arm(away, NS_PER_MS);
	loop_run(l);
	loop_timer_arm(last, NS_PER_MS);
	loop_run(l);
	assert_int_equal(turns_longer_than(l, 20 * NS_PER_MS), 1);
	assert_int_equal(turns_of_more_work_than(l, 20 * NS_PER_MS), 0);
	loop_timer_arm(slow, NS_PER_MS);
	loop_run(l);
	loop_timer_arm(last, NS_PER_MS);
	loop_run(l);
	assert_true(turns_longer_than(l, 20 * NS_PER_MS) >= 2);
	assert_in_range(turns_of_more_work_than(l, NS_PER_MS), 0, 2);
	loop_free(l);
}

static void job_done(void *ctx)
{
	struct job *j = ctx;

	assert_true(pthread_equal(pthread_self(), j->caller));
	assert_false(pthread_equal(j->worker, j->caller));
	j->done = true;
	loop_stop(j->loop);
}

static void test_work(void **state)
{
	struct job j = { .loop = loop_new(), .caller = pthread_self() };

	(void)state;
	loop_work(j.loop, job_work, job_done, &j);
	loop_run(j.loop);
	assert_true(j.done);
	/* what is under way at the end is waited for */
	j.done = false;
	loop_work(j.loop, job_work, job_done, &j);
	loop_free(j.loop);
	assert_true(j.done);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timers_are_not_early),
		cmocka_unit_test(test_soon),
		cmocka_unit_test(test_disarm),
		cmocka_unit_test(test_remove_descriptors),
		cmocka_unit_test(test_remove_timers),
		cmocka_unit_test(test_error_condition),
		cmocka_unit_test(test_what_is_watched_may_change),
		cmocka_unit_test(test_turn_end),
		cmocka_unit_test(test_turns_are_timed),
		cmocka_unit_test(test_the_work_of_turns_is_counted),
		cmocka_unit_test(test_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
