/*
 * The head of a request of HTTP/2, gathered header by header, and whether it
 * can be one. All of it is hostile. No I/O.
 */
#ifndef CORVO_H2_HEAD_H
#define CORVO_H2_HEAD_H

#include "front/head.h"

/* Places in the text; NO_TEXT: there is none. */
struct h2_item {
	uint32_t name, value;
};

/* Zeroed: nothing has come. */
struct h2_head {
	struct buf text; /* each name and value, with a NUL behind it */
	struct h2_item *items;
	size_t n, cap;
	size_t arguments_n; /* of them, the last ones */
	size_t cost;        /* as LIMIT_HEAD_BYTES counts it */
	uint32_t method, path, authority;
	int err;         /* ERR_ of what it gets, 0: it is good so far */
	const char *why; /* NULL: the error says it */
};

void h2_head_init(struct h2_head *h);
void h2_head_done(struct h2_head *h);

/* False: it is so large that nobody can mean it. */
bool h2_head_add(struct h2_head *h, struct str name, struct str value);

/* It is malformed, and nothing of its n bytes is kept. False: as above. */
bool h2_head_add_bad(struct h2_head *h, size_t n);

/* All has come; its arguments are found. 0 or -ERR_, see err and why. */
int h2_head_whole(struct h2_head *h);

const char *h2_head_text(const struct h2_head *h, uint32_t at); /* or NULL */

/* As front/head.h has them, from a whole one. */
void h2_head_read(const struct h2_head *h, struct head *ret);
void h2_head_each(const struct h2_head *h, head_header_fn *fn, void *ctx);
const char *h2_head_argument(const struct h2_head *h, const char *name);
void h2_head_each_argument(const struct h2_head *h, head_name_fn *fn,
			   void *ctx);
size_t h2_head_bytes(const struct h2_head *h); /* of memory */

#endif
