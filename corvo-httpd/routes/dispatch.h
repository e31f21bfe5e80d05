/*
 * From a complete request to its handler.
 */
#ifndef CORVO_DISPATCH_H
#define CORVO_DISPATCH_H

#include "util/base.h"

struct req;

/* By its head: routes read no body that is packed. */
bool dispatch_takes_body(const struct req *r);

/* Its connection came to an address where this path is served; else it is to
 * be refused. */
bool dispatch_is_served(const struct req *r);
void dispatch_refuse(struct req *r);

/* The request is answered now, or later through its call. */
void dispatch(struct req *r);

#endif
