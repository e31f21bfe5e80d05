/*
 * Changes a request along its descriptor. A number that a client may send is 0,
 * 1, at its limit or as large as it can be sent; a member that is absent may be
 * there after all. What only the server sets, and what names the object of the
 * request, is left as it is.
 */
#ifndef CORVO_WILD_DISTORT_H
#define CORVO_WILD_DISTORT_H

#include "resend_sdb.h"
#include "resend_webhooks.h"

#define HOUR       (3600 * NS_PER_S)
#define DAY        (24 * HOUR)
#define WILD_ADDED 8 /* members in percent */
#define WILD_DEPTH 3 /* of messages that are made up */

/* add: how many of the members that are absent come, in percent. */
void wild_distort(struct rw *w, const struct msg_desc *d, void *m, unsigned add,
		  unsigned depth);

bool wild_chance(struct rw *w, unsigned percent);
uint64_t wild_number(struct rw *w, uint64_t max);
uint64_t wild_duration(struct rw *w);
uint64_t wild_moment(struct rw *w);
/* One of three that begin so. */
struct str wild_name(struct rw *w, const char *prefix);
struct str wild_amounts(struct rw *w); /* of units */
struct str wild_tags(struct rw *w);
struct str wild_json(struct rw *w);

#endif
