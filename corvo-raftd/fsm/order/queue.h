/*
 * Queues: their counts, and the order in which their pending jobs are handed
 * out. A queue is a set of lanes, see order/lane.h.
 */
#ifndef CORVO_FSM_ORDER_QUEUE_H
#define CORVO_FSM_ORDER_QUEUE_H

#include "fsm/core/entry.h"
#include "fsm/order/bounds.h"
#include "fsm/order/lane.h"
#include "fsm/order/rates.h"

struct fsm_queue {
	uint32_t space;  /* its namespace */
	struct str name; /* behind the struct */
	uint64_t created_at;
	bool paused;
	/* What was set: never NULL, groups ascending by name. */
	const struct m_set_queue *set;
	const struct schema *result_schema; /* of set; NULL: any result */
	struct arena set_arena;             /* owns them */
	uint64_t counts[JOB_STATE_MAX];
	uint64_t failed; /* attempts */
	/* Deleted with those they waited for, and not told to who sweeps. */
	uint64_t swept;
	bool swept_changed;
	struct lanes lanes;
	struct bounds bounds;
	uint64_t asked;     /* new jobs of the request being checked */
	uint64_t closed_ns; /* a budget keeps its first job until then */
	struct rates rates;
	struct heap_node idle; /* in f->idle_queues, by since when */
	struct list dirty;     /* counts to be written with this entry */
	struct list woken;
	struct list pushed; /* in f->pushed: a push queue */
};

/* Heaps of queues and lanes: what is due at the same moment goes by names. */
void queues_order(struct fsm *f);
bool queue_name_fits(struct str name); /* can stand in a key */
struct fsm_queue *queue_find(struct fsm *f, struct str name); /* or NULL */
/* Finds it or creates it, with record and event. */
struct fsm_queue *queue_get(struct fsm *f, struct str name);
/* Only in memory, from its record. */
struct fsm_queue *queue_add(struct fsm *f, struct str name,
			    const struct m_queue_doc *doc);
void queue_free(struct fsm_queue *q);
bool queue_is_empty(const struct fsm_queue *q); /* has no jobs */
/*
 * An empty one goes, from memory and store, first its groups. 1: it is gone; 0:
 * some groups are left to a later entry, the budget is spent; -ERR_*.
 */
int queue_remove(struct fsm *f, struct fsm_queue *q);
void queue_write_doc(struct fsm *f, const struct fsm_queue *q);
void queue_write_dirty(struct fsm *f); /* counts of touched queues */
void queue_count(struct fsm *f, struct fsm_queue *q, enum job_state s,
		 int change);
void queue_event(struct fsm *f, const struct fsm_queue *q, enum event_type type,
		 struct str data);
void queue_touch(struct fsm *f, struct fsm_queue *q);
void queue_wake(struct fsm *f, struct fsm_queue *q);
/*
 * Nothing of it can be handed out before that moment, unless it is opened: only
 * for who asks between entries, an entry looks at what closed it.
 */
void queue_close(struct fsm *f, struct fsm_queue *q, uint64_t until);
void queue_open(struct fsm *f, struct fsm_queue *q);

/* A job became pending: its key, its place in its lane; wakes the queue. */
void queue_add_pending(struct fsm *f, struct fsm_queue *q, struct str group,
		       uint8_t prio, const struct pending *p);
/* It is not pending any more: its key goes, the lane counts it out. */
void queue_remove_pending(struct fsm *f, struct fsm_queue *q, struct str group,
			  uint8_t prio, uint64_t seq);
/* Its window must not take it to be as it was created any more. */
void queue_forget(struct fsm *f, struct fsm_queue *q, struct str group,
		  uint8_t prio, uint64_t seq);
/* The next job to hand out and its lane, or NULL; may read the store. */
const struct window_job *queue_first(struct fsm *f, struct fsm_queue *q,
				     uint8_t prio, struct fsm_lane **ret);
/* A pending job that was as created has a live record now. */
void queue_set_changed(struct fsm *f, struct fsm_queue *q, struct str group,
		       uint8_t prio, const struct pending *p);

void queue_set_paused(struct fsm *f, struct fsm_queue *q, bool paused);

/* As clients are shown it; slices are the queue's own. */
void queue_show(const struct fsm_queue *q, struct m_queue *ret);

static inline struct rates_slot *queue_rates(struct fsm *f, struct fsm_queue *q)
{
	return rates_now(&q->rates, f->rates_slot);
}

#endif
