/*
 * See util/schema.h. Schemas come from clients; their depth was limited when
 * they were validated, so what follows it may recurse.
 */
#include "util/schema.h"

#include <stdlib.h>

#include "util/schema_impl.h"

struct reading {
	struct arena *a;
	struct buf *why;
};

static const struct schema *read_one(struct reading *r, struct json v,
				     const struct place *at);

static bool add_type(struct reading *r, struct json v, const struct place *at,
		     struct schema *s)
{
	struct str name;

	if (json_type_of(v) == JSON_STRING) {
		name = json_string(v, r->a);
		for (unsigned i = 0; i < TYPES; i++) {
			if (!str_is(name, schema_types[i]))
				continue;
			s->types |= 1u << i;
			return true;
		}
	}
	return schema_complain(
	    r->why, at,
	    "must be of null, boolean, integer, number, string, "
	    "array and object");
}

static bool read_type(struct reading *r, struct json v, const struct place *at,
		      struct schema *s)
{
	struct json_iter it;
	struct json one;

	if (json_type_of(v) != JSON_ARRAY)
		return add_type(r, v, at, s);
	it = json_iter(v);
	while (json_next_item(&it, &one))
		if (!add_type(r, one, at, s))
			return false;
	return s->types != 0 ||
	       schema_complain(r->why, at, "must not be empty");
}

static bool add_value(struct reading *r, struct json v, const struct place *at,
		      struct schema *s)
{
	return schema_value(v, r->a, &s->values[s->values_n++]) ||
	       schema_complain(
		   r->why, at,
		   "must be of texts, numbers, true, false and null");
}

/* Of `enum` and `const` together only the last would hold. */
static bool begin_values(struct reading *r, const struct place *at,
			 struct schema *s, size_t n)
{
	if (s->has_values)
		return schema_complain(r->why, at,
				       "must not stand beside enum or const");
	s->has_values = true;
	s->values = arena_alloc(r->a, n * sizeof(*s->values));
	return true;
}

static bool read_enum(struct reading *r, struct json v, const struct place *at,
		      struct schema *s)
{
	size_t n = json_type_of(v) == JSON_ARRAY ? json_count(v) : 0;
	struct json_iter it;
	struct json one;

	if (n == 0 || n > SCHEMA_NAMES_MAX)
		return schema_complain(r->why, at,
				       "must be a list of 1 to %d values",
				       SCHEMA_NAMES_MAX);
	if (!begin_values(r, at, s, n))
		return false;
	it = json_iter(v);
	while (json_next_item(&it, &one))
		if (!add_value(r, one, at, s))
			return false;
	qsort(s->values, n, sizeof(*s->values), schema_value_cmp);
	return true;
}

static bool read_const(struct reading *r, struct json v, const struct place *at,
		       struct schema *s)
{
	return begin_values(r, at, s, 1) && add_value(r, v, at, s);
}

static void grow_properties(struct reading *r, struct schema *s)
{
	size_t cap = MAX(2 * s->properties_cap, (size_t)4);
	struct property *list = arena_alloc(r->a, cap * sizeof(*list));

	if (s->properties_n > 0)
		memcpy(list, s->properties, s->properties_n * sizeof(*list));
	s->properties = list;
	s->properties_cap = cap;
}

/* The one of that name, which may be new; NULL: there are too many. */
static struct property *property_of(struct reading *r, struct schema *s,
				    struct str name)
{
	for (size_t i = 0; i < s->properties_n; i++)
		if (str_eq(s->properties[i].name, name))
			return &s->properties[i];
	if (s->properties_n == SCHEMA_NAMES_MAX)
		return NULL;
	if (s->properties_n == s->properties_cap)
		grow_properties(r, s);
	s->properties[s->properties_n] = (struct property){ .name = name };
	return &s->properties[s->properties_n++];
}

static bool too_many(struct reading *r, const struct place *at)
{
	return schema_complain(r->why, at, "there may be at most %d names",
			       SCHEMA_NAMES_MAX);
}

static bool read_properties(struct reading *r, struct json v,
			    const struct place *at, struct schema *s)
{
	struct json_iter it;
	struct json one;
	struct str name;

	if (json_type_of(v) != JSON_OBJECT)
		return schema_complain(r->why, at, "must be an object");
	it = json_iter(v);
	while (json_next_member(&it, r->a, &name, &one)) {
		struct place inner = { .outer = at, .member = name };
		struct property *p = property_of(r, s, name);

		if (p == NULL)
			return too_many(r, at);
		if (p->schema != NULL)
			return schema_complain(r->why, &inner,
					       "is given twice");
		p->schema = read_one(r, one, &inner);
		if (p->schema == NULL)
			return false;
	}
	return true;
}

