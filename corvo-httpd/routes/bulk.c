/*
 * POST /jobs/bulk: one action on many jobs, by ids or by a filter. Few are
 * acted on here, some at a time, while the client waits; many are named to
 * raftd page by page, which acts on them in the background.
 *
 * Bodies are hostile. What has to live from call to reply is in the request's
 * arena; ids a filter finds are read into one page that is used again.
 */
#include "req/ask_view.h"
#include "routes/handlers.h"
#include "util/clock.h"
#include "util/turn.h"
#include "util/unique.h"

/* Ids that are named to raftd at a time: others wait behind a larger entry. */
#define NAMED_MAX 2000
/* Ids read from the view before it is known whether they are too many. */
#define PENDING_MAX (LIMIT_BULK_SYNC + LIMIT_BULK_PAGE)

enum way {
	WAY_OPEN, /* not known yet: perhaps there are too many */
	WAY_HERE, /* the client waits */
	WAY_BACKGROUND,
};

struct work {
	struct m_bulk_request ask;
	struct m_search search;            /* by filter: the next page */
	bool more;                         /* the view has more of them */
	struct str *ids;                   /* those at hand */
	char (*texts)[LIMIT_JOB_ID_BYTES]; /* by filter: memory of the ids */
	size_t n, at;                      /* at: so many are done */
	enum way way;
	struct m_bulk_result sum; /* WAY_HERE */
	struct str bulk_id;       /* WAY_BACKGROUND: once it is created */
	uint32_t page;            /* its next page */
	bool named;               /* all its jobs were */
	uint64_t total;
};

static void go_on(struct req *r);

/* --- the jobs a filter finds --- */

static void keep_ids(struct work *w, const struct m_search_reply *m)
{
	REQUIRE(w->n + m->ids_n <= PENDING_MAX);
	for (size_t i = 0; i < m->ids_n; i++) {
		struct str id = m->ids[i];

		REQUIRE(id.n <= LIMIT_JOB_ID_BYTES);
		memcpy(w->texts[w->n], id.p, id.n);
		w->ids[w->n] = str_of(w->texts[w->n], id.n);
		w->n++;
	}
}

static void on_page(struct req *r, const struct rpc_reply *reply)
{
	struct arena a = ARENA_INIT;
	struct work *w = r->state;
	struct m_search_reply m;
	int err = reply->err;

	if (err == 0)
		err = -msg_decode(&msg_search_reply, reply->body, &a, &m);
	if (err != 0) {
		req_fail_text(r, err, reply->err != 0 ? reply->body : STR_NULL);
	} else if (m.lag_ns > 0) {
		/* It would pass over jobs that the filter finds. */
		req_fail(r, ERR_VIEW_UNAVAILABLE,
			 "the view is %llu ms behind; try again",
			 (unsigned long long)(m.lag_ns / NS_PER_MS));
	} else {
		keep_ids(w, &m);
		w->more = m.has_more;
		if (m.has_more)
			MSG_SET(&w->search, search, cursor,
				arena_copy(&r->arena, m.cursor));
		go_on(r);
	}
	arena_done(&a);
}

static void ask_page(struct req *r, struct work *w)
{
	if (w->at == w->n)
		w->at = w->n = 0;
	ask_view_surely(r, QUERY_SEARCH_JOBS, &msg_search, &w->search, on_page);
}

/* Oldest first, and none that is created from now on. */
static void prepare_search(struct req *r, struct work *w)
{
	struct m_search *s = &w->search;
	uint64_t before = clock_wall_ns() + 1;

	*s = *w->ask.filter;
	if (MSG_HAS(s, search, created_before))
		before = MIN(before, s->created_before);
	MSG_SET(s, search, created_before, before);
	MSG_SET(s, search, limit, LIMIT_BULK_PAGE);
	MSG_SET(s, search, order, STR("asc"));
	MSG_SET(s, search, ids_only, true);
	w->more = true;
	w->ids = arena_alloc(&r->arena, PENDING_MAX * sizeof(*w->ids));
	w->texts = arena_alloc(&r->arena, PENDING_MAX * sizeof(*w->texts));
}

/* --- here --- */

static void answer_sum(struct req *r, struct work *w)
{
	struct m_bulk_result *m = &w->sum;

	m->duration_ms = (clock_mono_ns() - r->x.start_ns) / NS_PER_MS;
	if (w->ask.dry_run) {
		MSG_SET(m, bulk_result, dry_run, true);
		r->x.seq = 0; /* nothing was written */
	}
	req_answer_message(r, &msg_bulk_result, m, 200);
}

