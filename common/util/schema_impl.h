/*
 * Shared by util/schema*.c only: a schema as it is kept, and words about
 * places.
 */
#ifndef CORVO_SCHEMA_IMPL_H
#define CORVO_SCHEMA_IMPL_H

#include "util/json.h"
#include "util/schema.h"

/* Bits of types; an integer is a number too. */
enum {
	TYPE_INTEGER = JSON_OBJECT + 1,
	TYPES,
};

extern const char *const schema_types[TYPES];

struct property {
	struct str name;
	const struct schema *schema; /* NULL: anything */
	bool required;
};

enum bound { MINIMUM, MAXIMUM, ABOVE, BELOW, BOUNDS };

/* A value of an enum. */
struct value {
	enum json_type type;
	struct str text; /* of a string */
	double number;   /* of a number, or 1 of true */
};

struct schema {
	bool never;     /* the schema false */
	unsigned types; /* bits; 0: any */
	bool has_values;
	struct value *values; /* ascending */
	size_t values_n;
	struct property *properties; /* ascending by name */
	size_t properties_n, properties_cap;
	bool closed;               /* no other properties */
	const struct schema *more; /* of other properties; NULL: anything */
	const struct schema *items;
	bool has_bound[BOUNDS];
	double bounds[BOUNDS];
	uint64_t length_min, length_max; /* code points */
	uint64_t items_min, items_max;
};

/* A place, from the outside in; for words about it. */
struct place {
	const struct place *outer;
	const char *name; /* of the outermost */
	struct str member;
	size_t index; /* where there is no member */
};

/* "place: words"; false. */
_printf_(3, 4) bool schema_complain(struct buf *why, const struct place *at,
				    const char *fmt, ...);

/* False: it is an array, an object, or a number too large for a double, which
 * is equal to none. */
bool schema_value(struct json v, struct arena *a, struct value *ret);

/* For qsort and bsearch: of struct value, and of struct property by name. */
int schema_value_cmp(const void *a, const void *b);
int schema_property_cmp(const void *a, const void *b);

#endif
