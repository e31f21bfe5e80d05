/*
 * A client goes through: request line, maybe a wait, reply, close. One
 * deadline bounds whatever it is doing.
 */
#include "ctl_server.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/err.h"
#include "util/clock.h"
#include "util/json.h"

#define CTL_IO_TIMEOUT_NS (5 * NS_PER_S)
#define CTL_DISCARD_READS 8
#define CTL_BACKLOG       16

/* At `path` only when it listens: whoever sees the file is not refused. */
static int ctl_listen(const struct sockaddr_un *sa, const char *path)
{
	mode_t mask;
	int fd, r;

	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* The lock on the run directory is ours, so a file there is old. */
	(void)unlink(sa->sun_path);
	/* Not chmod afterwards: others could connect in between. */
	mask = umask(0177);
	r = bind(fd, (const struct sockaddr *)sa, sizeof(*sa)) < 0 ? -errno : 0;
	(void)umask(mask);
	if (r == 0 &&
	    (listen(fd, CTL_BACKLOG) < 0 || rename(sa->sun_path, path) < 0))
		r = -errno;
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	return fd;
}

int ctl_server_open(struct ctl_server *s, const char *run_dir,
		    ctl_request_fn *on_request, void *ctx, struct buf *why)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int n;

	*s = (struct ctl_server){ .fd = -1,
				  .on_request = on_request,
				  .ctx = ctx };
	for (size_t i = 0; i < CTL_CLIENTS_MAX; i++)
		s->clients[i].fd = -1;
	n = snprintf(s->path, sizeof(s->path), "%s/control.sock", run_dir);
	CHECK(n > 0 && (size_t)n < sizeof(sa.sun_path)); /* settings_load */
	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/control.new",
		       run_dir);
	s->fd = ctl_listen(&sa, s->path);
	if (s->fd >= 0)
		return 0;
	buf_printf(why, "cannot make the control socket %s: %s", s->path,
		   strerror(-s->fd));
	s->fd = -1;
	return -ERR_INTERNAL_ERROR;
}

static void drop(struct ctl_client *c)
{
	if (c->fd >= 0)
		(void)close(c->fd);
	buf_done(&c->out);
	*c = (struct ctl_client){ .fd = -1 };
}

void ctl_server_close(struct ctl_server *s)
{
	if (s->fd < 0)
		return;
	for (size_t i = 0; i < CTL_CLIENTS_MAX; i++)
		drop(&s->clients[i]);
	(void)unlink(s->path);
	(void)close(s->fd);
	s->fd = -1;
}

static struct ctl_client *free_client(struct ctl_server *s)
{
	for (size_t i = 0; i < CTL_CLIENTS_MAX; i++)
		if (s->clients[i].fd < 0)
			return &s->clients[i];
	return NULL;
}

static void on_connect(struct ctl_server *s)
{
	struct ctl_client *c = free_client(s);
	int fd;

	if (c == NULL)
		return;
	fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return;
	*c = (struct ctl_client){ .fd = fd,
				  .deadline_ns =
				      clock_mono_ns() + CTL_IO_TIMEOUT_NS };
}

/*
 * Closing with unread bytes resets the connection and takes our reply away
 * from the client, so a moderate excess is read and forgotten.
 */
static void discard_input(struct ctl_client *c)
{
	char excess[4096];

	for (unsigned i = 0; i < CTL_DISCARD_READS; i++)
		if (recv(c->fd, excess, sizeof(excess), MSG_DONTWAIT) <= 0)
			return;
}

static void send_out(struct ctl_client *c)
{
	ssize_t n = send(c->fd, c->out.p + c->out_sent, c->out.n - c->out_sent,
			 MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		c->out_sent += (size_t)n;
	if (n >= 0 && c->out_sent < c->out.n)
		return;
	discard_input(c);
	drop(c);
}

void ctl_reply(struct ctl_client *c, struct str json)
{
	CHECK(c->fd >= 0 && c->out.n == 0);
	buf_put_str(&c->out, json);
	buf_putc(&c->out, '\n');
	c->waits_for = NULL;
	c->deadline_ns = clock_mono_ns() + CTL_IO_TIMEOUT_NS;
	send_out(c);
}

void ctl_reply_error(struct ctl_client *c, int err, const char *text)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	_cleanup_(buf_done) struct buf clean = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);

	/* It may quote a file, and so any bytes; JSON is UTF-8. */
	buf_put_clean(&clean, str_from(text), "");
	jw_object(&w);
	jw_key(&w, "error");
	jw_str(&w, buf_str(&clean));
	jw_key(&w, "code");
	jw_cstr(&w, err_code(err));
	jw_object_end(&w);
	ctl_reply(c, buf_str(&b));
}

