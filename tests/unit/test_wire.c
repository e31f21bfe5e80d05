/*
 * The writing half of front/wire.c, over a socket that takes only so many bytes
 * at a time: sendmsg and send of this program stand before those of the C
 * library.
 */
#include "front/wire.h"

#include <errno.h>
#include <sys/socket.h>

#include "front/conn.h"
#include "lib/testlib.h"

#define FD   3
#define HEAD "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"
#define BODY "{\"id\":\"j-1\"}"
#define OURS "X-Request-Id: abc\r\nDate: now\r\n"

static struct {
	struct buf got;
	size_t takes; /* of the next bytes */
} sock;

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	size_t room = sock.takes;

	assert_int_equal(fd, FD);
	assert_int_equal(flags, MSG_NOSIGNAL);
	for (size_t i = 0; i < m->msg_iovlen; i++) {
		size_t n = MIN(room, m->msg_iov[i].iov_len);

		buf_append(&sock.got, m->msg_iov[i].iov_base, n);
		room -= n;
	}
	return (ssize_t)(sock.takes - room);
}

ssize_t send(int fd, const void *p, size_t n, int flags)
{
	struct iovec v = { (void *)p, n };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	return sendmsg(fd, &m, flags);
}

/* A part of conn.c that reading needs. */
void conn_refuse(struct conn *c _unused_, int err _unused_,
		 struct str text _unused_)
{
	fail();
}

/* As the library does: what is left of head and body, again and again. */
static ssize_t write_rest(struct str head, struct str body)
{
	struct iovec v[] = { { (void *)head.p, head.n },
			     { (void *)body.p, body.n } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	if (head.n == 0)
		return wire_send(FD, body.p, body.n, MSG_NOSIGNAL);
	if (body.n == 0)
		return wire_send(FD, head.p, head.n, MSG_NOSIGNAL);
	return wire_sendmsg(FD, &m, MSG_NOSIGNAL);
}

static struct str past(struct str s, size_t n)
{
	return str_of(s.p + n, s.n - n);
}

static void write_all(struct str head, struct str body)
{
	while (head.n + body.n > 0) {
		ssize_t n = write_rest(head, body);
		size_t of_head;

		if (n < 0) {
			assert_int_equal(errno, EAGAIN);
			continue;
		}
		assert_true(n > 0 && (size_t)n <= head.n + body.n);
		of_head = MIN((size_t)n, head.n);
		head = past(head, of_head);
		body = past(body, (size_t)n - of_head);
	}
}

static void answer(struct conn *c, const char *headers, struct str body)
{
	buf_clear(&c->headers);
	buf_puts(&c->headers, headers);
	c->headers_sent = 0;
	write_all(STR(HEAD), body);
	assert_int_equal(c->headers_sent, c->headers.n);
}

static void expect(const char *text)
{
	assert_true(str_eq(buf_str(&sock.got), str_from(text)));
	buf_clear(&sock.got);
}

#define WHOLE "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n" OURS "\r\n"

static void headers_come_whole_however_little_is_taken(void **state _unused_)
{
	struct conn c = { .fd = FD };

	wire_add(&c);
	for (size_t n = 1; n <= sizeof(WHOLE BODY); n++) {
		sock.takes = n;
		answer(&c, OURS, STR(BODY));
		expect(WHOLE BODY);
		answer(&c, OURS, STR(""));
		expect(WHOLE);
		answer(&c, "", STR(BODY));
		expect(HEAD BODY);
	}
	wire_remove(&c);
	buf_done(&c.headers);
	buf_done(&sock.got);
	wire_done();
}

/* One whose first byte could not be written is asked again as it was. */
static void a_full_socket_is_told_as_it_is(void **state _unused_)
{
	struct conn c = { .fd = FD };

	wire_add(&c);
	buf_puts(&c.headers, OURS);
	sock.takes = 0;
	assert_int_equal(write_rest(STR(HEAD), STR(BODY)), 0);
	assert_int_equal(c.headers_sent, 0);
	wire_remove(&c);
	buf_done(&c.headers);
	wire_done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_come_whole_however_little_is_taken),
		cmocka_unit_test(a_full_socket_is_told_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
