/*
 * The control client against a forked process that answers once.
 */
#include "rt/ctl.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/testlib.h"
#include "proto/err.h"

static char dir[64];

/* Listens, and a child answers one request line with `reply`. */
static pid_t serve(const char *reply)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char line[128];
	pid_t pid;
	int fd, c;

	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/control.sock",
		       dir);
	(void)unlink(sa.sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 1), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		c = accept(fd, NULL, NULL);
		if (recv(c, line, sizeof(line), 0) != 3 ||
		    memcmp(line, "ps\n", 3) != 0)
			_exit(1);
		_exit(send(c, reply, strlen(reply), 0) < 0);
	}
	(void)close(fd);
	return pid;
}

static int ask(const char *reply, struct buf *ret_reply, struct buf *why)
{
	pid_t pid = serve(reply);
	int r = ctl_request(dir, "ps", ret_reply, why);
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return r;
}

static void test_reply(void **state _unused_)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	assert_int_equal(ask("{\"ok\":true}\n", &reply, &why), 0);
	assert_str_is(buf_str(&reply), "{\"ok\":true}\n");
}

static void test_error_reply(void **state _unused_)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	assert_int_equal(
	    ask("{\"error\":\"who?\",\"code\":\"NOT_FOUND\"}", &reply, &why),
	    -ERR_NOT_FOUND);
	assert_str_is(buf_str(&why), "who?");
	assert_int_equal(reply.n, 0);
}

static void test_broken_reply(void **state _unused_)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	assert_int_equal(ask("{\"ok\":tr", &reply, &why), -ERR_BAD_MESSAGE);
	assert_int_equal(ask("", &reply, &why), -ERR_BAD_MESSAGE);
}

static void test_nobody_there(void **state _unused_)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	char path[256];

	assert_int_equal(ctl_request("/no/such/dir", "ps", &reply, &why),
			 -ERR_NOT_FOUND);
	buf_putc(&why, '\0');
	assert_non_null(strstr(why.p, "no node is running"));
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(ctl_request(path, "ps", &reply, &why),
			 -ERR_VALIDATION_ERROR);
}

static int set_up(void **state _unused_)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/corvo-test-XXXXXX");
	return mkdtemp(dir) != NULL ? 0 : -1;
}

static int tear_down(void **state _unused_)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/control.sock", dir);
	(void)unlink(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reply),
		cmocka_unit_test(test_error_reply),
		cmocka_unit_test(test_broken_reply),
		cmocka_unit_test(test_nobody_there),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
