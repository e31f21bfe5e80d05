/*
 * The server's side of RPC: one peer per listening socket. Frames come from
 * another process and may be anything; after one that cannot be read the
 * connection is made anew, because what came before it may be wrong too.
 *
 * Loop thread only. A peer lives as long as its server, so a struct rpc_req
 * may be kept however long; its epoch tells whether it still means anything.
 */
#include <stdlib.h>
#include <unistd.h>

#include "rt/log.h"
#include "rt/rpc_impl.h"
#include "util/clock.h"
#include "util/list.h"

enum peer_state {
	PEER_NEW, /* no hello yet */
	PEER_SERVED,
	PEER_DEAF, /* refused */
};

struct rpc_peer {
	struct rpc_server *server;
	struct list node;
	struct link *link;
	char *path;
	enum peer_state state;
	bool is_node;    /* another one, not a process of this */
	uint64_t held;   /* epoch of a hello that is answered later; 0: none */
	uint64_t bye;    /* epoch of a bye of ours that is due; 0: none */
	uint64_t epoch;  /* of the client's hello; 0: not served */
	uint64_t origin; /* the same */
	uint64_t hello;  /* epoch of a hello of ours that is due; 0: none */
	struct frame_writer w; /* open frame in `out` while w.n > 0 */
	struct buf out;
	struct list closed;  /* struct closed_frame, sent before `out` */
	struct list large;   /* the same, sent when nothing else is to be */
	size_t closed_bytes; /* of both */
	size_t wants_below;  /* somebody was told to come back then; or 0 */
};

#define RPC_HEAD_BYTES 128 /* of a frame with one reply, and more */

/* A frame that had to be closed before it could be sent. */
struct closed_frame {
	struct list node;
	struct buf b;
	struct buf body; /* of a large one: what follows; else empty */
	size_t sent;     /* bytes, in parts */
};

struct rpc_server {
	struct ipc *ipc;
	enum proc_id self;
	const struct rpc_server_ops *ops;
	void *ctx;
	struct list peers;
	bool paused;
	struct arena arena; /* of the frame being read */
	struct buf hello;
	struct buf part;
};

int rpc_hello_send(struct link *l, enum proc_id self, uint64_t epoch,
		   uint64_t origin, struct buf *scratch)
{
	struct frame_writer w;
	struct frame_hello h = {
		.proc = self,
		.pid = (uint32_t)getpid(),
		.defs_hash = corvo_defs_hash,
		.version = str_from(corvo_version),
		.origin = origin,
	};

	frame_begin(&w, scratch, FRAME_HELLO, epoch);
	frame_add_hello(&w, &h);
	frame_end(&w);
	return link_send(l, scratch->p, scratch->n);
}

bool rpc_hello_check(const struct frame_hello *h, const char *path)
{
	const char *name = h->proc < PROC_MAX
			       ? proc_info((enum proc_id)h->proc)->name
			       : "unknown process";

	if (h->defs_hash == corvo_defs_hash)
		return true;
	log_error("%s: %s with pid %u is version %.*s (tables %016llx), we "
		  "are %s (tables %016llx): refused; install one version and "
		  "restart",
		  path, name, h->pid, STR_ARG(h->version),
		  (unsigned long long)h->defs_hash, corvo_version,
		  (unsigned long long)corvo_defs_hash);
	return false;
}

void rpc_buf_reuse(struct buf *b)
{
	if (b->cap > RPC_KEEP_BYTES)
		buf_done(b);
	else
		buf_clear(b);
}

/* --- replies --- */

bool rpc_req_is_live(struct rpc_req req)
{
	return req.epoch != 0 && req.peer->epoch == req.epoch;
}

static size_t queued_bytes(const struct rpc_peer *p)
{
	return p->closed_bytes + (p->w.n > 0 ? p->out.n : 0);
}

bool rpc_req_has_room(struct rpc_req req, enum rpc_size size)
{
	size_t most = size == RPC_LARGE ? RPC_QUEUE_BYTES / 2 : RPC_QUEUE_BYTES;

	if (queued_bytes(req.peer) < most)
		return true;
	req.peer->wants_below = MAX(req.peer->wants_below, most);
	return false;
}

bool rpc_req_is_of_node(struct rpc_req req)
{
	return req.peer != NULL && req.peer->is_node;
}

static struct closed_frame *keep_frame(struct list *l)
{
	struct closed_frame *f = xcalloc(1, sizeof(*f));

