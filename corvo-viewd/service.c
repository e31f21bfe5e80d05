/*
 * A question is on exactly one of: waiting (for its event), its lane (for a
 * reader), or a reader's hands.
 *
 * There is a lane for quick questions (query_is_quick) and one for those that
 * may take seconds. The first reader is for the quick ones only, so whatever
 * is searched, and however long searches have to rest, numbers and small lists
 * are told at once.
 */
#include "service.h"

#include <stdlib.h>

#include "proto/view_ask.h"
#include "rt/log.h"
#include "rt/rpc.h"
#include "rt/worker.h"
#include "util/clock.h"
#include "util/list.h"

#define SERVICE_ASKS_MAX 4096 /* questions held at a time */
/* Above that of the process: the view keeps up before it is searched. */
#define READER_NICE 15
/* While writers need the processors: rest so many times as long as the last
 * question took, at most so long. */
#define REST_TIMES  4
#define REST_MAX_NS (400 * NS_PER_MS)
#define BUSY_NS     NS_PER_S /* it counts for so long */

struct lane {
	struct list ready;
	size_t first; /* its reader while writers need the processors */
	uint64_t rest_until_ns; /* which then starts nothing before */
};

enum { LANE_QUICK, LANE_SLOW, LANES };
_Static_assert(VIEW_READERS >= LANES, "each lane has a reader");

struct ask {
	struct list node;
	struct service *service;
	struct lane *lane;
	struct rpc_req req;
	uint64_t min_seq;
	uint64_t came_ns;       /* clock_mono_ns */
	uint64_t wait_until_ns; /* the same */
	uint64_t started_ns;    /* the same */
	struct buf body;        /* the request as it came */
	struct arena arena;     /* its lists */
	void *msg;              /* decoded, in arena */
	struct query_ask query;
	bool dropped;         /* nobody wants the answer any more */
	bool again;           /* was interrupted to be run once more */
	struct query *reader; /* set while it runs */
	int err;
	struct buf out;
};

struct service {
	struct daemon *d;
	const struct view *view;
	struct rpc_server *server;
	struct list waiting;
	struct lane lanes[LANES];
	size_t asks; /* in all places */
	struct ask *running[VIEW_READERS];
	struct worker *workers[VIEW_READERS]; /* one for each reader */
	uint64_t busy_until_ns;               /* writers need the processors */
	struct loop_timer *rest_timer; /* the end of a rest, or of that */
	struct loop_timer *wait_timer; /* the first wait_until_ns */
	bool usable;
	bool paused;
	loop_fn *idle; /* of service_pause, until it ran */
	void *idle_ctx;
	bool writing;   /* the file is being written to */
	uint64_t shown; /* the newest event that answers were given with */
	const struct service_ops *ops;
	void *ops_ctx;
	struct query_facts facts;
};

static void dispatch(struct service *s);
static void rest_after(struct service *s, const struct ask *a);

static void ask_free(struct ask *a)
{
	list_remove(&a->node);
	a->service->asks--;
	buf_done(&a->body);
	buf_done(&a->out);
	arena_done(&a->arena);
	free(a);
}

static void refuse(struct ask *a, int err, const char *text)
{
	rpc_reply(a->req, err, 0, str_from(text));
	ask_free(a);
}

/* --- readers --- */

static void run_ask(void *ctx) /* a reader's thread */
{
	struct ask *a = ctx;

	a->err = query_run(a->reader, &a->query, &a->out);
}

static void answer(struct service *s, struct ask *a)
{
	if (a->err == 0) {
		rpc_reply(a->req, 0, s->view->position, buf_str(&a->out));
		return;
	}
	if (a->err == -ERR_VALIDATION_ERROR) {
		rpc_reply(a->req, ERR_VALIDATION_ERROR, 0,
			  str_from(query_why(a->reader)));
		return;
	}
	log_warn("%s failed: %s: %s", query_info(a->query.id)->name,
		 err_code(-a->err), query_why(a->reader));
	if (a->err == -ERR_REQUEST_TIMEOUT)
		rpc_reply(a->req, ERR_VIEW_UNAVAILABLE, 0,
			  STR("the search took too long; narrow it down"));
	else
		rpc_reply(a->req, -a->err, 0, str_from(err_text(-a->err)));
}

/* Back to where it was before it ran, as the next of its lane. */
static void put_back(struct ask *a)
{
	a->again = false;
	buf_clear(&a->out);
	list_push_front(&a->lane->ready, &a->node);
}

static void on_ask_done(void *ctx)
{
	struct ask *a = ctx;
	struct service *s = a->service;
	bool damaged = a->err == -ERR_VIEW_UNAVAILABLE;

	for (size_t i = 0; i < VIEW_READERS; i++)
		if (s->running[i] == a)
			s->running[i] = NULL;
	rest_after(s, a);
	if (!a->dropped && a->again && a->err == -ERR_REQUEST_TIMEOUT) {
		put_back(a);
	} else {
		if (!a->dropped)
			answer(s, a);
		ask_free(a);
	}
	if (damaged)
		s->ops->on_damage(s->ops_ctx);
	dispatch(s);
}

