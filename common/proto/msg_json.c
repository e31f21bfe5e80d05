/*
 * Requests from JSON. The text is well-formed (json_validate) and otherwise
 * hostile; every refusal names the member. Texts without escapes and raw
 * members are slices of the request, all else is in the caller's arena.
 *
 * Functions that follow nested messages call themselves along descriptors,
 * never along data.
 */
#include "proto/msg_json.h"

#include <stdlib.h>

#include "proto/msg_place.h"
#include "util/timefmt.h"

#define KEY_SHOWN_MAX 64 /* bytes of a strange member's name in a refusal */

struct reader {
	struct arena *a;
	struct buf *why;
};

/* --- members given twice --- */

#define UNKNOWN_FIRST 16 /* so few are compared pair by pair */

/* The members of one object so far. */
struct seen {
	uint64_t known;    /* bit per field */
	uint64_t known_ms; /* the same for <name>_ms */
	struct str *unknown;
	size_t n, cap;
	struct str first[UNKNOWN_FIRST];
};

static int refuse_twice(struct reader *rd, const struct place *at,
			struct str key)
{
	size_t n = key.n;

	if (n > KEY_SHOWN_MAX) {
		n = KEY_SHOWN_MAX;
		while (n > 0 && (key.p[n] & 0xc0) == 0x80)
			n--; /* not in the middle of a character */
	}
	if (at != NULL) {
		place_print(at, rd->why);
		buf_puts(rd->why, ": ");
	}
	buf_printf(rd->why, "member \"%.*s%s\" is given twice", (int)n, key.p,
		   n < key.n ? "..." : "");
	return -ERR_PARSE_ERROR;
}

static void seen_add_unknown(struct seen *s, struct arena *a, struct str key)
{
	if (s->n == s->cap) {
		struct str *more;

		s->cap *= 2;
		more = arena_alloc(a, s->cap * sizeof(*more));
		memcpy(more, s->unknown, s->n * sizeof(*more));
		s->unknown = more;
	}
	s->unknown[s->n++] = key;
}

/* Any total order will do; most names differ in length. */
static int key_cmp(const void *a, const void *b)
{
	const struct str *x = a, *y = b;

	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return x->n > 0 ? memcmp(x->p, y->p, x->n) : 0;
}

/* NULL when all are different. */
static const struct str *find_twin(struct str *keys, size_t n)
{
	if (n <= UNKNOWN_FIRST) {
		for (size_t i = 1; i < n; i++)
			for (size_t j = 0; j < i; j++)
				if (str_eq(keys[i], keys[j]))
					return &keys[i];
		return NULL;
	}
	qsort(keys, n, sizeof(*keys), key_cmp);
	for (size_t i = 1; i < n; i++)
		if (str_eq(keys[i - 1], keys[i]))
			return &keys[i];
	return NULL;
}

/* --- values --- */

static int refuse_type(struct reader *rd, const struct place *at,
		       const char *want, struct json v)
{
	return place_refuse(at, rd->why, "must be %s, not %s", want,
			    json_type_name(json_type_of(v)));
}

static int read_uint(struct reader *rd, const struct place *at, struct json v,
		     uint64_t *ret)
{
	uint64_t max = at->field->kind == K_u32 ? UINT32_MAX : UINT64_MAX;

	if (at->field->max != 0)
		max = at->field->max;
	if (json_type_of(v) != JSON_NUMBER)
		return refuse_type(rd, at, "a number", v);
	if (!json_u64(v, ret) || *ret > max)
		return place_refuse(at, rd->why,
				    "must be a whole number from 0 to %llu",
				    (unsigned long long)max);
	return 0;
}

static int read_i64(struct reader *rd, const struct place *at, struct json v,
		    int64_t *ret)
{
	if (json_type_of(v) != JSON_NUMBER)
		return refuse_type(rd, at, "a number", v);
	if (!json_i64(v, ret))
		return place_refuse(at, rd->why,
				    "must be a whole number of 64 bits");
	return 0;
}

