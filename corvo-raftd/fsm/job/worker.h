/*
 * Workers, as they were last seen.
 */
#ifndef CORVO_FSM_JOB_WORKER_H
#define CORVO_FSM_JOB_WORKER_H

#include "fsm/core/entry.h"

struct fsm_worker {
	struct str id, hostname, queues; /* each its own memory */
	uint64_t started_at;
	struct heap_node seen; /* key: last_heartbeat, tie: hash of the id */
};

/* The heap of workers: those seen at the same moment go by their ids. */
void workers_order(struct fsm *f);
/* A worker took jobs. */
void worker_seen(struct fsm *f, const struct m_fetch *op);
/* A known worker gave a sign of life. */
void worker_touch(struct fsm *f, struct str id);
struct fsm_worker *worker_add(struct fsm *f, const struct m_worker *w);
void fsm_worker_free(struct fsm_worker *w);

#endif
