/*
 * The same messages as JSON, by the same descriptors.
 */
#ifndef CORVO_MSG_JSON_H
#define CORVO_MSG_JSON_H

#include "proto/proto.h"
#include "util/json.h"

/* Members of a request that nothing is done with, as "jobs[3].foo". */
struct ignored {
	struct str *paths; /* in the reader's arena */
	size_t n;          /* at most LIMIT_IGNORED; later ones are not noted */
	size_t looked;     /* of names no member has: so many were compared with
			    * those of members */
};

/* An item of one of the message's own lists is refused: the member by its
 * place in the descriptor. The text lasts for the call. */
typedef void msg_refused_fn(void *ctx, size_t member, size_t index, int err,
			    struct str why);

/* How a request is read. */
struct msg_reader {
	struct arena *a;         /* for what is read */
	struct buf *why;         /* a refusal */
	struct ignored *ignored; /* NULL: not of interest */
	/* members the message does not have, which are refused when all is
	 * read; NULL: they are ignored like others */
	struct ignored *unknown;
	struct str under; /* what stands before their paths */
	/* members of this message are no business of this reader; or NULL */
	const struct msg_desc *beside;
	bool compat_03; /* as --compat=0.3 has it */
	/* Of calls alone (rpc/pb/pb.h): an item of the message's own lists
	 * that cannot be read is told, left empty, and the rest is read; NULL:
	 * all of the message is refused. */
	msg_refused_fn *refused;
	void *refused_ctx;
};

/*
 * Reads the members of `v` (validated JSON, an object) into *m, which may
 * already hold fields taken from the path. Unknown members and those of
 * F_INTERNAL and F_ANSWER fields are ignored and noted, and of F_PATH fields
 * those that say something else than the path; but an unknown one that is a
 * letter or two away from a member (proto/msg_near.h) is refused, except to
 * clients of 0.3. null leaves a field absent, and so does an empty text. A
 * duration may be given under two names (retry_after, retry_after_ms) when both
 * say the same. Checks types, ranges, `max`, queue names (F_QUEUE), and after
 * that F_REQUIRED, in nested messages too. A member given twice (also an
 * unknown one) is refused. On failure returns -ERR_PARSE_ERROR or
 * -ERR_VALIDATION_ERROR with a sentence in `why` that names the member
 * ("jobs[3].queue: ...").
 */
int msg_from_json(const struct msg_reader *rd, const struct msg_desc *d,
		  struct json v, void *m);

/* The message has a member of that name for clients. */
bool msg_has_member(const struct msg_desc *d, struct str name);

/*
 * Members of F_CHECKPOINT have at most so many bytes; before that is said, as
 * many as their rows allow. Of the process, once, at its start.
 */
void msg_limit_checkpoints(uint32_t bytes);

/* Only the checks after reading: required members, queue names, limits. */
int msg_check(const struct msg_desc *d, const void *m, struct buf *why);

struct json_style {
	bool compat_03; /* priority as a number */
};

/*
 * Writes the message as an object: present fields, and F_NEVER_NULL ones
 * always. F_INTERNAL fields are left out. dur is written as text and _ms.
 */
void msg_to_json(const struct msg_desc *d, const void *m,
		 const struct json_style *style, struct json_writer *w);
/* The members only, without the braces. */
void msg_members_to_json(const struct msg_desc *d, const void *m,
			 const struct json_style *style, struct json_writer *w);

/*
 * Queue names: 1 to LIMIT_QUEUE_NAME_BYTES bytes of UTF-8 without control
 * characters and not starting or ending with a space. 0 or
 * -ERR_VALIDATION_ERROR with the reason.
 */
int queue_name_check(struct str name, struct buf *why);

#endif
