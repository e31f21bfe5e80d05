/*
 * The feed of raftd as rows: what an event changed is upserted, and the
 * counters of queue_stats move with the rows. Applying the same documents
 * twice gives the same rows.
 *
 * Belongs to the thread that owns the connection. Documents are raftd's;
 * members may be absent or of a newer version, never trusted to be complete.
 */
#ifndef CORVO_MIRROR_H
#define CORVO_MIRROR_H

#include "db/db.h"
#include "proto/proto.h"

struct mirror;

/* db has the tables. 0 or -ERR_*. */
int mirror_new(struct db *db, struct mirror **ret);
void mirror_free(struct mirror *m); /* before db_close; NULL: fine */

/*
 * Takes in one answer of raftd in one transaction, position included. On
 * failure nothing has changed: -ERR_NOT_FOUND when a partial document names
 * a job there is no row of (the view is incomplete), else as db/db.h.
 */
int mirror_apply(struct mirror *m, const struct m_tail_reply *r);
/*
 * The same but for the full text of rows that are new: that is left to
 * mirror_text_step. It takes longer than the rows, and can wait.
 */
int mirror_apply_rows(struct mirror *m, const struct m_tail_reply *r);
const char *mirror_why(const struct mirror *m); /* of the last failure */

/* --- full text that was left for later --- */

/* All rows can be found by their words. */
bool mirror_text_is_whole(const struct mirror *m);
/* When the first row came that cannot, UNIX nanoseconds; 0: there is none. */
uint64_t mirror_text_missing_ns(const struct mirror *m);
/* Adds a portion of those that cannot, oldest first, in a transaction of its
 * own. 0, or as mirror_apply. */
int mirror_text_step(struct mirror *m);

/* --- pieces of the above, for a bulk load --- */

int mirror_begin(struct mirror *m);
int mirror_commit(struct mirror *m); /* writes counters and full text first */
void mirror_rollback(struct mirror *m);

int mirror_job(struct mirror *m, const struct m_job *j);
int mirror_error(struct mirror *m, const struct m_job_error *e);
int mirror_queue(struct mirror *m, const struct m_queue *q);
int mirror_worker(struct mirror *m, const struct m_worker *w);
int mirror_batch(struct mirror *m, const struct m_batch *b);
int mirror_schedule(struct mirror *m, const struct m_schedule *s);
int mirror_budget(struct mirror *m, const struct m_budget *b);
int mirror_score(struct mirror *m, const struct m_score *s);
int mirror_policy(struct mirror *m, const struct m_policy *p);
int mirror_iteration(struct mirror *m, const struct m_iteration *i);
int mirror_provider(struct mirror *m, const struct m_provider_doc *p);
int mirror_webhook(struct mirror *m, const struct m_webhook *w);
/* Without a holder: nobody has the key. */
int mirror_lock(struct mirror *m, const struct m_unique_lock *l);
/* at_ns 0: the time of the position is not known and stays. */
int mirror_position(struct mirror *m, uint64_t seq, uint64_t at_ns);
/* Of the events taken in; as history_put writes it. */
int mirror_history(struct mirror *m, struct str history);

#endif
