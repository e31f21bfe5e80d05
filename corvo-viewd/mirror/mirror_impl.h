/*
 * Shared by the mirror*.c files only.
 */
#ifndef CORVO_MIRROR_IMPL_H
#define CORVO_MIRROR_IMPL_H

#include "db/columns.h"
#include "db/rows.h"
#include "mirror/mirror.h"
#include "proto/job.h"
#include "util/hmap.h"

enum mirror_stmt {
	STMT_JOBS_INSERT_PLAIN, /* the same, where nothing else is set */
	STMT_JOBS_INSERT, /* of MIRROR_SOURCE, but for those that are there */
	STMT_JOB_UPDATE,  /* parameters: the columns in order */
	STMT_JOBS_PATCH,  /* of MIRROR_SOURCE, all of which are there */
	/* ?1 rowid, then the columns nearly every change is about; and the same
	 * without those of the worker */
	STMT_JOB_MOVE,
	STMT_JOB_MOVE_ON,
	STMT_JOBS_FIND, /* of MIRROR_SOURCE, in its order */
	STMT_JOB_FIND,
	STMT_JOBS_DELETE,
	STMT_JOB_FAILED,
	STMT_TEXT_CHANGED, /* ?1 rowid, then the searchable columns */
	STMT_TEXT_REMOVE,  /* ?1 rowids as a JSON list */
	STMT_TEXT_ADD,     /* the same */
	STMT_TEXT_ADD_NEW, /* ?1 the first rowid, ?2 the one after the last */
	STMT_TEXT_SIZES,   /* ?1 the first rowid */
	STMT_ERROR_TRIM,
	STMT_ERRORS_DELETE,
	STMT_SCORES_DELETE,
	STMT_ITERATIONS_DELETE,
	STMT_ITERATION_TRIM,
	STMT_QUEUE_DELETE,
	STMT_STATS_DELETE,
	STMT_LOCK_DELETE,
	STMT_UNLOCK,
	STMT_BATCH_DELETE,
	STMT_SCHEDULE_DELETE,
	STMT_BUDGET_DELETE,
	STMT_POLICY_DELETE,
	STMT_PROVIDER_DELETE,
	STMT_WEBHOOK_DELETE,
	STMT_WORKERS_IDLE, /* ?1 seen last at that time or before */
	STMT_WORKERS_OLD,  /* but for the ?1 that were seen last */
	STMT_COUNT,
	STMT_META,
	STMT_ROW, /* parameters: as row_bind binds them; one per row_kind */
	STMT_MAX = STMT_ROW + ROW_KINDS
};

/* What a queue's row of queue_stats has to change by. */
struct mirror_delta {
	int64_t
	    jobs[JOB_STATES_SHOWN]; /* [0]: jobs in a state we do not know */
	int64_t failed;
	int64_t blocked; /* of the pending ones */
	bool gone;       /* the queue is deleted */
};

/* The row of a job as it is now. */
struct mirror_row {
	int64_t rowid;
	uint32_t state; /* 0: unknown */
	int64_t error_count;
	bool blocked;
	bool unique;      /* it has a unique key */
	bool plain;       /* it has nothing but what nearly every job has */
	bool same_worker; /* as the document */
	struct mirror_delta *delta; /* of its queue */
};

/* Rows by number, in the arena of the transaction. */
struct mirror_rowids {
	int64_t *v;
	size_t n, cap;
};

/* The table of documents that are being written; its columns are those of
 * table jobs. */
#define MIRROR_SOURCE "documents"

struct mirror {
	struct db *db;
	struct db_source source;
	struct buf source_columns;
	const struct m_job **docs; /* its rows, in the arena */
	struct db_stmt *stmts[STMT_MAX];
	struct column_text text;
	struct row_text row_text;
	struct hmap deltas;    /* queue -> struct mirror_delta, in `arena` */
	struct arena arena;    /* of one transaction */
	struct m_job *jobs;    /* records of an answer, some at a time */
	struct arena restored; /* what is theirs */
	struct mirror_delta *last_delta; /* most jobs have the queue of the */
	struct str last_queue;           /* job before them */
	/* Rows from this one on are not in jobs_fts yet; 0: all are. What the
	 * file says, and with what this transaction has changed. */
	int64_t text_saved, text_next;
	/* When the first of them came, UNIX; only while there are some. */
	uint64_t text_next_ns;
	uint64_t
	    workers_ns; /* the store has forgotten some by then; so have we */
	struct buf rowids; /* a list as JSON */
	char why[256];     /* of mirror_apply's last failure */
};

struct mirror_delta *mirror_delta(struct mirror *m, struct str queue);

/* 1 found, 0 no such job, or -ERR_*. */
int mirror_find(struct mirror *m, struct str id, struct mirror_row *ret);

/* Any number of documents, each of another job. */
int mirror_jobs(struct mirror *m, const struct m_job *j, size_t n);

int mirror_workers(struct mirror *m, const struct m_worker *w, size_t n);

/* The job has ended or is gone, and its lock with it (mirror/rows.c). */
int mirror_unlock(struct mirror *m, struct str job_id);

/* Ends the transaction: err 0 commits it, all else takes it back. */
int mirror_end(struct mirror *m, int err);

/* --- full text (mirror/text.c) --- */

void mirror_rowids_add(struct mirror *m, struct mirror_rowids *l,
		       int64_t rowid);
/* Binds the list to parameter i, in ascending order. */
void mirror_rowids_bind(struct mirror *m, struct db_stmt *s, int i,
			struct mirror_rowids *l);

/* The row is new: it is added with others, at the end or later. */
void mirror_text_new(struct mirror *m, int64_t rowid);
/* 1: the document's texts are not those of the row, 0, or -ERR_*. */
int mirror_text_changed(struct mirror *m, int64_t rowid, const struct m_job *j);
/* Before the rows go or change, and after they changed. */
int mirror_text_remove(struct mirror *m, struct mirror_rowids *l);
int mirror_text_add(struct mirror *m, struct mirror_rowids *l);
/* All that is missing, as part of the transaction. */
int mirror_text_commit(struct mirror *m);

/* The columns of table jobs with commas; plain: those nearly every row has. */
void mirror_job_names(struct buf *b, bool plain);

void mirror_source_put(void *ctx, size_t row, size_t column, struct db_to to);

/* What is read of a row of jobs, named j: see struct mirror_row. */
#define MIRROR_ROW                                             \
	"j.rowid, j.queue, j.state, j.error_count, j.blocked," \
	" j.unique_key IS NOT NULL"

/* The statements on table jobs that follow from job_columns, as SQL. */
void mirror_job_sql(enum mirror_stmt s, struct buf *ret);

#endif
