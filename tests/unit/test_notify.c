#include "rt/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/testlib.h"

/* A notify under a supervisor, whose end is *ret_other. */
static void under_supervisor(struct notify *n, int *ret_other)
{
	char text[16];
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	(void)snprintf(text, sizeof(text), "%d", fds[1]);
	(void)setenv("CORVO_NOTIFY_FD", text, 1);
	(void)setenv("CORVO_WATCHDOG_MS", "5000", 1);
	(void)setenv("CORVO_NODE_STARTED_NS", "77", 1);
	notify_init(n);
	assert_int_equal(n->supervisor_fd, fds[1]);
	*ret_other = fds[0];
}

static void assert_heard(int fd, const char *expected)
{
	char text[1024];
	ssize_t n = recv(fd, text, sizeof(text), MSG_DONTWAIT);

	assert_str_is(str_of(text, n > 0 ? (size_t)n : 0), expected);
}

static void say(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void test_by_hand_nothing_happens(void **state _unused_)
{
	struct notify n;
	struct str line;

	(void)unsetenv("CORVO_NOTIFY_FD");
	(void)unsetenv("NOTIFY_SOCKET");
	notify_init(&n);
	assert_int_equal(n.supervisor_fd, -1);
	assert_int_equal(n.systemd_fd, -1);
	assert_int_equal(n.watchdog_ns, 0);
	notify_ready(&n);
	notify_status(&n, "x");
	assert_int_equal(notify_receive(&n, &line), 0);
	notify_done(&n);
}

static void test_words_to_the_supervisor(void **state _unused_)
{
	struct notify n;
	int other;

	under_supervisor(&n, &other);
	assert_null(getenv("CORVO_NOTIFY_FD"));
	assert_null(getenv("CORVO_WATCHDOG_MS"));
	assert_null(getenv("CORVO_NODE_STARTED_NS"));
	assert_int_equal(n.node_started_ns, 77);
	assert_int_equal(n.watchdog_ns, 5 * NS_PER_S / 4);
	notify_ready(&n);
	notify_watchdog(&n);
	notify_status(&n, "%d jobs\nand more", 3);
	notify_stopping(&n);
	assert_heard(other, "READY=1\nWATCHDOG=1\nSTATUS=3 jobs and more\n"
			    "STOPPING=1\n");
	notify_status(&n, "%0500d", 1);
	notify_ready(&n);
	{
		char text[1024];
		ssize_t got = recv(other, text, sizeof(text), 0);

		/* cut, but still two lines */
		assert_in_range(got, 100, 300);
		assert_str_is(str_of(text + got - 9, 9), "\nREADY=1\n");
	}
	notify_done(&n);
	(void)close(other);
}

static void test_lines_from_the_supervisor(void **state _unused_)
{
	struct notify n;
	struct str line;
	int other;

	under_supervisor(&n, &other);
	assert_int_equal(notify_receive(&n, &line), 0);
	say(other, "dra");
	assert_int_equal(notify_receive(&n, &line), 0);
	say(other, "in\nreload\n\nlog-");
	assert_int_equal(notify_receive(&n, &line), 1);
	assert_str_is(line, "drain");
	assert_int_equal(notify_receive(&n, &line), 1);
	assert_str_is(line, "reload");
	assert_int_equal(notify_receive(&n, &line), 1);
	assert_str_is(line, "");
	assert_int_equal(notify_receive(&n, &line), 0);
	say(other, "level debug\n");
	assert_int_equal(notify_receive(&n, &line), 1);
	assert_str_is(line, "log-level debug");
	(void)close(other);
	assert_int_equal(notify_receive(&n, &line), -1);
	notify_ready(&n); /* no SIGPIPE */
	notify_done(&n);
}

static void test_overlong_line_is_forgotten(void **state _unused_)
{
	char flood[1000];
	struct notify n;
	struct str line;
	int other, r;

	under_supervisor(&n, &other);
	memset(flood, 'x', sizeof(flood));
	assert_int_equal(write(other, flood, sizeof(flood)), sizeof(flood));
	say(other, "\ndrain\n");
	for (int i = 0; i < 10; i++) {
		r = notify_receive(&n, &line);
		assert_true(r >= 0);
		if (r == 1 && str_is(line, "drain"))
			break;
	}
	assert_int_equal(r, 1);
	assert_str_is(line, "drain");
	notify_done(&n);
	(void)close(other);
}

static void test_bad_descriptor_is_ignored(void **state _unused_)
{
	static const char *const bad[] = { "", "x", "0", "2", "-1", "999999" };
	struct notify n;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		(void)setenv("CORVO_NOTIFY_FD", bad[i], 1);
		notify_init(&n);
		assert_int_equal(n.supervisor_fd, -1);
		notify_done(&n);
	}
}