static int read_f64(struct reader *rd, const struct place *at, struct json v,
		    double *ret)
{
	uint32_t max = at->field->max;

	if (json_type_of(v) != JSON_NUMBER)
		return refuse_type(rd, at, "a number", v);
	if (!json_double(v, ret))
		return place_refuse(at, rd->why, "is too large a number");
	if (max != 0 && (*ret < 0 || *ret > max))
		return place_refuse(at, rd->why,
				    "must be a number from 0 to %u", max);
	return 0;
}

static int read_bool(struct reader *rd, const struct place *at, struct json v,
		     bool *ret)
{
	if (!json_bool(v, ret))
		return refuse_type(rd, at, "true or false", v);
	return 0;
}

static int read_raw(struct reader *rd, const struct place *at, struct json v,
		    struct str *ret)
{
	if ((at->field->flags & F_OBJECT) != 0 &&
	    json_type_of(v) != JSON_OBJECT)
		return refuse_type(rd, at, "an object", v);
	*ret = v.raw;
	return 0;
}

static int read_time(struct reader *rd, const struct place *at, struct json v,
		     uint64_t *ret)
{
	if (json_type_of(v) != JSON_STRING)
		return refuse_type(rd, at, "a string", v);
	if (!time_parse(json_string(v, rd->a), ret))
		return place_refuse(at, rd->why,
				    "must be a time of the years 1970 to 2200 "
				    "such as \"2026-02-11T10:00:00Z\"");
	return 0;
}

#define DURATION_MAX_NS (LIMIT_DURATION_S * NS_PER_S)

static int read_seconds(struct reader *rd, const struct place *at,
			struct json v, uint64_t *ret)
{
	double s;

	/* Whole numbers first: a double would round the large ones. */
	if (json_u64(v, ret)) {
		*ret = *ret <= LIMIT_DURATION_S ? *ret * NS_PER_S : UINT64_MAX;
		return 0;
	}
	if (!json_double(v, &s) || s > LIMIT_DURATION_S)
		*ret = UINT64_MAX;
	else if (s < 0)
		return place_refuse(at, rd->why, "must not be negative");
	else
		*ret = (uint64_t)(s * (double)NS_PER_S + 0.5);
	return 0;
}

static int read_millis(struct reader *rd, const struct place *at, struct json v,
		       uint64_t *ret)
{
	if (json_type_of(v) != JSON_NUMBER)
		return refuse_type(rd, at, "a number", v);
	if (!json_u64(v, ret))
		return place_refuse(
		    at, rd->why,
		    "must be a whole number of milliseconds, 0 or more");
	if (__builtin_mul_overflow(*ret, NS_PER_MS, ret))
		*ret = UINT64_MAX;
	return 0;
}

static int read_duration(struct reader *rd, const struct place *at,
			 struct json v, uint64_t *ret)
{
	int r = 0;

	if (at->in_ms) {
		r = read_millis(rd, at, v, ret);
	} else if (json_type_of(v) == JSON_NUMBER) {
		r = read_seconds(rd, at, v, ret);
	} else if (json_type_of(v) != JSON_STRING) {
		return refuse_type(rd, at, "a duration or a number of seconds",
				   v);
	} else if (!duration_parse(json_string(v, rd->a), ret)) {
		return place_refuse(at, rd->why,
				    "must be a duration such as \"90s\", "
				    "\"1h30m\" or \"500ms\"");
	}
	if (r == 0 && *ret > DURATION_MAX_NS)
		return place_refuse(at, rd->why, "must be at most 100 years");
	return r;
}

/* For enums whose texts are read in any case. */
static struct str loose_text(struct reader *rd, struct str text)
{
	struct str trimmed = str_trim(text);
	char *p = arena_cstr(rd->a, trimmed);

	for (size_t i = 0; i < trimmed.n; i++)
		if (p[i] >= 'A' && p[i] <= 'Z')
			p[i] = (char)(p[i] - 'A' + 'a');
	return str_of(p, trimmed.n);
}

