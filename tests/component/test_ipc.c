/*
 * Links between real processes: order, sizes, peers that die, backpressure.
 */
#include <sys/un.h>

#include "actor.h"
#include "proto/err.h"
#include "proto/limits.h"

#define ECHO_COUNT  100000u
#define ECHO_FLIGHT 64u
#define LARGE_BYTES (20u << 20)
#define KILLS       15
#define NOTE_EVERY  20u

/* --- an end that sends back what it gets --- */

struct echo {
	struct loop *loop;
	struct link *link;
	struct buf *waiting; /* messages not sent yet */
	size_t n, cap, next;
};

static void echo_flush(struct echo *e)
{
	while (e->next < e->n && link_is_up(e->link) &&
	       !link_is_sending(e->link)) {
		struct buf *b = &e->waiting[e->next++];

		/* fails only when the peer has just left */
		(void)link_send(e->link, b->p, b->n);
		buf_done(b);
	}
	if (e->next == e->n)
		e->next = e->n = 0;
}

static void echo_drop(struct echo *e)
{
	while (e->next < e->n)
		buf_done(&e->waiting[e->next++]);
	e->next = e->n = 0;
}

static void echo_up(void *ctx)
{
	(void)ctx;
}

static void echo_down(void *ctx)
{
	echo_drop(ctx);
}

static void echo_message(void *ctx, const void *data, size_t n)
{
	struct echo *e = ctx;

	if (e->n == e->cap) {
		e->cap = MAX(64, e->cap * 2);
		e->waiting = xrealloc(e->waiting, e->cap * sizeof(struct buf));
	}
	e->waiting[e->n] = BUF_INIT(0);
	buf_append(&e->waiting[e->n++], data, n);
	echo_flush(e);
}

static void echo_sent(void *ctx)
{
	echo_flush(ctx);
}

static const struct link_ops echo_ops = { echo_up, echo_down, echo_message,
					  echo_sent };

static void stop_on_line(void *ctx, int fd, int events)
{
	struct echo *e = ctx;

	(void)fd;
	(void)events;
	loop_stop(e->loop);
}

/* Echoes until the test says anything. */
static void echo_actor(int fd, const char *path, unsigned number)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct echo e = { .loop = loop_new() };
	struct ipc *ipc = ipc_new(e.loop);

	(void)number;
	EXPECT(ipc_listen(ipc, path, &echo_ops, &e, &e.link, &why) == 0);
	(void)loop_fd_add(e.loop, fd, LOOP_READ, stop_on_line, &e);
	line_send(fd, "listening");
	loop_run(e.loop);
	ipc_free(ipc);
	loop_free(e.loop);
	echo_drop(&e);
	free(e.waiting);
}

/* --- order --- */

struct counter {
	struct loop *loop;
	struct link *link;
	uint32_t sent, got;
	struct rng rng;
};

static void counter_flush(struct counter *c)
{
	unsigned char m[512];

	while (c->sent < ECHO_COUNT && c->sent - c->got < ECHO_FLIGHT &&
	       !link_is_sending(c->link)) {
		size_t n = sizeof(c->sent) + rng_below(&c->rng, 500);

		memset(m, (int)(c->sent & 0xff), n);
		memcpy(m, &c->sent, sizeof(c->sent));
		EXPECT(link_send(c->link, m, n) == 0);
		c->sent++;
	}
}

static void counter_up(void *ctx)
{
	counter_flush(ctx);
}

static void counter_down(void *ctx)
{
	(void)ctx;
	EXPECT(!"down");
}

static void counter_message(void *ctx, const void *data, size_t n)
{
	struct counter *c = ctx;
	const unsigned char *m = data;
	uint32_t number;

	EXPECT(n >= sizeof(number));
	memcpy(&number, m, sizeof(number));
	EXPECT(number == c->got);
	for (size_t i = sizeof(number); i < n; i++)
		EXPECT(m[i] == (number & 0xff));
	c->got++;
	if (c->got == ECHO_COUNT)
		loop_stop(c->loop);
	counter_flush(c);
}

static void counter_sent(void *ctx)
{
	counter_flush(ctx);
}

static const struct link_ops counter_ops = { counter_up, counter_down,
					     counter_message, counter_sent };

