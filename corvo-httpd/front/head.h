/*
 * What the head of the request that is under way says.
 */
#ifndef CORVO_HEAD_H
#define CORVO_HEAD_H

#include "front/conn.h"
#include "util/buf.h"

/* Of the query string, as it came (percent-encoded); NULL when absent. */
const char *head_argument(const struct conn *c, const char *name);
bool head_has_arguments(const struct conn *c);
/* Their names in their order, as they came. */
void head_each_argument(const struct conn *c,
			void (*fn)(void *ctx, const char *name), void *ctx);
/* A header of the request that is under way, or NULL. */
const char *head_value(const struct conn *c, const char *name);
/* All headers of that name in their order, joined by commas. */
void head_values(const struct conn *c, const char *name, struct buf *out);

#endif
