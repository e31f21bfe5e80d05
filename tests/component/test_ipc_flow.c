/*
 * Links whose owners are slow, or close them at an awkward moment.
 */
#include <stdio.h>
#include <sys/un.h>

#include "actor.h"
#include "proto/err.h"
#include "util/clock.h"

static void nothing(void *ctx)
{
	(void)ctx;
}

/* --- backpressure --- */

#define FLOOD_COUNT 400u
#define FLOOD_BYTES (1u << 20)
/* the socket's buffer, one being read and one being written */
#define FLOOD_ACCEPTED_MAX 8u

struct flood {
	struct loop *loop;
	struct link *link;
	struct loop_timer *quiet;
	int fd;
	uint32_t n;
	bool told;
	char *bytes;
};

static void flood_message(void *ctx, const void *data, size_t n)
{
	struct flood *f = ctx;
	uint32_t number;
	char line[16];

	EXPECT(n == FLOOD_BYTES);
	memcpy(&number, data, sizeof(number));
	EXPECT(number == f->n++);
	/* The loop hangs here until the test lets go. */
	if (number == 0)
		EXPECT(line_receive(f->fd, line, sizeof(line)));
	if (f->n == FLOOD_COUNT)
		loop_stop(f->loop);
}

static const struct link_ops dam_ops = { nothing, nothing, flood_message,
					 nothing };

static void dam_actor(int fd, const char *path, unsigned number)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct flood f = { .loop = loop_new(), .fd = fd };
	struct ipc *ipc = ipc_new(f.loop);

	(void)number;
	EXPECT(ipc_listen(ipc, path, &dam_ops, &f, &f.link, &why) == 0);
	loop_run(f.loop);
	ipc_free(ipc);
	loop_free(f.loop);
}

static void flood_flush(struct flood *f)
{
	while (f->n < FLOOD_COUNT && !link_is_sending(f->link)) {
		memcpy(f->bytes, &f->n, sizeof(f->n));
		EXPECT(link_send(f->link, f->bytes, FLOOD_BYTES) == 0);
		f->n++;
		loop_timer_arm(f->quiet, 500 * NS_PER_MS);
	}
}

static void flood_up(void *ctx)
{
	flood_flush(ctx);
}

static void flood_sent(void *ctx)
{
	flood_flush(ctx);
}

static void flood_down(void *ctx)
{
	struct flood *f = ctx;

	loop_stop(f->loop);
}

/* Nothing was accepted for a while. */
static void flood_quiet(void *ctx)
{
	struct flood *f = ctx;

	if (f->told)
		return;
	f->told = true;
	EXPECT(f->n < FLOOD_ACCEPTED_MAX);
	line_send(f->fd, "held back");
}

static const struct link_ops flood_ops = { flood_up, flood_down, NULL,
					   flood_sent };

static void flood_actor(int fd, const char *path, unsigned number)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct flood f = { .loop = loop_new(), .fd = fd };
	struct ipc *ipc = ipc_new(f.loop);

	(void)number;
	f.bytes = xcalloc(1, FLOOD_BYTES);
	f.quiet = loop_timer_add(f.loop, flood_quiet, &f);
	EXPECT(ipc_dial(ipc, path, &flood_ops, &f, &f.link, &why) == 0);
	loop_run(f.loop);
	EXPECT(f.told && f.n == FLOOD_COUNT);
	ipc_free(ipc);
	loop_free(f.loop);
	free(f.bytes);
}

static void test_backpressure(void **state)
{
	struct actor dam = actor_start(dam_actor, actor_path(), 0);
	struct actor flood = actor_start(flood_actor, actor_path(), 0);

	(void)state;
	actor_expect(&flood, "held back");
	line_send(dam.fd, "go");
	actor_join(&dam);
	actor_join(&flood);
}

/* --- closing --- */

/* Both ends of a link in one process; the listening one echoes. */
struct closer {
	struct loop *loop;
	struct link *server;
	struct link *link;
};

static void closer_echo(void *ctx, const void *data, size_t n)
{
	struct closer *c = ctx;

	/* fails only when the peer has just left */
	if (!link_is_sending(c->server))
		(void)link_send(c->server, data, n);
}

static void closer_message(void *ctx, const void *data, size_t n)
{
	struct closer *c = ctx;

	(void)data;
	(void)n;
	link_close(c->link);
	c->link = NULL;
	loop_stop(c->loop);
}

/* The second and third are read together with the first. */
static void closer_up(void *ctx)
{
	struct closer *c = ctx;

	for (int i = 0; i < 3 && !link_is_sending(c->link); i++)
		EXPECT(link_send(c->link, "x", 1) == 0);
}

static void closer_up_close(void *ctx)
{
	struct closer *c = ctx;

	link_close(c->link);
	c->link = NULL;
	loop_stop(c->loop);
}

static const struct link_ops server_ops = { nothing, nothing, closer_echo,
					    nothing };
static const struct link_ops closer_ops = { closer_up, nothing, closer_message,
					    nothing };
static const struct link_ops at_once_ops = { closer_up_close, nothing, NULL,
					     nothing };

