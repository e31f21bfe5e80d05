/*
 * What questions to the view have in common: the event it must hold before it
 * answers, how long to wait for that, and how long the answer may take then.
 * Who asks waits as long as viewd may take, and both learn it here.
 */
#ifndef CORVO_VIEW_ASK_H
#define CORVO_VIEW_ASK_H

#include "proto/proto.h"
#include "util/clock.h"

/* False when such a message carries neither. */
bool view_ask_get(const struct msg_desc *d, const void *m, uint64_t *ret_seq,
		  uint64_t *ret_wait_ns);
bool view_ask_set(const struct msg_desc *d, void *m, uint64_t seq,
		  uint64_t wait_ns);

/* A search is given so long, and at most so long, to look for jobs. */
#define SEARCH_BUDGET_NS     NS_PER_S
#define SEARCH_BUDGET_MAX_NS (10 * NS_PER_S)
/* How long one that is not quick waits for its turn before it is refused. */
#define VIEW_TURN_NS (10 * NS_PER_S)

uint64_t view_ask_budget_ns(const struct m_search *m);
/* From when it is begun, viewd lets it run so long: op_timeout, and what was
 * asked for. */
uint64_t view_ask_run_ns(const struct msg_desc *d, const void *m,
			 uint64_t op_timeout_ns);
/* Viewd has answered by then, if it is alive: from when it holds the event. */
uint64_t view_ask_answer_ns(const struct msg_desc *d, const void *m,
			    uint64_t op_timeout_ns);

#endif
