/*
 * Schedules. Next times are computed here, once, and travel with the
 * operation, because zone files may differ between nodes. Bodies are hostile;
 * what is kept between call and reply lives in the request's arena.
 */
#include "proto/plan.h"
#include "req/job_check.h"
#include "routes/handlers.h"
#include "util/clock.h"

#define TIMES_DEFAULT 5

static void answer(struct req *r, const struct msg_desc *d, const void *m)
{
	req_answer_message(r, d, m, r->match.route->status);
}

/* A schedule without a zone goes by UTC, and says so. */
static void show_zone(struct m_schedule *s)
{
	if (s->timezone.n == 0)
		MSG_SET(s, schedule, timezone, STR("UTC"));
}

static void on_schedule(struct req *r, const struct rpc_reply *reply)
{
	struct m_schedule *s = req_reply(r, &msg_schedule, reply);

	if (s == NULL)
		return;
	show_zone(s);
	answer(r, &msg_schedule, s);
}

/* Asks for the schedule the path names. */
static void get_schedule(struct req *r, struct str id, req_reply_fn *then)
{
	struct m_schedule_ref ref = { 0 };

	MSG_SET(&ref, schedule_ref, id, id);
	req_call_raftd(r, QUERY_GET_SCHEDULE, STR_NULL, &msg_schedule_ref, &ref,
		       then);
}

static void on_read(struct req *r, const struct rpc_reply *reply)
{
	r->x.seq = 0; /* a read has no index of its own */
	on_schedule(r, reply);
}

void h_get_schedule(struct req *r)
{
	struct m_schedule_ref *m = arena_zalloc(&r->arena, sizeof(*m));

	if (req_read(r, &msg_schedule_ref, m))
		get_schedule(r, m->id, on_read);
}

/* --- times --- */

/* False when an error has been answered. */
static bool plan_of(struct req *r, const struct m_schedule *s, struct plan *ret)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	int err = plan_init(ret, &r->h->zones, s, clock_wall_ns(), &why);

	if (err < 0)
		req_fail_text(r, -err, buf_str(&why));
	return err == 0;
}

static void answer_times(struct req *r, const struct plan *p, uint64_t first,
			 uint64_t count)
{
	struct json_writer w = req_json(r);

	jw_object(&w);
	jw_key(&w, "times");
	jw_array(&w);
	for (uint64_t at = first; at != 0 && count > 0;
	     at = plan_next(p, at), count--)
		jw_time(&w, at);
	jw_array_end(&w);
	jw_object_end(&w);
	req_answer(r, r->match.route->status);
}

static uint64_t runs_left(const struct m_schedule *s)
{
	if (s->max_runs == 0)
		return UINT64_MAX;
	return s->max_runs - MIN(s->runs, s->max_runs);
}

static void on_next_times(struct req *r, const struct rpc_reply *reply)
{
	const struct m_schedule *s = req_reply(r, &msg_schedule, reply);
	uint64_t count = TIMES_DEFAULT;
	struct plan p;

	if (s == NULL ||
	    !req_number_argument(r, "count", 1, LIMIT_NEXT_TIMES, &count) ||
	    !plan_of(r, s, &p))
		return;
	r->x.seq = 0; /* a read has no index of its own */
	answer_times(r, &p, s->next_run, MIN(count, runs_left(s)));
}

void h_next_times(struct req *r)
{
	struct m_schedule_ref *m = arena_zalloc(&r->arena, sizeof(*m));

	if (req_read(r, &msg_schedule_ref, m))
		get_schedule(r, m->id, on_next_times);
}

