/*
 * The client of the control socket. A reply that is an error object becomes
 * an error return, so callers see one way of failing.
 */
#include "rt/ctl.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/limits.h"
#include "util/clock.h"
#include "util/json.h"

/* A restart answers after a drain and a start; longer than both may take. */
#define CTL_TIMEOUT_NS  (180 * NS_PER_S)
#define CTL_REPLY_BYTES (1u << 20)

static int ctl_connect(const char *run_dir, struct buf *why)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd, n;

	n = snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/control.sock",
		     run_dir);
	if (n < 0 || (size_t)n >= sizeof(sa.sun_path)) {
		buf_printf(why, "the path %s is too long for a socket",
			   run_dir);
		return -ERR_VALIDATION_ERROR;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		buf_printf(why, "cannot make a socket: %s", strerror(errno));
		return -ERR_INTERNAL_ERROR;
	}
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
		return fd;
	if (errno == ENOENT || errno == ECONNREFUSED)
		buf_printf(why,
			   "no node is running with this directory (%s does "
			   "not answer); is --data-dir or --run-dir right?",
			   sa.sun_path);
	else
		buf_printf(why, "cannot connect to %s: %s", sa.sun_path,
			   strerror(errno));
	(void)close(fd);
	return -ERR_NOT_FOUND;
}

static int ctl_send(int fd, const char *request, struct buf *why)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(0);

	buf_printf(&line, "%s\n", request);
	/* One short line always fits in an empty socket buffer. */
	if (send(fd, line.p, line.n, MSG_NOSIGNAL) == (ssize_t)line.n)
		return 0;
	buf_printf(why, "cannot send to the supervisor: %s", strerror(errno));
	return -ERR_INTERNAL_ERROR;
}

static int ctl_read(int fd, struct buf *reply, struct buf *why)
{
	uint64_t deadline = clock_mono_ns() + CTL_TIMEOUT_NS;
	char chunk[4096];

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now = clock_mono_ns();
		ssize_t n;

		if (now >= deadline) {
			buf_puts(why, "the supervisor does not answer");
			return -ERR_REQUEST_TIMEOUT;
		}
		if (poll(&p, 1, (int)((deadline - now) / NS_PER_MS) + 1) <= 0)
			continue;
		n = recv(fd, chunk, sizeof(chunk), 0);
		if (n == 0)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n > 0)
			buf_append(reply, chunk, (size_t)n);
		if (n < 0 || reply->full) {
			buf_puts(why, "the supervisor's answer was cut off");
			return -ERR_BAD_MESSAGE;
		}
	}
}

static int err_by_code(struct str code)
{
#define ERR(name, number, status, again, rpc, text) \
	if (str_is(code, #name))                    \
		return number;
#include "proto/defs/errors.def"
	return ERR_INTERNAL_ERROR;
}

static int ctl_judge(struct str reply, struct buf *why)
{
	struct json_error bad;
	struct json root, error, code;
	struct arena a = ARENA_INIT;
	int r = 0;

	if (!json_validate(reply, LIMIT_JSON_DEPTH, &bad)) {
		buf_puts(why, "the supervisor's answer cannot be read");
		return -ERR_BAD_MESSAGE;
	}
	root = json_root(reply);
	if (json_type_of(root) == JSON_OBJECT &&
	    json_member(root, "error", &a, &error) &&
	    json_type_of(error) == JSON_STRING) {
		r = -ERR_INTERNAL_ERROR;
		buf_put_str(why, json_string(error, &a));
		if (json_member(root, "code", &a, &code) &&
		    json_type_of(code) == JSON_STRING)
			r = -err_by_code(json_string(code, &a));
	}
	arena_done(&a);
	return r;
}

int ctl_request(const char *run_dir, const char *request, struct buf *ret_reply,
		struct buf *why)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(CTL_REPLY_BYTES);
	int fd, r;

	fd = ctl_connect(run_dir, why);
	if (fd < 0)
		return fd;
	r = ctl_send(fd, request, why);
	if (r == 0)
		r = ctl_read(fd, &reply, why);
	(void)close(fd);
	if (r == 0)
		r = ctl_judge(buf_str(&reply), why);
	if (r == 0)
		buf_put_str(ret_reply, buf_str(&reply));
	return r;
}
