/*
 * Settings of a queue that the tables alone cannot read and write.
 */
#ifndef CORVO_QUEUE_PARTS_H
#define CORVO_QUEUE_PARTS_H

#include "req/req.h"

/* Members of v that are null, by the names of their fields. */
size_t queue_read_nulls(struct req *r, const struct msg_desc *d, struct json v,
			struct str **ret);

/* `push` of a request; false when an error has been answered. */
bool push_read(struct req *r, struct json v, struct m_set_queue *m);
/* The same for a client to see: no secret, and no value of a header that may
 * be one. */
void push_write(const struct m_push *p, const struct json_style *style,
		struct json_writer *w);

/* Headers of calls in the same way. */
void push_headers_write(struct str headers, struct json_writer *w);
/* user:password leaves the URL, so that nobody is shown them; p NULL: it has
 * none. False when an error has been answered, naming the member. */
bool push_url_part(struct req *r, const char *member, struct str *url,
		   struct str *ret_credentials);

#endif
