/*
 * What must hold of a job to add, and of a request for jobs, beside what their
 * tables say; and the ids of jobs.
 */
#ifndef CORVO_JOB_CHECK_H
#define CORVO_JOB_CHECK_H

#include "proto/proto.h"
#include "req/req.h"

/* 0, or -ERR_ with a sentence behind what `why` has already. */
int job_check(const struct settings *set, const struct m_enqueue *e,
	      struct buf *why);

/* Of a payload of so many bytes alone. False: the request was refused. */
bool req_payload_fits(struct req *r, size_t n);

/* The same of a request for jobs. */
int fetch_check(const struct m_fetch *m, struct buf *why);

/* Made here, so that a request that is sent again names the same job. */
void job_give_ids(struct httpd *h, struct arena *a, struct m_enqueue *e);
/* A new id of now, in the arena. */
struct str job_make_id(struct httpd *h, struct arena *a, const char *prefix);

/* A reply as remote calls tell it: the status is a text, "duplicate" among
 * them. Its texts are those of the reply. */
struct m_enqueue_answer enqueue_answer_of(const struct m_enqueue_reply *m);

#endif
