/*
 * The readers. A question is on exactly one of: waiting (for its event), its
 * lane (for a reader), or a reader's hands.
 *
 * There is a lane for quick questions (query_is_quick), one for searches, and
 * one for those of them that turned out to be long: a search that has not ended
 * within a slice begins anew there, behind its own kind. Nobody has to guess
 * beforehand what a search costs, and no search holds up another for more than
 * a slice. The first reader is for the quick ones only and the second takes no
 * long ones, so whatever is searched, and however long searches have to rest,
 * numbers and small lists are told at once and cheap searches soon.
 *
 * Only so many long ones wait, and only so long; the rest is refused, by name,
 * before the one who asks gives up.
 *
 * Within a lane clients take turns (service_turns.c). A long search may hold
 * its reader for many seconds, so one of a client that has two makes way.
 */
#include "proto/view_ask.h"
#include "rt/log.h"
#include "service_impl.h"
#include "util/clock.h"

/* While writers need the processors: rest so many times as long as the last
 * question took, at most so long. */
#define REST_TIMES  4
#define REST_MAX_NS (400 * NS_PER_MS)
/* What a search may take before it is a long one. */
#define SLICE_NS (50 * NS_PER_MS)

static void run_ask(void *ctx) /* a reader's thread */
{
	struct ask *a = ctx;

	a->err = query_run(a->reader, &a->query, &a->out);
}

