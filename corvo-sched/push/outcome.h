/*
 * What an answer means for a job: done, failed and tried again, failed for
 * good, or left to its receiver, which has answered 202.
 */
#ifndef CORVO_PUSH_OUTCOME_H
#define CORVO_PUSH_OUTCOME_H

#include "proto/proto.h"
#include "push/caller.h"

enum outcome_kind { OUTCOME_DONE, OUTCOME_ACCEPTED, OUTCOME_FAILED };

struct outcome {
	enum outcome_kind kind;
	struct str response; /* JSON, for the job */
	struct str result;   /* JSON, or empty */
	const char *error;   /* of OUTCOME_FAILED */
	bool final;          /* no further attempt */
	bool has_wait;       /* the receiver says how long to wait */
	uint64_t wait_ns;
	bool of_host; /* the host did not do its part: counts for its breaker */
};

/* c: NULL, no call was made. Everything in the arena. */
void outcome_judge(struct call *c, const struct call_answer *a, const char *url,
		   bool final_4xx, uint64_t now_ns, struct arena *arena,
		   struct outcome *ret);

/* The same by the rules of Scheduled-DB: below 400 is a success, every failure
 * is tried again by the rules of the job, and says nothing of the host. */
void outcome_judge_sdb(struct call *c, const struct call_answer *a,
		       const char *url, struct arena *arena,
		       struct outcome *ret);
/* The first bytes as text for JSON: a character that was cut goes, and what is
 * no UTF-8. */
struct str outcome_text(struct str s, size_t max, struct arena *a);

/* "120", or a date; false: it says nothing. */
bool outcome_retry_after(const char *text, uint64_t now_ns, uint64_t *ret_ns);

#endif