/*
 * Age of what the view shows, for an answer that could not wait longer. What
 * it waited for happened before it came.
 */
static uint64_t lag_ns(const struct service *s, const struct ask *a)
{
	uint64_t waited_ns = clock_mono_ns() - a->came_ns;

	return MAX(MAX(view_lag_ns(s->view), waited_ns), (uint64_t)1);
}

/*
 * A view that was made anew may be older than the one before it for a moment.
 * Nobody is shown the past without being told.
 */
static bool is_behind(const struct service *s, const struct ask *a)
{
	return s->view->position < MAX(a->min_seq, s->shown);
}

static struct query_facts facts(const struct service *s)
{
	struct query_facts f = s->facts;

	f.position = s->view->position;
	f.lag_ns = view_lag_ns(s->view);
	return f;
}

static void start_reader(struct service *s, size_t i, struct ask *a)
{
	list_remove(&a->node);
	s->running[i] = a;
	a->reader = s->view->readers[i];
	a->query.facts = facts(s);
	a->query.lag_ns = is_behind(s, a) ? lag_ns(s, a) : 0;
	s->shown = MAX(s->shown, s->view->position);
	a->started_ns = clock_mono_ns();
	a->query.deadline_ns = a->started_ns + s->d->settings.op_timeout;
	query_begin(a->reader);
	worker_run(s->workers[i], run_ask, on_ask_done, a);
}

static bool is_idle(const struct service *s)
{
	for (size_t i = 0; i < VIEW_READERS; i++)
		if (s->running[i] != NULL)
			return false;
	return true;
}

static bool has_ready(const struct service *s)
{
	for (size_t i = 0; i < LANES; i++)
		if (!list_empty(&s->lanes[i].ready))
			return true;
	return false;
}

/*
 * A file that somebody else has written to is not shown. One that is only gone
 * is still open here, and as good as it was.
 */
static void check_place(struct service *s)
{
	enum view_place place;

	if (s->writing || !s->usable || !has_ready(s))
		return;
	place = view_place(s->view);
	if (place != VIEW_IN_PLACE)
		s->ops->on_displaced(s->ops_ctx, place);
}

static bool is_busy(const struct service *s)
{
	return clock_mono_ns() < s->busy_until_ns;
}

static void rest_after(struct service *s, const struct ask *a)
{
	uint64_t now = clock_mono_ns();

	if (is_busy(s))
		a->lane->rest_until_ns =
		    now + MIN((now - a->started_ns) * REST_TIMES, REST_MAX_NS);
}

/* Whether that reader may take a question of the lane. */
static bool may_read(const struct service *s, size_t reader,
		     const struct lane *l)
{
	if (list_empty(&l->ready) || reader < l->first)
		return false;
	return !is_busy(s) ||
	       (reader == l->first && clock_mono_ns() >= l->rest_until_ns);
}

/* The next question for a free reader, or NULL. */
static struct ask *next_ask(struct service *s, size_t reader)
{
	for (size_t i = LANES; i-- > 0;)
		if (may_read(s, reader, &s->lanes[i]))
			return list_entry(s->lanes[i].ready.next, struct ask,
					  node);
	return NULL;
}

/* Nobody else says that a rest is over, or that writers need less. */
static void arm_rest_timer(struct service *s)
{
	uint64_t now = clock_mono_ns(), at = s->busy_until_ns;

	if (!is_busy(s) || !has_ready(s)) {
		loop_timer_disarm(s->rest_timer);
		return;
	}
	for (size_t i = 0; i < LANES; i++)
		if (!list_empty(&s->lanes[i].ready) &&
		    s->lanes[i].rest_until_ns > now)
			at = MIN(at, s->lanes[i].rest_until_ns);
	loop_timer_arm(s->rest_timer, at > now ? at - now : 0);
}

static void on_rest_over(void *ctx)
{
	dispatch(ctx);
}

/* Gives ready questions to free readers. */
static void dispatch(struct service *s)
{
	if (s->paused) {
		loop_fn *idle = s->idle;

		if (idle != NULL && is_idle(s)) {
			s->idle = NULL;
			idle(s->idle_ctx);
		}
		return;
	}
	check_place(s);
	for (size_t i = 0; i < VIEW_READERS && s->usable; i++) {
		struct ask *a = s->running[i] == NULL ? next_ask(s, i) : NULL;

		if (a != NULL)
			start_reader(s, i, a);
	}
	arm_rest_timer(s);
}

/* --- waiting for the view --- */

static void make_ready(struct ask *a)
{
	list_remove(&a->node);
	list_push_back(&a->lane->ready, &a->node);
}

/* Without a view the numbers that need none are told at once. */
static void answer_without_view(struct service *s, struct ask *a)
{
	const struct query_facts f = facts(s);

	if (a->query.id != QUERY_VIEWD_METRICS) {
		refuse(a, ERR_VIEW_UNAVAILABLE, err_text(ERR_VIEW_UNAVAILABLE));
		return;
	}
	query_facts_encode(&f, &a->out);
	rpc_reply(a->req, 0, 0, buf_str(&a->out));
	ask_free(a);
}