static void answer(struct service *s, struct ask *a)
{
	if (a->err == 0) {
		rpc_reply_take(a->req, s->view->position, &a->out);
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

bool service_is_busy(const struct service *s)
{
	return clock_mono_ns() < s->busy_until_ns;
}

static void rest_after(struct service *s, const struct ask *a)
{
	uint64_t now = clock_mono_ns();

	if (service_is_busy(s))
		a->lane->rest_until_ns =
		    now + MIN((now - a->started_ns) * REST_TIMES, REST_MAX_NS);
}

/* As the next of its client. */
static void put_back(struct ask *a)
{
	a->again = false;
	a->reader = NULL;
	buf_clear(&a->out);
	turn_wait_first(a);
}

static void refuse_long(struct ask *a)
{
	ask_refuse(a, ERR_OVERLOADED,
		   "too many long searches wait; narrow this one down, or try "
		   "again after retry_after_ms");
}

/* A later page of an operation on many jobs, which is half done by now. */
static bool is_half_done(const struct ask *a)
{
	const struct m_search *m = a->query.request;

	return a->query.id == QUERY_SEARCH_JOBS && m->ids_only &&
	       m->cursor.n > 0;
}

/* The last of a client that has more than this one; false: there is none. */
static bool refuse_another(struct service *s, const struct ask *a)
{
	struct turn *most =
	    turn_of_most(&s->lanes[LANE_LONG], &a->asker->turns[LANE_LONG]);

	if (most == NULL)
		return false;
	for (struct list *it = most->ready.prev; it != &most->ready;
	     it = it->prev) {
		struct ask *last = list_entry(it, struct ask, node);

		if (is_half_done(last))
			continue;
		refuse_long(last);
		return true;
	}
	return false;
}

/* Its slice is over. */
static void make_long(struct service *s, struct ask *a)
{
	struct lane *l = &s->lanes[LANE_LONG];

	buf_clear(&a->out);
	a->reader = NULL;
	a->lane = l;
	if (l->n >= LIMIT_LONG_SEARCHES && !is_half_done(a) &&
	    !refuse_another(s, a))
		refuse_long(a);
	else
		turn_wait(a);
}

static void on_ask_done(void *ctx)
{
	struct ask *a = ctx;
	struct service *s = a->service;
	bool damaged = a->err == -ERR_VIEW_UNAVAILABLE;
	bool stopped = a->err == -ERR_REQUEST_TIMEOUT;

	for (size_t i = 0; i < VIEW_READERS; i++)
		if (s->running[i] == a)
			s->running[i] = NULL;
	rest_after(s, a);
	if (!a->dropped && a->again && stopped) {
		put_back(a);
	} else if (!a->dropped && stopped &&
		   a->lane == &s->lanes[LANE_SEARCH]) {
		make_long(s, a);
	} else {
		if (!a->dropped)
			answer(s, a);
		ask_free(a);
	}
	if (damaged)
		s->ops->on_damage(s->ops_ctx);
	service_look(s);
}

uint64_t readers_give_up(struct service *s, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = LANE_SEARCH; i < LANES; i++) {
		struct ask *a;

		while ((a = turn_late(&s->lanes[i], now, &next)) != NULL)
			refuse_long(a);
	}
	return next;
}

/*
 * Age of what the view shows, for an answer that could not wait longer. What
 * it waited for happened before it came.
 */
static uint64_t lag_ns(const struct service *s, const struct ask *a)
{
	uint64_t waited_ns = clock_mono_ns() - a->came_ns;
	uint64_t lag =
	    a->uses_text ? view_text_lag_ns(s->view) : view_lag_ns(s->view);

	return MAX(MAX(lag, waited_ns), (uint64_t)1);
}

/*
 * A view that was made anew may be older than the one before it for a moment.
 * Nobody is shown the past without being told.
 */
bool readers_are_behind(const struct service *s, const struct ask *a)
{
	uint64_t has =
	    a->uses_text ? s->view->text_position : s->view->position;

	return has < MAX(a->min_seq, s->shown);
}

struct query_facts readers_facts(const struct service *s)
{
	struct query_facts f = s->facts;

	f.position = s->view->position;
	f.lag_ns = view_lag_ns(s->view);
	f.text_lag_ns = view_text_lag_ns(s->view);
	f.long_waiting = s->lanes[LANE_LONG].n;
	for (size_t i = 0; i < VIEW_READERS; i++)
		f.long_running += s->running[i] != NULL &&
				  s->running[i]->lane == &s->lanes[LANE_LONG];
	return f;
}

static void start_reader(struct service *s, size_t i, struct ask *a)
{
	turn_take(a);
	s->running[i] = a;
	a->reader = s->view->readers[i];
	a->query.facts = readers_facts(s);
	a->query.lag_ns = readers_are_behind(s, a) ? lag_ns(s, a) : 0;
	s->shown = MAX(s->shown, s->view->position);
	a->started_ns = clock_mono_ns();
	a->query.deadline_ns =
	    a->started_ns + view_ask_run_ns(query_info(a->query.id)->request,
					    a->query.request,
					    s->d->settings.op_timeout);
	a->query.slice_ns =
	    a->lane == &s->lanes[LANE_SEARCH] ? a->started_ns + SLICE_NS : 0;
	query_begin(a->reader);
	worker_run(s->workers[i], run_ask, on_ask_done, a);
}

bool readers_are_idle(const struct service *s)
{
	for (size_t i = 0; i < VIEW_READERS; i++)
		if (s->running[i] != NULL)
			return false;
	return true;
}

static bool has_ready(const struct service *s)
{
	for (size_t i = 0; i < LANES; i++)
		if (s->lanes[i].n > 0)
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

/* Whether that reader may take a question of the lane. */
static bool may_read(const struct service *s, size_t reader,
		     const struct lane *l)
{
	if (l->n == 0 || reader < l->first)
		return false;
	return !service_is_busy(s) ||
	       (reader == l->first && clock_mono_ns() >= l->rest_until_ns);
}

/* Long searches of the client that run. */
static size_t running_of(const struct service *s, const struct asker *who)
{
	size_t n = 0;

	for (size_t i = 0; i < VIEW_READERS; i++)
		n += s->running[i] != NULL && s->running[i]->asker == who &&
		     s->running[i]->lane == &s->lanes[LANE_LONG];
	return n;
}

/* Of who has fewest that run: they last too long for turns alone. */
static struct ask *next_long(const struct service *s)
{
	const struct lane *l = &s->lanes[LANE_LONG];
	struct ask *ret = NULL;

	LIST_FOREACH (it, &l->turns) {
		struct ask *a = turn_first(list_entry(it, struct turn, node));

		if (turn_has_room(a) &&
		    (ret == NULL ||
		     running_of(s, a->asker) < running_of(s, ret->asker)))
			ret = a;
	}
	return ret;
}

/* The next question for a free reader, or NULL. */
static struct ask *next_ask(struct service *s, size_t reader)
{
	for (size_t i = LANES; i-- > 0;)
		if (may_read(s, reader, &s->lanes[i]))
			return i == LANE_LONG ? next_long(s)
					      : turn_next(&s->lanes[i]);
	return NULL;
}

/* Nobody else says that a rest is over, or that writers need less. */
static void arm_rest_timer(struct service *s)
{
	uint64_t now = clock_mono_ns(), at = s->busy_until_ns;

	if (!service_is_busy(s) || !has_ready(s)) {
		loop_timer_disarm(s->rest_timer);
		return;
	}
	for (size_t i = 0; i < LANES; i++)
		if (s->lanes[i].n > 0 && s->lanes[i].rest_until_ns > now)
			at = MIN(at, s->lanes[i].rest_until_ns);
	loop_timer_arm(s->rest_timer, at > now ? at - now : 0);
}

void readers_on_rest_over(void *ctx)
{
	readers_dispatch(ctx);
}

/* The long search that waits next is of a client with two less than another
 * one has: of these the one that began last makes way. */
static void make_way(struct service *s)
{
	const struct ask *next = next_long(s);
	struct ask *last = NULL;
	size_t may;

	if (next == NULL)
		return;
	may = running_of(s, next->asker) + 1;
	for (size_t i = LANE_LONG; i < VIEW_READERS; i++) {
		struct ask *a = s->running[i];

		if (a == NULL || a->again)
			return; /* one is free, or soon will be */
		if (a->lane == &s->lanes[LANE_LONG] &&
		    running_of(s, a->asker) > may &&
		    (last == NULL || a->started_ns > last->started_ns))
			last = a;
	}
	if (last == NULL)
		return;
	last->again = true;
	query_interrupt(last->reader);
}

void readers_dispatch(struct service *s)
{
	if (s->paused) {
		loop_fn *idle = s->idle;

		if (idle != NULL && readers_are_idle(s)) {
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
	make_way(s);
	arm_rest_timer(s);
}
