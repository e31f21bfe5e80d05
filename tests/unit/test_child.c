/*
 * What the supervisor makes of the silence of a process, at moments that a
 * whole node meets by chance only.
 */
#include "lib/testlib.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "rt/procstat.h"
#include "util/clock.h"

struct world {
	struct settings settings;
	struct child_host host;
	struct child child;
	int theirs; /* the end of the process */
};

/* A process that has served for a while, and does nothing. */
static int set_up(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct procstat_turns t;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	w->settings.watchdog_timeout = NS_PER_S;
	w->host.settings = &w->settings;
	w->theirs = fds[1];
	w->child = (struct child){ .host = &w->host,
				   .proc = PROC_SCHED,
				   .name = "sched",
				   .state = CHILD_READY,
				   .fd = fds[0],
				   .watchdog_ns = NS_PER_S };
	w->child.pid = fork();
	assert_true(w->child.pid >= 0);
	if (w->child.pid == 0)
		for (;;)
			(void)pause();
	do /* what it waited for the processor until then is no excuse */
		procstat_turns(w->child.pid, &t);
	while (t.state != 'S');
	child_forgive(&w->child, clock_mono_ns());
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	(void)kill(w->child.pid, SIGKILL);
	assert_int_equal(waitpid(w->child.pid, NULL, 0), w->child.pid);
	child_done(&w->child);
	(void)close(w->theirs);
	free(w);
	return 0;
}

static void say(const struct world *w, const char *line)
{
	assert_int_equal(send(w->theirs, line, strlen(line), 0), strlen(line));
}

static void who_says_nothing_is_ended(void **state)
{
	struct world *w = *state;

	child_tick(&w->child, w->child.beat_ns + NS_PER_S - 1);
	assert_int_equal(w->child.state, CHILD_READY);
	child_tick(&w->child, w->child.beat_ns + NS_PER_S);
	assert_int_equal(w->child.state, CHILD_KILLED);
}

static void words_that_were_not_read_yet_count(void **state)
{
	struct world *w = *state;
	uint64_t before = w->child.beat_ns;

	w->child.beat_ns -= 2 * NS_PER_S; /* that long we were away */
	say(w, "WATCHDOG=1\n");
	child_tick(&w->child, before);
	assert_int_equal(w->child.state, CHILD_READY);
	assert_true(w->child.beat_ns >= before);
}

static void a_process_that_closed_its_end_is_silent(void **state)
{
	struct world *w = *state;

	assert_int_equal(shutdown(w->theirs, SHUT_RDWR), 0);
	child_tick(&w->child, w->child.beat_ns + NS_PER_S);
	assert_int_equal(w->child.state, CHILD_KILLED);
	assert_int_equal(w->child.fd, -1);
}

#define WITH_CHILD(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_CHILD(who_says_nothing_is_ended),
		WITH_CHILD(words_that_were_not_read_yet_count),
		WITH_CHILD(a_process_that_closed_its_end_is_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