static void closer_actor(int fd, const char *path, unsigned number)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct closer c = { .loop = loop_new() };
	struct ipc *ipc = ipc_new(c.loop);
	struct link *bad;
	char longest[200];

	(void)fd;
	(void)number;
	EXPECT(ipc_listen(ipc, path, &server_ops, &c, &c.server, &why) == 0);
	for (int i = 0; i < 40; i++) {
		EXPECT(ipc_dial(ipc, path, i % 2 ? &closer_ops : &at_once_ops,
				&c, &c.link, &why) == 0);
		loop_run(c.loop);
		EXPECT(c.link == NULL);
	}
	/* before anything has happened */
	for (int i = 0; i < 10; i++) {
		EXPECT(ipc_dial(ipc, path, &closer_ops, &c, &c.link, &why) ==
		       0);
		link_close(c.link);
	}
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	EXPECT(ipc_listen(ipc, longest, &closer_ops, &c, &bad, &why) < 0);
	EXPECT(why.n > 0);
	buf_clear(&why);
	EXPECT(ipc_listen(ipc, "/nowhere/at/all", &closer_ops, &c, &bad, &why) <
	       0);
	EXPECT(why.n > 0);
	EXPECT(ipc_dial(ipc, path, &closer_ops, &c, &c.link, &why) == 0);
	ipc_free(ipc);
	loop_free(c.loop);
}

static void test_close(void **state)
{
	struct actor closer = actor_start(closer_actor, actor_path(), 0);

	(void)state;
	actor_join(&closer);
}

/* --- those who do not speak --- */

#define STRANGERS 40
#define ALONE_NS  (20 * NS_PER_MS) /* that a silent one is waited for */

static void heard(void *ctx, const void *data, size_t n)
{
	struct closer *c = ctx;

	if (n == 1 && *(const char *)data == 'x')
		loop_stop(c->loop);
}

static void speak(void *ctx)
{
	struct closer *c = ctx;

	EXPECT(link_send(c->link, "x", 1) == 0);
}

static const struct link_ops speaking_ops = { speak, nothing, NULL, nothing };
static const struct link_ops hearing_ops = { nothing, nothing, heard, nothing };

static int stranger(const char *path, bool silent)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	EXPECT(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	if (!silent)
		EXPECT(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) ==
		       18);
	return fd;
}

/* They came first, and stay; who speaks is let in all the same. Of those who
 * say nothing (one of so many speaks) not each costs the time of one alone. */
static void pass_strangers(const char *path, int speaks)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct closer c = { .loop = loop_new() };
	struct ipc *ipc = ipc_new(c.loop);
	uint64_t began_ns = clock_mono_ns();
	int all[STRANGERS];

	EXPECT(ipc_listen(ipc, path, &hearing_ops, &c, &c.server, &why) == 0);
	for (int i = 0; i < STRANGERS; i++)
		all[i] = stranger(path, i % speaks != 1);
	EXPECT(ipc_dial(ipc, path, &speaking_ops, &c, &c.link, &why) == 0);
	loop_run(c.loop);
	EXPECT(clock_mono_ns() - began_ns < STRANGERS * ALONE_NS);
	for (int i = 0; i < STRANGERS; i++)
		(void)close(all[i]);
	ipc_free(ipc);
	loop_free(c.loop);
}

static void strangers_actor(int fd, const char *path, unsigned number)
{
	(void)fd;
	(void)number;
	pass_strangers(path, 2);
	pass_strangers(path, STRANGERS + 1);
}

static void test_strangers(void **state)
{
	struct actor strangers = actor_start(strangers_actor, actor_path(), 0);

	(void)state;
	actor_join(&strangers);
}

/* --- the last words of a peer --- */

#define LAST_WORDS 200u

struct last {
	struct loop *loop;
	struct link *link;
	uint32_t n;
};

static void last_flush(void *ctx)
{
	struct last *l = ctx;
	static char bytes[4096];

	while (l->n < LAST_WORDS && !link_is_sending(l->link)) {
		memcpy(bytes, &l->n, sizeof(l->n));
		EXPECT(link_send(l->link, bytes, sizeof(bytes)) == 0);
		l->n++;
	}
	if (l->n == LAST_WORDS && !link_is_sending(l->link))
		loop_stop(l->loop);
}

static const struct link_ops speaker_ops = { last_flush, nothing, NULL,
					     last_flush };

static void speaker_actor(int fd, const char *path, unsigned number)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct last l = { .loop = loop_new() };
	struct ipc *ipc = ipc_new(l.loop);

	(void)fd;
	(void)number;
	EXPECT(ipc_dial(ipc, path, &speaker_ops, &l, &l.link, &why) == 0);
	loop_run(l.loop);
	/* dead before the other has read it all */
	_exit(0);
}

static void hear(void *ctx, const void *data, size_t n)
{
	struct last *l = ctx;
	uint32_t number;

	EXPECT(n == 4096);
	memcpy(&number, data, sizeof(number));
	EXPECT(number == l->n++);
}

static void hear_end(void *ctx)
{
	struct last *l = ctx;

	EXPECT(l->n == LAST_WORDS);
	loop_stop(l->loop);
}

static const struct link_ops hearer_ops = { nothing, hear_end, hear, nothing };

static void hearer_actor(int fd, const char *path, unsigned number)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct last l = { .loop = loop_new() };
	struct ipc *ipc = ipc_new(l.loop);

	(void)number;
	EXPECT(ipc_listen(ipc, path, &hearer_ops, &l, &l.link, &why) == 0);
	line_send(fd, "listening");
	loop_run(l.loop);
	ipc_free(ipc);
	loop_free(l.loop);
}

static void test_last_words(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		struct actor hearer =
		    actor_start(hearer_actor, actor_path(), 0);
		struct actor speaker;

		actor_expect(&hearer, "listening");
		speaker = actor_start(speaker_actor, actor_path(), 0);
		actor_join(&speaker);
		actor_join(&hearer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_backpressure),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_last_words),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	actor_path_remove();
	return r;
}