static int read_enum(struct reader *rd, const struct place *at, struct json v,
		     uint32_t *ret)
{
	const struct enum_desc *e = at->field->values;
	struct str text;

	if (json_type_of(v) != JSON_STRING)
		return refuse_type(rd, at, "a string", v);
	text = json_string(v, rd->a);
	if (e->fallback < -1) {
		text = loose_text(rd, text);
		if (text.n == 0)
			text = str_from(e->values[0].text);
	}
	if (enum_parse(e, text, ret))
		return 0;
	(void)place_refuse(at, rd->why, "must be one of");
	for (size_t i = 0; i < e->n; i++)
		buf_printf(rd->why, "%s %s", i > 0 ? "," : "",
			   e->values[i].text);
	return e->fallback < -1 ? e->fallback : -ERR_VALIDATION_ERROR;
}

/* --- lists --- */

/* An array of at most `max` items (0: any number). */
static int read_list_head(struct reader *rd, const struct place *at,
			  struct json v, size_t max, size_t *ret_n)
{
	if (json_type_of(v) != JSON_ARRAY)
		return refuse_type(rd, at, "an array", v);
	*ret_n = json_count(v);
	if (max != 0 && *ret_n > max)
		return place_refuse(at, rd->why, "must have at most %zu items",
				    max);
	return 0;
}

static int read_strs(struct reader *rd, struct place *at, struct json v,
		     struct str **ret, size_t *ret_n)
{
	struct json_iter it;
	struct json item;
	int r = read_list_head(rd, at, v, field_texts_max(at->field), ret_n);

	if (r < 0)
		return r;
	*ret = arena_alloc(rd->a, *ret_n * sizeof(**ret));
	it = json_iter(v);
	for (at->index = 0; json_next_item(&it, &item); at->index++) {
		if (json_type_of(item) != JSON_STRING)
			return refuse_type(rd, at, "a string", item);
		(*ret)[at->index] = json_string(item, rd->a);
	}
	return 0;
}

static int read_object(struct reader *rd, const struct msg_desc *d,
		       struct json v, char *m, const struct place *at);

static int read_msg(struct reader *rd, const struct place *at, struct json v,
		    void *ret)
{
	if (json_type_of(v) != JSON_OBJECT)
		return refuse_type(rd, at, "an object", v);
	return read_object(rd, at->field->sub, v, ret, at);
}

static int read_msgs(struct reader *rd, struct place *at, struct json v,
		     void **ret, size_t *ret_n)
{
	size_t size = at->field->sub->size;
	struct json_iter it;
	struct json item;
	int r = read_list_head(rd, at, v, at->field->max, ret_n);

	if (r < 0)
		return r;
	*ret = arena_zalloc(rd->a, *ret_n * size);
	it = json_iter(v);
	for (at->index = 0; json_next_item(&it, &item); at->index++) {
		r = read_msg(rd, at, item, (char *)*ret + at->index * size);
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- objects --- */

/* p: the member of the struct; n: of a list, its count. */
static int read_value(struct reader *rd, struct place *at, struct json v,
		      void *p, size_t *n)
{
	uint64_t number = 0;
	int r;

	switch ((enum field_kind)at->field->kind) {
	case K_bool:
		return read_bool(rd, at, v, p);
	case K_u32:
		r = read_uint(rd, at, v, &number);
		*(uint32_t *)p = (uint32_t)number;
		return r;
	case K_u64:
		return read_uint(rd, at, v, p);
	case K_i64:
		return read_i64(rd, at, v, p);
	case K_f64:
		return read_f64(rd, at, v, p);
	case K_str:
		if (json_type_of(v) != JSON_STRING)
			return refuse_type(rd, at, "a string", v);
		*(struct str *)p = json_string(v, rd->a);
		return 0;
	case K_raw:
		return read_raw(rd, at, v, p);
	case K_time:
		return read_time(rd, at, v, p);
	case K_dur:
	case K_secs:
		return read_duration(rd, at, v, p);
	case K_strs:
		return read_strs(rd, at, v, p, n);
	case K_enum:
		return read_enum(rd, at, v, p);
	case K_msg:
		*(void **)p = arena_zalloc(rd->a, at->field->sub->size);
		return read_msg(rd, at, v, *(void **)p);
	case K_msgs:
		return read_msgs(rd, at, v, p, n);
	}
	return -ERR_INTERNAL_ERROR;
}

/*
 * The second form of a duration. Job JSON carries both, so a client may send
 * both back, but not two different ones.
 */
static int read_twin(struct reader *rd, struct place *at, struct json v,
		     uint64_t *ns)
{
	uint64_t other;
	int r = read_duration(rd, at, v, &other);

	if (r < 0)
		return r;
	if (other / NS_PER_MS != *ns / NS_PER_MS) {
		at->in_ms = false;
		return place_refuse(at, rd->why, "differs from %s_ms",
				    at->field->name);
	}
	if (!at->in_ms) /* the text may be finer */
		*ns = other;
	return 0;
}

static const struct field_desc *find_name(const struct msg_desc *d,
					  struct str name)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct field_desc *f = &d->fields[i];

		if (f->name_len == name.n &&
		    memcmp(f->name, name.p, name.n) == 0)
			return f;
	}
	return NULL;
}

