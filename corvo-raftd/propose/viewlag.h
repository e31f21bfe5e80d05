/*
 * Writers wait for a view that is about to lose its place.
 *
 * The view may be far behind for a while: a burst is taken at full speed, and
 * its rows follow. But the event log is kept up to a length, and a view that
 * fell out of it has to be made anew from all jobs, which takes longer still.
 * So from half of that length on each entry waits for the view, for a moment.
 * Nobody waits for a view that does not move: it may be away, or be made anew.
 *
 * Time and the place of the view come in from outside.
 */
#ifndef CORVO_VIEWLAG_H
#define CORVO_VIEWLAG_H

#include <stdbool.h>
#include <stdint.h>

#define VIEWLAG_LEAST   UINT64_C(100000)     /* events: always allowed */
#define VIEWLAG_HOLD_NS UINT64_C(100000000)  /* one entry waits at most */
#define VIEWLAG_GONE_NS UINT64_C(2000000000) /* without a move */

struct viewlag {
	uint64_t seq;      /* last event the view has said to have */
	uint64_t moved_ns; /* when it said so first */
	uint64_t held_ns;  /* since when an entry waits; 0: none does */
};

void viewlag_note(struct viewlag *v, uint64_t seq, uint64_t now_ns);

/* Whether the next entry has to wait. False: it is proposed now. */
bool viewlag_holds(struct viewlag *v, uint64_t last_seq, uint64_t retention,
		   uint64_t now_ns);

#endif
