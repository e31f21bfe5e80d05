/*
 * How the library reaches other nodes: streams of purpose RAFT, which the
 * port has shaken hands on. Without a port there is nobody to talk to.
 *
 * The library owns a stream it is given: it closes the handle and frees it
 * with raft_free. It calls `data` of the transport its own.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/node_uv.h"
#include "cluster/port.h"
#include "cluster/raft_wire.h"
#include "rt/log.h"
#include "util/clock.h"

#define SAY_NS (10 * NS_PER_S) /* between lines about garbage */

/* Freed by the library, as the handle that is its first member. */
struct stream {
	uv_tcp_t tcp;
	struct node *node;
	char name[HELLO_NAME_BYTES + 1]; /* of the other node */
	struct raft_wire wire;           /* of one that came in */
	uv_read_cb read;                 /* the library's */
};

struct transport_dial {
	struct list node;
	struct node *owner;
	struct raft_uv_connect *req;
	struct port_dial *dial;
};

static struct node *node_of(struct raft_uv_transport *t)
{
	return container_of(t, struct node_base, transport)->node;
}

static int transport_init(struct raft_uv_transport *t, raft_id id,
			  const char *address)
{
	(void)t;
	(void)id;
	(void)address;
	return 0;
}

/* --- streams --- */

static void on_stream_closed(uv_handle_t *h)
{
	raft_free(h);
}

/* The connection as a stream of libuv; NULL: there is no more room for one. */
static uv_stream_t *make_stream(struct node *n, struct port_conn *c)
{
	struct stream *s = raft_calloc(1, sizeof(*s));
	int fd;

	CHECK(s != NULL);
	s->node = n;
	memcpy(s->name, c->peer.name, sizeof(s->name));
	fd = port_conn_take_fd(c);
	CHECK(uv_tcp_init(loop_uv(n->loop), &s->tcp) == 0);
	if (uv_tcp_open(&s->tcp, fd) == 0)
		return (uv_stream_t *)&s->tcp;
	(void)close(fd);
	uv_close((uv_handle_t *)&s->tcp, on_stream_closed);
	return NULL;
}

static void on_waste_room(uv_handle_t *h, size_t n, uv_buf_t *ret)
{
	static char waste[64];

	(void)h;
	(void)n;
	*ret = uv_buf_init(waste, sizeof(waste));
}

/*
 * The library only writes to a stream it dialled, so it would learn of its end
 * from the second message after it, and lose the first. The other side never
 * sends anything there: when something is to be read, it is the end, and the
 * next write is told so. After an error libuv would refuse that write at once,
 * which the library takes for one that can be tried again on the same stream,
 * for ever: it dials anew only where a write that was begun fails. Opened once
 * more the stream takes it, and fails it.
 */
static void on_dialled_end(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	uv_os_fd_t fd;

	(void)b;
	if (n == 0)
		return;
	(void)uv_read_stop(s);
	if (uv_fileno((uv_handle_t *)s, &fd) != 0)
		return;
	(void)shutdown(fd, SHUT_RDWR);
	/* fails while a write is under way, which is told of the end as well */
	(void)uv_tcp_open((uv_tcp_t *)s, fd);
}

/* --- coming in --- */

static void say_garbage(struct stream *s, const char *why)
{
	uint64_t now = clock_mono_ns();

	if (s->node->base->garbage_ns != 0 &&
	    now - s->node->base->garbage_ns < SAY_NS)
		return;
	s->node->base->garbage_ns = now;
	log_warn("closed a raft stream of %s: %s", s->name, why);
}

/* The library is told of the stream's end in the place of what cannot be. */
static void on_read(uv_stream_t *h, ssize_t n, const uv_buf_t *b)
{
	struct stream *s = container_of((uv_tcp_t *)h, struct stream, tcp);
	const char *why = NULL;

	if (n > 0)
		why = raft_wire_feed(&s->wire, str_of(b->base, (size_t)n));
	if (why != NULL) {
		say_garbage(s, why);
		n = UV_EPROTO;
	}
	s->read(h, n, b);
}

