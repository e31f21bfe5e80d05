/*
 * The leader's time: the wall clock, but for when that is set. A clock that
 * jumps is not believed at once, since nothing gives back what was expired,
 * purged or taken from its worker by mistake: time goes on as it did for
 * WALLCLOCK_HOLD_NS. When the clock has not come back by then it is followed,
 * and the state machine is told.
 *
 * What is too little for that is caught up with slowly, so that a second is
 * never much longer or shorter than one; and it is remembered, so that the
 * leader can tell how long ago something was by the monotonic clock.
 *
 * Reads no clock itself: it is given both.
 */
#ifndef CORVO_WALLCLOCK_H
#define CORVO_WALLCLOCK_H

#include "util/base.h"

#define WALLCLOCK_STEP_NS (1 * NS_PER_S) /* less is drift, and followed */
#define WALLCLOCK_SLEW    20 /* of the time that went by, a part of so many */
#define WALLCLOCK_HOLD_NS (5 * NS_PER_S)
#define WALLCLOCK_AWAY_NS (60 * NS_PER_S)

/* Our time was so far from the monotonic clock, from a moment on. */
struct wallclock_past {
	uint64_t after_ns; /* our time */
	uint64_t offset;
};

#define WALLCLOCK_PASTS 256

struct wallclock {
	bool begun;
	uint64_t offset; /* of our time from the monotonic clock, modulo 2^64 */
	uint64_t last_ns;    /* time does not go back but by a step */
	bool watching;       /* the wall clock says something else */
	int64_t ahead;       /* by so much */
	uint64_t since_ns;   /* monotonic: for so long */
	uint64_t settled_ns; /* monotonic: what was missed may be acted upon */
	uint64_t looked_ns;  /* monotonic */
	uint64_t forward, back; /* steps seen */
	/* in order; with too many of them the oldest two become one */
	struct wallclock_past past[WALLCLOCK_PASTS];
	size_t past_n;
};

/* The clock is followed from here on. */
struct wallclock_step {
	uint64_t from_ns, to_ns;
};

/*
 * This node leads. known_ns: time of the last entry, 0: none. A clock that is
 * behind it was set back; one that is ahead is what a node that was down sees,
 * but after more than WALLCLOCK_AWAY_NS it has to last a while as well before
 * anything is deleted by it.
 */
void wallclock_begin(struct wallclock *c, uint64_t known_ns, uint64_t wall_ns,
		     uint64_t mono_ns);

/*
 * To be called about once a second. True: the clock was set and has to be
 * followed; wallclock_follow does it.
 */
bool wallclock_look(struct wallclock *c, uint64_t wall_ns, uint64_t mono_ns);
void wallclock_follow(struct wallclock *c, uint64_t wall_ns, uint64_t mono_ns,
		      struct wallclock_step *ret);

uint64_t wallclock_now(const struct wallclock *c, uint64_t mono_ns);
/*
 * The monotonic moment at which our time, since we lead, was at_ns: to a
 * millisecond, or a later one.
 */
uint64_t wallclock_mono_of(const struct wallclock *c, uint64_t at_ns);
/* False: it may yet turn out that the clock was wrong when we began. */
bool wallclock_is_settled(const struct wallclock *c, uint64_t mono_ns);

#endif
