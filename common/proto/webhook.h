/*
 * Rules of webhooks that more than one process knows: what their settings may
 * say, which events they take, and how a delivery is called.
 */
#ifndef CORVO_WEBHOOK_H
#define CORVO_WEBHOOK_H

#include "proto/proto.h"

#define WEBHOOK_TRIES            3 /* where nothing else is set */
#define WEBHOOK_DELAY_NS         (10 * NS_PER_S)
#define WEBHOOK_DELAY_MAX_NS     (3600 * NS_PER_S)
#define WEBHOOK_CONCURRENCY      8
#define WEBHOOK_DISABLE_AFTER_NS (86400 * NS_PER_S)

/* As clients may name one: it stands in headers and signatures. */
bool webhook_id_fits(struct str id);

/* As it would be stored. -ERR_VALIDATION_ERROR, naming the member. */
int webhook_check(const struct m_webhook *w, struct arena *a, struct buf *why);

/* Each of the patterns must stand for a type that this version knows: only for
 * who takes a request, since other versions know other types. */
int webhook_check_events(const struct str *patterns, size_t n, struct buf *why);

/* What of it says how a call is made, for functions of proto/push.h. */
struct m_push webhook_push(const struct m_webhook *w);

/* Types of events by their numbers. */
struct event_types {
	bool has[EVENT_TYPE_MAX];
};

/* The types that one of the patterns stands for. */
void webhook_types(const struct m_webhook *w, struct event_types *ret);
/* Whether it takes the event. */
bool webhook_takes(const struct m_webhook *w, const struct event_types *t,
		   const struct m_event *e);
/* {"webhook_id":ID} of an event about a webhook is this one. */
bool webhook_is_meant(const struct m_webhook *w, const struct m_event *e);

/* webhook-id of a delivery: the webhook, and the event's number. */
void webhook_put_delivery_id(struct buf *out, struct str id, uint64_t seq);
/* The event of such an id, or of a bare number; false: it is neither. */
bool webhook_read_delivery_id(struct str text, struct str id, uint64_t *ret);

#endif
