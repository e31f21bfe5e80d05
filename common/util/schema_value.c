/*
 * See util/schema_impl.h.
 */
#include "util/schema_impl.h"

#include <stdarg.h>

const char *const schema_types[TYPES] = {
	[JSON_NULL] = "null",       [JSON_BOOL] = "boolean",
	[JSON_NUMBER] = "number",   [JSON_STRING] = "string",
	[JSON_ARRAY] = "array",     [JSON_OBJECT] = "object",
	[TYPE_INTEGER] = "integer",
};

/* Names in documents may be of any length; words about them are not. */
#define NAME_SHOWN 64

static void put_place(struct buf *b, const struct place *at)
{
	if (at->outer == NULL) {
		buf_puts(b, at->name);
		return;
	}
	put_place(b, at->outer);
	if (at->member.p != NULL)
		buf_printf(b, ".%.*s",
			   STR_ARG(str_cut(at->member, NAME_SHOWN)));
	else
		buf_printf(b, "[%zu]", at->index);
}

bool schema_complain(struct buf *why, const struct place *at, const char *fmt,
		     ...)
{
	va_list ap;

	buf_clear(why);
	put_place(why, at);
	buf_puts(why, ": ");
	va_start(ap, fmt);
	buf_vprintf(why, fmt, ap);
	va_end(ap);
	return false;
}

bool schema_value(struct json v, struct arena *a, struct value *ret)
{
	bool b;

	*ret = (struct value){ .type = json_type_of(v) };
	switch (ret->type) {
	case JSON_NULL:
		return true;
	case JSON_BOOL:
		ret->number = json_bool(v, &b) && b;
		return true;
	case JSON_NUMBER:
		return json_double(v, &ret->number);
	case JSON_STRING:
		ret->text = json_string(v, a);
		return true;
	case JSON_ARRAY:
	case JSON_OBJECT:
		break;
	}
	return false;
}

int schema_value_cmp(const void *a, const void *b)
{
	const struct value *x = a, *y = b;

	if (x->type != y->type)
		return x->type < y->type ? -1 : 1;
	if (x->type == JSON_STRING)
		return str_cmp(x->text, y->text);
	return (x->number > y->number) - (x->number < y->number);
}

int schema_property_cmp(const void *a, const void *b)
{
	const struct property *x = a, *y = b;

	return str_cmp(x->name, y->name);
}