static void counter_actor(int fd, const char *path, unsigned number)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct counter c = { .loop = loop_new() };
	struct ipc *ipc = ipc_new(c.loop);

	(void)fd;
	rng_seed(&c.rng, number);
	EXPECT(ipc_dial(ipc, path, &counter_ops, &c, &c.link, &why) == 0);
	loop_run(c.loop);
	EXPECT(c.got == ECHO_COUNT);
	ipc_free(ipc);
	loop_free(c.loop);
}

static void test_order(void **state)
{
	struct actor echo = actor_start(echo_actor, actor_path(), 0);
	struct actor counter;

	(void)state;
	actor_expect(&echo, "listening");
	counter = actor_start(counter_actor, actor_path(), 1);
	actor_join(&counter);
	line_send(echo.fd, "stop");
	actor_join(&echo);
}

/* --- sizes --- */

struct large {
	struct loop *loop;
	struct link *link;
	char *bytes;
};

static void large_up(void *ctx)
{
	struct large *l = ctx;

	EXPECT(link_send(l->link, l->bytes, LIMIT_MESSAGE_BYTES + 1) ==
	       -ERR_BODY_TOO_LARGE);
	EXPECT(link_is_up(l->link));
	EXPECT(link_send(l->link, l->bytes, LARGE_BYTES) == 0);
}

static void large_message(void *ctx, const void *data, size_t n)
{
	struct large *l = ctx;

	EXPECT(n == LARGE_BYTES || n == LIMIT_MESSAGE_BYTES);
	EXPECT(memcmp(data, l->bytes, n) == 0);
	if (n == LARGE_BYTES)
		EXPECT(link_send(l->link, l->bytes, LIMIT_MESSAGE_BYTES) == 0);
	else
		loop_stop(l->loop);
}

static void nothing(void *ctx)
{
	(void)ctx;
}

static const struct link_ops large_ops = { large_up, counter_down,
					   large_message, nothing };

static void large_actor(int fd, const char *path, unsigned number)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct large l = { .loop = loop_new() };
	struct ipc *ipc = ipc_new(l.loop);

	(void)fd;
	(void)number;
	l.bytes = xmalloc(LIMIT_MESSAGE_BYTES + 1);
	for (size_t i = 0; i <= LIMIT_MESSAGE_BYTES; i++)
		l.bytes[i] = (char)(i * 2654435761u >> 24);
	EXPECT(ipc_dial(ipc, path, &large_ops, &l, &l.link, &why) == 0);
	loop_run(l.loop);
	ipc_free(ipc);
	loop_free(l.loop);
	free(l.bytes);
}

static void test_large(void **state)
{
	struct actor echo = actor_start(echo_actor, actor_path(), 0);
	struct actor large;

	(void)state;
	actor_expect(&echo, "listening");
	large = actor_start(large_actor, actor_path(), 0);
	actor_join(&large);
	line_send(echo.fd, "stop");
	actor_join(&echo);
}

/* Connects by hand and sends what no end of ours would send. */
static void send_raw(const char *path, const void *bytes, size_t n)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct pollfd p = { .events = POLLIN };
	char rest;

	p.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	assert_return_code(connect(p.fd, (struct sockaddr *)&sa, sizeof(sa)),
			   errno);
	assert_int_equal(write(p.fd, bytes, n), n);
	/* refused: the other side hangs up */
	assert_int_equal(poll(&p, 1, ACTOR_WAIT_MS), 1);
	assert_true(read(p.fd, &rest, 1) <= 0);
	(void)close(p.fd);
}

static void test_too_large(void **state)
{
	struct actor echo = actor_start(echo_actor, actor_path(), 0);
	struct actor counter;

	(void)state;
	actor_expect(&echo, "listening");
	send_raw(actor_path(),
		 "\xff\xff\xff\xff"
		 "crv1",
		 8);
	send_raw(actor_path(),
		 "\x01\x00\x00\x04"
		 "crv1",
		 8);
	send_raw(actor_path(),
		 "\x01\x00\x00\x00"
		 "CRV1",
		 8);
	send_raw(actor_path(), "GET / HTTP/1.1\r\n\r\n", 18);
	counter = actor_start(counter_actor, actor_path(), 2);
	actor_join(&counter);
	line_send(echo.fd, "stop");
	actor_join(&echo);
}

/* --- peers that die --- */

/*
 * Both ends talk all the time. A message says who sends it, on the sender's
 * how-manieth connection, and its number there: after on_up the first must
 * be number 0, and until on_down all must be of one sender and connection.
 */
struct head {
	uint32_t sender, conn, number;
};

