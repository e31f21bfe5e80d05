/*
 * What is sent for a job: headers and body. A letter has the same id at each
 * try, and the same body where the body is the payload; an envelope says which
 * attempt it is. Its signature, as Standard Webhooks have it, is made anew with
 * the time of the try.
 */
#ifndef CORVO_PUSH_LETTER_H
#define CORVO_PUSH_LETTER_H

#include "proto/proto.h"
#include "push/caller.h"

struct letter {
	const struct m_push *push; /* settings of the queue */
	const struct m_fetched *job;
	uint64_t now_ns; /* wall clock */
	const char *url; /* another one than the queue's, after a redirect */
	bool elsewhere;  /* of another host: without what is secret */
};

/*
 * The request in the arena. url: as of the letter, or that of the queue; its
 * parts go to *ret too. False: it is none that can be called, with why.
 */
bool letter_write(const struct letter *l, struct arena *a,
		  struct call_request *ret, const char **why);

/*
 * What is sent to a webhook for an event. Its body is made of the event and the
 * webhook's id alone, so that tries and replays have the same one to the byte;
 * what differs stands in headers.
 */
struct event_letter {
	const struct m_webhook *webhook;
	const struct m_event *event; /* of a type that is known */
	struct str id;               /* of the delivery */
	uint32_t attempt;
	uint64_t now_ns; /* wall clock */
};

void letter_write_event(const struct event_letter *l, struct arena *a,
			struct call_request *ret);

/* "v1,..." of each secret, for webhook-signature. */
void letter_sign(struct buf *out, const struct m_push *p, struct str id,
		 uint64_t timestamp, struct str body);

#endif
