/*
 * What a route takes and answers, for the reference and openapi.json. Most of
 * it follows from routes.def and messages.def; what a handler of corvo-httpd
 * does beyond the tables is written down in route_shape.c.
 */
#ifndef CORVO_ROUTE_SHAPE_H
#define CORVO_ROUTE_SHAPE_H

#include "proto/route.h"

enum reply_form {
	REPLY_OBJECT, /* the message */
	REPLY_LIST,   /* an array of it */
	REPLY_TEXT,
	REPLY_STREAM, /* server-sent events */
};

/* A member a handler adds, or writes in another way than the message. Lists
 * of them end with a NULL name. */
struct shape_member {
	const char *name;
	const char *type;   /* in words */
	const char *schema; /* in JSON */
	const char *doc;
};

#define SHAPE_ERRORS_MAX    12
#define SHAPE_ARGUMENTS_MAX 16

struct route_shape {
	const char *id;                       /* unique among routes */
	const struct shape_member *arguments; /* of the query string, or NULL */
	const struct msg_desc *request;       /* NULL: takes no body, or: */
	const struct shape_member *takes;     /* a body no message describes */
	/* The body may be anything; so may arguments, unless there are some. */
	bool takes_anything;
	const char *needs; /* the argument, or member of takes, it must have */
	const char *request_note;     /* or NULL */
	const struct msg_desc *reply; /* NULL: only `members` */
	enum reply_form form;
	const char *reply_note;             /* or NULL */
	const struct shape_member *members; /* or NULL */
	bool may_be_empty;                  /* also answers 204 */
	int also;                           /* another status of success */
	const struct msg_desc *also_reply;  /* its body; NULL: the same */
	size_t errors_n;
	enum err errors[SHAPE_ERRORS_MAX];
	/* inside: arguments of its own, and those of many routes */
	struct shape_member own[SHAPE_ARGUMENTS_MAX + 1];
};

/* *ret is not to be copied: it points into itself. */
void route_shape_get(const struct route *r, struct route_shape *ret);

/* It reads what the cluster has in common: it takes ?consistency= and the
 * header X-Corvo-Min-Index. */
bool route_is_read(const struct route *r);

/* The reply shows this member of its message as the message has it. */
bool route_shape_has(const struct route_shape *s, const struct field_desc *f);

/* Members of a message in JSON that its table does not have, or NULL. */
const struct shape_member *message_extra(const struct msg_desc *d);

/* Messages those members refer to, by their number; NULL: no more. */
const struct msg_desc *message_extra_sub(const struct msg_desc *d, size_t i);

/* Members of the request that a body may hold. */
bool field_is_in_body(const struct field_desc *f);

#endif
