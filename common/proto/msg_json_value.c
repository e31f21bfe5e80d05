/*
 * Single values of requests: the text is well-formed JSON and otherwise
 * hostile. See proto/msg_json.h.
 */
#include "proto/msg_read.h"
#include "util/hmap.h"
#include "util/nano.h"
#include "util/timefmt.h"

/* It is read in one go. */
#define NUMBER_BYTES_MAX (64u << 10)

int msg_refuse_type(const struct msg_reader *rd, const struct place *at,
		    const char *want, struct json v)
{
	return place_refuse(at, rd->why, "must be %s, not %s", want,
			    json_type_name(json_type_of(v)));
}

bool msg_read_number(struct json v, double *ret)
{
	return v.raw.n <= NUMBER_BYTES_MAX && json_double(v, ret);
}

static int read_uint(const struct msg_reader *rd, const struct place *at,
		     struct json v, uint64_t *ret)
{
	uint64_t max = at->field->kind == K_u32 ? UINT32_MAX : UINT64_MAX;

	if (at->field->max != 0)
		max = at->field->max;
	if (json_type_of(v) != JSON_NUMBER)
		return msg_refuse_type(rd, at, "a number", v);
	if (!json_u64(v, ret) || *ret > max)
		return place_refuse(at, rd->why,
				    "must be a whole number from 0 to %llu",
				    (unsigned long long)max);
	return 0;
}

static int read_i64(const struct msg_reader *rd, const struct place *at,
		    struct json v, int64_t *ret)
{
	if (json_type_of(v) != JSON_NUMBER)
		return msg_refuse_type(rd, at, "a number", v);
	if (!json_i64(v, ret))
		return place_refuse(at, rd->why,
				    "must be a whole number of 64 bits");
	return 0;
}

static int read_f64(const struct msg_reader *rd, const struct place *at,
		    struct json v, double *ret)
{
	uint32_t max = at->field->max;

	if (json_type_of(v) != JSON_NUMBER)
		return msg_refuse_type(rd, at, "a number", v);
	if (!msg_read_number(v, ret))
		return place_refuse(at, rd->why, "is too large a number");
	if (max != 0 && (*ret < 0 || *ret > max))
		return place_refuse(at, rd->why,
				    "must be a number from 0 to %u", max);
	return 0;
}

static int read_nano(const struct msg_reader *rd, const struct place *at,
		     struct json v, uint64_t *ret)
{
	uint64_t max = UINT64_MAX / NANO_PER_UNIT;

	if (at->field->max != 0)
		max = at->field->max;
	if (json_type_of(v) != JSON_NUMBER)
		return msg_refuse_type(rd, at, "a number", v);
	if (!nano_parse(v.raw, ret) || *ret > max * NANO_PER_UNIT)
		return place_refuse(at, rd->why,
				    "must be a number from 0 to %llu",
				    (unsigned long long)max);
	return 0;
}

static int read_bool(const struct msg_reader *rd, const struct place *at,
		     struct json v, bool *ret)
{
	if (!json_bool(v, ret))
		return msg_refuse_type(rd, at, "true or false", v);
	return 0;
}

/* One text of such an object; names: those before it. */
static int check_named(const struct msg_reader *rd, const struct place *at,
		       struct str key, struct json value, struct hmap *names)
{
	bool is_text = json_type_of(value) == JSON_STRING;

	if (is_text && hmap_put(names, key, rd->a) == NULL)
		return 0;
	place_print(at, rd->why);
	buf_putc(rd->why, '.');
	place_print_name(key, rd->why);
	if (is_text) {
		buf_puts(rd->why, ": is given twice");
		return -ERR_PARSE_ERROR;
	}
	buf_printf(rd->why, ": must be a string, not %s",
		   json_type_name(json_type_of(value)));
	return -ERR_VALIDATION_ERROR;
}

/* An object whose values are texts. */
static int check_texts(const struct msg_reader *rd, const struct place *at,
		       struct json v)
{
	struct json_iter it = json_iter(v);
	struct hmap names = { 0 };
	struct json value;
	struct str key;
	int r = 0;

	while (r == 0 && json_next_member(&it, rd->a, &key, &value))
		r = check_named(rd, at, key, value, &names);
	hmap_done(&names);
	return r;
}

static int read_raw(const struct msg_reader *rd, const struct place *at,
		    struct json v, struct str *ret)
{
	unsigned flags = at->field->flags;

	if ((flags & F_OBJECT) != 0 && json_type_of(v) != JSON_OBJECT)
		return msg_refuse_type(rd, at, "an object", v);
	*ret = v.raw;
	return (flags & F_TEXTS) != 0 ? check_texts(rd, at, v) : 0;
}

