/*
 * See front/h1_head.h.
 */
#include "front/h1_head.h"

#include <microhttpd.h>

#include "front/conn.h"
#include "front/exchange.h"

static enum MHD_Result on_entry(void *cls, enum MHD_ValueKind kind,
				const char *name, size_t name_n,
				const char *value, _unused_ size_t value_n)
{
	struct head *h = cls;

	if (kind != MHD_HEADER_KIND)
		h->has_arguments = true;
	else
		head_note(h, str_of(name, name_n), value);
	return MHD_YES;
}

void h1_head_read(const struct exchange *x, struct head *ret)
{
	*ret = (struct head){ 0 };
	(void)MHD_get_connection_values_n(
	    x->conn->handle, MHD_HEADER_KIND | MHD_GET_ARGUMENT_KIND, on_entry,
	    ret);
}

struct each_header {
	head_header_fn *fn;
	void *ctx;
};

static enum MHD_Result on_header(void *cls, _unused_ enum MHD_ValueKind kind,
				 const char *name, const char *value)
{
	const struct each_header *e = cls;

	e->fn(e->ctx, name, value);
	return MHD_YES;
}

void h1_each_header(const struct exchange *x, head_header_fn *fn, void *ctx)
{
	struct each_header e = { fn, ctx };

	(void)MHD_get_connection_values(x->conn->handle, MHD_HEADER_KIND,
					on_header, &e);
}

const char *h1_argument(const struct exchange *x, const char *name)
{
	return MHD_lookup_connection_value(x->conn->handle,
					   MHD_GET_ARGUMENT_KIND, name);
}

struct each_argument {
	head_name_fn *fn;
	void *ctx;
};

static enum MHD_Result on_argument(void *cls, _unused_ enum MHD_ValueKind kind,
				   const char *name, _unused_ const char *value)
{
	const struct each_argument *e = cls;

	e->fn(e->ctx, name);
	return MHD_YES;
}

void h1_each_argument(const struct exchange *x, head_name_fn *fn, void *ctx)
{
	struct each_argument e = { fn, ctx };

	(void)MHD_get_connection_values(x->conn->handle, MHD_GET_ARGUMENT_KIND,
					on_argument, &e);
}