/* systemd's end, of an abstract name, as it uses in containers. */
static int be_systemd(char *name, size_t room)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	size_t len;

	(void)snprintf(name, room, "@corvo-test-%d", (int)getpid());
	len = strlen(name);
	memcpy(sa.sun_path + 1, name + 1, len - 1);
	assert_int_equal(
	    bind(fd, (struct sockaddr *)&sa,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
	    0);
	(void)setenv("NOTIFY_SOCKET", name, 1);
	return fd;
}

/* What has no room while systemd is late comes with the next beat. */
static void test_systemd_is_late(void **state _unused_)
{
	struct notify n;
	char name[64], text[2048];
	int fd = be_systemd(name, sizeof(name));
	ssize_t got;

	(void)setenv("WATCHDOG_USEC", "8000000", 1);
	notify_init(&n);
	for (int i = 0; i < 1000; i++) /* more than any queue has room for */
		notify_watchdog(&n);
	notify_status(&n, "old");
	notify_ready(&n);
	notify_status(&n, "new");
	notify_watchdog(&n);
	while (recv(fd, text, sizeof(text), MSG_DONTWAIT) > 0)
		assert_memory_equal(text, "WATCHDOG=1", 10);
	notify_watchdog(&n);
	assert_heard(fd, "WATCHDOG=1\nSTATUS=new\nREADY=1\nSTATUS=old");
	notify_watchdog(&n);
	assert_heard(fd, "WATCHDOG=1");

	/* however many there are, only statuses are forgotten */
	for (int i = 0; i < 1000; i++)
		notify_watchdog(&n);
	notify_status(&n, "first");
	notify_ready(&n);
	for (int i = 0; i < 200; i++)
		notify_status(&n, "%d", i);
	notify_stopping(&n);
	while (recv(fd, text, sizeof(text), MSG_DONTWAIT) > 0)
		;
	notify_watchdog(&n);
	got = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
	assert_true(got > 0);
	text[got] = '\0';
	assert_non_null(strstr(text, "\nREADY=1"));
	assert_non_null(strstr(text, "\nSTOPPING=1\nSTATUS=199\n"));
	assert_null(strstr(text, "STATUS=first"));
	notify_done(&n);
	(void)close(fd);
}

static void test_systemd(void **state _unused_)
{
	struct notify n;
	char name[64];
	int fd = be_systemd(name, sizeof(name));

	(void)setenv("WATCHDOG_USEC", "8000000", 1);
	notify_init(&n);
	assert_null(getenv("NOTIFY_SOCKET"));
	assert_int_equal(n.watchdog_ns, 2 * NS_PER_S);
	notify_ready(&n);
	assert_heard(fd, "READY=1");
	notify_status(&n, "fine");
	assert_heard(fd, "STATUS=fine");
	notify_done(&n);

	/* meant for another process */
	(void)setenv("NOTIFY_SOCKET", name, 1);
	(void)setenv("WATCHDOG_USEC", "8000000", 1);
	(void)setenv("WATCHDOG_PID", "1", 1);
	notify_init(&n);
	assert_int_equal(n.watchdog_ns, 0);
	notify_done(&n);
	(void)close(fd);
}

static void pass(int fd, int passed)
{
	struct iovec words = { "reload\n", 7 };
	struct msghdr m = { .msg_iov = &words, .msg_iovlen = 1 };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(passed));
	memcpy(CMSG_DATA(&control.head), &passed, sizeof(passed));
	m.msg_control = &control;
	m.msg_controllen = sizeof(control);
	assert_int_equal(sendmsg(fd, &m, 0), 7);
}

static void test_settings_that_come_with_a_line(void **state _unused_)
{
	struct notify n;
	struct str line;
	int other, pipes[2], next;
	char byte = 0;

	under_supervisor(&n, &other);
	assert_int_equal(n.settings_fd, -1);
	assert_int_equal(pipe(pipes), 0);
	pass(other, pipes[0]); /* nobody reads any */
	assert_int_equal(notify_receive(&n, &line), 1);
	n.settings_fd = dup(STDIN_FILENO);
	pass(other, pipes[0]);
	assert_int_equal(notify_receive(&n, &line), 1);
	assert_str_is(line, "reload");
	say(pipes[1], "x");
	assert_int_equal(read(n.settings_fd, &byte, 1), 1);
	assert_int_equal(byte, 'x');
	/* and nothing else stays open */
	next = dup(STDIN_FILENO);
	assert_int_equal(next, n.settings_fd + 1);
	(void)close(next);
	(void)close(n.settings_fd);
	(void)close(pipes[0]);
	(void)close(pipes[1]);
	(void)close(other);
	notify_done(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_hand_nothing_happens),
		cmocka_unit_test(test_words_to_the_supervisor),
		cmocka_unit_test(test_lines_from_the_supervisor),
		cmocka_unit_test(test_overlong_line_is_forgotten),
		cmocka_unit_test(test_bad_descriptor_is_ignored),
		cmocka_unit_test(test_settings_that_come_with_a_line),
		cmocka_unit_test(test_systemd),
		cmocka_unit_test(test_systemd_is_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
