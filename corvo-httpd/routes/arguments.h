/*
 * Arguments of the query string that a route has no use for, and an
 * Idempotency-Key, are told to the client as members of a body are: in
 * X-Corvo-Ignored, or by a refusal.
 */
#ifndef CORVO_ARGUMENTS_H
#define CORVO_ARGUMENTS_H

#include "req/req.h"

/* Notes them, arguments with a '?' before; false: the strict request is
 * refused. */
bool arguments_admit(struct req *r);

#endif