/* Moves on whatever waits no longer, and sets the timer for the rest. */
static void look_at_waiting(struct service *s)
{
	uint64_t now = clock_mono_ns();
	uint64_t next = UINT64_MAX;

	LIST_FOREACH_SAFE (it, &s->waiting) {
		struct ask *a = list_entry(it, struct ask, node);

		if (s->usable && !is_behind(s, a))
			make_ready(a);
		else if (a->wait_until_ns > now)
			next = MIN(next, a->wait_until_ns);
		else if (s->usable)
			make_ready(a);
		else
			answer_without_view(s, a);
	}
	if (next != UINT64_MAX)
		loop_timer_arm(s->wait_timer, next - now);
	else
		loop_timer_disarm(s->wait_timer);
	dispatch(s);
}

static void on_wait_timer(void *ctx)
{
	look_at_waiting(ctx);
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
	a->lane =
	    &a->service
		 ->lanes[query_is_quick(item->op) ? LANE_QUICK : LANE_SLOW];
	return 0;
}

static void on_request(void *ctx, struct rpc_req req,
		       const struct frame_request *item)
{
	struct service *s = ctx;
	struct ask *a;
	int r;

	if (item->op == QUERY_REBUILD_VIEW || item->op == QUERY_VERIFY_VIEW) {
		s->ops->on_admin(s->ops_ctx, item->op, req);
		return;
	}
	if (s->asks >= SERVICE_ASKS_MAX) {
		rpc_reply(req, ERR_OVERLOADED, 0,
			  str_from(err_text(ERR_OVERLOADED)));
		return;
	}
	a = xcalloc(1, sizeof(*a));
	a->service = s;
	a->req = req;
	s->asks++;
	list_push_back(&s->waiting, &a->node);
	r = decode_ask(a, item);
	if (r < 0) {
		refuse(a, -r, err_text(-r));
		return;
	}
	look_at_waiting(s);
}

/* Forgets questions: one (id given) or all of a peer. */
static void drop_listed(struct list *l, const struct rpc_peer *peer,
			const struct rpc_req *req)
{
	LIST_FOREACH_SAFE (it, l) {
		struct ask *a = list_entry(it, struct ask, node);

		if (a->req.peer == peer &&
		    (req == NULL || rpc_req_is(a->req, *req)))
			ask_free(a);
	}
}

static void drop(struct service *s, const struct rpc_peer *peer,
		 const struct rpc_req *req)
{
	drop_listed(&s->waiting, peer, req);
	for (size_t i = 0; i < LANES; i++)
		drop_listed(&s->lanes[i].ready, peer, req);
	s->ops->on_admin_gone(s->ops_ctx, peer, req);
	for (size_t i = 0; i < VIEW_READERS; i++) {
		struct ask *a = s->running[i];

		if (a == NULL || a->req.peer != peer ||
		    (req != NULL && !rpc_req_is(a->req, *req)))
			continue;
		a->dropped = true;
		query_interrupt(a->reader);
	}
}

static void on_cancel(void *ctx, struct rpc_req req)
{
	drop(ctx, req.peer, &req);
}

static void on_peer_down(void *ctx, struct rpc_peer *peer)
{
	drop(ctx, peer, NULL);
}

static const struct rpc_server_ops server_ops = {
	.on_request = on_request,
	.on_cancel = on_cancel,
	.on_peer_down = on_peer_down,
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
	for (size_t i = 0; i < LANES; i++) {
		list_init(&s->lanes[i].ready);
		s->lanes[i].first = i;
	}
	for (size_t i = 0; i < VIEW_READERS; i++)
		s->workers[i] = worker_new(d->loop, READER_NICE);
	s->wait_timer = loop_timer_add(d->loop, on_wait_timer, s);
	s->rest_timer = loop_timer_add(d->loop, on_rest_over, s);
	s->server = rpc_server_new(d->ipc, PROC_VIEWD, &server_ops, s);
	return s;
}

static void free_listed(struct list *l)
{
	LIST_FOREACH_SAFE (it, l)
		ask_free(list_entry(it, struct ask, node));
}

void service_free(struct service *s)
{
	if (s == NULL)
		return;
	CHECK(is_idle(s));
	for (size_t i = 0; i < VIEW_READERS; i++)
		worker_free(s->workers[i]);
	free_listed(&s->waiting);
	for (size_t i = 0; i < LANES; i++)
		free_listed(&s->lanes[i].ready);
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
	for (size_t i = 0; i < LANES; i++)
		while (!list_empty(&s->lanes[i].ready)) {
			struct list *first = s->lanes[i].ready.next;

			list_remove(first);
			list_push_back(&s->waiting, first);
		}
	look_at_waiting(s);
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
	look_at_waiting(s);
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
	dispatch(s);
}

void service_resume(struct service *s)
{
	s->paused = false;
	dispatch(s);
}

void service_yield(struct service *s)
{
	for (size_t i = 0; i < VIEW_READERS; i++) {
		struct ask *a = s->running[i];

		if (a == NULL || a->lane != &s->lanes[LANE_SLOW])
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