	list_push_back(l, &f->node);
	return f;
}

static void close_frame(struct rpc_peer *p)
{
	struct closed_frame *f = keep_frame(&p->closed);

	frame_end(&p->w);
	f->b = p->out;
	p->out = BUF_INIT(0);
	p->w.n = 0;
	p->closed_bytes += f->b.n;
}

static size_t frame_bytes(const struct closed_frame *f)
{
	return f->b.n + f->body.n;
}

static void add_large(struct rpc_peer *p, const struct frame_reply *r)
{
	struct closed_frame *f = keep_frame(&p->large);
	struct frame_writer w;

	(void)buf_reserve(&f->b, r->body.n + RPC_HEAD_BYTES);
	frame_begin(&w, &f->b, FRAME_REPLY, p->epoch);
	frame_add_reply(&w, r);
	frame_end(&w);
	p->closed_bytes += frame_bytes(f);
}

/* A copy of megabytes, in memory that is new, holds up the loop. */
static void take_large(struct rpc_peer *p, const struct frame_reply *r,
		       struct buf *body)
{
	struct closed_frame *f = keep_frame(&p->large);
	struct frame_writer w;

	frame_begin(&w, &f->b, FRAME_REPLY, p->epoch);
	frame_add_reply_head(&w, r);
	frame_end(&w);
	f->body = *body;
	*body = BUF_INIT(0);
	p->closed_bytes += frame_bytes(f);
}

void rpc_reply(struct rpc_req req, int err, uint64_t seq, struct str body)
{
	struct rpc_peer *p = req.peer;
	struct frame_reply r = {
		.id = req.id, .err = err, .seq = seq, .body = body
	};

	CHECK(err >= 0);
	if (!rpc_req_is_live(req))
		return;
	if (body.n > RPC_BODY_BYTES) {
		log_error("%s: a reply of %zu bytes is larger than a message "
			  "may be",
			  p->path, body.n);
		r.err = ERR_INTERNAL_ERROR;
		r.body = STR("the reply is too large");
	}
	if (r.body.n > RPC_SMALL_BYTES) {
		add_large(p, &r);
		return;
	}
	if (p->w.n > 0 && p->out.n + r.body.n > RPC_FRAME_BYTES)
		close_frame(p);
	if (p->w.n == 0)
		frame_begin(&p->w, &p->out, FRAME_REPLY, p->epoch);
	frame_add_reply(&p->w, &r);
}

void rpc_reply_take(struct rpc_req req, uint64_t seq, struct buf *body)
{
	struct frame_reply r = { .id = req.id, .seq = seq };

	r.body = buf_str(body);
	/* to another node a frame goes as a whole, see send_part */
	if (rpc_req_is_live(req) && !req.peer->is_node &&
	    r.body.n > RPC_SMALL_BYTES && r.body.n <= RPC_BODY_BYTES)
		take_large(req.peer, &r, body);
	else
		rpc_reply(req, 0, seq, r.body);
}

/* The first of those that wait. */
static void drop_first(struct rpc_peer *p, struct list *l)
{
	struct closed_frame *f = list_entry(l->next, struct closed_frame, node);

	p->closed_bytes -= frame_bytes(f);
	list_remove(&f->node);
	buf_done(&f->b);
	buf_done(&f->body);
	free(f);
}

static void drop_replies(struct rpc_peer *p)
{
	while (!list_empty(&p->closed))
		drop_first(p, &p->closed);
	while (!list_empty(&p->large))
		drop_first(p, &p->large);
	p->w.n = 0;
	rpc_buf_reuse(&p->out);
}

static int send_first(struct rpc_peer *p, struct list *l)
{
	struct closed_frame *f = list_entry(l->next, struct closed_frame, node);
	int r;

	r = link_send(p->link, f->b.p, f->b.n);
	if (r < 0)
		return r;
	drop_first(p, l);
	return 0;
}

/* What comes next of it. */
static struct str part_of(const struct closed_frame *f)
{
	struct str s = f->sent < f->b.n
			   ? str_skip(buf_str(&f->b), f->sent)
			   : str_skip(buf_str(&f->body), f->sent - f->b.n);

	s.n = MIN(s.n, (size_t)RPC_PART_BYTES);
	return s;
}

