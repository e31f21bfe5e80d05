/*
 * Webhooks: which there are, how far each is in the event log, which of its
 * deliveries wait for another try, and the last lines of its log. Who delivers
 * reads the events and reports here; nothing is sent from here.
 *
 * A webhook is known by its id; its other records by its number, which no later
 * one of the same id has.
 */
#ifndef CORVO_FSM_TIES_WEBHOOK_H
#define CORVO_FSM_TIES_WEBHOOK_H

#include "fsm/core/entry.h"

struct fsm_webhook {
	struct m_webhook m; /* what was set; in the arena */
	struct arena arena;
	struct m_webhook_state st; /* its text is in last_error */
	char last_error[LIMIT_WEBHOOK_ERROR_BYTES];
	struct m_webhook_try *tries; /* ascending by seq */
	size_t tries_n, tries_cap;
};

struct fsm_webhook *webhook_find(const struct fsm *f, struct str id);
/* Its settings, of a new one also everything else. */
struct fsm_webhook *webhook_save(struct fsm *f, const struct m_webhook *m);
void webhook_save_state(struct fsm *f, struct fsm_webhook *w);
void webhook_set_error(struct fsm_webhook *w, struct str error);
void webhook_remove(struct fsm *f, struct fsm_webhook *w);

const struct m_webhook_try *webhook_try(const struct fsm_webhook *w,
					uint64_t seq); /* or NULL */
/* False: there are as many as there may be. */
bool webhook_try_set(struct fsm *f, struct fsm_webhook *w, uint64_t seq,
		     uint32_t tries, uint64_t next_at);
void webhook_try_drop(struct fsm *f, struct fsm_webhook *w, uint64_t seq);
/* Another line of its log; the oldest goes. */
void webhook_log(struct fsm *f, struct fsm_webhook *w,
		 const struct m_delivery *d);

int webhooks_load(struct fsm *f);
void webhooks_free(struct fsm *f);

#endif