static int read_time(const struct msg_reader *rd, const struct place *at,
		     struct json v, uint64_t *ret)
{
	if (json_type_of(v) != JSON_STRING)
		return msg_refuse_type(rd, at, "a string", v);
	if (!time_parse(json_string(v, rd->a), ret))
		return place_refuse(at, rd->why,
				    "must be a time of the years 1970 to 2200 "
				    "such as \"2026-02-11T10:00:00Z\"");
	return 0;
}

#define DURATION_MAX_NS (LIMIT_DURATION_S * NS_PER_S)

static int read_seconds(const struct msg_reader *rd, const struct place *at,
			struct json v, uint64_t *ret)
{
	double s;

	/* Whole numbers first: a double would round the large ones. */
	if (json_u64(v, ret)) {
		*ret = *ret <= LIMIT_DURATION_S ? *ret * NS_PER_S : UINT64_MAX;
		return 0;
	}
	if (!msg_read_number(v, &s) || s > LIMIT_DURATION_S)
		*ret = UINT64_MAX;
	else if (s < 0)
		return place_refuse(at, rd->why, "must not be negative");
	else
		*ret = (uint64_t)(s * (double)NS_PER_S + 0.5);
	return 0;
}

static int read_millis(const struct msg_reader *rd, const struct place *at,
		       struct json v, uint64_t *ret)
{
	if (json_type_of(v) != JSON_NUMBER)
		return msg_refuse_type(rd, at, "a number", v);
	if (!json_u64(v, ret))
		return place_refuse(
		    at, rd->why,
		    "must be a whole number of milliseconds, 0 or more");
	if (__builtin_mul_overflow(*ret, NS_PER_MS, ret))
		*ret = UINT64_MAX;
	return 0;
}

int msg_read_duration(const struct msg_reader *rd, const struct place *at,
		      struct json v, uint64_t *ret)
{
	int r = 0;

	if (at->in_ms) {
		r = read_millis(rd, at, v, ret);
	} else if (json_type_of(v) == JSON_NUMBER) {
		r = read_seconds(rd, at, v, ret);
	} else if (json_type_of(v) != JSON_STRING) {
		return msg_refuse_type(rd, at,
				       "a duration or a number of seconds", v);
	} else if (v.raw.n == 2) { /* "" */
		return MSG_READ_ABSENT;
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
static struct str loose_text(const struct msg_reader *rd, struct str text)
{
	struct str trimmed = str_trim(text);
	char *p = arena_cstr(rd->a, trimmed);

	for (size_t i = 0; i < trimmed.n; i++)
		if (p[i] >= 'A' && p[i] <= 'Z')
			p[i] = (char)(p[i] - 'A' + 'a');
	return str_of(p, trimmed.n);
}

int msg_read_word(const struct msg_reader *rd, const struct place *at,
		  struct str text, uint32_t *ret)
{
	const struct enum_desc *e = at->field->values;

	if (e->how == E_LOOSE) {
		text = loose_text(rd, text);
		if (text.n == 0)
			text = str_from(e->values[0].text);
	}
	if (enum_parse(e, text, ret))
		return 0;
	if (rd->compat_03 && (at->field->flags & F_DEFAULT_03) != 0)
		return MSG_READ_ABSENT;
	(void)place_refuse_word(at, rd->why);
	return rd->compat_03 ? -e->code_03 : -ERR_VALIDATION_ERROR;
}

static int read_enum(const struct msg_reader *rd, const struct place *at,
		     struct json v, uint32_t *ret)
{
	if (json_type_of(v) != JSON_STRING)
		return msg_refuse_type(rd, at, "a string", v);
	return msg_read_word(rd, at, json_string(v, rd->a), ret);
}

int msg_read_scalar(const struct msg_reader *rd, const struct place *at,
		    struct json v, void *p)
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
	case K_nano:
		return read_nano(rd, at, v, p);
	case K_str:
		if (json_type_of(v) != JSON_STRING)
			return msg_refuse_type(rd, at, "a string", v);
		*(struct str *)p = json_string(v, rd->a);
		return ((struct str *)p)->n > 0 ? 0 : MSG_READ_ABSENT;
	case K_raw:
		return read_raw(rd, at, v, p);
	case K_time:
		return read_time(rd, at, v, p);
	case K_dur:
	case K_secs:
		return msg_read_duration(rd, at, v, p);
	case K_enum:
		return read_enum(rd, at, v, p);
	case K_strs:
	case K_msg:
	case K_msgs:
		break;
	}
	return -ERR_INTERNAL_ERROR;
}