static bool read_required(struct reading *r, struct json v,
			  const struct place *at, struct schema *s)
{
	struct json_iter it;
	struct json one;

	if (json_type_of(v) != JSON_ARRAY)
		return schema_complain(r->why, at, "must be a list of names");
	it = json_iter(v);
	while (json_next_item(&it, &one)) {
		struct property *p;

		if (json_type_of(one) != JSON_STRING)
			return schema_complain(r->why, at,
					       "must be a list of names");
		p = property_of(r, s, json_string(one, r->a));
		if (p == NULL)
			return too_many(r, at);
		p->required = true;
	}
	return true;
}

static bool read_more(struct reading *r, struct json v, const struct place *at,
		      struct schema *s)
{
	bool any;

	if (json_bool(v, &any)) {
		s->closed = !any;
		return true;
	}
	s->more = read_one(r, v, at);
	return s->more != NULL;
}

static bool read_items(struct reading *r, struct json v, const struct place *at,
		       struct schema *s)
{
	s->items = read_one(r, v, at);
	return s->items != NULL;
}

static bool read_bound(struct reading *r, struct json v, const struct place *at,
		       struct schema *s, enum bound which)
{
	if (json_type_of(v) != JSON_NUMBER ||
	    !json_double(v, &s->bounds[which]))
		return schema_complain(r->why, at, "must be a number");
	s->has_bound[which] = true;
	return true;
}

static bool read_count(struct reading *r, struct json v, const struct place *at,
		       uint64_t *ret)
{
	return json_u64(v, ret) ||
	       schema_complain(r->why, at,
			       "must be a whole number that is not negative");
}

/* Says nothing about documents. */
static bool is_remark(struct str name)
{
	static const char *const names[] = { "title",   "description",
					     "default", "examples",
					     "$schema", "$id",
					     "$comment" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_is(name, names[i]))
			return true;
	return false;
}

static bool read_number_rule(struct reading *r, struct str name, struct json v,
			     const struct place *at, struct schema *s)
{
	static const char *const names[BOUNDS] = {
		[MINIMUM] = "minimum",
		[MAXIMUM] = "maximum",
		[ABOVE] = "exclusiveMinimum",
		[BELOW] = "exclusiveMaximum",
	};
	struct {
		const char *name;
		uint64_t *at;
	} counts[] = { { "minLength", &s->length_min },
		       { "maxLength", &s->length_max },
		       { "minItems", &s->items_min },
		       { "maxItems", &s->items_max } };

	for (unsigned i = 0; i < BOUNDS; i++)
		if (str_is(name, names[i]))
			return read_bound(r, v, at, s, (enum bound)i);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		if (str_is(name, counts[i].name))
			return read_count(r, v, at, counts[i].at);
	return schema_complain(r->why, at, "this rule is not supported");
}

static bool read_rule(struct reading *r, struct str name, struct json v,
		      const struct place *at, struct schema *s)
{
	static const struct {
		const char *name;
		bool (*read)(struct reading *r, struct json v,
			     const struct place *at, struct schema *s);
	} rules[] = {
		{ "type", read_type },
		{ "enum", read_enum },
		{ "const", read_const },
		{ "properties", read_properties },
		{ "required", read_required },
		{ "additionalProperties", read_more },
		{ "items", read_items },
	};

	if (is_remark(name))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (str_is(name, rules[i].name))
			return rules[i].read(r, v, at, s);
	return read_number_rule(r, name, v, at, s);
}

/* No member before it has its name. */
static bool is_first(struct reading *r, struct json v, struct str name,
		     struct json one)
{
	struct json_iter it = json_iter(v);
	struct json other;
	struct str key;

	while (json_next_member(&it, r->a, &key, &other) &&
	       other.raw.p != one.raw.p)
		if (str_eq(key, name))
			return false;
	return true;
}

static const struct schema *read_one(struct reading *r, struct json v,
				     const struct place *at)
{
	struct schema *s = arena_zalloc(r->a, sizeof(*s));
	struct json_iter it;
	struct json one;
	struct str name;
	bool any;

	s->length_max = s->items_max = UINT64_MAX;
	if (json_bool(v, &any)) {
		s->never = !any;
		return s;
	}
	if (json_type_of(v) != JSON_OBJECT) {
		(void)schema_complain(r->why, at,
				      "must be an object, true or false");
		return NULL;
	}
	it = json_iter(v);
	while (json_next_member(&it, r->a, &name, &one)) {
		struct place inner = { .outer = at, .member = name };

		if (!is_first(r, v, name, one)) {
			(void)schema_complain(r->why, &inner, "is given twice");
			return NULL;
		}
		if (!read_rule(r, name, one, &inner, s))
			return NULL;
	}
	if (s->properties_n > 0)
		qsort(s->properties, s->properties_n, sizeof(*s->properties),
		      schema_property_cmp);
	return s;
}

const struct schema *schema_read(struct str text, const char *name,
				 struct arena *a, struct buf *why)
{
	struct reading r = { .a = a, .why = why };
	struct place at = { .name = name };

	return read_one(&r, json_root(text), &at);
}
