#include "propose/wallclock.h"

#include "rt/log.h"
#include "util/timefmt.h"

static bool is_step(int64_t ns)
{
	return ns > (int64_t)WALLCLOCK_STEP_NS ||
	       ns < -(int64_t)WALLCLOCK_STEP_NS;
}

/* Says and counts that the wall clock was set. */
static void note(struct wallclock *c, int64_t by, uint64_t expected_ns,
		 uint64_t wall_ns, const char *then)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	if (by > 0)
		c->forward++;
	else
		c->back++;
	time_format(&text, expected_ns);
	buf_puts(&text, " to ");
	time_format(&text, wall_ns);
	log_warn("the clock was set %s by %.3f s, from %.*s; %s",
		 by > 0 ? "forward" : "back",
		 (double)(by > 0 ? by : -by) / (double)NS_PER_S,
		 STR_ARG(buf_str(&text)), then);
}

static void watch(struct wallclock *c, int64_t ahead, uint64_t mono_ns)
{
	c->watching = true;
	c->ahead = ahead;
	c->since_ns = mono_ns;
}

uint64_t wallclock_now(const struct wallclock *c, uint64_t mono_ns)
{
	return MAX(mono_ns + c->offset, c->last_ns);
}

void wallclock_begin(struct wallclock *c, uint64_t known_ns, uint64_t wall_ns,
		     uint64_t mono_ns)
{
	int64_t behind = (int64_t)(known_ns - wall_ns);

	c->begun = true;
	c->watching = false;
	c->offset = wall_ns - mono_ns;
	c->last_ns = known_ns;
	c->settled_ns = mono_ns;
	if (known_ns == 0)
		return;
	if (behind > (int64_t)WALLCLOCK_STEP_NS) {
		c->offset = known_ns - mono_ns;
		note(c, -behind, known_ns, wall_ns,
		     "it is followed when it stays so");
		watch(c, -behind, mono_ns);
	} else if (-behind > (int64_t)WALLCLOCK_AWAY_NS) {
		c->settled_ns = mono_ns + WALLCLOCK_HOLD_NS;
	}
}

bool wallclock_look(struct wallclock *c, uint64_t wall_ns, uint64_t mono_ns)
{
	uint64_t own = mono_ns + c->offset;
	int64_t ahead = (int64_t)(wall_ns - own);
	int64_t moved = c->watching ? ahead - c->ahead : ahead;

	c->last_ns = wallclock_now(c, mono_ns);
	if (!is_step(ahead)) {
		if (c->watching)
			note(c, moved, wall_ns - (uint64_t)moved, wall_ns,
			     "it is right again, and nothing was done by what "
			     "it said");
		c->watching = false;
		c->offset += (uint64_t)ahead;
		return false;
	}
	if (is_step(moved)) {
		note(c, moved, wall_ns - (uint64_t)moved, wall_ns,
		     "it is followed when it stays so");
		watch(c, ahead, mono_ns);
		return false;
	}
	return mono_ns - c->since_ns >= WALLCLOCK_HOLD_NS;
}

void wallclock_follow(struct wallclock *c, uint64_t wall_ns, uint64_t mono_ns,
		      struct wallclock_step *ret)
{
	*ret = (struct wallclock_step){ wallclock_now(c, mono_ns), wall_ns };
	c->offset = wall_ns - mono_ns;
	c->last_ns = wall_ns;
	c->watching = false;
	log_info("the clock is followed: it is %.3f s %s what it was",
		 (double)(ret->to_ns > ret->from_ns
			      ? ret->to_ns - ret->from_ns
			      : ret->from_ns - ret->to_ns) /
		     (double)NS_PER_S,
		 ret->to_ns > ret->from_ns ? "ahead of" : "behind");
}

bool wallclock_is_settled(const struct wallclock *c, uint64_t mono_ns)
{
	return mono_ns >= c->settled_ns;
}
