/*
 * See plan.h. The expression and the name of the zone come from clients.
 */
#include "proto/plan.h"
#include "util/hash.h"

_Static_assert((int)DST_ONCE == (int)CRON_ONCE &&
		   (int)DST_SKIP == (int)CRON_SKIP &&
		   (int)DST_SHIFT == (int)CRON_SHIFT,
	       "dst is given on as a number");

/* Whole milliseconds: a time that people read. */
static uint64_t jitter_of(const struct m_schedule *s)
{
	uint64_t ms = s->jitter / NS_PER_MS;

	return ms == 0 ? 0 : hash_stable(s->name.p, s->name.n) % ms * NS_PER_MS;
}

/* What @every counts from: the time before, if there is one. */
static uint64_t anchor_of(const struct m_schedule *s, uint64_t jitter_ns,
			  uint64_t now_ns)
{
	if (s->next_run != 0)
		return s->next_run - MIN(jitter_ns, s->next_run);
	if (s->start_at != 0)
		return s->start_at;
	return s->created_at != 0 ? s->created_at : now_ns;
}

int plan_init(struct plan *p, struct tz_cache *zones,
	      const struct m_schedule *s, uint64_t now_ns, struct buf *why)
{
	*p = (struct plan){ .gap = (enum cron_gap)s->dst };
	buf_clear(why);
	buf_puts(why, "cron: ");
	if (!cron_parse(s->cron, &p->cron, why))
		return -ERR_SCHEDULE_ERROR;
	buf_clear(why);
	buf_puts(why, "timezone: ");
	p->zone = tz_find(zones, s->timezone, why);
	if (p->zone == NULL)
		return -ERR_SCHEDULE_ERROR;
	buf_clear(why);
	p->jitter_ns = jitter_of(s);
	p->anchor_ns = anchor_of(s, p->jitter_ns, now_ns);
	p->start_ns = s->start_at;
	p->end_ns = s->end_at;
	return 0;
}

uint64_t plan_next(const struct plan *p, uint64_t after_ns)
{
	uint64_t after = after_ns - MIN(after_ns, p->jitter_ns);
	uint64_t next;

	if (p->start_ns > 0)
		after = MAX(after, p->start_ns - 1);
	next = cron_next(&p->cron, p->zone, p->gap, p->anchor_ns, after);
	if (next == 0)
		return 0;
	next += p->jitter_ns;
	return p->end_ns != 0 && next > p->end_ns ? 0 : next;
}

uint64_t plan_last(const struct plan *p, uint64_t after_ns, uint64_t upto_ns)
{
	uint64_t lo = after_ns, hi = upto_ns, last = 0;

	while (lo < hi) {
		uint64_t middle = lo + (hi - lo) / 2;
		uint64_t next = plan_next(p, middle);

		if (next != 0 && next <= upto_ns)
			last = lo = next;
		else
			hi = middle;
	}
	return last;
}

/* Counts @every from before that moment, in the same rhythm. */
static struct plan anchored_before(const struct plan *p, uint64_t ns)
{
	struct plan ret = *p;
	uint64_t every = p->cron.every_ns, back;

	if (every == 0 || p->anchor_ns <= ns)
		return ret;
	back = ((p->anchor_ns - ns) / every + 1) * every;
	if (back < p->anchor_ns)
		ret.anchor_ns = p->anchor_ns - back;
	return ret;
}

uint64_t plan_again(const struct plan *p, const struct m_schedule *s,
		    uint64_t now_ns)
{
	uint64_t by = s->set_back_ns;
	uint64_t from = s->next_run - MIN(by, s->next_run);
	struct plan b = anchored_before(p, MIN(from, now_ns));
	uint64_t next = plan_next(&b, now_ns);

	if (next == 0 || next >= s->next_run ||
	    plan_last(&b, from, s->next_run - 1) == 0)
		return s->next_run;
	return next;
}

/* Times from due_ns on before that one. */
static uint64_t count_missed(const struct plan *p, uint64_t due_ns,
			     uint64_t before_ns)
{
	uint64_t n = 0, at = due_ns;

	while (at != 0 && at < before_ns && n < PLAN_MISSED_COUNTED) {
		n++;
		at = plan_next(p, at);
	}
	return n;
}

/* Leaves out what is before next_ns. */
static void skip_to(const struct plan *p, uint64_t next_ns, uint64_t now_ns,
		    struct m_fire *ret)
{
	uint64_t before = next_ns == 0 ? now_ns + 1 : next_ns;

	MSG_SET(ret, fire, skip, true);
	MSG_SET(ret, fire, missed, count_missed(p, ret->due_ns, before));
	MSG_SET(ret, fire, next_ns, next_ns);
}

static void fire_last(const struct plan *p, uint64_t oldest_ns, uint64_t now_ns,
		      struct m_fire *ret)
{
	uint64_t from = MAX(oldest_ns, ret->due_ns);
	uint64_t at = plan_last(p, from - 1, now_ns);

	if (at == 0) {
		skip_to(p, plan_next(p, now_ns), now_ns, ret);
		return;
	}
	if (at != ret->due_ns) {
		MSG_SET(ret, fire, at_ns, at);
		MSG_SET(ret, fire, missed, count_missed(p, ret->due_ns, at));
	}
	MSG_SET(ret, fire, next_ns, plan_next(p, at));
}

void plan_fire(const struct plan *p, const struct m_schedule *s,
	       uint64_t now_ns, struct m_fire *ret)
{
	uint64_t window = MSG_HAS(s, schedule, catch_up_window)
			      ? s->catch_up_window
			      : PLAN_WINDOW_NS;
	uint64_t oldest = now_ns - MIN(window, now_ns - 1);
	uint32_t policy =
	    MSG_HAS(s, schedule, catch_up) ? s->catch_up : CATCH_UP_LAST;

	MSG_SET(ret, fire, id, s->id);
	MSG_SET(ret, fire, due_ns, s->next_run);
	MSG_SET(ret, fire, version, s->version);
	if (s->next_run + PLAN_LATE_NS >= now_ns ||
	    (policy == CATCH_UP_ALL && s->next_run >= oldest))
		MSG_SET(ret, fire, next_ns, plan_next(p, s->next_run));
	else if (policy == CATCH_UP_LAST)
		fire_last(p, oldest, now_ns, ret);
	else if (policy == CATCH_UP_ALL)
		skip_to(p, plan_next(p, oldest - 1), now_ns, ret);
	else
		skip_to(p, plan_next(p, now_ns), now_ns, ret);
}