static void on_acted(struct req *r, const struct rpc_reply *reply)
{
	struct work *w = r->state;
	const struct m_bulk_result *m;

	if (reply->err != 0) {
		req_fail_partly(r, reply, "acted on",
				w->ask.dry_run ? 0 : w->sum.affected);
		return;
	}
	m = req_reply(r, &msg_bulk_result, reply);
	if (m == NULL)
		return;
	w->sum.affected += m->affected;
	r->partly = w->sum.affected > 0 && !w->ask.dry_run;
	w->sum.skipped += m->skipped;
	w->sum.total += m->total;
	w->at += m->total; /* perhaps not all that were sent */
	go_on(r);
}

static void act(struct req *r, struct work *w)
{
	const struct m_bulk_request *ask = &w->ask;
	struct m_bulk_act m = { 0 };

	MSG_SET(&m, bulk_act, action, ask->action);
	MSG_SET_LIST(&m, bulk_act, job_ids, w->ids + w->at,
		     MIN(w->n - w->at, (size_t)LIMIT_BULK_STEP));
	if (ask->move_to_queue.n > 0)
		MSG_SET(&m, bulk_act, move_to_queue, ask->move_to_queue);
	if (MSG_HAS(ask, bulk_request, priority))
		MSG_SET(&m, bulk_act, priority, ask->priority);
	if (ask->reason.n > 0)
		MSG_SET(&m, bulk_act, reason, ask->reason);
	MSG_SET(&m, bulk_act, dry_run, ask->dry_run);
	req_call_raftd(r, OP_BULK_ACT, STR_NULL, &msg_bulk_act, &m, on_acted);
}

/* --- in the background --- */

static void answer_accepted(struct req *r, const struct work *w)
{
	struct m_bulk_accepted m = { 0 };

	MSG_SET(&m, bulk_accepted, bulk_operation_id, w->bulk_id);
	MSG_SET(&m, bulk_accepted, status, STR("processing"));
	MSG_SET(&m, bulk_accepted, estimated_total, w->total);
	MSG_SET(&m, bulk_accepted, progress_url,
		arena_printf(&r->arena, "/api/v1/bulk/%.*s/progress",
			     STR_ARG(w->bulk_id)));
	req_answer_message(r, &msg_bulk_accepted, &m, 202);
}

static void on_named(struct req *r, const struct rpc_reply *reply)
{
	struct work *w = r->state;

	if (req_reply(r, &msg_bulk, reply) == NULL)
		return;
	if (w->named)
		answer_accepted(r, w);
	else
		go_on(r);
}

static void name_page(struct req *r, struct work *w)
{
	size_t n = MIN(w->n - w->at, (size_t)NAMED_MAX);
	struct m_bulk_add m = { 0 };

	MSG_SET(&m, bulk_add, bulk_id, w->bulk_id);
	MSG_SET(&m, bulk_add, page, w->page);
	MSG_SET_LIST(&m, bulk_add, job_ids, w->ids + w->at, n);
	w->page++;
	w->at += n;
	w->total += n;
	w->named = w->at == w->n && !w->more;
	MSG_SET(&m, bulk_add, last, w->named);
	req_call_raftd(r, OP_BULK_ADD, STR_NULL, &msg_bulk_add, &m, on_named);
}

static void create(struct req *r, struct work *w)
{
	const struct m_bulk_request *ask = &w->ask;
	struct m_bulk_create m = { 0 };

	w->bulk_id = req_make_id(r, "bulk_");
	MSG_SET(&m, bulk_create, bulk_id, w->bulk_id);
	MSG_SET(&m, bulk_create, action, ask->action);
	if (ask->move_to_queue.n > 0)
		MSG_SET(&m, bulk_create, move_to_queue, ask->move_to_queue);
	if (MSG_HAS(ask, bulk_request, priority))
		MSG_SET(&m, bulk_create, priority, ask->priority);
	if (ask->reason.n > 0)
		MSG_SET(&m, bulk_create, reason, ask->reason);
	MSG_SET(&m, bulk_create, rate, ask->rate);
	MSG_SET(&m, bulk_create, canary, ask->canary);
	req_call_raftd(r, OP_BULK_CREATE, STR_NULL, &msg_bulk_create, &m,
		       on_named);
}

/* --- which way, and the next thing on it --- */

static enum way choose(const struct work *w)
{
	const struct m_bulk_request *ask = &w->ask;

	if (ask->dry_run)
		return WAY_HERE; /* however many */
	if (ask->async || ask->rate > 0 || ask->canary > 0 ||
	    w->n > LIMIT_BULK_SYNC)
		return WAY_BACKGROUND;
	return w->more ? WAY_OPEN : WAY_HERE;
}

static void go_on(struct req *r)
{
	struct work *w = r->state;

	if (!req_may_go_on(r, "acted on", w->ask.dry_run ? 0 : w->sum.affected))
		return;
	if (w->way == WAY_OPEN)
		w->way = choose(w);
	if (w->way == WAY_BACKGROUND && w->bulk_id.n == 0)
		create(r, w);
	else if (w->way == WAY_BACKGROUND && (w->at < w->n || !w->more))
		name_page(r, w);
	else if (w->way == WAY_HERE && w->at < w->n)
		act(r, w);
	else if (w->more)
		ask_page(r, w);
	else
		answer_sum(r, w);
}

