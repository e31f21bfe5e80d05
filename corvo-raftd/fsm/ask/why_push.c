/*
 * Why a pending job of a push queue is not called: what sched has told of its
 * host, and calls that are under way. See ask/why.h.
 */
#include "fsm/ask/why.h"
#include "fsm/core/state.h"
#include "proto/push.h"

static const char *const codes[] = {
	[PUSH_HOLD_BREAKER] = "push_breaker",
	[PUSH_HOLD_WAIT] = "push_wait",
	[PUSH_HOLD_RATE] = "push_rate",
};

static void put_state(struct why *w, const struct m_push_state *s)
{
	switch (s->why) {
	case PUSH_HOLD_BREAKER:
		buf_printf(&w->text,
			   "%u calls of %.*s in a row have failed (%.*s); ",
			   s->failures, STR_ARG(s->host), STR_ARG(s->error));
		buf_puts(&w->text, s->until_ns > 0
				       ? "it is tried again"
				       : "one call is made to try it");
		break;
	case PUSH_HOLD_WAIT:
		buf_printf(&w->text, "%.*s has asked to wait; it is called",
			   STR_ARG(s->host));
		break;
	default:
		buf_printf(&w->text,
			   "calls of %.*s have used up their rate; the next "
			   "one is made",
			   STR_ARG(s->host));
		break;
	}
}

static void why_state(struct why *w, const struct m_push_state *s)
{
	struct m_reason *m;

	if (s->why >= ARRAY_SIZE(codes))
		return; /* of a later version */
	put_state(w, s);
	if (s->until_ns > 0)
		why_put_moment(w, s->until_ns);
	m = why_add(w, codes[s->why]);
	if (s->until_ns > 0)
		MSG_SET(m, reason, until, s->until_ns);
	if (s->why == PUSH_HOLD_BREAKER)
		MSG_SET(m, reason, count, s->failures);
}

void why_push(struct why *w, const struct m_push_state *s)
{
	const struct fsm_queue *q = w->j->q;
	uint64_t open = q->counts[JOB_ACTIVE];
	uint64_t max = q->set->push->concurrency;
	struct m_reason *m;

	if (s != NULL)
		why_state(w, s);
	if (max == 0)
		max = PUSH_CONCURRENCY;
	if (open < max)
		return;
	buf_printf(&w->text,
		   "%llu calls of queue \"%.*s\" are under way, of %llu at a "
		   "time",
		   (unsigned long long)open, STR_ARG(q->name),
		   (unsigned long long)max);
	m = why_add(w, "push_concurrency");
	MSG_SET(m, reason, count, open);
	MSG_SET(m, reason, limit, max);
}
