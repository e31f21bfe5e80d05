/*
 * Shared by store/record_feed*.c only: an answer to the view as it grows.
 */
#ifndef CORVO_RECORD_FEED_IMPL_H
#define CORVO_RECORD_FEED_IMPL_H

#include "store/record_impl.h"
#include "util/hmap.h"

#define RECORD_OVERHEAD 64 /* what a record adds beside its texts */

struct feed {
	struct kv *kv;
	struct arena *a;
	struct m_tail_reply *ret;
	/* seen already */
	struct hmap jobs; /* -> struct told, in the arena */
	struct hmap providers, failed, scored, queues, workers, batches,
	    schedules, budgets, policies, webhooks;
	size_t records_cap, jobs_cap, errors_cap, queues_cap, workers_cap,
	    batches_cap;
	size_t schedules_cap, locks_cap, gone_batches_cap, gone_schedules_cap;
	size_t budgets_cap, gone_budgets_cap, scores_cap;
	size_t providers_cap, gone_providers_cap, iterations_cap;
	size_t policies_cap, gone_policies_cap;
	size_t webhooks_cap, gone_webhooks_cap;
	size_t events; /* gone through */
	size_t bytes;
};

/* The next item of a growing list in the arena. */
#define FEED_ADD(f, list)                                                  \
	({                                                                 \
		struct m_tail_reply *r_ = (f)->ret;                        \
		if (r_->list##_n == (f)->list##_cap)                       \
			r_->list =                                         \
			    feed_grow((f)->a, r_->list, sizeof(*r_->list), \
				      r_->list##_n, &(f)->list##_cap);     \
		r_->has |= MSG_BIT(tail_reply, list);                      \
		&r_->list[r_->list##_n++];                                 \
	})

void *feed_grow(struct arena *a, void *list, size_t size, size_t n,
		size_t *cap);
/* It was there before; now it is. */
bool feed_seen(struct hmap *m, struct str id);
/* A text in an event's data; empty when there is none. */
struct str feed_member(struct feed *f, const struct m_event *e,
		       const char *name);

/* What one event touches; each 0 or -ERR_*. (store/record_feed_more.c) */
int feed_scores(struct feed *f, struct str id);
/* newest: the job's present iteration. */
int feed_iteration(struct feed *f, const struct m_event *e, uint32_t newest);
int feed_budget(struct feed *f, const struct m_event *e);
int feed_provider(struct feed *f, const struct m_event *e);
int feed_policy(struct feed *f, const struct m_event *e);
int feed_webhook(struct feed *f, const struct m_event *e);

#endif
