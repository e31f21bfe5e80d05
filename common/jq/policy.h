/*
 * Whether an approval policy is for a job: the same for the state machine, that
 * holds the job, and for who tries a policy out. Policies come from clients;
 * what cannot be read is refused when one is set, so matching never fails.
 */
#ifndef CORVO_JQ_POLICY_H
#define CORVO_JQ_POLICY_H

#include "jq/jq.h"
#include "proto/proto.h"

struct policy {
	struct m_policy m; /* as stored */
	uint8_t at;        /* a bit for each enum policy_point */
	struct jq *tag;    /* NULL: no such condition */
	struct jq *payload;
	size_t tests; /* of payload: jq_tests */
};

/* What a policy asks of a job. */
struct policy_subject {
	struct str queue;
	struct str tags, payload;     /* JSON; empty: none */
	uint64_t cost;                /* billionths of a usd, so far */
	uint32_t iteration;           /* 0: it is no agent's job */
	enum provider_state provider; /* of who was asked last */
	/* Counted: bytes of the payload that were looked at. */
	uint64_t looked;
};

/*
 * Reads it; *ret is in the arena and has slices of *m. False: *why says what is
 * wrong, beginning with the member's name.
 */
bool policy_read(const struct m_policy *m, struct arena *a, struct policy *ret,
		 struct buf *why);
void policy_done(struct policy *p); /* frees what matching used */

static inline bool policy_is_at(const struct policy *p, enum policy_point at)
{
	return p->m.enabled && (p->at >> at & 1) != 0;
}

/* Whether it is enabled, and where, is not asked. */
bool policy_matches(struct policy *p, struct policy_subject *s);

#endif
