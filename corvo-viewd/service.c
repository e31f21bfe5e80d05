/*
 * Questions that come and those that wait for the view; see service_read.c for
 * what happens when they have it.
 */
#include "service_impl.h"

#include <stdlib.h>

#include "proto/view_ask.h"
#include "rt/log.h"
#include "util/clock.h"

#define SERVICE_ASKS_MAX    4096 /* questions held at a time */
#define SERVICE_ASKS_OF_ONE 3072 /* of one client */
/*
 * Writers come before searches; what is quick is told meanwhile. But a reader
 * of the lowest rank would wait for whatever else the machine is busy with.
 */
#define READER_NICE(reader) ((reader) == LANE_QUICK ? 5 : 10)
#define BUSY_NS             NS_PER_S /* it counts for so long */

void ask_free(struct ask *a)
{
	if (a->lane != NULL)
		turn_leave(a);
	list_remove(&a->node);
	list_remove(&a->all);
	a->service->asks--;
	asker_leave(a->service, a->asker);
	buf_done(&a->body);
	buf_done(&a->out);
	arena_done(&a->arena);
	free(a);
}

void ask_refuse(struct ask *a, int err, const char *text)
{
	rpc_reply(a->req, err, 0, str_from(text));
	ask_free(a);
}

/* --- waiting for the view --- */

static void make_ready(struct ask *a)
{
	a->turn_until_ns = clock_mono_ns() + VIEW_TURN_NS;
	turn_wait(a);
}

/* Without a view the numbers that need none are told at once. */
static void answer_without_view(struct service *s, struct ask *a)
{
	const struct query_facts f = readers_facts(s);

	if (a->query.id != QUERY_VIEWD_METRICS) {
		ask_refuse(a, ERR_VIEW_UNAVAILABLE,
			   err_text(ERR_VIEW_UNAVAILABLE));
		return;
	}
	query_facts_encode(&f, &a->out);
	rpc_reply(a->req, 0, 0, buf_str(&a->out));
	ask_free(a);
}

void service_look(struct service *s)
{
	uint64_t now = clock_mono_ns();
	uint64_t next = UINT64_MAX;

	LIST_FOREACH_SAFE (it, &s->waiting) {
		struct ask *a = list_entry(it, struct ask, node);

		if (s->usable && !readers_are_behind(s, a))
			make_ready(a);
		else if (a->wait_until_ns > now)
			next = MIN(next, a->wait_until_ns);
		else if (s->usable)
			make_ready(a);
		else
			answer_without_view(s, a);
	}
	next = MIN(next, readers_give_up(s, now));
	if (next != UINT64_MAX)
		loop_timer_arm(s->wait_timer, next - now);
	else
		loop_timer_disarm(s->wait_timer);
	readers_dispatch(s);
}

static void on_wait_timer(void *ctx)
{
	service_look(ctx);
}

/* --- requests --- */

static int decode_ask(struct ask *a, const struct frame_request *item)
{
	const struct call_info *info = query_info(item->op);
	uint64_t wait_ns = 0;
	int r;

	if (info == NULL)
		return -ERR_BAD_MESSAGE;
	buf_append(&a->body, item->body.p, item->body.n);
	a->msg = arena_zalloc(&a->arena, info->request->size);
	r = msg_decode(info->request, buf_str(&a->body), &a->arena, a->msg);
	if (r < 0)
		return r;
	(void)view_ask_get(info->request, a->msg, &a->min_seq, &wait_ns);
	wait_ns = MIN(wait_ns, a->service->d->settings.op_timeout);
	a->came_ns = clock_mono_ns();
	a->wait_until_ns = a->came_ns + wait_ns;
	a->query.id = item->op;
	a->query.request = a->msg;
	a->uses_text = query_uses_text(item->op, a->msg);
	a->lane =
	    &a->service
		 ->lanes[query_is_quick(item->op) ? LANE_QUICK : LANE_SEARCH];
	return 0;
}

static void on_request(void *ctx, struct rpc_req req,
		       const struct frame_request *item)
{
	struct service *s = ctx;
	struct asker *who;
	struct ask *a;
	int r;

	if (item->op == QUERY_REBUILD_VIEW || item->op == QUERY_VERIFY_VIEW) {
		s->ops->on_admin(s->ops_ctx, item->op, req);
		return;
	}
	who = asker_enter(s, item->key);
	if (s->asks >= SERVICE_ASKS_MAX || who->asks > SERVICE_ASKS_OF_ONE) {
		asker_leave(s, who);
		rpc_reply(req, ERR_OVERLOADED, 0,
			  str_from(err_text(ERR_OVERLOADED)));
		return;
	}
	a = xcalloc(1, sizeof(*a));
	a->service = s;
	a->asker = who;
	a->req = req;
	s->asks++;
	list_push_back(&s->all, &a->all);
	list_push_back(&s->waiting, &a->node);
	r = decode_ask(a, item);
	if (r < 0) {
		ask_refuse(a, -r, err_text(-r));
		return;
	}
	service_look(s);
}

