/*
 * All records of a checkpoint that have rows in the view, in the order of
 * their keys: for those who load them (check/rebuild.c) and those who compare
 * them (check/verify.c).
 *
 * Belongs to one thread. The checkpoint is raftd's; a record that cannot be
 * read ends the walk.
 */
#ifndef CORVO_SCAN_H
#define CORVO_SCAN_H

#include "db/rows.h"
#include "proto/proto.h"
#include "store/kv.h"

struct scan {
	struct kv *kv;
	struct kv_iter *jobs, *lives, *errors; /* side by side */
	struct kv_iter *rows;                  /* of one kind */
	bool job_read, row_read; /* go on before the next one is read */
	struct arena arena;      /* of one record */
	struct buf *why;         /* a sentence on failure */
};

/* 0 or -ERR_* with a sentence in why, which stays the caller's. */
int scan_open(struct scan *s, const char *checkpoint, struct buf *why);
void scan_close(struct scan *s); /* also after a failed scan_open */

/*
 * The next job; the slices are valid until the next call. 1, 0: that was the
 * last one, or -ERR_*.
 */
int scan_job(struct scan *s, struct m_job *ret);
/* The next error of that job, oldest first; likewise. */
int scan_error(struct scan *s, struct str job_id, struct m_job_error *ret);

/* A record of any kind but ROW_ERROR. */
union scan_row {
	struct m_queue queue;
	struct m_worker worker;
	struct m_unique_lock lock;
	struct m_batch batch;
	struct m_schedule schedule;
	struct m_budget budget;
	struct m_score score;
	struct m_policy policy;
	struct m_iteration iteration;
	struct m_provider_doc provider;
	struct m_webhook webhook;
};

/* Before the first scan_row of a kind. */
void scan_begin(struct scan *s, enum row_kind kind);
/* The next record of that kind; as scan_job. */
int scan_row(struct scan *s, enum row_kind kind, union scan_row *ret);

#endif
