/*
 * What applying an entry stands on: the store, events, ids, time, randomness.
 *
 * Functions that return int and read the store return -ERR_* also for a store
 * that fails; f->fatal is set then and the entry is not committed.
 */
#ifndef CORVO_FSM_CORE_ENTRY_H
#define CORVO_FSM_CORE_ENTRY_H

#include "fsm/core/state.h"
#include "proto/frame.h"
#include "proto/job.h"
#include "proto/proto.h"

/* Fills f->why; returns -err. */
_printf_(3, 4) int fsm_refuse(struct fsm *f, int err, const char *fmt, ...);
/* Notes that the store failed; returns r. */
int fsm_fail(struct fsm *f, int r);
/* The entry is not for this version: fills f->why; the node has to stop. */
_printf_(2, 3) int fsm_stop(struct fsm *f, const char *fmt, ...);
/*
 * What must be true of an op's data, and is unless there is a bug: how records,
 * counts and sums go with each other. Where it is not, the op is given up here
 * and now, undone and answered 500, on all replicas alike (fsm/fault.h); so is
 * the op that left work to the end of its entry (bounds_settle), when that
 * fails. Elsewhere outside of an op it is CHECK. For memory and for wrong calls
 * CHECK stays right.
 *
 * Nothing above on the stack gets its turn: where something has to be given
 * back there (an iterator of the store), CHECK is better as well.
 */
#define MUST(f, cond)                                             \
	do {                                                      \
		if (UNLIKELY(!(cond)))                            \
			fsm_broken(f, __FILE__, __LINE__, #cond); \
	} while (0)
_noreturn_ void fsm_broken(struct fsm *f, const char *file, int line,
			   const char *what);

/*
 * What is left of the item's request, once the budget is spent: a later entry
 * goes on with it. For an apply function to return; *request in the arena of
 * the item.
 */
#define APPLY_REST 1
int fsm_go_on_with(struct fsm *f, const void *request);

/* 1 found, copied into the item's arena; 0 absent; -ERR_*. */
int fsm_get(struct fsm *f, const struct key *k, struct str *ret);
/* fsm_get, decoded. */
int fsm_read(struct fsm *f, const struct key *k, const struct msg_desc *d,
	     void *ret);
void fsm_put(struct fsm *f, const struct key *k, const struct msg_desc *d,
	     const void *m);
void fsm_delete(struct fsm *f, const struct key *k);

/* Appends to the event log: time and sequence are filled in. */
uint64_t fsm_event(struct fsm *f, struct m_event *e);
/* Something was set or deleted, which is no job: tells of it as its JSON. */
void fsm_tell(struct fsm *f, enum event_type type, const struct msg_desc *d,
	      const void *m);
/* {"name":"text"} in f->data. */
struct str fsm_event_text(struct fsm *f, const char *name, struct str text);
struct str fsm_event_time(struct fsm *f, const char *name, uint64_t ns);
struct str fsm_event_number(struct fsm *f, const char *name, uint64_t n);
/* {"from":"text","to":"text"} */
struct str fsm_event_change(struct fsm *f, struct str from, struct str to);

/* A new id, the same on all replicas; in the item's arena. */
struct str fsm_make_id(struct fsm *f, const char *prefix);

static inline bool fsm_is_resend(const struct fsm *f)
{
	return (f->flags & FRAME_RESEND) != 0;
}

/*
 * For entries of format 1, which name no caller: no answers are kept for them,
 * so a resend is known by what its first try left behind.
 */
static inline bool fsm_is_old_resend(const struct fsm *f)
{
	return f->entry_format == 1 && fsm_is_resend(f);
}

/* So long after a time, or after the entry; what cannot be told is never. */
static inline uint64_t time_after(uint64_t from, uint64_t ns)
{
	uint64_t at;

	return __builtin_add_overflow(from, ns, &at) ? NEVER - 1 : at;
}

static inline uint64_t fsm_later(const struct fsm *f, uint64_t ns)
{
	return time_after(f->now_ns, ns);
}

/* The next random number of this item, the same on all replicas. */
uint64_t fsm_random(struct fsm *f);

#endif