/* A node of an older version could not read it. */
static int send_part(struct rpc_peer *p)
{
	struct closed_frame *f =
	    list_entry(p->large.next, struct closed_frame, node);
	struct buf *b = &p->server->part;
	struct frame_part part = { .size = frame_bytes(f) };
	struct frame_writer w;
	int r;

	if (p->is_node)
		return send_first(p, &p->large);
	part.bytes = part_of(f);
	frame_begin(&w, b, FRAME_PART, p->epoch);
	frame_add_part(&w, &part);
	frame_end(&w);
	r = link_send(p->link, b->p, b->n);
	if (r < 0)
		return r;
	f->sent += part.bytes.n;
	if (f->sent == frame_bytes(f))
		drop_first(p, &p->large);
	return 0;
}

static int send_open(struct rpc_peer *p)
{
	int r;

	frame_end(&p->w);
	r = link_send(p->link, p->out.p, p->out.n);
	if (r < 0)
		return r;
	p->w.n = 0;
	rpc_buf_reuse(&p->out);
	return 0;
}

static int bye_send(struct rpc_peer *p)
{
	struct buf *b = &p->server->hello;
	struct frame_writer w;
	int r;

	frame_begin(&w, b, FRAME_BYE, p->bye);
	frame_end(&w);
	r = link_send(p->link, b->p, b->n);
	if (r == 0)
		p->bye = 0;
	return r;
}

static void tell_room(struct rpc_peer *p)
{
	if (queued_bytes(p) >= p->wants_below)
		return;
	p->wants_below = 0;
	if (p->server->ops->on_room != NULL)
		p->server->ops->on_room(p->server->ctx);
}

/* A send fails only when the link is going down, which ends all this. */
static void flush_peer(struct rpc_peer *p)
{
	int r = 0;

	while (r == 0 && link_is_up(p->link) && !link_is_sending(p->link)) {
		if (p->bye != 0) {
			r = bye_send(p);
		} else if (p->hello != 0) {
			r = rpc_hello_send(p->link, p->server->self, p->hello,
					   0, &p->server->hello);
			if (r == 0)
				p->hello = 0;
		} else if (!list_empty(&p->closed)) {
			r = send_first(p, &p->closed);
		} else if (p->w.n > 0) {
			r = send_open(p);
		} else if (!list_empty(&p->large)) {
			r = send_part(p);
		} else {
			break;
		}
	}
	tell_room(p);
}

void rpc_server_flush(struct rpc_server *s)
{
	LIST_FOREACH (it, &s->peers)
		flush_peer(list_entry(it, struct rpc_peer, node));
}

/* --- requests --- */

/* Ends what the connection was used for so far. */
static void leave(struct rpc_peer *p, enum peer_state next)
{
	bool was_served = p->state == PEER_SERVED;

	p->state = next;
	p->epoch = 0;
	p->hello = 0;
	p->bye = 0;
	p->held = 0;
	drop_replies(p);
	if (was_served)
		p->server->ops->on_peer_down(p->server->ctx, p);
	tell_room(p);
}

static void serve(struct rpc_peer *p, uint64_t epoch)
{
	p->hello = epoch;
	p->epoch = epoch;
	p->state = PEER_SERVED;
	flush_peer(p);
}

static void on_hello(struct rpc_peer *p, const struct frame *f)
{
	leave(p, PEER_NEW);
	p->origin = f->hello.origin;
	if (p->server->paused) {
		p->held = f->epoch;
	} else if (p->is_node || rpc_hello_check(&f->hello, p->path)) {
		serve(p, f->epoch);
	} else {
		/* It gets our hello too: its log shall say why. */
		p->hello = f->epoch;
		p->state = PEER_DEAF;
		flush_peer(p);
	}
}

void rpc_server_pause(struct rpc_server *s)
{
	s->paused = true;
	LIST_FOREACH (it, &s->peers) {
		struct rpc_peer *p = list_entry(it, struct rpc_peer, node);
		uint64_t epoch = p->epoch;

		if (epoch == 0)
			continue;
		leave(p, PEER_NEW);
		p->bye = epoch;
		flush_peer(p);
	}
}

void rpc_server_resume(struct rpc_server *s)
{
	s->paused = false;
	LIST_FOREACH (it, &s->peers) {
		struct rpc_peer *p = list_entry(it, struct rpc_peer, node);
		uint64_t epoch = p->held;

		p->held = 0;
		if (epoch != 0)
			serve(p, epoch);
	}
}

/* Whoever asked has given up; a change may have been made before. */
static bool is_too_late(const struct frame_request *r, uint64_t now_ns)
{
	return r->deadline_ns != 0 && r->deadline_ns <= now_ns &&
	       op_info(r->op) == NULL;
}

