/*
 * Heads as libmicrohttpd has read them; see front/front.h.
 */
#ifndef CORVO_H1_HEAD_H
#define CORVO_H1_HEAD_H

#include "front/head.h"

/* One walk over all of it, as looking for each would cost one each. */
void h1_head_read(const struct exchange *x, struct head *ret);

void h1_each_header(const struct exchange *x, head_header_fn *fn, void *ctx);
const char *h1_argument(const struct exchange *x, const char *name);
void h1_each_argument(const struct exchange *x, head_name_fn *fn, void *ctx);

#endif
