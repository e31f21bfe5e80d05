#include "propose/wallclock.h"

#include <string.h>

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

/* --- what was --- */

#define PAST_SAME_NS NS_PER_MS /* both clocks are read no better than that */

/*
 * A moment may be told by an offset of a little later: renewals are written
 * down about a second after they happened.
 */
#define PAST_AFTER_NS (2 * NS_PER_S)

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) < 0 ? a : b;
}

/* The one that makes a moment of both the later one. */
static void past_merge_oldest(struct wallclock *c)
{
	c->past[0].offset = lesser(c->past[0].offset, c->past[1].offset);
	c->past_n--;
	memmove(&c->past[1], &c->past[2], (c->past_n - 1) * sizeof(c->past[0]));
}

static void past_begin(struct wallclock *c)
{
	c->past[0] = (struct wallclock_past){ 0, c->offset };
	c->past_n = 1;
}

/* The offset is another one since our time was after_ns. */
static void past_note(struct wallclock *c, uint64_t after_ns)
{
	int64_t by = (int64_t)(c->offset - c->past[c->past_n - 1].offset);

	if (by <= (int64_t)PAST_SAME_NS && by >= -(int64_t)PAST_SAME_NS)
		return;
	if (c->past_n == WALLCLOCK_PASTS)
		past_merge_oldest(c);
	c->past[c->past_n++] = (struct wallclock_past){ after_ns, c->offset };
}

/* All that was told by our time is moved by so much. */
static void past_move(struct wallclock *c, uint64_t by)
{
	for (size_t i = 0; i < c->past_n; i++) {
		c->past[i].offset += by;
		if (i > 0)
			c->past[i].after_ns += by;
	}
}

uint64_t wallclock_mono_of(const struct wallclock *c, uint64_t at_ns)
{
	size_t i = c->past_n - 1;
	uint64_t offset;
	int64_t mono_ns;

	while (i > 0 && c->past[i].after_ns >= at_ns + PAST_AFTER_NS)
		i--;
	offset = c->past[i].offset;
	for (; i > 0 && c->past[i].after_ns >= at_ns; i--)
		offset = lesser(offset, c->past[i - 1].offset);
	mono_ns = (int64_t)(at_ns - offset);
	return mono_ns > 0 ? (uint64_t)mono_ns : 0; /* before the machine was */
}

/* --- what is --- */

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
	c->settled_ns = c->looked_ns = mono_ns;
	past_begin(c);
	if (known_ns == 0)
		return;
	if (behind > (int64_t)WALLCLOCK_STEP_NS) {
		c->offset = known_ns - mono_ns;
		past_begin(c);
		note(c, -behind, known_ns, wall_ns,
		     "it is followed when it stays so");
		watch(c, -behind, mono_ns);
	} else if (-behind > (int64_t)WALLCLOCK_AWAY_NS) {
		c->settled_ns = mono_ns + WALLCLOCK_HOLD_NS;
	}
}

/* So much of what the wall clock is ahead by. */
static int64_t slew(int64_t ahead, uint64_t elapsed_ns)
{
	int64_t most = (int64_t)(elapsed_ns / WALLCLOCK_SLEW);

	return MAX(MIN(ahead, most), -most);
}

bool wallclock_look(struct wallclock *c, uint64_t wall_ns, uint64_t mono_ns)
{
	uint64_t elapsed_ns = mono_ns - c->looked_ns;
	uint64_t own = mono_ns + c->offset;
	int64_t ahead = (int64_t)(wall_ns - own);
	int64_t moved = c->watching ? ahead - c->ahead : ahead;

	c->looked_ns = mono_ns;
	c->last_ns = wallclock_now(c, mono_ns);
	if (!is_step(ahead)) {
		if (c->watching)
			note(c, moved, wall_ns - (uint64_t)moved, wall_ns,
			     "it is right again, and nothing was done by what "
			     "it said");
		c->watching = false;
		c->offset += (uint64_t)slew(ahead, elapsed_ns);
		past_note(c, c->last_ns);
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
	past_move(c, ret->to_ns - ret->from_ns);
	c->offset = wall_ns - mono_ns;
	c->last_ns = wall_ns;
	c->watching = false;
	past_note(c, wall_ns);
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
