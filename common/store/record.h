/*
 * Records of the store put together to what clients and the view read.
 * Reads only; safe on any thread.
 */
#ifndef CORVO_RECORD_H
#define CORVO_RECORD_H

#include "proto/origin.h"
#include "proto/proto.h"
#include "store/kv.h"

/*
 * The job with that id: doc and live part in one. 1 found, 0 absent, -ERR_*.
 * Without errors and timeline unless asked for. Slices live in `a`.
 */
#define RECORD_ERRORS     1u
#define RECORD_TIMELINE   2u
#define RECORD_AS_CREATED 4u /* whatever happened to it since */
/* With a checkpoint that stands apart, which is null otherwise, and where an
 * agent's loop is. */
#define RECORD_AGENT 8u
#define RECORD_ALL   (RECORD_ERRORS | RECORD_TIMELINE | RECORD_AGENT)
int record_job(struct kv *kv, struct str id, unsigned what, struct arena *a,
	       struct m_job *ret);

/* Fills *ret from the two parts; live NULL: as it was created. */
void record_compose(struct str id, const struct m_job_doc *doc,
		    const struct m_job_live *live, struct m_job *ret);

/*
 * What events after `after_seq`, at most limit of them, touch, as it is now:
 * jobs, errors, queues, workers, batches, schedules, unique locks and more,
 * each once; and the first and the last of those events. The record of a job
 * none of whose events here is `enqueued` comes without its document. A job
 * that is gone is among `jobs`, with `deleted`. 0 or -ERR_*.
 */
int record_feed(struct kv *kv, uint64_t after_seq, uint32_t limit,
		struct arena *a, struct m_tail_reply *ret);

/*
 * A record of such an answer as a job, partial without its document. Texts
 * are slices of the record. 0, or -ERR_BAD_MESSAGE.
 */
int record_restore(const struct m_job_record *rec, struct arena *a,
		   struct m_job *ret);

/*
 * A page of the event log: events after after_seq, at most limit (1 to
 * LIMIT_EVENTS_READ), and no more once they have RECORD_EVENTS_BYTES. Where
 * the log no longer reaches back that far it begins with the oldest event and
 * says `lost`; so it does for an after_seq that has not been. 0 or -ERR_*.
 */
#define RECORD_EVENTS_BYTES (1u << 20)
int record_events(struct kv *kv, uint64_t after_seq, uint32_t limit,
		  struct arena *a, struct m_events_reply *ret);

/*
 * Lines of a job's log after line `after`, at most limit, oldest first; next
 * is the number of the last one. 0 or -ERR_*. The id fits into a key.
 */
int record_logs(struct kv *kv, struct str id, uint64_t after, uint32_t limit,
		struct arena *a, struct m_job_logs_reply *ret);

/*
 * Iterations of an agent's job after the one named, oldest first: at most
 * limit, and no more once they have LIMIT_LIST_BYTES; next says that there are
 * more. 0 or -ERR_*. The id fits into a key.
 */
int record_iterations(struct kv *kv, struct str id, uint32_t after,
		      uint32_t limit, struct arena *a,
		      struct m_iteration_list *ret);

/* The n-th of a job, without its checkpoint; slices of raw, which stays. False:
 * it cannot be read. */
bool record_iteration(struct str id, uint32_t n, struct str raw,
		      struct arena *a, struct m_iteration *ret);

/* What lists show of a queue's record; not its counts. */
void record_queue(struct str name, const struct m_queue_doc *doc,
		  struct m_queue *ret);

/* A batch as clients read it; its payload is under bp| until it ends. */
void record_batch(struct str id, const struct m_batch_doc *doc,
		  struct m_batch *ret);

/* From the value of a u| key. False when it cannot be read. */
bool record_lock(struct str queue, struct str key, struct str raw,
		 struct m_unique_lock *ret);

/*
 * Usage, summed up. 0, -ERR_VALIDATION_ERROR with what is wrong in why, or
 * another -ERR_*.
 */
int record_usage(struct kv *kv, const struct m_usage_ask *ask, struct arena *a,
		 struct m_usage_reply *ret, struct buf *why);

/*
 * Schedules behind that id, by id: at most limit (0: as many as may be), and no
 * more than LIMIT_LIST_BYTES of them; next says that there are more. 0 or
 * -ERR_*.
 */
int record_schedules(struct kv *kv, struct str after, uint32_t limit,
		     struct arena *a, struct m_schedule_list *ret);

/* Scores of a job by number. 0 or -ERR_*. */
int record_scores(struct kv *kv, struct str job_id, struct arena *a,
		  struct m_score_list *ret);

struct record_meta {
	uint64_t applied_index;
	uint64_t last_seq;          /* newest event */
	uint64_t last_job_seq;      /* newest place in the order of creation */
	uint64_t first_seq;         /* oldest event kept */
	struct entry_origin origin; /* of the entry at applied_index */
	uint64_t now_ns;            /* its time; 0: not known */
};

#define RECORD_META_BYTES 72
void record_meta_encode(const struct record_meta *m,
			char ret[RECORD_META_BYTES]);
/* False: it is too short to be one. */
bool record_meta_decode(struct str raw, struct record_meta *ret);
int record_meta_read(struct kv *kv, struct record_meta *ret);

#endif