void h_preview(struct req *r)
{
	struct m_preview *m = arena_zalloc(&r->arena, sizeof(*m));
	struct m_schedule s = { 0 };
	uint64_t after = clock_wall_ns();
	struct plan p;

	if (!req_read(r, &msg_preview, m))
		return;
	if (MSG_HAS(m, preview, count) && m->count == 0) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "count: must be a whole number from 1 to %d",
			 LIMIT_NEXT_TIMES);
		return;
	}
	s.cron = m->cron;
	s.timezone = m->timezone;
	s.dst = m->dst;
	s.start_at = m->start_at;
	s.end_at = m->end_at;
	s.jitter = m->jitter;
	s.name = m->name;
	if (MSG_HAS(m, preview, after))
		after = m->after;
	s.created_at = after; /* as if it were saved then */
	if (plan_of(r, &s, &p))
		answer_times(r, &p, plan_next(&p, after),
			     MSG_HAS(m, preview, count) ? m->count
							: TIMES_DEFAULT);
}

/* --- create and change --- */

static bool is_name_ok(struct str name)
{
	for (size_t i = 0; i < name.n; i++)
		if ((unsigned char)name.p[i] < ' ' || name.p[i] == 0x7f)
			return false;
	return name.n > 0 && !id_is_valid(name, "sch_");
}

/* False when an error has been answered. */
static bool check_members(struct req *r, const struct m_schedule *s)
{
	if (!is_name_ok(s->name))
		req_fail(r, ERR_VALIDATION_ERROR,
			 "name: is required; it may hold no control "
			 "characters and not look like an id");
	else if (s->queue.n == 0)
		req_fail(r, ERR_VALIDATION_ERROR, "queue: is required");
	else if (s->cron.n == 0)
		req_fail(r, ERR_VALIDATION_ERROR, "cron: is required");
	else
		return req_payload_fits(r, s->job->payload.n);
	return false;
}

/*
 * The body. Members of the job may stand beside the others, as in enqueue,
 * or under `job`, which wins.
 */
static int read_members(struct req *r, struct json body, struct m_schedule *s,
			struct buf *why)
{
	struct m_schedule_job *job = arena_zalloc(&r->arena, sizeof(*job));
	struct msg_reader rd = req_reader(r, why);
	struct json inner;
	int err;

	rd.beside = &msg_schedule_job;
	err = msg_from_json(&rd, &msg_schedule, body, s);
	rd.ignored = rd.unknown = NULL; /* that was noted */
	if (err == 0)
		err = msg_from_json(&rd, &msg_schedule_job, body, job);
	if (err == 0 && MSG_HAS(s, schedule, job) &&
	    json_member(body, "job", &r->arena, &inner))
		err = msg_from_json(&rd, &msg_schedule_job, inner, job);
	MSG_SET(s, schedule, job, job);
	return err;
}

/* False when an error has been answered. */
static bool read_schedule(struct req *r, struct m_schedule *s)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct json body;
	int err;

	if (!req_read_path(r, &msg_schedule, s) ||
	    !req_read_json(r, true, &body))
		return false;
	err = read_members(r, body, s, &why);
	if (err == 0 || r->unknown.n > 0)
		return req_read_done(r);
	req_fail_text(r, -err, buf_str(&why));
	return false;
}

/* Its first time comes with it. */
static void set_schedule(struct req *r, struct m_schedule *s)
{
	uint64_t next;
	struct plan p;

	if (!check_members(r, s) || !plan_of(r, s, &p))
		return;
	next = plan_next(&p, clock_wall_ns());
	if (next == 0) {
		req_fail(r, ERR_SCHEDULE_ERROR,
			 "no time of the expression lies between now, "
			 "start_at and end_at");
		return;
	}
	MSG_SET(s, schedule, next_run, next);
	req_call_raftd(r, OP_SET_SCHEDULE, s->queue, &msg_schedule, s,
		       on_schedule);
}

void h_set_schedule(struct req *r)
{
	struct m_schedule *s = arena_zalloc(&r->arena, sizeof(*s));

	if (!read_schedule(r, s))
		return;
	MSG_SET(s, schedule, id, req_make_id(r, "sch_"));
	MSG_SET(s, schedule, create, true);
	set_schedule(r, s);
}

