/*
 * Both ends of RPC in one process: a loop that runs until something is so, a
 * real client and server, and a plain link that writes and reads frames by
 * hand in the place of either.
 */
#ifndef CORVO_RPC_WORLD_H
#define CORVO_RPC_WORLD_H

#include "actor.h"
#include "rt/rpc.h"
#include "util/clock.h"

/* --- a link by hand --- */

struct raw {
	struct link *link;
	bool up;
	unsigned downs;
	struct arena arena;
	struct buf last;    /* bytes of the last frame */
	struct frame frame; /* points into it */
	unsigned frames;
};

static inline void raw_up(void *ctx)
{
	struct raw *r = ctx;

	r->up = true;
}

static inline void raw_down(void *ctx)
{
	struct raw *r = ctx;

	r->up = false;
	r->downs++;
}

static inline void raw_message(void *ctx, const void *data, size_t n)
{
	struct raw *r = ctx;

	arena_reset(&r->arena);
	buf_clear(&r->last);
	buf_append(&r->last, data, n);
	EXPECT(frame_decode(buf_str(&r->last), &r->arena, &r->frame) == 0);
	r->frames++;
}

static inline void raw_sent(void *ctx)
{
	(void)ctx;
}

static const struct link_ops raw_ops = { raw_up, raw_down, raw_message,
					 raw_sent };

static inline void raw_hello(struct raw *r, uint64_t epoch, uint64_t hash)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct frame_hello h = { .proc = PROC_HTTPD,
				 .pid = 1,
				 .defs_hash = hash,
				 .version = STR("9.9.9") };
	struct frame_writer w;

	frame_begin(&w, &b, FRAME_HELLO, epoch);
	frame_add_hello(&w, &h);
	frame_end(&w);
	EXPECT(link_send(r->link, b.p, b.n) == 0);
}

static inline void raw_request(struct raw *r, uint64_t epoch, uint64_t id)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct frame_request req = { .id = id, .op = 424242 };
	struct frame_writer w;

	frame_begin(&w, &b, FRAME_REQUEST, epoch);
	frame_add_request(&w, &req);
	frame_end(&w);
	EXPECT(link_send(r->link, b.p, b.n) == 0);
}

static inline void raw_reply(struct raw *r, uint64_t epoch, uint64_t id)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct frame_reply rep = { .id = id, .body = STR("raw") };
	struct frame_writer w;

	frame_begin(&w, &b, FRAME_REPLY, epoch);
	frame_add_reply(&w, &rep);
	frame_end(&w);
	EXPECT(link_send(r->link, b.p, b.n) == 0);
}

static inline void raw_done(struct raw *r)
{
	arena_done(&r->arena);
	buf_done(&r->last);
}

/* --- a world with a loop that runs until something is so --- */

struct seen {
	struct rpc_req req;
	uint32_t op, flags;
	uint64_t deadline_ns;
	uint64_t origin, done, number;
	char body[16];
};

struct world {
	struct loop *loop;
	struct ipc *ipc;
	const char *path;
	struct rpc_server *server;
	struct rpc_client *client;
	struct loop_timer *limit;
	bool (*until)(struct world *w);
	struct raw raw;
	struct seen seen[512];
	unsigned seen_n, cancels, peer_downs, replies, states, rooms;
	uint64_t cancelled_id;
	uint64_t reply_bytes;
	int last_err;
	bool answer; /* the server answers at once, with the body */
	bool was_up;
};

static inline void w_request(void *ctx, struct rpc_req req,
			     const struct frame_request *item)
{
	struct world *w = ctx;
	struct seen *s = &w->seen[w->seen_n++];

	EXPECT(w->seen_n < ARRAY_SIZE(w->seen));
	*s = (struct seen){ .req = req,
			    .op = item->op,
			    .flags = item->flags,
			    .deadline_ns = item->deadline_ns,
			    .origin = item->origin,
			    .done = item->done,
			    .number = item->number };
	(void)snprintf(s->body, sizeof(s->body), "%.*s", STR_ARG(item->body));
	EXPECT(rpc_req_is_live(req));
	if (w->answer)
		rpc_reply(req, 0, 7, item->body);
}

static inline void w_cancel(void *ctx, struct rpc_req req)
{
	struct world *w = ctx;

	w->cancels++;
	w->cancelled_id = req.id;
}

static inline void w_peer_down(void *ctx, struct rpc_peer *peer)
{
	struct world *w = ctx;

	(void)peer;
	w->peer_downs++;
}

static inline void w_room(void *ctx)
{
	struct world *w = ctx;

	w->rooms++;
}

static const struct rpc_server_ops w_server_ops = { w_request, w_cancel,
						    w_peer_down, w_room };

static inline void w_turn_end(void *ctx)
{
	struct world *w = ctx;

	if (w->server != NULL)
		rpc_server_flush(w->server);
	if (w->client != NULL)
		rpc_client_flush(w->client);
	if (w->until != NULL && w->until(w)) {
		w->until = NULL; /* one stop is enough */
		loop_stop(w->loop);
	}
}

static inline void w_limit(void *ctx)
{
	struct world *w = ctx;

	/* a wait for `until` must have ended by then */
	EXPECT(w->until == NULL);
	loop_stop(w->loop);
}

