/*
 * Wires the HTTP server, the links to raftd and viewd, and the daemon's life.
 * See httpd.h.
 */
#include "httpd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front/server.h"
#include "leaving.h"
#include "req/access.h"
#include "req/guarded.h"
#include "req/hub.h"
#include "req/metrics.h"
#include "req/req.h"
#include "req/tell.h"
#include "req/work.h"
#include "routes/dispatch.h"
#include "rpc/lifecycle.h"
#include "rpc/rpc.h"
#include "rt/fds.h"
#include "rt/log.h"
#include "rt/netaddr.h"
#include "rt/turns.h"

/*
 * What arrived in a turn leaves in one message, up to so many operations: a
 * turn with a hundred requests would let raftd idle while it reads them all.
 */
#define OPS_PER_MESSAGE 16

/* --- the listening socket --- */

static int take_inherited(const struct settings *set, int fd, struct buf *why)
{
	int listening = 0;
	socklen_t n = sizeof(listening);

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) < 0 ||
	    !listening) {
		buf_printf(why,
			   "descriptor %d was passed as the HTTP socket but "
			   "does not listen",
			   fd);
		return -ERR_VALIDATION_ERROR;
	}
	if (!set->open && netaddr_fd_is_local(fd) <= 0) {
		buf_puts(why, "the HTTP socket that was passed can be reached "
			      "from other machines, and nobody has to log in; "
			      "let it listen on 127.0.0.1 (ListenStream= of "
			      "corvo-httpd.socket), or set open = true if that "
			      "is what you want");
		return -ERR_VALIDATION_ERROR;
	}
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* Into h->listeners; those that we opened ourselves are ours to remove. */
static int open_listeners(struct httpd *h, struct buf *why)
{
	struct listeners *ls = &h->listeners;
	int r;

	ls->n = fds_listeners(ls->fd);
	h->inherited = ls->n > 0;
	for (size_t i = 0; i < ls->n; i++) {
		r = take_inherited(h->set, ls->fd[i], why);
		if (r < 0)
			return r;
	}
	if (ls->n > 0 && listen_part(h->set, ls->n - 1) != LISTEN_ALL)
		return 0;
	if (ls->n > 0) /* of somebody who knows only those of bind */
		return listeners_open_parts(h->set, ls, why);
	r = settings_check_bind(h->set, why);
	if (r == 0)
		r = listeners_open(h->set, ls, why);
	return r;
}

/* --- requests --- */

static struct exchange *on_begin(void *ctx)
{
	return &req_new(ctx)->x;
}

/*
 * The gate of every exchange, with the limits of front/intake.c. Packed bodies
 * are for remote calls, which say so in the same way.
 */
static int on_head(struct exchange *x, struct str *why)
{
	struct req *r = req_of(x);
	int err;

	metrics_begin(r->h->metrics);
	r->counted = true;
	dispatch_take_target(r);
	rpc_head(r);
	err = dispatch_admit(r, why);
	if (err == 0)
		err = rpc_is_path(x->path) ? rpc_read_deadline(r, why)
					   : dispatch_admit_body(r);
	return err;
}

static void serve(struct req *r, _unused_ void *arg)
{
	if (rpc_is_path(r->x.path))
		req_work(r, rpc_bytes(r), rpc_dispatch);
	else
		req_work(r, r->x.body.n, dispatch);
}

static void on_complete(struct exchange *x)
{
	req_guarded(req_of(x), serve, NULL);
}

static void on_refused(struct exchange *x, int err, struct str text)
{
	struct req *r = req_of(x);

	if (!r->counted) { /* it did not come so far as to be looked at */
		metrics_begin(r->h->metrics);
		rpc_head(r);
	}
	req_put_error(r, err, text);
	metrics_count(r->h->metrics, r);
	r->counted = false;
}

static void on_left(struct exchange *x)
{
	req_end_work(req_of(x));
	req_cancel_call(req_of(x));
}

static void on_unwanted(struct exchange *x)
{
	req_hurry_work(req_of(x));
}

static void end_parked(struct req *r, _unused_ void *arg)
{
	if (r->end_parked == NULL) /* it is only watched, and ends soon */
		return;
	if (r->too_late == NULL)
		req_cancel_call(r);
	else if (!req_end_call(r))
		return; /* what it comes to is answered */
	r->end_parked(r);
}

static void on_end_parked(struct exchange *x)
{
	req_guarded(req_of(x), end_parked, NULL);
}

static void on_end(struct exchange *x)
{
	struct req *r = req_of(x);

	req_end_work(r);
	if (r->counted && !x->answered)
		metrics_leave(r->h->metrics);
	if (!x->sent && r->unsent != NULL)
		r->unsent(r);
	access_note(r->h->access, r);
	req_free(r);
}