static bool is_meant(const struct ask *a, const struct rpc_peer *peer,
		     const struct rpc_req *req)
{
	return a->req.peer == peer && (req == NULL || rpc_req_is(a->req, *req));
}

/* Forgets questions: one (id given) or all of a peer. */
static void drop(struct service *s, const struct rpc_peer *peer,
		 const struct rpc_req *req)
{
	LIST_FOREACH_SAFE (it, &s->all) {
		struct ask *a = list_entry(it, struct ask, all);

		if (!is_meant(a, peer, req))
			continue;
		if (a->reader == NULL) {
			ask_free(a);
		} else {
			a->dropped = true;
			query_interrupt(a->reader);
		}
	}
	s->ops->on_admin_gone(s->ops_ctx, peer, req);
}

static void on_cancel(void *ctx, struct rpc_req req)
{
	drop(ctx, req.peer, &req);
}

static void on_peer_down(void *ctx, struct rpc_peer *peer)
{
	drop(ctx, peer, NULL);
}

/* Not here: a reader may be about to reply. */
static void on_room(void *ctx)
{
	struct service *s = ctx;

	loop_timer_arm(s->rest_timer, 0);
}

static const struct rpc_server_ops server_ops = {
	.on_request = on_request,
	.on_cancel = on_cancel,
	.on_peer_down = on_peer_down,
	.on_room = on_room,
};

/* --- from the rest of the process --- */

struct service *service_new(struct daemon *d, const struct view *v,
			    const struct service_ops *ops, void *ctx)
{
	struct service *s = xcalloc(1, sizeof(*s));

	s->d = d;
	s->view = v;
	s->ops = ops;
	s->ops_ctx = ctx;
	s->facts.data_dir = d->settings.data_dir;
	list_init(&s->waiting);
	list_init(&s->all);
	for (size_t i = 0; i < LANES; i++) {
		list_init(&s->lanes[i].turns);
		s->lanes[i].first = i;
	}
	for (size_t i = 0; i < VIEW_READERS; i++)
		s->workers[i] = worker_new(d->loop, "reader", READER_NICE(i));
	s->wait_timer = loop_timer_add(d->loop, on_wait_timer, s);
	s->rest_timer = loop_timer_add(d->loop, readers_on_rest_over, s);
	s->server = rpc_server_new(d->ipc, PROC_VIEWD, &server_ops, s);
	return s;
}

void service_free(struct service *s)
{
	if (s == NULL)
		return;
	CHECK(readers_are_idle(s));
	for (size_t i = 0; i < VIEW_READERS; i++)
		worker_free(s->workers[i]);
	LIST_FOREACH_SAFE (it, &s->all)
		ask_free(list_entry(it, struct ask, all));
	hmap_done(&s->askers);
	rpc_server_free(s->server);
	loop_timer_remove(s->wait_timer);
	loop_timer_remove(s->rest_timer);
	free(s);
}

int service_listen(struct service *s, struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int r = 0;

	for (unsigned i = 0; i < s->d->settings.httpd_processes && r == 0;
	     i++) {
		daemon_link_path(s->d, PROC_VIEWD, PROC_HTTPD, i, &path);
		buf_putc(&path, '\0');
		r = rpc_server_listen(s->server, path.p, why);
	}
	return r;
}

void service_flush(struct service *s)
{
	rpc_server_flush(s->server);
}

void service_set_usable(struct service *s, bool usable)
{
	s->usable = usable;
	if (!usable)
		s->shown = 0; /* what comes may be of another history */
	LIST_FOREACH (it, &s->all) {
		struct ask *a = list_entry(it, struct ask, all);

		if (!a->is_ready)
			continue;
		turn_leave(a);
		list_push_back(&s->waiting, &a->node);
	}
	service_look(s);
}

void service_set_busy(struct service *s, bool busy)
{
	bool was_busy = s->busy_until_ns != 0;

	s->busy_until_ns = busy ? clock_mono_ns() + BUSY_NS : 0;
	if (was_busy && !busy) /* not here: the feed is in the middle of it */
		loop_timer_arm(s->rest_timer, 0);
}

void service_advance(struct service *s, uint64_t head_seq, uint64_t rebuilds)
{
	s->facts.head_seq = head_seq;
	s->facts.rebuilds = rebuilds;
	service_look(s);
}

void service_set_writing(struct service *s, bool writing)
{
	s->writing = writing;
}

void service_pause(struct service *s, loop_fn *idle, void *ctx)
{
	s->paused = true;
	s->idle = idle;
	s->idle_ctx = ctx;
	readers_dispatch(s);
}

void service_resume(struct service *s)
{
	s->paused = false;
	readers_dispatch(s);
}

void service_yield(struct service *s)
{
	for (size_t i = 0; i < VIEW_READERS; i++) {
		struct ask *a = s->running[i];

		if (a == NULL || a->lane == &s->lanes[LANE_QUICK])
			continue;
		a->again = true;
		query_interrupt(a->reader);
	}
}

void service_interrupt(struct service *s)
{
	for (size_t i = 0; i < VIEW_READERS; i++)
		if (s->running[i] != NULL)
			query_interrupt(s->running[i]->reader);
}
