/*
 * Messages from the JSON of proto3. See rpc/pb/pb.h. The text is validated and
 * otherwise hostile.
 *
 * read_object calls itself along descriptors, never along data.
 */
#include "proto/msg_near.h"
#include "proto/msg_read.h"
#include "rpc/pb/store.h"
#include "util/base64.h"
#include "util/timefmt.h"
#include "util/turn.h"

static int refuse_type(const struct msg_reader *rd, const struct pb_place *at,
		       const char *want, struct json v)
{
	return pb_refuse(rd, at, "must be %s, not %s", want,
			 json_type_name(json_type_of(v)));
}

/* --- values --- */

/* A text may hold a number, as those of 64 bits do. */
static int read_int(const struct msg_reader *rd, const struct pb_place *at,
		    struct json v, void *m)
{
	enum json_type t = json_type_of(v);
	struct str text = v.raw;
	int64_t i = 0;
	uint64_t u = 0;
	double d;

	if (t == JSON_STRING)
		text = json_string(v, rd->a);
	else if (t != JSON_NUMBER)
		return refuse_type(rd, at, "a number", v);
	if (str_parse_u64(text, &u))
		return pb_put_int(rd, at, m, false, u);
	if (str_parse_i64(text, &i))
		return pb_put_int(rd, at, m, i < 0,
				  i < 0 ? 0 - (uint64_t)i : (uint64_t)i);
	/* 1.0 and 1e3 are whole numbers, too */
	if (t == JSON_NUMBER && msg_read_number(v, &d) &&
	    d >= -9007199254740992.0 && d <= 9007199254740992.0 &&
	    d == (double)(int64_t)d)
		return pb_put_int(rd, at, m, d < 0,
				  (uint64_t)(int64_t)(d < 0 ? -d : d));
	return pb_refuse(rd, at, "must be a whole number of 64 bits");
}

static int read_double(const struct msg_reader *rd, const struct pb_place *at,
		       struct json v, void *m)
{
	struct json_error e;
	double d;

	if (json_type_of(v) == JSON_STRING) {
		struct str text = json_string(v, rd->a);

		if (!json_validate(text, 1, &e))
			return pb_refuse(rd, at, "must be a finite number");
		v = json_root(text);
	}
	if (json_type_of(v) != JSON_NUMBER)
		return refuse_type(rd, at, "a number", v);
	if (!msg_read_number(v, &d))
		return pb_refuse(rd, at, "is too large a number");
	return pb_put_double(rd, at, m, d);
}

static int read_text(const struct msg_reader *rd, const struct pb_place *at,
		     struct json v, void *m)
{
	_cleanup_(buf_done) struct buf bytes = BUF_INIT(0);
	struct str text;

	if (json_type_of(v) != JSON_STRING)
		return refuse_type(rd, at, "a string", v);
	text = json_string(v, rd->a);
	if (at->f->type != PB_bytes)
		return pb_put_text(rd, at, m, text);
	if (!base64_read(&bytes, text))
		return pb_refuse(rd, at, "must be base64");
	return pb_put_text(rd, at, m, arena_copy(rd->a, buf_str(&bytes)));
}

static int read_time(const struct msg_reader *rd, const struct pb_place *at,
		     struct json v, void *m)
{
	uint64_t ns;

	if (json_type_of(v) != JSON_STRING)
		return refuse_type(rd, at, "a string", v);
	if (!time_parse(json_string(v, rd->a), &ns))
		return pb_refuse(rd, at,
				 "must be a time of the years 1970 to 2200 "
				 "such as \"2026-02-11T10:00:00Z\"");
	return pb_put_time(rd, at, m, (int64_t)(ns / NS_PER_S),
			   (int64_t)(ns % NS_PER_S));
}

static int read_bool(const struct msg_reader *rd, const struct pb_place *at,
		     struct json v, void *m)
{
	bool b;

	if (!json_bool(v, &b))
		return refuse_type(rd, at, "true or false", v);
	return pb_put_bool(at, m, b);
}

static int read_object(const struct msg_reader *rd, const struct pb_desc *d,
		       struct json v, const struct pb_place *up, void *m);

static int read_message(const struct msg_reader *rd, struct pb_place *at,
			struct json v, void *m, void **ret)
{
	int r;

	r = pb_put_message(rd, at, m, ret);
	if (r < 0)
		return r;
	r = json_type_of(v) == JSON_OBJECT
		? read_object(rd, at->f->sub, v, at, *ret)
		: refuse_type(rd, at, "an object", v);
	return pb_end_message(rd, at, *ret, r);
}

static int read_value(const struct msg_reader *rd, struct pb_place *at,
		      struct json v, void *m)
{
	void *sub;

	switch ((enum pb_type)at->f->type) {
	case PB_message:
		return read_message(rd, at, v, m, &sub);
	case PB_double:
		return read_double(rd, at, v, m);
	case PB_string:
	case PB_bytes:
	case PB_json:
	case PB_dur:
	case PB_word:
		return read_text(rd, at, v, m);
	case PB_time:
		return read_time(rd, at, v, m);
	case PB_bool:
		return read_bool(rd, at, v, m);
	case PB_int32:
	case PB_int64:
	case PB_uint32:
	case PB_uint64:
	case PB_ms:
	case PB_secs:
	case PB_ns:
	case PB_enum:
		break;
	}
	return read_int(rd, at, v, m);
}

/* --- lists and maps --- */

static int read_list(const struct msg_reader *rd, struct pb_place *at,
		     struct json v, void *m)
{
	struct json_iter it;
	struct json item;
	int r = 0;

