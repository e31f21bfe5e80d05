/*
 * A schedule and what is done to it, for tests on the fixture.
 */
#ifndef CORVO_SCHEDULE_WORLD_H
#define CORVO_SCHEDULE_WORLD_H

#include "fsm_fixture.h"

#define STEP (60 * NS_PER_S)

static inline struct m_schedule definition(const char *id, const char *name)
{
	struct m_schedule m = { 0 };

	MSG_SET(&m, schedule, id, str_from(id));
	MSG_SET(&m, schedule, name, str_from(name));
	MSG_SET(&m, schedule, queue, STR("q"));
	MSG_SET(&m, schedule, cron, STR("* * * * *"));
	MSG_SET(&m, schedule, create, true);
	MSG_SET(&m, schedule, next_run, FX_START_NS + STEP);
	return m;
}

static inline void create(struct fx *x, const struct m_schedule *m)
{
	if (fx_do(x, OP_SET_SCHEDULE, m, NULL) != 0)
		fail_msg("%.*s", STR_ARG(x->replies[0].body));
}

/* As both sides have it; the answer lives until the next entry. */
static inline struct m_schedule get(struct fx *x, const char *ref)
{
	struct m_schedule m[FX_SIDES];

	for (int i = 0; i < FX_SIDES; i++)
		assert_int_equal(
		    fsm_schedule(x->side[i].f, str_from(ref), &x->arena, &m[i]),
		    1);
	assert_int_equal(m[0].next_run, m[1].next_run);
	return m[0];
}

/* The plan sched would make: from its next time to the one a step later. */
static inline struct m_fire plan(struct fx *x, const char *ref, const char *job)
{
	struct m_schedule s = get(x, ref);
	struct m_fire m = { 0 };

	MSG_SET(&m, fire, id, str_from(ref));
	MSG_SET(&m, fire, due_ns, s.next_run);
	MSG_SET(&m, fire, next_ns, s.next_run + STEP);
	MSG_SET(&m, fire, version, s.version);
	MSG_SET(&m, fire, job_id, str_from(job));
	return m;
}

static inline void expect_fire(struct fx *x, const struct m_fire *m,
			       const char *status, const char *reason)
{
	struct m_fire_reply r;

	if (fx_do(x, OP_FIRE, m, &r) != 0)
		fail_msg("%.*s", STR_ARG(x->replies[0].body));
	assert_str_is(r.status, status);
	assert_str_is(r.reason, reason);
}

static inline void fire(struct fx *x, const char *ref, const char *job)
{
	struct m_fire m = plan(x, ref, job);

	x->now_ns = MAX(x->now_ns, m.due_ns);
	expect_fire(x, &m, "created", "");
}

/* The types of the newest events, n of them, and the data of the last. */
static inline struct str last_events(struct fx *x, uint64_t n,
				     const char *types)
{
	uint64_t last = fsm_last_seq(x->side[FX_MEM].f);
	struct buf b = BUF_INIT(0);
	struct m_events_reply t;

	assert_int_equal(
	    record_events(x->side[FX_MEM].kv, last - n, 100, &x->arena, &t), 0);
	assert_int_equal(t.events_n, n);
	for (size_t i = 0; i < n; i++)
		buf_printf(&b, "%s%s", i ? " " : "",
			   enum_text(&enum_event_type, t.events[i].type));
	assert_str_is(buf_str(&b), types);
	buf_done(&b);
	return t.events[n - 1].data;
}

#endif
