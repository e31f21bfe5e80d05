/*
 * Processes for tests of links: the test program itself starts no thread and
 * only forks actors, so nng never sees a fork. An actor and the test exchange
 * lines over a socket pair; a line is what everybody waits for.
 *
 * An actor that fails prints why and exits with 1, which actor_join shows.
 */
#ifndef CORVO_ACTOR_H
#define CORVO_ACTOR_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/testlib.h"
#include "rt/ipc.h"
#include "rt/loop.h"

/* Long enough for any machine; only a failure takes so long. */
#define ACTOR_LIFE_S  600
#define ACTOR_WAIT_MS 240000

struct actor {
	pid_t pid;
	int fd;
};

typedef void actor_fn(int fd, const char *path, unsigned number);

/* Like CHECK, for what an actor finds wrong. */
#define EXPECT(cond)                                                  \
	do {                                                          \
		if (!(cond)) {                                        \
			fprintf(stderr, "%s:%d: actor expected %s\n", \
				__FILE__, __LINE__, #cond);           \
			_exit(1);                                     \
		}                                                     \
	} while (0)

static inline struct actor actor_start(actor_fn *fn, const char *path,
				       unsigned number)
{
	struct actor a;
	int pair[2];

	assert_return_code(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), errno);
	(void)fflush(NULL);
	a.pid = fork();
	assert_return_code(a.pid, errno);
	a.fd = pair[0];
	if (a.pid != 0) {
		(void)close(pair[1]);
		return a;
	}
	(void)close(pair[0]);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)alarm(ACTOR_LIFE_S);
	(void)signal(SIGPIPE, SIG_IGN);
	fn(pair[1], path, number);
	ipc_exit();
	exit(0);
}

static inline void line_send(int fd, const char *line)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%s\n", line);

	(void)!write(fd, text, (size_t)n);
}

/* The next line; false when there is none in time or the other is gone. */
static inline bool line_receive(int fd, char *ret, size_t size)
{
	size_t n = 0;

	while (n + 1 < size) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		if (poll(&p, 1, ACTOR_WAIT_MS) <= 0 ||
		    read(fd, ret + n, 1) != 1)
			return false;
		if (ret[n] == '\n') {
			ret[n] = '\0';
			return true;
		}
		n++;
	}
	return false;
}

static inline void actor_expect(const struct actor *a, const char *line)
{
	char got[64] = "";

	if (!line_receive(a->fd, got, sizeof(got)))
		fail_msg("the actor says nothing, expected \"%s\"", line);
	assert_string_equal(got, line);
}

static inline void actor_join(struct actor *a)
{
	int status;

	assert_int_equal(waitpid(a->pid, &status, 0), a->pid);
	(void)close(a->fd);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static inline void actor_kill(struct actor *a)
{
	int status;

	assert_return_code(kill(a->pid, SIGKILL), errno);
	assert_int_equal(waitpid(a->pid, &status, 0), a->pid);
	(void)close(a->fd);
	/* it must not have failed before */
	assert_true(WIFSIGNALED(status));
}

/* A directory for sockets; two calls of one program give the same. */
static inline const char *actor_path(void)
{
	static char dir[] = "/tmp/corvo-test-XXXXXX";
	static char path[sizeof(dir) + 8];

	if (path[0] == '\0') {
		assert_non_null(mkdtemp(dir));
		(void)snprintf(path, sizeof(path), "%s/link", dir);
	}
	return path;
}

static inline void actor_path_remove(void)
{
	char *end;
	char dir[64];

	(void)snprintf(dir, sizeof(dir), "%s", actor_path());
	(void)unlink(dir);
	end = strrchr(dir, '/');
	*end = '\0';
	(void)rmdir(dir);
}

#endif