void ctl_wait(struct ctl_client *c, const void *what, uint64_t timeout_ns)
{
	c->waits_for = what;
	c->deadline_ns = clock_mono_ns() + timeout_ns;
}

void ctl_server_wake(struct ctl_server *s, const void *what, int err,
		     const char *text)
{
	for (size_t i = 0; i < CTL_CLIENTS_MAX; i++) {
		struct ctl_client *c = &s->clients[i];

		if (c->fd < 0 || c->waits_for != what)
			continue;
		if (err != 0)
			ctl_reply_error(c, err, text);
		else
			ctl_reply(c, str_from(text));
	}
}

static void on_readable(struct ctl_server *s, struct ctl_client *c)
{
	char *end;
	ssize_t n =
	    recv(c->fd, c->in + c->in_n, sizeof(c->in) - c->in_n, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop(c);
		return;
	}
	c->in_n += (size_t)n;
	end = memchr(c->in, '\n', c->in_n);
	if (end != NULL) {
		c->asked = true;
		s->on_request(s->ctx, c,
			      str_trim(str_of(c->in, (size_t)(end - c->in))));
	} else if (c->in_n == sizeof(c->in)) {
		c->asked = true;
		ctl_reply_error(c, ERR_VALIDATION_ERROR,
				"the request is too long");
	}
}

/*
 * A client that waits is watched for hanging up only, by POLLHUP, which needs
 * no asking for: what it sends after its request stays unread.
 */
size_t ctl_server_poll(const struct ctl_server *s, struct pollfd *fds)
{
	bool room = false;

	if (s->fd < 0)
		return 0;
	for (size_t i = 0; i < CTL_CLIENTS_MAX; i++) {
		const struct ctl_client *c = &s->clients[i];

		room |= c->fd < 0;
		fds[i + 1] = (struct pollfd){ .fd = c->fd };
		if (c->out.n > 0)
			fds[i + 1].events = POLLOUT;
		else if (!c->asked)
			fds[i + 1].events = POLLIN;
	}
	fds[0] = (struct pollfd){ .fd = room ? s->fd : -1, .events = POLLIN };
	return CTL_POLL_FDS;
}

void ctl_server_on_poll(struct ctl_server *s, const struct pollfd *fds,
			size_t n)
{
	/* A request may have closed the server ("stop"): look again. */
	for (size_t i = 1; i < n && s->fd >= 0; i++) {
		struct ctl_client *c = &s->clients[i - 1];

		if (fds[i].revents == 0 || c->fd != fds[i].fd)
			continue;
		if (c->out.n > 0)
			send_out(c);
		else if (!c->asked)
			on_readable(s, c);
		else
			drop(c);
	}
	if (n > 0 && s->fd >= 0 && (fds[0].revents & POLLIN))
		on_connect(s);
}

void ctl_server_tick(struct ctl_server *s, uint64_t now_ns)
{
	for (size_t i = 0; i < CTL_CLIENTS_MAX && s->fd >= 0; i++) {
		struct ctl_client *c = &s->clients[i];

		if (c->fd < 0 || now_ns < c->deadline_ns)
			continue;
		if (c->waits_for != NULL)
			ctl_reply_error(c, ERR_REQUEST_TIMEOUT,
					"it is not ready yet; `ps` shows how "
					"it is doing");
		else
			drop(c);
	}
}

uint64_t ctl_server_next_ns(const struct ctl_server *s)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < CTL_CLIENTS_MAX && s->fd >= 0; i++)
		if (s->clients[i].fd >= 0)
			next = MIN(next, s->clients[i].deadline_ns);
	return next;
}
