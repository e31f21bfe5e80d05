/*
 * Scheduled-DB: what more than one process knows of it. Its jobs are jobs of
 * one push queue, and recurrentes schedules of it; clients of Scheduled-DB are
 * shown both in its own words.
 */
#ifndef CORVO_SCHEDDB_H
#define CORVO_SCHEDDB_H

#include "proto/job.h"
#include "proto/proto.h"

#define SDB_QUEUE "scheduled-db"

/* Of one endpoint, calls at a time: so many that are slow delay no others. */
#define SDB_ENDPOINT_CALLS 16

/* What a job counts for beside its texts. */
#define SDB_JOB_BYTES (128 + 64)

#define SDB_STATUSES (SDB_TIMEOUT + 1)

/* What a job with these members counts for. */
uint64_t sdb_size(struct str id, const struct m_sdb *s, struct str payload);

/* The endpoint of a URL, without what is asked of it: a group of the queue. */
struct str sdb_endpoint(struct str url);

/* What an attempt failed by, in the words of Scheduled-DB. */
enum sdb_fault {
	SDB_BY_TIMEOUT,
	SDB_BY_CANCEL,
	SDB_BY_CONNECTION,
	SDB_BY_DNS,
	SDB_BY_HTTP,
	SDB_BY_OTHERS,
	SDB_FAULTS
};
extern const char *const sdb_fault_names[SDB_FAULTS];
/* error: "dns_error: no such host". */
enum sdb_fault sdb_fault_of(struct str error);

/* An error by which an attempt took too long, or its node was lost. */
bool sdb_is_timeout(struct str error);

enum sdb_status sdb_status_of(enum job_state state, bool tried, bool timed_out);

/* As clients of Scheduled-DB are shown it; payload JSON, null or empty: none.
 */
void sdb_show_job(struct str id, const struct m_sdb *s, uint64_t created_at,
		  struct str payload, struct m_sdb_job *ret);

/*
 * Attempts of a job that have ended, oldest first, behind *n of ret, which
 * grows in the arena. Of a run of a recurrente too.
 */
void sdb_add_attempts(const struct m_job *j, struct arena *a,
		      struct m_sdb_attempt **ret, size_t *n, size_t *cap);

/* Where a unico, or one run, is; everything in the arena. */
void sdb_show_state(const struct m_job *j, struct arena *a,
		    struct m_sdb_state *ret);
/* Where a recurrente is; last: its last run, NULL: there was none, or it is
 * forgotten. Attempts are those of the last run. */
void sdb_show_schedule(const struct m_schedule *s, const struct m_job *last,
		       struct arena *a, struct m_sdb_state *ret);

#endif
