/*
 * Answers to requests that may come again. Whoever sends a request a second
 * time, since the answer to the first got lost, is told what was done then,
 * whatever the jobs are now.
 *
 * A request is known by its caller (a process, by a random number) and a number
 * that caller counts up. With each entry callers say below which number they
 * have all answers, so what is kept is little: the answers of the last few
 * entries. One record of the store per entry, an|index, and only while it is
 * kept: most come and go between two writes of the store.
 *
 * What did not fit into one entry is kept as well, with what is left of it: a
 * resend goes on from there. Of a request that is too large for that, what was
 * answered so far is kept, and the resend brings the rest.
 *
 * A caller that is gone for good never says so. Therefore answers are bounded
 * in number, bytes and time as well (LIMIT_ANSWERS); what such a bound took
 * away is remembered by the caller's number, so that a request is never carried
 * out twice: it is answered OUTCOME_UNKNOWN.
 */
#ifndef CORVO_FSM_CORE_ANSWERS_H
#define CORVO_FSM_CORE_ANSWERS_H

#include "fsm/core/state.h"
#include "proto/frame.h"

/* In the place of an error: as FSM_AGAIN, body is what ops/rest.h makes of
 * it. The number is stored. */
#define ANSWER_AGAIN_SHORT (-2)

struct answer {
	int err; /* or FSM_AGAIN: a part was done, body is the rest */
	uint64_t seq;
	struct str body; /* good until the next entry */
	bool is_none;    /* not to be kept: there is none, or it is already */
};

void answers_free(struct fsm *f);
int answers_load(struct fsm *f); /* 0 or -ERR_* */

/*
 * 1: this was carried out, *ret says with what answer; 0: it was not;
 * -ERR_OUTCOME_UNKNOWN: the answer is not kept any more.
 */
int answers_find(struct fsm *f, const struct entry_caller *c, uint64_t id,
		 struct answer *ret);

/*
 * At the end of an entry: keeps the answers of its items that have a caller,
 * and forgets what nobody will ask for.
 */
void answers_keep(struct fsm *f, const struct entry *e,
		  const struct answer *all);

/* Before the store is written: what is kept and not in it. */
void answers_store(struct fsm *f);

#endif
