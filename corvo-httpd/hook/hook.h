/*
 * A delivery to an inbound webhook, as far as it is bytes: whom it is from, and
 * which job it becomes. All of it is hostile until it is verified, and what it
 * says stays so. Nothing here keeps state. Bodies may be long, and the work on
 * them is done in steps (util/turn.h).
 */
#ifndef CORVO_HOOK_H
#define CORVO_HOOK_H

#include "proto/proto.h"
#include "util/arena.h"
#include "util/buf.h"

struct hook_field {
	struct str name; /* of a header: in small letters */
	struct str value;
};

/* Of each name one. */
struct hook_fields {
	struct hook_field *list; /* in the arena of who fills it */
	size_t n, cap;
};

struct hook_delivery {
	struct hook_fields headers, query;
	struct str body;
};

/* One more; a header that comes again is joined to the first by ", ", of
 * arguments the first counts. */
void hook_add_header(struct hook_fields *f, struct str name, struct str value,
		     struct arena *a);
void hook_add_argument(struct hook_fields *f, struct str name, struct str value,
		       struct arena *a);
/* Empty when there is none. */
struct str hook_header(const struct hook_delivery *d, const char *name);

/*
 * What must hold of a webhook beyond its table, before it is set. 0, or
 * -ERR_VALIDATION_ERROR with a sentence that names the member.
 */
int hook_check(const struct m_set_hook *m, struct arena *a, struct buf *why);

/*
 * 0: it is from somebody who knows a secret of the webhook, and new enough.
 * -ERR_SIGNATURE_ERROR with a sentence that says what is missing or wrong and
 * nothing of the secret.
 */
int hook_verify(const struct m_hook *h, const struct hook_delivery *d,
		uint64_t now_ns, struct buf *why);

/* A body as a payload: JSON as it came, other text as a JSON string, other
 * bytes as {"base64": ...}, nothing as {}. */
struct str hook_payload(struct str body, struct arena *a);
/* How long that is at most. */
size_t hook_payload_most(struct str body);

/* Slack's question whether somebody is there: what to answer with. */
bool hook_is_challenge(const struct m_hook *h, const struct hook_delivery *d,
		       struct arena *a, struct str *ret);

/*
 * The job it becomes, without ids; its texts are in the arena, or of h and d.
 * 0, or -ERR_VALIDATION_ERROR with a sentence that names the member of h.
 */
int hook_map(const struct m_hook *h, const struct hook_delivery *d,
	     struct arena *a, struct m_enqueue *ret, struct buf *why);

#endif
