/*
 * Wires the parts together. All on the daemon's loop.
 */
#include "viewd.h"

#include <stdlib.h>

#include "db/db.h"
#include "feed.h"
#include "rt/log.h"
#include "service.h"
#include "view.h"

struct viewd {
	struct daemon *d;
	struct view view;
	struct service *service;
	struct feed *feed;
};

static void on_damage(void *ctx)
{
	struct viewd *v = ctx;

	feed_damaged(v->feed);
}

static void on_displaced(void *ctx, enum view_place place)
{
	struct viewd *v = ctx;

	feed_displaced(v->feed, place);
}

static void on_admin(void *ctx, unsigned query, struct rpc_req req)
{
	struct viewd *v = ctx;

	feed_admin(v->feed, query, req);
}

static void on_admin_gone(void *ctx, const struct rpc_peer *peer,
			  const struct rpc_req *req)
{
	struct viewd *v = ctx;

	feed_admin_gone(v->feed, peer, req);
}

static const struct service_ops service_ops = {
	.on_damage = on_damage,
	.on_displaced = on_displaced,
	.on_admin = on_admin,
	.on_admin_gone = on_admin_gone,
};

static void viewd_done(struct daemon *d)
{
	struct viewd *v = d->state;

	feed_free(v->feed);
	service_free(v->service);
	view_close(&v->view, false); /* after a drain nothing is open */
	view_done(&v->view);
	free(v);
	d->state = NULL;
}

/* What cannot be opened now is tried again by the feed. */
static void open_view(struct viewd *v)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (view_open(&v->view, &why) < 0)
		log_error("the view is not available: %.*s; trying again",
			  STR_ARG(buf_str(&why)));
}

static int viewd_init(struct daemon *d, struct buf *why)
{
	struct viewd *v = xcalloc(1, sizeof(*v));
	int r;

	d->state = v;
	v->d = d;
	db_set_cache(d->settings.view_cache);
	r = view_init(&v->view, d->settings.data_dir, why);
	if (r < 0) {
		free(v);
		d->state = NULL;
		return r;
	}
	open_view(v);
	v->service = service_new(d, &v->view, &service_ops, v);
	r = service_listen(v->service, why);
	if (r == 0) {
		v->feed = feed_new(d, &v->view, why);
		r = v->feed == NULL ? -ERR_INTERNAL_ERROR : 0;
	}
	if (r < 0) {
		viewd_done(d);
		return r;
	}
	feed_start(v->feed, v->service);
	daemon_ready(d);
	return 0;
}

static void on_readers_idle(void *ctx)
{
	struct viewd *v = ctx;

	view_close(&v->view, true);
	daemon_exit(v->d, 0);
}

static void on_feed_stopped(void *ctx)
{
	struct viewd *v = ctx;

	service_interrupt(v->service);
	service_pause(v->service, on_readers_idle, v);
}

/* httpd is gone by now, so no question is worth waiting for. */
static void viewd_drain(struct daemon *d)
{
	struct viewd *v = d->state;

	feed_stop(v->feed, on_feed_stopped, v);
}

static void viewd_turn_end(struct daemon *d)
{
	struct viewd *v = d->state;

	service_flush(v->service);
	feed_flush(v->feed);
}

const struct daemon_ops viewd_ops = {
	.proc = PROC_VIEWD,
	.single = true,
	.init = viewd_init,
	.drain = viewd_drain,
	.done = viewd_done,
	.turn_end = viewd_turn_end,
};