	if (json_type_of(v) != JSON_ARRAY)
		return refuse_type(rd, at, "an array", v);
	it = json_iter(v);
	for (at->index = 0; r == 0 && json_next_item(&it, &item); at->index++)
		r = turn_is_over() ? -ERR_OVERLOADED
				   : read_value(rd, at, item, m);
	return r;
}

static int read_map(const struct msg_reader *rd, struct pb_place *at,
		    struct json v, void *m)
{
	const struct field_desc *key = &at->f->sub->msg->fields[at->f->key];
	struct json_iter it;
	struct json value;
	struct str name;
	void *item;
	int r;

	if (json_type_of(v) != JSON_OBJECT)
		return refuse_type(rd, at, "an object", v);
	it = json_iter(v);
	while (json_next_member(&it, rd->a, &name, &value)) {
		r = turn_is_over() ? -ERR_OVERLOADED
				   : read_message(rd, at, value, m, &item);
		if (r < 0)
			return r;
		*(struct str *)((char *)item + key->offset) = name;
		*(uint64_t *)item |= 1ULL << at->f->key;
	}
	return 0;
}

/* --- objects --- */

static bool is_name(const struct pb_field *f, struct str name)
{
	char json[PB_NAME_BYTES];

	if (str_is(name, f->name))
		return true;
	pb_json_name(f->name, json);
	return str_is(name, json);
}

static const struct pb_field *find_name(const struct pb_desc *d,
					struct str name, size_t *index)
{
	for (size_t i = 0; i < d->n; i++)
		if (is_name(&d->fields[i], name)) {
			*index = i;
			return &d->fields[i];
		}
	return NULL;
}

/* The field that a name probably means, as this JSON calls it: true. */
static bool find_near(const struct msg_reader *rd, const struct pb_desc *d,
		      struct str name, char ret[PB_NAME_BYTES])
{
	struct ignored *i = rd->ignored;
	char json[PB_NAME_BYTES];
	size_t best = NAME_FAR, n;

	if (rd->compat_03 || i == NULL || i->looked == LIMIT_NEAR_NAMES)
		return false;
	i->looked++;
	for (size_t k = 0; k < d->n; k++) {
		const struct pb_field *f = &d->fields[k];

		if ((f->flags & (PB_UNUSED | PB_FOUND)) != 0)
			continue;
		pb_json_name(f->name, json);
		n = MIN(name_slips(name, str_from(f->name)),
			name_slips(name, str_from(json)));
		if (n < best)
			memcpy(ret, json, sizeof(json));
		best = MIN(best, n);
	}
	return best != NAME_FAR;
}

static int meet_unknown(const struct msg_reader *rd, const struct pb_desc *d,
			const struct pb_place *up, struct str name)
{
	char near[PB_NAME_BYTES];

	if (!find_near(rd, d, name, near)) {
		pb_ignore(rd, up, name);
		return 0;
	}
	pb_print_member(up, name, rd->why);
	buf_printf(rd->why, ": there is no such field; perhaps \"%s\" is meant",
		   near);
	return -ERR_VALIDATION_ERROR;
}

static int read_member(const struct msg_reader *rd, struct pb_place *at,
		       struct json v, void *m)
{
	if (at->f->flags & PB_MAP)
		return read_map(rd, at, v, m);
	if (at->f->flags & PB_REPEATED)
		return read_list(rd, at, v, m);
	return read_value(rd, at, v, m);
}

/* A client may write out every default. */
static bool is_default(struct json v)
{
	double d;
	bool b;

	switch (json_type_of(v)) {
	case JSON_NULL:
		return true;
	case JSON_BOOL:
		return json_bool(v, &b) && !b;
	case JSON_NUMBER:
		return msg_read_number(v, &d) && d == 0;
	case JSON_STRING:
		return v.raw.n == 2;
	case JSON_ARRAY:
	case JSON_OBJECT:
		break;
	}
	return json_count(v) == 0;
}

static int read_object(const struct msg_reader *rd, const struct pb_desc *d,
		       struct json v, const struct pb_place *up, void *m)
{
	struct json_iter it = json_iter(v);
	uint64_t seen = 0;
	struct json value;
	struct str name;
	size_t i = 0;
	int r = 0;

	while (r == 0 && json_next_member(&it, rd->a, &name, &value)) {
		struct pb_place at = { .up = up,
				       .d = d,
				       .index = PLACE_NO_INDEX };

		turn_step();
		if (turn_is_over())
			return -ERR_OVERLOADED;
		at.f = find_name(d, name, &i);
		if (at.f != NULL && (seen >> i & 1) != 0) {
			(void)pb_refuse(rd, &at, "is given twice");
			return -ERR_PARSE_ERROR;
		}
		if (at.f != NULL)
			seen |= 1ULL << i;
		if (json_type_of(value) == JSON_NULL)
			continue;
		if (at.f != NULL && (at.f->flags & (PB_UNUSED | PB_FOUND)) == 0)
			r = read_member(rd, &at, value, m);
		else if (at.f == NULL)
			r = meet_unknown(rd, d, up, name);
		else if (!is_default(value))
			pb_ignore(rd, up, name);
	}
	return r;
}

int pb_read_json_unchecked(const struct msg_reader *rd, const struct pb_desc *d,
			   struct json v, void *m)
{
	if (json_type_of(v) == JSON_OBJECT)
		return read_object(rd, d, v, NULL, m);
	buf_printf(rd->why, "the message must be an object, not %s",
		   json_type_name(json_type_of(v)));
	return -ERR_VALIDATION_ERROR;
}

int pb_read_json(const struct msg_reader *rd, const struct pb_desc *d,
		 struct json v, void *m)
{
	int r = pb_read_json_unchecked(rd, d, v, m);

	return r < 0 ? r : pb_finish(rd, d, m);
}
