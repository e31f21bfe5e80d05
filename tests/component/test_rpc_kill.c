/*
 * RPC whose server process is killed: calls are sent again, in order and
 * marked, and each is answered once.
 */
#include "actor.h"
#include "rt/rpc.h"
#include "util/clock.h"

/* --- servers --- */

struct server {
	struct loop *loop;
	struct rpc_server *rpc;
	int fd;
	unsigned number; /* 1: the first to be started */
	unsigned n;      /* requests seen */
	uint64_t served;
};

static void stop_on_line(void *ctx, int fd, int events)
{
	(void)fd;
	(void)events;
	loop_stop(ctx);
}

static void flush_server(void *ctx)
{
	struct server *s = ctx;

	rpc_server_flush(s->rpc);
}

static void no_cancel(void *ctx, struct rpc_req req)
{
	(void)ctx;
	(void)req;
}

static void no_peer_down(void *ctx, struct rpc_peer *peer)
{
	(void)ctx;
	(void)peer;
}

static void serve(int fd, const char *path, unsigned number,
		  const struct rpc_server_ops *ops)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct server s = { .loop = loop_new(), .fd = fd, .number = number };
	struct ipc *ipc = ipc_new(s.loop);

	s.rpc = rpc_server_new(ipc, PROC_RAFTD, ops, &s);
	EXPECT(rpc_server_listen(s.rpc, path, &why) == 0);
	loop_on_turn_end(s.loop, flush_server, &s);
	(void)loop_fd_add(s.loop, fd, LOOP_READ, stop_on_line, s.loop);
	loop_run(s.loop);
	rpc_server_free(s.rpc);
	ipc_free(ipc);
	loop_free(s.loop);
}

/* --- in order, marked --- */

#define FIRST    10u /* calls before the kill */
#define ANSWERED 3u  /* of these by the first server */
#define ALL      15u

static void order_request(void *ctx, struct rpc_req req,
			  const struct frame_request *item)
{
	struct server *s = ctx;
	uint32_t call;

	if (str_is(item->body, "once")) {
		EXPECT(s->number == 1 && s->n == FIRST);
		line_send(s->fd, "seen all");
		return;
	}
	EXPECT(item->body.n == sizeof(call));
	memcpy(&call, item->body.p, sizeof(call));
	s->n++;
	if (s->number == 1) {
		EXPECT(call == s->n && item->flags == 0);
		if (call <= ANSWERED)
			rpc_reply(req, 0, call, item->body);
		return;
	}
	EXPECT(call == ANSWERED + s->n);
	EXPECT((item->flags == FRAME_RESEND) == (call <= FIRST));
	rpc_reply(req, 0, call, item->body);
}

static void order_server(int fd, const char *path, unsigned number)
{
	static const struct rpc_server_ops ops = { order_request, no_cancel,
						   no_peer_down, NULL };

	serve(fd, path, number, &ops);
}

struct client {
	struct loop *loop;
	struct rpc_client *rpc;
	int fd;
	uint32_t replies;
};

static void flush_client(void *ctx)
{
	struct client *c = ctx;

	rpc_client_flush(c->rpc);
}

static void order_reply(void *ctx, const struct rpc_reply *r)
{
	struct client *c = ctx;
	uint32_t call;

	EXPECT(r->err == 0 && r->body.n == sizeof(call));
	memcpy(&call, r->body.p, sizeof(call));
	EXPECT(call == ++c->replies && r->seq == call);
	if (call == ANSWERED)
		line_send(c->fd, "three");
	if (call == ALL)
		loop_stop(c->loop);
}

static void order_call(struct client *c, uint32_t call)
{
	(void)rpc_call(c->rpc, OP_ACK, STR_NULL, str_of(&call, sizeof(call)),
		       clock_mono_ns() + 60 * NS_PER_S, ERR_LEADER_UNAVAILABLE,
		       0, order_reply, c);
}

/* The link went down: more calls, while nobody is there. */
static void once_reply(void *ctx, const struct rpc_reply *r)
{
	struct client *c = ctx;

	EXPECT(r->err == ERR_VIEW_UNAVAILABLE);
	EXPECT(!rpc_client_is_up(c->rpc));
	EXPECT(c->replies == ANSWERED);
	for (uint32_t i = FIRST + 1; i <= ALL; i++)
		order_call(c, i);
	line_send(c->fd, "once ended");
}

static void order_client(int fd, const char *path, unsigned number)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct client c = { .loop = loop_new(), .fd = fd };
	struct ipc *ipc = ipc_new(c.loop);

	(void)number;
	c.rpc = rpc_client_new(ipc, path, PROC_HTTPD, &why);
	EXPECT(c.rpc != NULL);
	for (uint32_t i = 1; i <= FIRST; i++)
		order_call(&c, i);
	(void)rpc_call(c.rpc, QUERY_LIST_QUEUES, STR_NULL, STR("once"), 0,
		       ERR_VIEW_UNAVAILABLE, RPC_ONCE, once_reply, &c);
	loop_on_turn_end(c.loop, flush_client, &c);
	loop_run(c.loop);
	EXPECT(c.replies == ALL && rpc_client_pending(c.rpc) == 0);
	rpc_client_free(c.rpc);
	ipc_free(ipc);
	loop_free(c.loop);
}

