/*
 * The skeleton of daemons: what it tells and hears from a supervisor, how it
 * stops, reloads and fails. The test is the supervisor.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "actor.h"
#include "rt/daemon.h"
#include "rt/log.h"
#include "util/clock.h"

static char dir[] = "/tmp/corvo-test-XXXXXX";
static char conf[64];

/* --- a small daemon --- */

struct toy {
	struct loop_timer *timer;
	bool slow; /* never ends its drain */
};

static void toy_wake(void *ctx)
{
	daemon_exit(ctx, 0);
}

static int toy_init(struct daemon *d, struct buf *why)
{
	struct toy *t;
	struct buf path = BUF_INIT(0);

	if (strcmp(d->settings.compat, "0.3") == 0) {
		buf_puts(why, "it cannot be done");
		return -ERR_INTERNAL_ERROR;
	}
	daemon_link_path(d, PROC_RAFTD, PROC_HTTPD, d->number, &path);
	EXPECT(strcmp(strrchr(path.p, '/'), "/raftd-httpd-3.sock") == 0);
	daemon_link_path(d, PROC_RAFTD, PROC_VIEWD, 0, &path);
	EXPECT(strcmp(strrchr(path.p, '/'), "/raftd-viewd.sock") == 0);
	buf_done(&path);
	t = xcalloc(1, sizeof(*t));
	t->slow = d->settings.durable == false;
	t->timer = loop_timer_add(d->loop, toy_wake, d);
	d->state = t;
	daemon_ready(d);
	daemon_ready(d);
	return 0;
}

static void toy_reload(struct daemon *d)
{
	notify_status(&d->notify, "reloaded level=%s", d->settings.log_level);
}

static void toy_drain(struct daemon *d)
{
	struct toy *t = d->state;

	notify_status(&d->notify, "draining");
	if (!t->slow)
		loop_timer_arm(t->timer, NS_PER_MS);
}

static void toy_done(struct daemon *d)
{
	struct toy *t = d->state;

	loop_timer_remove(t->timer);
	free(t);
}

static const struct daemon_ops toy_ops = {
	.proc = PROC_HTTPD,
	.init = toy_init,
	.reload = toy_reload,
	.drain = toy_drain,
	.done = toy_done,
};

/* --- starting it --- */

/* The far end of `fd` is the supervisor; 0: there is none. */
static struct actor start(bool supervised, const char *flag, int *ret_err)
{
	char data[64], config[80];
	char *argv[] = { "corvo-httpd", data, config, (char *)flag, NULL };
	struct actor a;
	int pair[2], err[2];
	char number[16];

	(void)snprintf(data, sizeof(data), "--data-dir=%s/data", dir);
	(void)snprintf(config, sizeof(config), "--config=%s", conf);
	assert_return_code(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), errno);
	assert_return_code(pipe2(err, O_CLOEXEC), errno);
	(void)fflush(NULL);
	a.pid = fork();
	assert_return_code(a.pid, errno);
	if (a.pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)dup2(err[1], STDERR_FILENO);
		(void)dup2(err[1], STDOUT_FILENO);
		(void)close(pair[0]);
		(void)snprintf(number, sizeof(number), "%d", pair[1]);
		(void)setenv("CORVO_NUMBER", "3", 1);
		if (supervised) {
			(void)setenv("CORVO_NOTIFY_FD", number, 1);
			(void)setenv("CORVO_WATCHDOG_MS", "40", 1);
		}
		exit(daemon_main(flag != NULL ? 4 : 3, argv, &toy_ops));
	}
	(void)close(pair[1]);
	(void)close(err[1]);
	a.fd = pair[0];
	*ret_err = err[0];
	return a;
}

