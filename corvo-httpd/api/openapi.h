/*
 * The HTTP API as an OpenAPI 3.0.3 document, made from the tables.
 */
#ifndef CORVO_OPENAPI_H
#define CORVO_OPENAPI_H

#include "util/buf.h"

void openapi_write(struct buf *out);

#endif