static void test_resend(void **state)
{
	struct actor client = actor_start(order_client, actor_path(), 0);
	struct actor server = actor_start(order_server, actor_path(), 1);

	(void)state;
	actor_expect(&server, "seen all");
	actor_expect(&client, "three");
	actor_kill(&server);
	actor_expect(&client, "once ended");
	server = actor_start(order_server, actor_path(), 2);
	actor_join(&client);
	line_send(server.fd, "stop");
	actor_join(&server);
}

/* --- under load --- */

#define FLIGHT 64u
#define KILLS  20
#define STEP   2000u /* requests a server sees before it is killed */

static void load_request(void *ctx, struct rpc_req req,
			 const struct frame_request *item)
{
	struct server *s = ctx;

	rpc_reply(req, 0, 1, item->body);
	if (++s->n == STEP)
		line_send(s->fd, "busy");
}

static void load_server(int fd, const char *path, unsigned number)
{
	static const struct rpc_server_ops ops = { load_request, no_cancel,
						   no_peer_down, NULL };

	serve(fd, path, number, &ops);
}

struct load;

/* One place for a call; it is ended by its reply or cancelled. */
struct place {
	struct load *load;
	struct rpc_call *call; /* NULL: free */
	uint64_t number;
	uint64_t deadline_ns;
};

struct load {
	struct loop *loop;
	struct rpc_client *rpc;
	struct rng rng;
	bool stopping;
	uint64_t calls, replies, timeouts, cancels;
	struct place places[FLIGHT];
};

static void load_reply(void *ctx, const struct rpc_reply *r);

static void load_call(struct place *p)
{
	struct load *l = p->load;
	char body[600] = "";

	EXPECT(p->call == NULL);
	p->number = ++l->calls;
	p->deadline_ns = 0;
	if (rng_below(&l->rng, 4) == 0)
		p->deadline_ns =
		    clock_mono_ns() + rng_below(&l->rng, 100 * NS_PER_MS);
	memcpy(body, &p->number, sizeof(p->number));
	p->call =
	    rpc_call(l->rpc, OP_ENQUEUE, STR("queue"),
		     str_of(body, sizeof(p->number) + rng_below(&l->rng, 500)),
		     p->deadline_ns, ERR_LEADER_UNAVAILABLE, 0, load_reply, p);
}

static void load_reply(void *ctx, const struct rpc_reply *r)
{
	struct place *p = ctx, *other;
	struct load *l = p->load;
	uint64_t number;

	EXPECT(p->call != NULL);
	p->call = NULL;
	if (r->err != 0) {
		EXPECT(r->err == ERR_LEADER_UNAVAILABLE);
		EXPECT(p->deadline_ns != 0);
		EXPECT(clock_mono_ns() >= p->deadline_ns);
		l->timeouts++;
	} else {
		memcpy(&number, r->body.p, sizeof(number));
		EXPECT(number == p->number);
		l->replies++;
	}
	if (l->stopping)
		return;
	load_call(p);
	other = &l->places[rng_below(&l->rng, FLIGHT)];
	if (rng_below(&l->rng, 10) == 0 && other->call != NULL) {
		rpc_cancel(l->rpc, other->call);
		other->call = NULL;
		l->cancels++;
		load_call(other);
	}
}

static void load_stop(void *ctx, int fd, int events)
{
	struct load *l = ctx;
	char line[16];

	(void)events;
	EXPECT(line_receive(fd, line, sizeof(line)));
	l->stopping = true;
}

static void load_turn_end(void *ctx)
{
	struct load *l = ctx;

	rpc_client_flush(l->rpc);
	if (l->stopping && rpc_client_pending(l->rpc) == 0)
		loop_stop(l->loop);
}

static void load_client(int fd, const char *path, unsigned number)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct load l = { .loop = loop_new() };
	struct ipc *ipc = ipc_new(l.loop);

	rng_seed(&l.rng, number);
	l.rpc = rpc_client_new(ipc, path, PROC_HTTPD, &why);
	EXPECT(l.rpc != NULL);
	for (size_t i = 0; i < FLIGHT; i++) {
		l.places[i].load = &l;
		load_call(&l.places[i]);
	}
	(void)loop_fd_add(l.loop, fd, LOOP_READ, load_stop, &l);
	loop_on_turn_end(l.loop, load_turn_end, &l);
	loop_run(l.loop);
	EXPECT(l.calls == l.replies + l.timeouts + l.cancels);
	EXPECT(l.replies > KILLS * STEP / 2);
	rpc_client_free(l.rpc);
	ipc_free(ipc);
	loop_free(l.loop);
}

static void test_load(void **state)
{
	struct actor client, server;
	struct rng rng;

	(void)state;
	test_rng(&rng);
	client = actor_start(load_client, actor_path(),
			     (unsigned)rng_below(&rng, UINT32_MAX));
	for (unsigned i = 0; i < KILLS; i++) {
		server = actor_start(load_server, actor_path(), i);
		actor_expect(&server, "busy");
		actor_kill(&server);
	}
	server = actor_start(load_server, actor_path(), KILLS);
	actor_expect(&server, "busy");
	line_send(client.fd, "stop");
	actor_join(&client);
	line_send(server.fd, "stop");
	actor_join(&server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resend),
		cmocka_unit_test(test_load),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	actor_path_remove();
	return r;
}
