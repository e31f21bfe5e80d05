/*
 * Webhooks: events of the log are delivered to URLs, on the node that leads.
 * What was delivered, and how far each webhook is, is reported to the state
 * machine; here is only what is under way. A webhook whose receiver is slow or
 * gone keeps nobody waiting but itself: it reads no further.
 *
 * Loop thread.
 */
#ifndef CORVO_PUSH_WEBHOOKS_H
#define CORVO_PUSH_WEBHOOKS_H

#include "util/base.h"
#include "util/list.h"

struct push;
struct webhooks;

struct webhooks *webhooks_new(struct push *p);
void webhooks_free(struct webhooks *s); /* after the client */

/* What raftd says: this node leads; another version, they were changed. */
void webhooks_told(struct webhooks *s, bool leader, uint64_t version);
uint64_t webhooks_version(const struct webhooks *s);
bool webhooks_is_active(const struct webhooks *s);

/* Those of a host: something has changed there. */
void webhooks_look_at(struct list *of_target);
void webhooks_turn_end(struct webhooks *s);
/* Begins nothing more. */
void webhooks_drain(struct webhooks *s);
bool webhooks_is_idle(const struct webhooks *s);

#endif