/* Reads before the library does, into the room that it offers. */
static void read_before(uv_stream_t *h)
{
	struct stream *s = container_of((uv_tcp_t *)h, struct stream, tcp);

	if (uv_is_closing((uv_handle_t *)h))
		return;
	CHECK(h->read_cb != NULL);
	s->read = h->read_cb;
	h->read_cb = on_read;
}

static void on_accepted(void *ctx, struct port_conn *c)
{
	struct node *n = ctx;
	struct port_peer peer = c->peer;
	uv_stream_t *s = make_stream(n, c);

	if (s == NULL)
		return;
	n->base->accept(&n->base->transport, peer.raft_id, peer.address, s);
	read_before(s);
}

/*
 * Without a log a node waits for the word that it is taken in: until then it
 * may be one that has lost its log, which others take for what it was, with
 * the votes it gave and the entries it confirmed.
 */
void node_base_let_in(struct node *n)
{
	if (n->port != NULL && n->base->accept != NULL &&
	    (!history_is_none(&n->history) || n->raft.configuration.n > 0))
		port_serve(n->port, PURPOSE_RAFT, on_accepted, n);
}

static int transport_listen(struct raft_uv_transport *t, raft_uv_accept_cb cb)
{
	struct node *n = node_of(t);

	n->base->accept = cb;
	node_base_let_in(n);
	return 0;
}

/* --- dialling --- */

static void on_dialled(void *ctx, struct port_conn *c)
{
	struct transport_dial *d = ctx;
	struct raft_uv_connect *req = d->req;
	uv_stream_t *s = c != NULL ? make_stream(d->owner, c) : NULL;

	list_remove(&d->node);
	free(d);
	if (s != NULL)
		(void)uv_read_start(s, on_waste_room, on_dialled_end);
	req->cb(req, s, s != NULL ? 0 : RAFT_NOCONNECTION);
}

static int transport_connect(struct raft_uv_transport *t,
			     struct raft_uv_connect *req, raft_id id,
			     const char *address, raft_uv_connect_cb cb)
{
	_cleanup_(buf_done) struct buf now = BUF_INIT(0);
	struct node *n = node_of(t);
	struct port_target target = { .raft_id = id };
	struct transport_dial *d;

	if (n->port == NULL || !node_may_dial(n, id))
		return RAFT_NOCONNECTION;
	if (n->ops->address_of != NULL)
		n->ops->address_of(n->ctx, id, address, &now);
	else
		buf_puts(&now, address);
	buf_putc(&now, '\0');
	target.address = now.p;
	d = xcalloc(1, sizeof(*d));
	d->owner = n;
	d->req = req;
	req->cb = cb;
	list_push_back(&n->base->dials, &d->node);
	d->dial = port_dial(n->port, PURPOSE_RAFT, &target, on_dialled, d);
	return 0;
}

/* The library waits for every connect it asked for, also now. */
static void transport_close(struct raft_uv_transport *t,
			    raft_uv_transport_close_cb cb)
{
	struct node *n = node_of(t);

	if (n->port != NULL)
		port_serve(n->port, PURPOSE_RAFT, NULL, NULL);
	while (!list_empty(&n->base->dials)) {
		struct transport_dial *d = list_entry(
		    n->base->dials.next, struct transport_dial, node);
		struct raft_uv_connect *req = d->req;

		port_dial_cancel(d->dial);
		list_remove(&d->node);
		free(d);
		req->cb(req, NULL, RAFT_CANCELED);
	}
	cb(t);
}

void node_wire_transport(struct node *n)
{
	list_init(&n->base->dials);
	n->base->transport = (struct raft_uv_transport){
		.init = transport_init,
		.listen = transport_listen,
		.connect = transport_connect,
		.close = transport_close,
	};
}