struct talker {
	struct loop *loop;
	struct link *link;
	struct loop_timer *again;
	int fd;
	unsigned self;
	bool up;
	uint32_t conn;   /* our connections */
	uint32_t number; /* of our next message */
	struct head expect;
	uint32_t last_sender; /* of the connection before */
	char bytes[200 << 10];
};

static void talk(struct talker *t)
{
	struct head h = { t->self, t->conn, t->number };
	size_t n = sizeof(h) + (t->number % 4 == 0 ? 150 << 10 : 100);

	if (!t->up || link_is_sending(t->link))
		return;
	memcpy(t->bytes, &h, sizeof(h));
	if (link_send(t->link, t->bytes, n) == 0)
		t->number++;
	loop_timer_arm(t->again, 0);
}

static void talker_again(void *ctx)
{
	talk(ctx);
}

static void talker_up(void *ctx)
{
	struct talker *t = ctx;

	EXPECT(!t->up && link_is_up(t->link));
	t->up = true;
	t->conn++;
	t->number = 0;
	t->expect = (struct head){ 0, 0, 0 };
	talk(t);
}

static void talker_down(void *ctx)
{
	struct talker *t = ctx;

	EXPECT(t->up && !link_is_up(t->link));
	t->up = false;
	if (t->expect.sender != 0)
		t->last_sender = t->expect.sender;
	if (t->expect.number >= NOTE_EVERY)
		line_send(t->fd, "down");
}

static void talker_message(void *ctx, const void *data, size_t n)
{
	struct talker *t = ctx;
	struct head h;

	EXPECT(t->up);
	EXPECT(n > sizeof(h));
	memcpy(&h, data, sizeof(h));
	if (t->expect.sender == 0) {
		EXPECT(h.number == 0);
		EXPECT(h.sender >= t->last_sender);
		t->expect = h;
	}
	EXPECT(memcmp(&h, &t->expect, sizeof(h)) == 0);
	t->expect.number++;
	if (t->expect.number == NOTE_EVERY)
		line_send(t->fd, "talking");
}

static void talker_sent(void *ctx)
{
	talk(ctx);
}

static void talker_line(void *ctx, int fd, int events)
{
	struct talker *t = ctx;

	(void)fd;
	(void)events;
	loop_stop(t->loop);
}

static const struct link_ops talker_ops = { talker_up, talker_down,
					    talker_message, talker_sent };

static void talk_until_line(int fd, const char *path, unsigned self,
			    bool listen)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct talker *t = xcalloc(1, sizeof(*t));
	struct ipc *ipc;
	int r;

	t->loop = loop_new();
	ipc = ipc_new(t->loop);
	t->fd = fd;
	t->self = self;
	t->again = loop_timer_add(t->loop, talker_again, t);
	r = (listen ? ipc_listen : ipc_dial)(ipc, path, &talker_ops, t,
					     &t->link, &why);
	EXPECT(r == 0);
	(void)loop_fd_add(t->loop, fd, LOOP_READ, talker_line, t);
	loop_run(t->loop);
	/* with sends and messages under way */
	ipc_free(ipc);
	loop_free(t->loop);
	free(t);
}

static void listen_actor(int fd, const char *path, unsigned number)
{
	talk_until_line(fd, path, number, true);
}

static void dial_actor(int fd, const char *path, unsigned number)
{
	talk_until_line(fd, path, number, false);
}

/* `mortal` is killed and started again and again, `survivor` goes on. */
static void kill_often(actor_fn *mortal, actor_fn *survivor)
{
	struct actor s = actor_start(survivor, actor_path(), 1);
	struct actor m;

	for (unsigned i = 0; i < KILLS; i++) {
		m = actor_start(mortal, actor_path(), 2 + i);
		actor_expect(&s, "talking");
		actor_kill(&m);
		actor_expect(&s, "down");
	}
	m = actor_start(mortal, actor_path(), 2 + KILLS);
	actor_expect(&s, "talking");
	actor_expect(&m, "talking");
	line_send(m.fd, "stop");
	actor_join(&m);
	actor_expect(&s, "down");
	line_send(s.fd, "stop");
	actor_join(&s);
}

static void test_kill_dialler(void **state)
{
	(void)state;
	kill_often(dial_actor, listen_actor);
}

static void test_kill_listener(void **state)
{
	(void)state;
	kill_often(listen_actor, dial_actor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_kill_dialler),
		cmocka_unit_test(test_kill_listener),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	actor_path_remove();
	return r;
}
