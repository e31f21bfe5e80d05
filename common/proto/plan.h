/*
 * When a schedule runs: its expression, zone, jitter and bounds, taken
 * together, and what becomes of times that were missed.
 *
 * Zone files may differ between machines, so this is never asked while an
 * entry is applied: httpd and sched compute, the entry carries the result.
 */
#ifndef CORVO_PLAN_H
#define CORVO_PLAN_H

#include "proto/proto.h"
#include "util/cron.h"

#define PLAN_LATE_NS        NS_PER_S /* later than that it was missed */
#define PLAN_WINDOW_NS      (3600 * NS_PER_S) /* default catch_up_window */
#define PLAN_MISSED_COUNTED 10000 /* missed times are counted up to here */

struct plan {
	struct cron cron;
	const struct tz *zone;
	enum cron_gap gap;
	uint64_t anchor_ns;        /* what @every counts from */
	uint64_t jitter_ns;        /* what is added to every time */
	uint64_t start_ns, end_ns; /* 0: none */
};

/*
 * Reads the schedule; now_ns stands in for a creation it does not have yet.
 * The plan is valid until the next one is made with the same cache. 0, or
 * -ERR_SCHEDULE_ERROR with a sentence in why that begins with the member.
 */
int plan_init(struct plan *p, struct tz_cache *zones,
	      const struct m_schedule *s, uint64_t now_ns, struct buf *why);

/* The first time after that moment; 0: none. */
uint64_t plan_next(const struct plan *p, uint64_t after_ns);
/* The last time in (after_ns, upto_ns]; 0: none. */
uint64_t plan_last(const struct plan *p, uint64_t after_ns, uint64_t upto_ns);

/*
 * The next time of a schedule since the clock was set back: no time comes twice
 * if there is one in less than the clock was set back by, else none would for
 * as long, and it goes on with the first that is to come.
 */
uint64_t plan_again(const struct plan *p, const struct m_schedule *s,
		    uint64_t now_ns);

/*
 * next_run of the schedule has come: fills the operation that deals with it,
 * all but job_id. A time that is late is fired, made up for or left out, as
 * the schedule's catch_up says.
 */
void plan_fire(const struct plan *p, const struct m_schedule *s,
	       uint64_t now_ns, struct m_fire *ret);

#endif
