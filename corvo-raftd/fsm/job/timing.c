/*
 * How long jobs wait and run. See job/timing.h.
 */
#include "fsm/job/timing.h"

#include "fsm/core/state.h"
#include "fsm/job/job.h"
#include "fsm/order/queue.h"
#include "fsm/order/rates.h"
#include "proto/agent.h"

uint64_t timing_pending_since(const struct job *j)
{
	return MSG_HAS(&j->live, job_live, pending_since)
		   ? j->live.pending_since
		   : j->doc.created_at;
}

/* Of the two an agent's job may have, the shorter. */
uint64_t timing_limit(const struct job *j)
{
	uint64_t a = j->doc.timeout, b = 0;

	if (j->extras & EXTRA_AGENT)
		b = agent_limits(&j->doc, &j->live)->iteration_timeout;
	return a == 0 || (b != 0 && b < a) ? b : a;
}

void timing_note_start(struct fsm *f, struct job *j)
{
	CHECK(j->has_doc);
	queue_rates(f, j->q)->out++;
	hist_add(&f->counters.start_latency, &hist_long,
		 timing_passed(timing_pending_since(j), f->now_ns));
}

void timing_note_run(struct fsm *f, struct job *j)
{
	uint64_t ns = timing_passed(j->live.started_at, f->now_ns);
	struct rates_slot *s = queue_rates(f, j->q);

	s->runs++;
	s->run_ns += ns;
	hist_add(&f->counters.run_time, &hist_long, ns);
}
