#include "propose/viewlag.h"

#include "util/base.h"

void viewlag_note(struct viewlag *v, uint64_t seq, uint64_t now_ns)
{
	if (seq == v->seq)
		return;
	v->seq = seq;
	v->moved_ns = now_ns;
}

bool viewlag_holds(struct viewlag *v, uint64_t last_seq, uint64_t retention,
		   uint64_t now_ns)
{
	uint64_t lag = last_seq - MIN(last_seq, v->seq);

	if (lag <= MAX(retention / 2, VIEWLAG_LEAST) ||
	    now_ns - v->moved_ns >= VIEWLAG_GONE_NS) {
		v->held_ns = 0;
		return false;
	}
	if (v->held_ns == 0)
		v->held_ns = now_ns;
	if (now_ns - v->held_ns < VIEWLAG_HOLD_NS)
		return true;
	v->held_ns = 0;
	return false;
}
