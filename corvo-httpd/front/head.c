/*
 * The head of a request, as the server library has read it. See front/head.h.
 */
#include "front/head.h"

#include <microhttpd.h>
#include <strings.h>

const char *head_value(const struct conn *c, const char *name)
{
	return MHD_lookup_connection_value(c->handle, MHD_HEADER_KIND, name);
}

struct header_list {
	const char *name;
	struct buf *out;
};

static enum MHD_Result on_header(void *cls, _unused_ enum MHD_ValueKind kind,
				 const char *name, const char *value)
{
	struct header_list *l = cls;

	if (strcasecmp(name, l->name) == 0)
		buf_printf(l->out, "%s%s", l->out->n > 0 ? "," : "", value);
	return MHD_YES;
}

void head_values(const struct conn *c, const char *name, struct buf *out)
{
	struct header_list l = { name, out };

	(void)MHD_get_connection_values(c->handle, MHD_HEADER_KIND, on_header,
					&l);
}

const char *head_argument(const struct conn *c, const char *name)
{
	return MHD_lookup_connection_value(c->handle, MHD_GET_ARGUMENT_KIND,
					   name);
}

bool head_has_arguments(const struct conn *c)
{
	return MHD_get_connection_values(c->handle, MHD_GET_ARGUMENT_KIND, NULL,
					 NULL) > 0;
}

struct each_argument {
	void (*fn)(void *ctx, const char *name);
	void *ctx;
};

static enum MHD_Result on_argument(void *ctx, enum MHD_ValueKind kind,
				   const char *name, const char *value)
{
	const struct each_argument *e = ctx;

	(void)kind;
	(void)value;
	e->fn(e->ctx, name);
	return MHD_YES;
}

void head_each_argument(const struct conn *c,
			void (*fn)(void *ctx, const char *name), void *ctx)
{
	struct each_argument e = { .fn = fn, .ctx = ctx };

	MHD_get_connection_values(c->handle, MHD_GET_ARGUMENT_KIND, on_argument,
				  &e);
}