static void on_requests(struct rpc_peer *p, const struct frame *f)
{
	struct rpc_server *s = p->server;
	struct rpc_req req = { .peer = p, .epoch = f->epoch };
	uint64_t now_ns = clock_mono_ns();

	for (size_t i = 0; i < f->n; i++) {
		struct frame_request *r = &f->requests[i];

		req.id = r->id;
		if (!p->is_node)
			r->origin = p->origin;
		else if (r->deadline_ns != 0)
			r->deadline_ns += now_ns;
		if (is_too_late(r, now_ns))
			rpc_reply(req, frame_late(r), 0,
				  str_from(err_text(frame_late(r))));
		else
			s->ops->on_request(s->ctx, req, r);
	}
}

static void on_cancels(struct rpc_peer *p, const struct frame *f)
{
	struct rpc_server *s = p->server;
	struct rpc_req req = { .peer = p, .epoch = f->epoch };

	for (size_t i = 0; i < f->n; i++) {
		req.id = f->cancels[i];
		s->ops->on_cancel(s->ctx, req);
	}
}

static bool may_come(const struct rpc_peer *p, enum frame_kind kind)
{
	return kind == FRAME_CANCEL ||
	       kind == (p->is_node ? FRAME_FORWARD : FRAME_REQUEST);
}

static void on_message(void *ctx, const void *data, size_t n)
{
	struct rpc_peer *p = ctx;
	struct rpc_server *s = p->server;
	struct frame f;
	int r;

	if (p->state == PEER_DEAF)
		return;
	r = frame_decode(str_of(data, n), &s->arena, &f);
	if (r == 0 && f.kind == FRAME_HELLO && f.epoch != 0)
		on_hello(p, &f);
	else if (r < 0 || !may_come(p, f.kind))
		link_drop(p->link);
	else if (p->epoch == 0 || f.epoch != p->epoch)
		log_debug("%s: a message of another connection", p->path);
	else if (f.kind == FRAME_CANCEL)
		on_cancels(p, &f);
	else
		on_requests(p, &f);
	arena_reset(&s->arena);
}

static void on_up(void *ctx)
{
	struct rpc_peer *p = ctx;

	p->state = PEER_NEW;
}

static void on_down(void *ctx)
{
	struct rpc_peer *p = ctx;

	leave(p, PEER_NEW);
}

static void on_sent(void *ctx)
{
	flush_peer(ctx);
}

static const struct link_ops link_ops = {
	.on_up = on_up,
	.on_down = on_down,
	.on_message = on_message,
	.on_sent = on_sent,
};

struct rpc_server *rpc_server_new(struct ipc *i, enum proc_id self,
				  const struct rpc_server_ops *ops, void *ctx)
{
	struct rpc_server *s = xcalloc(1, sizeof(*s));

	s->ipc = i;
	s->self = self;
	s->ops = ops;
	s->ctx = ctx;
	list_init(&s->peers);
	return s;
}

static void free_peer(struct rpc_peer *p)
{
	list_remove(&p->node);
	link_close(p->link);
	drop_replies(p);
	buf_done(&p->out);
	free(p->path);
	free(p);
}

void rpc_server_free(struct rpc_server *s)
{
	if (s == NULL)
		return;
	while (!list_empty(&s->peers))
		free_peer(list_entry(s->peers.next, struct rpc_peer, node));
	arena_done(&s->arena);
	buf_done(&s->hello);
	buf_done(&s->part);
	free(s);
}

static struct rpc_peer *new_peer(struct rpc_server *s, const char *path)
{
	struct rpc_peer *p = xcalloc(1, sizeof(*p));

	p->server = s;
	p->path = xstrdup(path);
	list_init(&p->closed);
	list_init(&p->large);
	list_push_back(&s->peers, &p->node);
	return p;
}

struct rpc_peer *rpc_server_add_node(struct rpc_server *s, const char *name,
				     rpc_open_fn *open, void *ctx)
{
	struct rpc_peer *p = new_peer(s, name);

	p->is_node = true;
	p->link = open(ctx, &link_ops, p);
	return p;
}

int rpc_server_listen(struct rpc_server *s, const char *path, struct buf *why)
{
	struct rpc_peer *p = new_peer(s, path);
	int r;

	r = ipc_listen(s->ipc, path, &link_ops, p, &p->link, why);
	if (r < 0)
		free_peer(p);
	return r;
}
