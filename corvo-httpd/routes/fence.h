/*
 * What has to be so before a read begins: with ?consistency=leader this node
 * has everything any node acknowledged before, with X-Corvo-Min-Index that
 * write. Questions to the view see to the second by themselves.
 */
#ifndef CORVO_FENCE_H
#define CORVO_FENCE_H

#include "req/req.h"

typedef void fence_then_fn(struct req *r);

/* Calls `then`, now or later; or answers the request itself. */
void fence_pass(struct req *r, fence_then_fn *then);

#endif
