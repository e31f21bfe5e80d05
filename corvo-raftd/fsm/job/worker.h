/*
 * Workers, as they were last seen.
 */
#ifndef CORVO_FSM_JOB_WORKER_H
#define CORVO_FSM_JOB_WORKER_H

#include "fsm/core/entry.h"

/*
 * Of the queues it asks for, which may be long, only what is asked between
 * entries is in memory: the first ones, as they are shown, and hashes of all.
 */
struct fsm_worker {
	struct str id, hostname, queues; /* each its own memory */
	uint64_t *names; /* hashes of the queues, ascending; own memory */
	size_t names_n;
	size_t list_n; /* bytes of the whole list, as it is stored */
	uint64_t list_hash;
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
/* It asked for jobs of that queue when it last took some. */
bool worker_names(const struct fsm_worker *w, struct str queue);
void fsm_worker_free(struct fsm_worker *w);

#endif
