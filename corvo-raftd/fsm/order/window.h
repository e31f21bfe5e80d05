/*
 * The pending jobs of one priority of one queue that come next, in memory.
 *
 * A window holds every pending job with a place below its frontier; those at
 * or above it are only in the store and are read in when the window runs dry.
 * A job may have left (cancelled, deleted) while it is still here, though not
 * as created, and may be here more than once when it came back (held and
 * approved): whoever takes one, or decides by it, looks at the job itself. So
 * what a window holds never decides what is handed out, only how fast it is
 * found, and replicas may differ.
 */
#ifndef CORVO_FSM_WINDOW_H
#define CORVO_FSM_WINDOW_H

#include "util/str.h"

#define WINDOW_ID_BYTES 34

#define WINDOW_REFILL         1024        /* read at a time */
#define WINDOW_JOBS_MIN       64          /* when all windows hold too many */
#define WINDOW_GROUP_JOBS_MIN 0           /* the same, of a group */
#define WINDOWS_TOTAL_MAX     (1u << 20)  /* jobs in all windows together */
#define WINDOW_DOC_BYTES      4096        /* largest record kept in one */
#define WINDOWS_DOCS_MAX      (16u << 20) /* bytes of records in all */

/* Jobs of one window. */
#ifdef CORVO_FAULTS
extern uint32_t window_jobs_max; /* for tests, of all state machines */
#else
#define window_jobs_max UINT32_C(8192)
#endif

/* A job as it is told to a window. */
struct pending {
	uint64_t seq;
	struct str id;
	bool as_created;  /* pending since it was created: no live record */
	struct str doc;   /* its record, to save reading it; or empty */
	struct str group; /* where the lane does not say it; or empty */
};

struct window_job {
	uint64_t seq;
	char *doc; /* owned; NULL: to be read */
	uint32_t doc_n;
	bool as_created;
	uint8_t id_n; /* 0: too long to be kept here, see p| */
	char id[WINDOW_ID_BYTES];
};

struct window {
	/* Ascending by seq: ring[head], ring[head + 1], ... modulo cap. */
	struct window_job *ring;
	uint32_t head, n, cap; /* cap is a power of two, or 0 */
	/* Jobs that came back between those: a binary heap by seq. */
	struct window_job *heap;
	uint32_t heap_n, heap_cap;
	size_t doc_bytes;
	uint64_t max_seq;  /* no job in here has a greater one */
	uint64_t frontier; /* of no meaning when complete */
	bool complete;     /* holds all pending jobs */
};

/* Zeroed memory is a window that knows nothing: it is filled when asked. */
void window_done(struct window *w);

/* Empties it; complete: there are no pending jobs at all. */
void window_reset(struct window *w, bool complete);

static inline uint32_t window_size(const struct window *w)
{
	return w->n + w->heap_n;
}

/* A job became pending. Over `max` jobs the last ones are left out. */
void window_insert(struct window *w, const struct pending *p, uint32_t max);

/* The first job, or NULL; the pointer is good until the next change. */
const struct window_job *window_first(const struct window *w);
/* The first of the next few in order that is as it was created, or NULL. */
const struct window_job *window_first_created(const struct window *w);
/* Takes it off; ret->doc is the caller's to free. */
void window_pop(struct window *w, struct window_job *ret);

/* The job with that place is no longer as created; it may not be in here. */
void window_changed(struct window *w, uint64_t seq);

/* Empty, but the store may hold more from `frontier` on. */
static inline bool window_is_dry(const struct window *w)
{
	return window_size(w) == 0 && !w->complete;
}

/* No job of it stands before this; UINT64_MAX: there is none. */
static inline uint64_t window_bound(const struct window *w)
{
	const struct window_job *j = window_first(w);

	if (j != NULL)
		return j->seq;
	return w->complete ? UINT64_MAX : w->frontier;
}

/* The next job read from the store, in order, while it was dry. */
void window_fill(struct window *w, const struct pending *p);
/* The i-th job just filled in, from 0; and its record, which is copied. */
const struct window_job *window_filled_at(const struct window *w, uint32_t i);
void window_fill_doc(struct window *w, uint32_t i, struct str doc);
/* more: the store was not read to its end. */
void window_filled(struct window *w, bool more);

#endif
