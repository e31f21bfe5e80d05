/*
 * Whether a document is as a schema says; see util/schema.h. Documents come
 * from clients; their depth was limited when they were validated, so what
 * follows it may recurse.
 */
#include <stdlib.h>

#include "util/schema_impl.h"

struct looking {
	struct arena *a;
	struct buf *why;
};

static bool look(struct looking *l, const struct schema *s, struct json v,
		 const struct place *at);

/* Without a part after the point: 3, 3.0, 3e2. */
static bool is_whole(struct json v)
{
	double d;

	if (!json_double(v, &d))
		return false;
	/* from here on there is none between two of them */
	if (d >= 9007199254740992.0 || d <= -9007199254740992.0)
		return true;
	return (double)(int64_t)d == d;
}

static bool has_type(const struct schema *s, struct json v)
{
	enum json_type t = json_type_of(v);

	if (s->types == 0 || (s->types & 1u << t) != 0)
		return true;
	return t == JSON_NUMBER && (s->types & 1u << TYPE_INTEGER) != 0 &&
	       is_whole(v);
}

static bool complain_type(struct looking *l, const struct schema *s,
			  const struct place *at)
{
	const char *between = "must be of type ";

	(void)schema_complain(l->why, at, "%s", "");
	for (unsigned i = 0; i < TYPES; i++) {
		if ((s->types & 1u << i) == 0)
			continue;
		buf_printf(l->why, "%s%s", between, schema_types[i]);
		between = " or ";
	}
	return false;
}

static bool look_values(struct looking *l, const struct schema *s,
			struct json v, const struct place *at)
{
	struct value value;

	return (schema_value(v, l->a, &value) &&
		bsearch(&value, s->values, s->values_n, sizeof(value),
			schema_value_cmp) != NULL) ||
	       schema_complain(l->why, at, "is none of the values it may have");
}

static bool look_number(struct looking *l, const struct schema *s,
			struct json v, const struct place *at)
{
	static const char *const words[BOUNDS] = {
		[MINIMUM] = "at least",
		[MAXIMUM] = "at most",
		[ABOVE] = "more than",
		[BELOW] = "less than",
	};
	double d;

	if (!json_double(v, &d))
		return schema_complain(l->why, at, "is too large a number");
	for (unsigned i = 0; i < BOUNDS; i++) {
		double bound = s->bounds[i];
		bool ok = !s->has_bound[i] || (i == MINIMUM && d >= bound) ||
			  (i == MAXIMUM && d <= bound) ||
			  (i == ABOVE && d > bound) ||
			  (i == BELOW && d < bound);

		if (ok)
			continue;
		(void)schema_complain(l->why, at, "must be %s ", words[i]);
		jw_double(&JSON_WRITER(l->why), bound);
		return false;
	}
	return true;
}

static bool look_count(struct looking *l, uint64_t n, uint64_t min,
		       uint64_t max, const char *what, const struct place *at)
{
	if (n < min)
		return schema_complain(l->why, at, "must have at least %llu %s",
				       (unsigned long long)min, what);
	if (n > max)
		return schema_complain(l->why, at, "must have at most %llu %s",
				       (unsigned long long)max, what);
	return true;
}

static bool look_text(struct looking *l, const struct schema *s, struct json v,
		      const struct place *at)
{
	struct str text;
	uint64_t n = 0;

	if (s->length_min == 0 && s->length_max == UINT64_MAX)
		return true;
	text = json_string(v, l->a);
	for (size_t i = 0; i < text.n; i++)
		n += ((unsigned char)text.p[i] & 0xc0) != 0x80;
	return look_count(l, n, s->length_min, s->length_max, "characters", at);
}

static bool look_array(struct looking *l, const struct schema *s, struct json v,
		       const struct place *at)
{
	struct json_iter it = json_iter(v);
	struct place inner = { .outer = at };
	struct json one;

	for (; json_next_item(&it, &one); inner.index++)
		if (s->items != NULL && !look(l, s->items, one, &inner))
			return false;
	return look_count(l, inner.index, s->items_min, s->items_max, "items",
			  at);
}

/* Its place among the properties; properties_n: it is none of them. */
static size_t find_property(const struct schema *s, struct str name)
{
	struct property key = { .name = name };
	const struct property *p = NULL;

	if (s->properties_n > 0)
		p = bsearch(&key, s->properties, s->properties_n, sizeof(key),
			    schema_property_cmp);
	return p != NULL ? (size_t)(p - s->properties) : s->properties_n;
}

static bool look_object(struct looking *l, const struct schema *s,
			struct json v, const struct place *at)
{
	bool seen[SCHEMA_NAMES_MAX + 1] = { false };
	struct json_iter it = json_iter(v);
	struct json one;
	struct str name;

	while (json_next_member(&it, l->a, &name, &one)) {
		struct place inner = { .outer = at, .member = name };
		size_t i = find_property(s, name);
		const struct schema *its = s->more;

		seen[i] = true;
		if (i == s->properties_n && s->closed)
			return schema_complain(l->why, &inner,
					       "must not be there");
		if (i < s->properties_n)
			its = s->properties[i].schema;
		if (its != NULL && !look(l, its, one, &inner))
			return false;
	}
	for (size_t i = 0; i < s->properties_n; i++) {
		struct place inner = { .outer = at,
				       .member = s->properties[i].name };

		if (s->properties[i].required && !seen[i])
			return schema_complain(l->why, &inner, "is missing");
	}
	return true;
}

static bool look(struct looking *l, const struct schema *s, struct json v,
		 const struct place *at)
{
	if (s->never)
		return schema_complain(l->why, at, "must not be there");
	if (!has_type(s, v))
		return complain_type(l, s, at);
	if (s->has_values && !look_values(l, s, v, at))
		return false;
	switch (json_type_of(v)) {
	case JSON_NUMBER:
		return look_number(l, s, v, at);
	case JSON_STRING:
		return look_text(l, s, v, at);
	case JSON_ARRAY:
		return look_array(l, s, v, at);
	case JSON_OBJECT:
		return look_object(l, s, v, at);
	case JSON_NULL:
	case JSON_BOOL:
		break;
	}
	return true;
}

bool schema_fits(const struct schema *s, struct str document, const char *name,
		 struct arena *a, struct buf *why)
{
	struct looking l = { .a = a, .why = why };
	struct place at = { .name = name };
	struct str text = document.n > 0 ? document : STR("null");

	return look(&l, s, json_root(text), &at);
}
