/*
 * What became of each job: sent, known to exist, in a worker's hands, done.
 * Answers come in any order; a worker may have a job before its producer has
 * heard that it exists. In the end every job that exists was handed out once
 * and completed once, under one id, or there is nothing to report.
 */
#ifndef CORVO_LOAD_LEDGER_H
#define CORVO_LOAD_LEDGER_H

#include "util/buf.h"
#include "util/id.h"

#define LEDGER_JOBS_MAX 10000000 /* 48 bytes each */

struct ledger_job;

/* What can have happened to a job that should not. */
enum ledger_fault {
	FAULT_LOST,    /* it exists, but nobody was given it */
	FAULT_TWICE,   /* it was given to somebody twice */
	FAULT_UNKNOWN, /* given to somebody, and never said to exist */
	FAULT_RENAMED, /* under another id than its producer was told */
	FAULT_UNDONE,  /* in somebody's hands, and not completed */
	FAULT_MAX
};

struct ledger {
	struct ledger_job *jobs;
	uint64_t n, cap;
	uint64_t known, taken, done; /* jobs so far */
	uint64_t faults[FAULT_MAX];
	struct buf ids[FAULT_MAX]; /* some of each, with commas */
};

void ledger_done(struct ledger *l);

/*
 * The number of the first of n new jobs, which are about to be sent. What is
 * refused is sent again under its number.
 */
uint64_t ledger_new(struct ledger *l, unsigned n);
void ledger_sent(struct ledger *l, uint64_t number, unsigned n,
		 uint64_t now_ns);

/* The server has said that it exists, under this id. */
void ledger_known(struct ledger *l, uint64_t number, struct str id);

/* A worker has it; returns when it was sent, 0 if it should not have it. */
uint64_t ledger_taken(struct ledger *l, uint64_t number, struct str id);

/* The server has said that it is completed. */
void ledger_acked(struct ledger *l, uint64_t number);

/*
 * Nothing is under way any more. False, and a sentence with ids, when a job is
 * not as it should be.
 */
bool ledger_balance(struct ledger *l, struct buf *why);

#endif
