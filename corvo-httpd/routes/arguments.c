/*
 * See routes/arguments.h. What a route takes stands in api/route_shape.c, which
 * the reference is made of; req.c checks that nothing else is read.
 */
#include "routes/arguments.h"

#include "api/route_shape.h"
#include "front/head.h"
#include "front/server.h"

struct given {
	struct req *r;
	const struct shape_member *known; /* of the route; NULL: none */
	uint64_t seen;                    /* of those, by their place */
};

#define KNOWN_MAX 64

/* The place among the known ones; KNOWN_MAX: it is none. */
static size_t find_known(const struct given *g, const char *name)
{
	for (size_t i = 0; g->known != NULL && g->known[i].name != NULL; i++)
		if (strcmp(g->known[i].name, name) == 0)
			return i;
	return KNOWN_MAX;
}

static void ignore(struct req *r, const char *name, const char *which)
{
	req_ignore(r, arena_printf(&r->arena, "?%s%s", name, which));
}

static void on_argument(void *ctx, const char *name)
{
	struct given *g = ctx;
	size_t i = find_known(g, name);

	if (*name == '\0')
		return; /* "?", or "&" at an end: nothing was said */
	if (i >= KNOWN_MAX)
		ignore(g->r, name, "");
	else if (g->seen & UINT64_C(1) << i)
		ignore(g->r, name, "[1]"); /* the first counts */
	else
		g->seen |= UINT64_C(1) << i;
}

/* Whoever sends it relies on it. */
static bool takes_key(const struct route *t, const struct route_shape *shape)
{
	return t->method == HTTP_GET || t->target == OP_ENQUEUE ||
	       t->target == OP_ENQUEUE_BATCH || shape->takes_anything;
}

bool arguments_admit(struct req *r)
{
	bool has_key = req_header(r, HEAD_IDEMPOTENCY_KEY) != NULL;
	struct given g = { .r = r };
	struct route_shape shape;

	if (!r->x.head.has_arguments && !has_key)
		return true;
	route_shape_get(r->match.route, &shape);
	if (has_key && !takes_key(r->match.route, &shape))
		req_ignore(r, STR("Idempotency-Key"));
	/* else they are part of what it takes */
	if (!shape.takes_anything || shape.arguments != NULL) {
		g.known = shape.arguments;
		head_each_argument(&r->x, on_argument, &g);
		r->ignored_arguments = r->ignored.n;
	}
	return req_read_done(r);
}
