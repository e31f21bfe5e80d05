/*
 * What happened in each of the last 60 minutes and of the last 60 seconds, by
 * the times of the entries: what is applied again after a restart counts in
 * the minute it happened in.
 */
#ifndef CORVO_THROUGHPUT_H
#define CORVO_THROUGHPUT_H

#include "fsm/fsm.h"

#define THROUGHPUT_MINUTES 60
#define THROUGHPUT_SECONDS 60

struct throughput_slot {
	uint64_t number; /* of the minute or second since 1970 */
	uint64_t enqueued, completed, failed;
};

/* Zeroed: nothing has happened. */
struct throughput {
	uint64_t enqueued, completed, failed; /* counted so far */
	struct throughput_slot minutes[THROUGHPUT_MINUTES];
	struct throughput_slot seconds[THROUGHPUT_SECONDS];
};

/* The counters have grown by an entry of that time (UNIX ns). */
void throughput_note(struct throughput *t, uint64_t at_ns,
		     const struct fsm_counters *c);

/* All minutes up to that of now_ns, oldest first. */
void throughput_read(const struct throughput *t, uint64_t now_ns,
		     struct m_throughput_minute ret[THROUGHPUT_MINUTES]);

/*
 * The last 60 seconds, that of now_ns included; none before that of since_ns,
 * which is when the counting began: what was before it is known in part.
 */
void throughput_recent(const struct throughput *t, uint64_t now_ns,
		       uint64_t since_ns, struct m_node_recent *ret);

#endif
