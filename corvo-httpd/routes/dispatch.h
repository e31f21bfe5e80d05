/*
 * From a complete request to its handler.
 */
#ifndef CORVO_DISPATCH_H
#define CORVO_DISPATCH_H

struct req;

/* The request is answered now, or later through its call. */
void dispatch(struct req *r);

#endif
