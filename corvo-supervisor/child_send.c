/*
 * What a child is told, beside signals: lines, and with one a descriptor.
 */
#include <stdio.h>
#include <sys/socket.h>

#include "child.h"

/* passed: a descriptor that goes with it, or -1. */
static bool send_with(struct child *c, const char *line, int passed)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%s\n", line);
	struct iovec words = { text, (size_t)n };
	struct msghdr m = { .msg_iov = &words, .msg_iovlen = 1 };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };

	CHECK(n > 0 && (size_t)n < sizeof(text));
	if (passed >= 0) {
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(passed));
		memcpy(CMSG_DATA(&control.head), &passed, sizeof(passed));
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
	}
	return c->fd >= 0 &&
	       sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == n;
}

bool child_send(struct child *c, const char *line)
{
	return send_with(c, line, -1);
}

bool child_reload(struct child *c)
{
	return c->fd < 0 || send_with(c, "reload", c->host->config_fd);
}