static const struct front_ops front_ops = {
	.begin = on_begin,
	.head = on_head,
	.complete = on_complete,
	.refused = on_refused,
	.left = on_left,
	.unwanted = on_unwanted,
	.end_parked = on_end_parked,
	.end = on_end,
};

/* --- life --- */

static void on_raftd_state(void *ctx, bool up)
{
	struct httpd *h = ctx;

	log_info("link to raftd is %s", up ? "up" : "down");
	if (!up || h->told_ready)
		return;
	h->told_ready = true;
	daemon_ready(h->d);
}

static struct rpc_client *dial(struct httpd *h, enum proc_id server,
			       struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(4096);

	daemon_link_path(h->d, server, PROC_HTTPD, h->d->number, &path);
	buf_putc(&path, '\0');
	return rpc_client_new(h->d->ipc, path.p, PROC_HTTPD, why);
}

static int httpd_init(struct daemon *d, struct buf *why)
{
	struct httpd *h = xcalloc(1, sizeof(*h));
	uint64_t seed;
	int r;

	d->state = h;
	h->d = d;
	h->set = &d->settings;
	msg_limit_checkpoints((uint32_t)d->settings.max_checkpoint_size);
	h->compat_03 = str_is(str_from(d->settings.compat), "0.3");
	h->scratch.max = LIMIT_MESSAGE_BYTES;
	list_init(&h->free_reqs);
	rng_system(&seed, sizeof(seed));
	rng_seed(&h->rng, seed);
	h->metrics = metrics_new();
	h->access = access_new(h->set, why);
	if (h->access == NULL)
		return -ERR_VALIDATION_ERROR;
	h->turns = turns_new(d->loop, REQ_WORKS);
	h->hub = hub_new(h);
	h->lifecycles = lifecycles_new(h);
	h->raftd = dial(h, PROC_RAFTD, why);
	h->viewd = h->raftd != NULL ? dial(h, PROC_VIEWD, why) : NULL;
	if (h->viewd == NULL)
		return -ERR_INTERNAL_ERROR;
	rpc_client_flush_at(h->raftd, OPS_PER_MESSAGE);
	r = open_listeners(h, why);
	if (r < 0)
		return r;
	h->server = server_new(
	    &(struct server_config){ d->loop, h->set, &front_ops, h },
	    &h->listeners, why);
	if (h->server == NULL)
		return -ERR_INTERNAL_ERROR;
	h->tell = tell_new(h);
	rpc_client_on_state(h->raftd, on_raftd_state, h);
	return 0;
}

/* What gathered in the turn leaves as one message to each side. */
static void httpd_turn_end(struct daemon *d)
{
	struct httpd *h = d->state;

	lifecycles_turn(h->lifecycles);
	server_run(h->server);
	rpc_client_flush(h->raftd);
	rpc_client_flush(h->viewd);
	access_flush(h->access);
	if (!h->draining || server_accepts(h->server))
		return;
	listeners_close(&h->listeners);
	if (server_connections(h->server) == 0)
		daemon_exit(d, 0);
}

static void httpd_reload(struct daemon *d)
{
	struct httpd *h = d->state;

	access_reopen(h->access);
	server_reload(h->server);
}

static void httpd_drain(struct daemon *d)
{
	struct httpd *h = d->state;

	log_info("draining, %zu connections", server_connections(h->server));
	h->draining = true;
	if (!h->inherited)
		listeners_refuse(&h->listeners);
	server_drain(h->server);
	h->leaving = leaving_new(h);
}

static void httpd_done(struct daemon *d)
{
	struct httpd *h = d->state;

	if (h == NULL)
		return;
	leaving_free(h->leaving);
	tell_free(h->tell);
	server_free(h->server);
	turns_free(h->turns);
	listeners_close(&h->listeners);
	lifecycles_free(h->lifecycles);
	hub_free(h->hub);
	rpc_client_free(h->raftd);
	rpc_client_free(h->viewd);
	metrics_free(h->metrics);
	access_free(h->access);
	req_pool_done(h);
	buf_done(&h->scratch);
	buf_done(&h->frame);
	buf_done(&h->openapi);
	tz_cache_done(&h->zones);
	free(h);
	d->state = NULL;
}

const struct daemon_ops httpd_ops = {
	.proc = PROC_HTTPD,
	.init = httpd_init,
	.reload = httpd_reload,
	.drain = httpd_drain,
	.done = httpd_done,
	.turn_end = httpd_turn_end,
};