/* The name, which decides the jitter, may be left out. */
static void on_to_change(struct req *r, const struct rpc_reply *reply)
{
	const struct m_schedule *old = req_reply(r, &msg_schedule, reply);
	struct m_schedule *s = r->state;

	if (old == NULL)
		return;
	/* the reply's bytes do not outlive it */
	MSG_SET(s, schedule, id, arena_copy(&r->arena, old->id));
	if (s->name.n == 0)
		MSG_SET(s, schedule, name, arena_copy(&r->arena, old->name));
	set_schedule(r, s);
}

void h_put_schedule(struct req *r)
{
	struct m_schedule *s = arena_zalloc(&r->arena, sizeof(*s));

	if (!read_schedule(r, s))
		return;
	r->state = s;
	get_schedule(r, s->id, on_to_change);
}

/* --- pause, resume, run --- */

void h_pause_schedule(struct req *r)
{
	struct m_pause_schedule *m = arena_zalloc(&r->arena, sizeof(*m));

	if (!req_read(r, &msg_pause_schedule, m))
		return;
	MSG_SET(m, pause_schedule, paused, true);
	req_call_raftd(r, OP_PAUSE_SCHEDULE, STR_NULL, &msg_pause_schedule, m,
		       on_schedule);
}

static void on_to_resume(struct req *r, const struct rpc_reply *reply)
{
	const struct m_schedule *s = req_reply(r, &msg_schedule, reply);
	struct m_pause_schedule m = { 0 };
	struct plan p;

	if (s == NULL || !plan_of(r, s, &p))
		return;
	MSG_SET(&m, pause_schedule, id, s->id);
	MSG_SET(&m, pause_schedule, paused, false);
	MSG_SET(&m, pause_schedule, version, s->version);
	MSG_SET(&m, pause_schedule, next_ns, plan_next(&p, clock_wall_ns()));
	req_call_raftd(r, OP_PAUSE_SCHEDULE, STR_NULL, &msg_pause_schedule, &m,
		       on_schedule);
}

void h_resume_schedule(struct req *r)
{
	struct m_pause_schedule *m = arena_zalloc(&r->arena, sizeof(*m));

	if (req_read(r, &msg_pause_schedule, m))
		get_schedule(r, m->id, on_to_resume);
}

static void on_run(struct req *r, const struct rpc_reply *reply)
{
	struct m_fire_reply *m = req_reply(r, &msg_fire_reply, reply);

	if (m != NULL)
		answer(r, &msg_fire_reply, m);
}

void h_run_schedule(struct req *r)
{
	struct m_fire *m = arena_zalloc(&r->arena, sizeof(*m));

	if (!req_read(r, &msg_fire, m))
		return;
	MSG_SET(m, fire, job_id, req_make_id(r, "job_"));
	req_call_raftd(r, OP_RUN_SCHEDULE, STR_NULL, &msg_fire, m, on_run);
}

/* --- list --- */

static void on_list(struct req *r, const struct rpc_reply *reply)
{
	struct m_schedule_list *m = req_reply(r, &msg_schedule_list, reply);

	if (m == NULL)
		return;
	r->x.seq = 0; /* a read has no index of its own */
	for (size_t i = 0; i < m->schedules_n; i++)
		show_zone(&m->schedules[i]);
	answer(r, &msg_schedule_list, m);
}

void h_schedules(struct req *r)
{
	struct m_list_schedules *m = arena_zalloc(&r->arena, sizeof(*m));
	uint64_t limit = LIMIT_SCHEDULE_PAGE;
	struct str after = STR_NULL;

	if (!req_number_argument(r, "limit", 1, LIMIT_SCHEDULE_PAGE, &limit) ||
	    !req_text_argument(r, "after", &after))
		return;
	if (after.n > LIMIT_SCHED_NAME_BYTES) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "after: must be the next of a page before");
		return;
	}
	MSG_SET(m, list_schedules, limit, (uint32_t)limit);
	if (after.n > 0)
		MSG_SET(m, list_schedules, after, after);
	req_call_raftd(r, QUERY_LIST_SCHEDULES, STR_NULL, &msg_list_schedules,
		       m, on_list);
}