/* --- the request --- */

/* Each once; what is said twice is done once. */
static void take_ids(struct work *w)
{
	w->ids = w->ask.job_ids;
	turn_open();
	w->n = unique_texts(w->ids, w->ask.job_ids_n);
	turn_close();
}

/*
 * Members of a search that say which page of it; a filter is all of it.
 * False when an error has been answered.
 */
static bool is_filter_ok(struct req *r, const struct m_search *f)
{
	if ((f->has & SEARCH_PAGE_BITS) == 0)
		return ask_view_all_ok(r, f, "filter.");
	req_fail(r, ERR_VALIDATION_ERROR,
		 "filter: takes no limit, cursor, sort, order or time_budget; "
		 "all jobs it finds are acted on");
	return false;
}

/* False when an error has been answered. */
static bool check(struct req *r, const struct m_bulk_request *m)
{
	bool by_ids = MSG_HAS(m, bulk_request, job_ids);
	bool by_filter = MSG_HAS(m, bulk_request, filter);

	if (by_ids == by_filter)
		req_fail(r, ERR_VALIDATION_ERROR,
			 "job_ids or filter: one of them is required, and only "
			 "one");
	else if (m->action == BULK_MOVE && m->move_to_queue.n == 0)
		req_fail(r, ERR_VALIDATION_ERROR,
			 "move_to_queue: is required for move");
	else if (m->action == BULK_CHANGE_PRIORITY &&
		 !MSG_HAS(m, bulk_request, priority))
		req_fail(r, ERR_VALIDATION_ERROR,
			 "priority: is required for change_priority");
	else if (m->canary > 0 && m->action != BULK_RETRY &&
		 m->action != BULK_REQUEUE)
		req_fail(r, ERR_VALIDATION_ERROR,
			 "canary: is for retry and requeue, whose jobs can "
			 "fail again");
	else
		return !by_filter || is_filter_ok(r, m->filter);
	return false;
}

/*
 * Clients of 0.3 may send both, of which ids count if there are any, and
 * neither, which is about no job. That action is missing is the one mistake
 * which is no BULK_ERROR. False when an error has been answered.
 */
static bool read_as_03(struct req *r, struct m_bulk_request *m)
{
	struct json body, action;

	if (!req_read_json(r, true, &body))
		return false;
	if (json_member(body, "action", &r->arena, &action))
		r->mistake_03 = ERR_BULK_ERROR;
	if (!req_read(r, &msg_bulk_request, m))
		return false;
	if (m->job_ids_n > 0)
		MSG_UNSET(m, bulk_request, filter);
	else if (MSG_HAS(m, bulk_request, filter))
		MSG_UNSET(m, bulk_request, job_ids);
	else
		MSG_SET_LIST(m, bulk_request, job_ids, NULL, 0);
	return true;
}

void h_bulk(struct req *r)
{
	struct work *w = arena_zalloc(&r->arena, sizeof(*w));

	if (!(req_is_compat(r) ? read_as_03(r, &w->ask)
			       : req_read(r, &msg_bulk_request, &w->ask)) ||
	    !check(r, &w->ask))
		return;
	r->state = w;
	r->x.outlives = !w->ask.dry_run;
	if (MSG_HAS(&w->ask, bulk_request, job_ids))
		take_ids(w);
	else
		prepare_search(r, w);
	go_on(r);
}

/* --- operations in the background --- */

void h_bulks(struct req *r)
{
	static const struct m_nothing nothing;

	req_call_raftd(r, QUERY_LIST_BULKS, STR_NULL, &msg_nothing, &nothing,
		       req_answer_query);
}

static void on_controlled(struct req *r, const struct rpc_reply *reply)
{
	const struct m_bulk *m = req_reply(r, &msg_bulk, reply);

	if (m != NULL)
		req_answer_message(r, &msg_bulk, m, 200);
}

static void control(struct req *r, enum bulk_status status)
{
	struct m_bulk_control *m = arena_zalloc(&r->arena, sizeof(*m));

	if (!req_read(r, &msg_bulk_control, m))
		return;
	MSG_SET(m, bulk_control, status, status);
	req_call_raftd(r, OP_BULK_CONTROL, STR_NULL, &msg_bulk_control, m,
		       on_controlled);
}

void h_bulk_cancel(struct req *r)
{
	control(r, BULK_CANCELLED);
}

void h_bulk_pause(struct req *r)
{
	control(r, BULK_PAUSED);
}

void h_bulk_resume(struct req *r)
{
	control(r, BULK_RUNNING);
}
