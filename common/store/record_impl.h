/*
 * Shared by record*.c only: pieces of a job as they lie in the store.
 */
#ifndef CORVO_RECORD_IMPL_H
#define CORVO_RECORD_IMPL_H

#include "store/key.h"
#include "store/record.h"

/* The error of a record that cannot be read. */
int record_damaged(void);

/* 1 found, copied into `a`; 0 absent; or -ERR_*. */
int record_get(struct kv *kv, const struct key *k, struct arena *a,
	       struct str *ret);
/* record_get, decoded. */
int record_read(struct kv *kv, const struct key *k, const struct msg_desc *d,
		struct arena *a, void *ret);
/* The same, and as it is stored. */
int record_read_raw(struct kv *kv, const struct key *k,
		    const struct msg_desc *d, struct arena *a, struct str *raw,
		    void *ret);

/* The end of the lease of an active job, from its a| record. 1 found, 0 absent,
 * or -ERR_*. */
int record_lease_end(struct kv *kv, struct str queue, struct str id,
		     struct arena *a, uint64_t *ret);
/* A checkpoint that stands apart, and where an agent's loop is. 0 or -ERR_*. */
int record_agent(struct kv *kv, const struct m_job_doc *doc,
		 const struct m_job_live *live, struct arena *a,
		 struct m_job *ret);
/* Errors of the job recorded at `since` or later, oldest first. */
int record_errors(struct kv *kv, struct str id, uint64_t since, struct arena *a,
		  struct m_job_error **ret, size_t *ret_n);

#endif
