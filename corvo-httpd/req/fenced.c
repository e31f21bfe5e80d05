/*
 * Requests that are answered with what the leader has, or not at all. See
 * req/req.h and routes/fence.h.
 */
#include "req/req.h"
#include "util/clock.h"

uint64_t req_time_left(const struct req *r)
{
	uint64_t all = r->h->set->op_timeout, now = clock_mono_ns();

	if (r->fenced_ns == 0)
		return all;
	return all - MIN(all - 1, now - r->fenced_ns);
}

bool req_refuse_behind(struct req *r)
{
	if (r->fenced_ns == 0 || !r->x.has_lag)
		return false;
	r->x.has_lag = false;
	req_fail_text(r, ERR_VIEW_UNAVAILABLE, REQ_VIEW_BEHIND);
	return true;
}
