/*
 * Finds the route of a request in routes.def.
 */
#ifndef CORVO_ROUTE_H
#define CORVO_ROUTE_H

#include "proto/proto.h"

enum http_method {
	HTTP_GET,
	HTTP_POST,
	HTTP_PUT,
	HTTP_PATCH,
	HTTP_DELETE,
	HTTP_METHOD_MAX
};

#define ROUTE_LOCAL      0u
#define ROUTE_PARAMS_MAX 4

struct route {
	enum http_method method;
	const char *path;    /* with {names} */
	const char *handler; /* "op", "enqueue", ... */
	unsigned index;      /* place in the table */
	unsigned target;     /* OP_, QUERY_ or ROUTE_LOCAL */
	int status;
	const char *doc;
};

struct route_match {
	const struct route *route; /* NULL: none */
	unsigned allowed;          /* bit per method known for this path */
	size_t n;                  /* parameters */
	struct str name[ROUTE_PARAMS_MAX];
	struct str value[ROUTE_PARAMS_MAX]; /* still percent-encoded */
};

/* path without the query string; literal segments win over {parameters}. */
void route_find(enum http_method method, struct str path,
		struct route_match *ret);
const struct route *route_at(size_t i); /* NULL past the end */
size_t route_count(void);
/* It changes settings or the cluster, or acts on many jobs: a member it does
 * not know is refused. */
bool route_is_exact(const struct route *r);
bool http_method_parse(struct str s, enum http_method *ret);
const char *http_method_name(enum http_method m);

/* Percent-decodes into `a` when needed; false on a bad escape or NUL. */
bool url_decode(struct str s, struct arena *a, struct str *ret);

#endif
