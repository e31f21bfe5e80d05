/*
 * From a complete request to its handler.
 */
#ifndef CORVO_DISPATCH_H
#define CORVO_DISPATCH_H

#include "util/str.h"

struct req;

/* "http://host/path" asks for "/path" of that host, whatever the header Host
 * says. Of the head, before all else. */
void dispatch_take_target(struct req *r);

/* Whether this path is served at the address its connection came to. */
bool dispatch_is_served(const struct req *r);

/* Routes read no body that is packed. 0 or -ERR_. */
int dispatch_admit_body(const struct req *r);

/*
 * By its head, whatever it speaks: where it is asked for, and by whose name and
 * from which page. 0, or -ERR_ and why.
 */
int dispatch_admit(struct req *r, struct str *why);

/* The request is answered now, or later through its call. */
void dispatch(struct req *r);

#endif