static const struct field_desc *find_field(const struct msg_desc *d,
					   struct str key, bool *ret_in_ms)
{
	const struct field_desc *f = find_name(d, key);

	*ret_in_ms = false;
	if (f != NULL || key.n < 4 || memcmp(key.p + key.n - 3, "_ms", 3) != 0)
		return f;
	f = find_name(d, str_of(key.p, key.n - 3));
	if (f == NULL || (f->kind != K_dur && f->kind != K_secs))
		return NULL;
	*ret_in_ms = true;
	return f;
}

static int read_member(struct reader *rd, struct place *at, struct json v,
		       uint64_t bit, char *m)
{
	const struct field_desc *f = at->field;
	uint64_t *has = (uint64_t *)m;
	void *p = m + f->offset;
	int r;

	if ((f->flags & (F_INTERNAL | F_PATH)) != 0 ||
	    json_type_of(v) == JSON_NULL)
		return 0;
	if ((f->kind == K_dur || f->kind == K_secs) && (*has & bit) != 0)
		return read_twin(rd, at, v, p);
	r = read_value(rd, at, v, p, (size_t *)(m + f->count_offset));
	if (r < 0)
		return r;
	if (f->kind != K_str || ((struct str *)p)->n > 0)
		*has |= bit;
	return 0;
}

static int read_object(struct reader *rd, const struct msg_desc *d,
		       struct json v, char *m, const struct place *up)
{
	struct json_iter it = json_iter(v);
	struct seen seen;
	const struct str *twin;
	struct json value;
	struct str key;

	seen.known = seen.known_ms = 0;
	seen.n = 0;
	seen.cap = UNKNOWN_FIRST;
	seen.unknown = seen.first;
	while (json_next_member(&it, rd->a, &key, &value)) {
		struct place at = { up, NULL, PLACE_NO_INDEX, false };
		uint64_t *known;
		uint64_t bit;
		int r;

		at.field = find_field(d, key, &at.in_ms);
		if (at.field == NULL) {
			seen_add_unknown(&seen, rd->a, key);
			continue;
		}
		known = at.in_ms ? &seen.known_ms : &seen.known;
		bit = 1ULL << (at.field - d->fields);
		if ((*known & bit) != 0)
			return refuse_twice(rd, up, key);
		*known |= bit;
		r = read_member(rd, &at, value, bit, m);
		if (r < 0)
			return r;
	}
	twin = find_twin(seen.unknown, seen.n);
	return twin != NULL ? refuse_twice(rd, up, *twin) : 0;
}

int msg_from_json(const struct msg_desc *d, struct json v, struct arena *a,
		  void *m, struct buf *why)
{
	struct reader rd = { a, why };
	int r;

	if (json_type_of(v) != JSON_OBJECT)
		return place_refuse(NULL, why,
				    "the body must be an object, not %s",
				    json_type_name(json_type_of(v)));
	r = read_object(&rd, d, v, m, NULL);
	return r < 0 ? r : msg_check(d, m, why);
}
