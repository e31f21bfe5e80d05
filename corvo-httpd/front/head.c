/*
 * The head of a request, as the server library has read it. See front/head.h.
 */
#include "front/head.h"

#include <microhttpd.h>
#include <strings.h>

#include "front/conn.h"
#include "util/str.h"

static const struct str NAMES[HEAD_NAMES_MAX] = {
#define X(name, text) [HEAD_##name] = { text, sizeof(text) - 1 },
	HEAD_NAMES(X)
#undef X
};

static enum MHD_Result on_entry(void *cls, enum MHD_ValueKind kind,
				const char *name, size_t name_n,
				const char *value, _unused_ size_t value_n)
{
	struct head *h = cls;

	if (kind != MHD_HEADER_KIND) {
		h->has_arguments = true;
		return MHD_YES;
	}
	for (size_t i = 0; i < HEAD_NAMES_MAX; i++) {
		if (NAMES[i].n != name_n || h->value[i] != NULL ||
		    strncasecmp(NAMES[i].p, name, name_n) != 0)
			continue;
		h->value[i] = value;
		break;
	}
	return MHD_YES;
}

void head_read(const struct conn *c, struct head *ret)
{
	*ret = (struct head){ 0 };
	(void)MHD_get_connection_values_n(
	    c->handle, MHD_HEADER_KIND | MHD_GET_ARGUMENT_KIND, on_entry, ret);
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