/* The status it ends with; -signal when it was killed. */
static int end_of(struct actor *a)
{
	int status;

	assert_int_equal(waitpid(a->pid, &status, 0), a->pid);
	(void)close(a->fd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* As one does who signals a whole group: not the parent of all in it. */
static void kill_by_another(pid_t pid, int sig)
{
	pid_t other = fork();

	assert_return_code(other, errno);
	if (other == 0)
		_exit(kill(pid, sig) == 0 ? 0 : 1);
	assert_int_equal(waitpid(other, NULL, 0), other);
}

/* Waits for a line among beats and others. */
/*
 * Sends the signal until the process has ended: two that come in a row may
 * reach it as one.
 */
static int end_by(struct actor *a, int sig)
{
	siginfo_t info = { 0 };

	while (info.si_pid == 0) {
		(void)kill(a->pid, sig);
		(void)poll(NULL, 0, 20);
		assert_return_code(waitid(P_PID, (id_t)a->pid, &info,
					  WEXITED | WNOHANG | WNOWAIT),
				   errno);
	}
	return end_of(a);
}

static void expect_line(int fd, const char *line)
{
	char got[512] = "";

	do
		if (!line_receive(fd, got, sizeof(got)))
			fail_msg("no line \"%s\"", line);
	while (strstr(got, line) == NULL);
}

static void write_conf(const char *text)
{
	FILE *f = fopen(conf, "we");

	assert_non_null(f);
	(void)fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* --- the tests --- */

static void test_supervised(void **state)
{
	int err;
	struct actor a = start(true, NULL, &err);

	(void)state;
	expect_line(a.fd, "READY=1");
	expect_line(a.fd, "WATCHDOG=1");
	expect_line(a.fd, "WATCHDOG=1");
	expect_line(a.fd, "WATCHDOG=1");
	/* ^C is for the supervisor, and so is what others send */
	(void)kill(a.pid, SIGINT);
	kill_by_another(a.pid, SIGTERM);
	kill_by_another(a.pid, SIGHUP);
	line_send(a.fd, "log-level debug");
	expect_line(err, "log level is debug");
	line_send(a.fd, "log-level loud");
	expect_line(err, "unknown log level");
	line_send(a.fd, "sing");
	expect_line(err, "means nothing");
	line_send(a.fd, "drain");
	expect_line(a.fd, "STOPPING=1");
	expect_line(a.fd, "draining");
	assert_int_equal(end_of(&a), 0);
	(void)close(err);
}

static void test_reload(void **state)
{
	int err;
	struct actor a;

	(void)state;
	write_conf("log_level = info\n");
	a = start(true, NULL, &err);
	expect_line(a.fd, "READY=1");
	write_conf("log_level = warn\nlease_duration = 9s\n");
	(void)kill(a.pid, SIGHUP);
	expect_line(a.fd, "reloaded level=warn");
	expect_line(err, "lease_duration");
	write_conf("log_level = loud\n");
	line_send(a.fd, "reload");
	expect_line(err, "reload refused");
	write_conf("log_level = debug\n");
	line_send(a.fd, "reload");
	expect_line(a.fd, "reloaded level=debug");
	write_conf("");
	(void)kill(a.pid, SIGTERM);
	assert_int_equal(end_of(&a), 0);
	(void)close(err);
}

static void test_signals(void **state)
{
	static const int sigs[] = { SIGTERM, SIGINT };
	int err;
	struct actor a;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sigs); i++) {
		a = start(false, NULL, &err);
		expect_line(err, "ready");
		(void)kill(a.pid, sigs[i]);
		assert_int_equal(end_of(&a), 0);
		(void)close(err);
	}
	/* the second one does not wait */
	a = start(false, "--no-durable", &err);
	expect_line(err, "ready");
	(void)kill(a.pid, SIGTERM);
	expect_line(err, "stopping");
	assert_int_equal(end_by(&a, SIGTERM), 1);
	(void)close(err);
	/* a line and a signal are one wish, not two */
	a = start(true, "--no-durable", &err);
	expect_line(a.fd, "READY=1");
	line_send(a.fd, "drain");
	expect_line(a.fd, "draining");
	(void)kill(a.pid, SIGTERM);
	line_send(a.fd, "log-level info");
	expect_line(err, "log level is info");
	assert_int_equal(end_by(&a, SIGTERM), 1);
	(void)close(err);
}

static void test_supervisor_gone(void **state)
{
	int err;
	struct actor a = start(true, NULL, &err);
	uint64_t start_ns;

	(void)state;
	expect_line(a.fd, "READY=1");
	assert_return_code(shutdown(a.fd, SHUT_RDWR), errno);
	assert_int_equal(end_of(&a), 0);
	(void)close(err);

	a = start(true, "--no-durable", &err);
	expect_line(a.fd, "READY=1");
	start_ns = clock_mono_ns();
	assert_return_code(shutdown(a.fd, SHUT_RDWR), errno);
	assert_int_equal(end_of(&a), 1);
	assert_true(clock_mono_ns() - start_ns < 2 * NS_PER_S);
	(void)close(err);
}

static void test_refusals(void **state)
{
	int err;
	struct actor a;

	(void)state;
	a = start(false, "--nonsense", &err);
	expect_line(err, "nonsense");
	assert_int_equal(end_of(&a), 1);
	(void)close(err);
	a = start(false, "--compat=0.3", &err);
	expect_line(err, "cannot start: it cannot be done");
	assert_int_equal(end_of(&a), 1);
	(void)close(err);
	a = start(false, "--run-dir=/proc/no", &err);
	expect_line(err, "cannot write in the directory /proc/no");
	assert_int_equal(end_of(&a), 1);
	(void)close(err);
	a = start(false, "--version", &err);
	expect_line(err, "corvo-httpd ");
	assert_int_equal(end_of(&a), 0);
	(void)close(err);
	a = start(false, "--help", &err);
	expect_line(err, "--lease-duration");
	assert_int_equal(end_of(&a), 0);
	(void)close(err);
}

static void test_crash(void **state)
{
	int err;
	struct actor a = start(false, NULL, &err);

	(void)state;
	expect_line(err, "ready");
	(void)kill(a.pid, SIGABRT);
	expect_line(err, "httpd-3: signal 06");
	expect_line(err, "test_daemon");
	assert_int_equal(end_of(&a), -SIGABRT);
	(void)close(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_supervised),
		cmocka_unit_test(test_reload),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_supervisor_gone),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_crash),
	};
	char path[80];
	int r;

	if (mkdtemp(dir) == NULL)
		return 1;
	(void)snprintf(conf, sizeof(conf), "%s/corvo.conf", dir);
	write_conf("");
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(conf);
	(void)snprintf(path, sizeof(path), "%s/data/run", dir);
	(void)rmdir(path);
	(void)snprintf(path, sizeof(path), "%s/data", dir);
	(void)rmdir(path);
	(void)rmdir(dir);
	return r;
}