static inline void w_wait(struct world *w, bool (*until)(struct world *w))
{
	w->until = until;
	loop_timer_arm(w->limit, 20 * NS_PER_S);
	loop_run(w->loop);
	loop_timer_disarm(w->limit);
}

/* Lets pass what must not happen. */
static inline void w_idle(struct world *w)
{
	loop_timer_arm(w->limit, 50 * NS_PER_MS);
	loop_run(w->loop);
}

static inline void w_start(struct world *w, const char *path)
{
	*w = (struct world){ .loop = loop_new(), .path = path };
	w->ipc = ipc_new(w->loop);
	w->limit = loop_timer_add(w->loop, w_limit, w);
	loop_on_turn_end(w->loop, w_turn_end, w);
}

static inline void w_serve(struct world *w)
{
	struct buf why = BUF_INIT(0);

	w->server = rpc_server_new(w->ipc, PROC_RAFTD, &w_server_ops, w);
	EXPECT(rpc_server_listen(w->server, w->path, &why) == 0);
}

static inline void w_state(void *ctx, bool up)
{
	struct world *w = ctx;

	EXPECT(up == rpc_client_is_up(w->client));
	w->was_up = up;
	w->states++;
}

static inline void w_dial(struct world *w)
{
	struct buf why = BUF_INIT(0);

	w->client = rpc_client_new(w->ipc, w->path, PROC_HTTPD, &why);
	EXPECT(w->client != NULL);
	rpc_client_on_state(w->client, w_state, w);
}

static inline void w_end(struct world *w)
{
	rpc_client_free(w->client);
	rpc_server_free(w->server);
	ipc_free(w->ipc);
	loop_free(w->loop);
	raw_done(&w->raw);
}

static inline void w_reply(void *ctx, const struct rpc_reply *r)
{
	struct world *w = ctx;

	w->replies++;
	w->last_err = r->err;
	w->reply_bytes += r->body.n;
	EXPECT(r->err != 0 || r->seq == 7 || w->server == NULL);
}

static inline struct rpc_call *w_call(struct world *w, const char *body,
				      uint64_t after_ns, unsigned flags)
{
	return rpc_call(w->client, OP_ACK, STR("q"), str_from(body),
			after_ns != 0 ? clock_mono_ns() + after_ns : 0,
			ERR_LEADER_UNAVAILABLE, flags, w_reply, w);
}

static inline bool client_up(struct world *w)
{
	return rpc_client_is_up(w->client);
}

static inline bool raw_is_up(struct world *w)
{
	return w->raw.up;
}

static inline bool raw_has_frame(struct world *w)
{
	return w->raw.frames > 0;
}

static inline bool has_reply(struct world *w)
{
	return w->replies > 0;
}

static inline bool all_replied(struct world *w)
{
	return rpc_client_pending(w->client) == 0;
}

static inline bool has_seen(struct world *w)
{
	return w->seen_n > 0;
}

static inline bool has_cancel(struct world *w)
{
	return w->cancels > 0;
}

static inline bool has_peer_down(struct world *w)
{
	return w->peer_downs > 0;
}

/* The server by hand greets the client. */
static inline void greet(struct world *w, uint64_t hash)
{
	struct buf why = BUF_INIT(0);

	EXPECT(ipc_listen(w->ipc, w->path, &raw_ops, &w->raw, &w->raw.link,
			  &why) == 0);
	w_dial(w);
	w_wait(w, raw_has_frame);
	EXPECT(w->raw.frame.kind == FRAME_HELLO);
	EXPECT(w->raw.frame.hello.defs_hash == corvo_defs_hash);
	EXPECT(w->raw.frame.hello.proc == PROC_HTTPD);
	EXPECT(w->raw.frame.epoch != 0);
	raw_hello(&w->raw, w->raw.frame.epoch, hash);
	w->raw.frames = 0;
}

/* --- between nodes, though over a link of this machine --- */

static inline struct link *w_open_dial(void *ctx, const struct link_ops *ops,
				       void *ops_ctx)
{
	struct world *w = ctx;
	struct buf why = BUF_INIT(0);
	struct link *l;

	EXPECT(ipc_dial(w->ipc, w->path, ops, ops_ctx, &l, &why) == 0);
	return l;
}

static inline struct link *w_open_listen(void *ctx, const struct link_ops *ops,
					 void *ops_ctx)
{
	struct world *w = ctx;
	struct buf why = BUF_INIT(0);
	struct link *l;

	EXPECT(ipc_listen(w->ipc, w->path, ops, ops_ctx, &l, &why) == 0);
	return l;
}

static inline void w_serve_node(struct world *w)
{
	w->server = rpc_server_new(w->ipc, PROC_RAFTD, &w_server_ops, w);
	(void)rpc_server_add_node(w->server, "n2", w_open_listen, w);
}

/* --- as a test --- */

static inline void run(actor_fn *fn)
{
	struct actor a = actor_start(fn, actor_path(), 0);

	actor_join(&a);
}

#define RPC_TEST(name)                        \
	static void test_##name(void **state) \
	{                                     \
		(void)state;                  \
		run(name##_actor);            \
	}

#endif
