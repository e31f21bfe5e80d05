/*
 * Ends of jobs that dependents are still to hear of: the dr| keys, in their
 * order. Each is deleted soon after it was put, so looking for the first one in
 * the store means to pass all that are gone. Those that come next are therefore
 * kept in memory, a bounded number.
 */
#ifndef CORVO_FSM_CORE_ENDED_H
#define CORVO_FSM_CORE_ENDED_H

#include "util/str.h"

#define ENDED_KEPT 1024 /* keys in memory */

struct fsm;
struct key;

/* Part of struct fsm. Only the functions below use it. */
struct ended {
	uint64_t n;       /* dr| keys there are */
	struct str *keys; /* ascending, owned: all up to `edge` */
	size_t kept;
	struct str edge; /* owned; p NULL: there are no others */
};

/* Counts them. 0 or -ERR_*. */
int ended_load(struct fsm *f);
void ended_free(struct fsm *f);
/* The key is not there yet; the value may be changed later by txn_put. */
void ended_add(struct fsm *f, const struct key *k, struct str value);
void ended_remove(struct fsm *f, const struct key *k);
/* The first under the prefix, into *ret: 1 found, 0 none, -ERR_*. */
int ended_first(struct fsm *f, const struct key *prefix, struct key *ret);

#endif
