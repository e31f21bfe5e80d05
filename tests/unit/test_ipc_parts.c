/*
 * What links are made of: messages out of bytes in any portions, and finding
 * the descriptor of a connection.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/testlib.h"
#include "rt/ipc_bytes.h"
#include "rt/ipc_fd.h"
#include "rt/ipc_head.h"
#include "util/buf.h"

/* --- bytes --- */

#define MESSAGES    300
#define LARGE_BYTES (1u << 20)

static void put(struct buf *b, const char *data, size_t n)
{
	struct ipc_head h = ipc_head_of(n);

	buf_append(b, &h, sizeof(h));
	buf_append(b, data, n);
}

/* Some are empty, and some longer than a read. */
static size_t length_of(unsigned number)
{
	return number % 50 == 49 ? LARGE_BYTES : number * 7 % 1000;
}

static void test_messages_come_out_as_they_went_in(void **state _unused_)
{
	struct buf sent = BUF_INIT(0);
	struct ipc_rx rx;
	struct rng rng;
	struct str m;
	unsigned got = 0;
	size_t at = 0;
	char *data = xmalloc(LARGE_BYTES);

	test_rng(&rng);
	for (unsigned i = 0; i < MESSAGES; i++) {
		memset(data, (int)i, length_of(i));
		put(&sent, data, length_of(i));
	}
	ipc_rx_init(&rx);
	while (at < sent.n) {
		size_t n = MIN(sent.n - at, rx.cap - rx.n);

		assert_true(n > 0); /* there is always room for a read */
		n = 1 + rng_below(&rng, n);
		memcpy(rx.p + rx.n, sent.p + at, n);
		rx.n += n;
		at += n;
		while (ipc_rx_next(&rx, &m) > 0) {
			assert_int_equal(m.n, length_of(got));
			assert_true(m.n == 0 || (m.p[0] == (char)got &&
						 m.p[m.n - 1] == (char)got));
			got++;
		}
		ipc_rx_settle(&rx);
	}
	assert_int_equal(got, MESSAGES);
	assert_int_equal(rx.n, 0);
	assert_true(rx.cap < LARGE_BYTES); /* what was large is given back */
	ipc_rx_done(&rx);
	buf_done(&sent);
	free(data);
}

static void test_what_is_no_message_is_noticed(void **state _unused_)
{
	struct ipc_rx rx;
	struct str m;

	ipc_rx_init(&rx);
	memcpy(rx.p, "GET / HTTP/1.1", 14);
	rx.n = 14;
	assert_int_equal(ipc_rx_next(&rx, &m), -1);
	ipc_rx_clear(&rx);
	assert_int_equal(ipc_rx_next(&rx, &m), 0);
	ipc_rx_done(&rx);
}

static void test_the_rest_of_a_message_is_kept(void **state _unused_)
{
	struct ipc_head h = ipc_head_of(5);
	struct buf whole = BUF_INIT(0);
	struct ipc_tx tx = { 0 };

	put(&whole, "hello", 5);
	for (size_t from = 0; from < whole.n; from++) {
		ipc_tx_keep(&tx, &h, "hello", 5, from);
		assert_int_equal(tx.n - tx.at, whole.n - from);
		assert_memory_equal(tx.p, whole.p + from, tx.n);
	}
	free(tx.p);
	buf_done(&whole);
}

/* --- descriptors --- */

struct ends {
	struct sockaddr_un at;
	int listener, dialled, accepted;
};

static void connect_ends(struct ends *e)
{
	e->dialled = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(
	    connect(e->dialled, (struct sockaddr *)&e->at, sizeof(e->at)), 0);
	e->accepted = accept(e->listener, NULL, NULL);
	assert_true(e->accepted >= 0);
}

static void open_ends(struct ends *e)
{
	e->at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(e->at.sun_path, sizeof(e->at.sun_path),
		       "/tmp/corvo-ipc-fd-%d", (int)getpid());
	(void)unlink(e->at.sun_path);
	e->listener = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(
	    bind(e->listener, (struct sockaddr *)&e->at, sizeof(e->at)), 0);
	assert_int_equal(listen(e->listener, 2), 0);
	connect_ends(e);
}

static void close_ends(struct ends *e)
{
	(void)close(e->dialled);
	(void)close(e->accepted);
	(void)close(e->listener);
	(void)unlink(e->at.sun_path);
}

static ino_t inode_of(int fd)
{
	struct stat s;

	assert_int_equal(fstat(fd, &s), 0);
	return s.st_ino;
}

static bool is_inode(void *ctx, ino_t inode)
{
	return *(ino_t *)ctx == inode;
}

/* The inode of what is found; 0: nothing. The copy is of the same socket. */
static ino_t found(const struct ends *e, bool accepted, ino_t known)
{
	ino_t inode = 0;
	int fd =
	    ipc_fd_find(e->at.sun_path, accepted, is_inode, &known, &inode);

	if (fd < 0)
		return 0;
	assert_int_equal(inode_of(fd), inode);
	assert_true(fd != e->dialled && fd != e->accepted);
	assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	(void)close(fd);
	return inode;
}

static void test_each_end_is_found(void **state _unused_)
{
	struct ends e;

	open_ends(&e);
	assert_int_equal(found(&e, false, 0), inode_of(e.dialled));
	assert_int_equal(found(&e, true, 0), inode_of(e.accepted));
	close_ends(&e);
	assert_int_equal(found(&e, false, 0), 0);
}

static void test_of_two_the_one_that_is_not_known(void **state _unused_)
{
	struct ends one, two;

	open_ends(&one);
	two = one;
	connect_ends(&two);
	assert_int_equal(found(&two, false, 0), 0); /* which of them? */
	assert_int_equal(found(&two, false, inode_of(one.dialled)),
			 inode_of(two.dialled));
	assert_int_equal(found(&two, true, inode_of(one.accepted)),
			 inode_of(two.accepted));
	(void)close(two.dialled);
	(void)close(two.accepted);
	close_ends(&one);
}

static void test_one_that_has_ended_is_not_it(void **state _unused_)
{
	struct ends one, two;

	open_ends(&one);
	assert_int_equal(shutdown(one.dialled, SHUT_RDWR), 0);
	assert_int_equal(found(&one, false, 0), 0);
	two = one;
	connect_ends(&two);
	assert_int_equal(found(&two, false, 0), inode_of(two.dialled));
	assert_int_equal(found(&two, true, 0), inode_of(two.accepted));
	(void)close(two.dialled);
	(void)close(two.accepted);
	close_ends(&one);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_come_out_as_they_went_in),
		cmocka_unit_test(test_what_is_no_message_is_noticed),
		cmocka_unit_test(test_the_rest_of_a_message_is_kept),
		cmocka_unit_test(test_each_end_is_found),
		cmocka_unit_test(test_of_two_the_one_that_is_not_known),
		cmocka_unit_test(test_one_that_has_ended_is_not_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
