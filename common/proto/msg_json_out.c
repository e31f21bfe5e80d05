/*
 * Messages to JSON for clients. The values are our own; raw members were
 * validated when they came in and go out byte for byte.
 */
#include "proto/job_json.h"
#include "util/turn.h"

#define KEY_MAX 64 /* of <name>_ms */

static void write_raw(struct json_writer *w, struct str raw)
{
	if (raw.n > 0)
		jw_raw(w, raw);
	else
		jw_null(w);
}

static void write_secs(struct json_writer *w, uint64_t ns)
{
	if (ns % NS_PER_S == 0)
		jw_u64(w, ns / NS_PER_S);
	else
		jw_double(w, (double)ns / (double)NS_PER_S);
}

/* It was given as a number of seconds. */
static bool is_number(const struct msg_desc *d, const struct field_desc *f,
		      const char *m)
{
	const struct field_desc *numbers;

	if (f->max == 0)
		return false;
	numbers = msg_numbers(d);
	REQUIRE(numbers != NULL);
	return (*(const uint32_t *)(m + numbers->offset) & f->max) != 0;
}

static void write_dur(struct json_writer *w, const struct field_desc *f,
		      uint64_t ns, bool as_number)
{
	char key[KEY_MAX];

	if (as_number)
		write_secs(w, ns);
	else
		jw_duration(w, ns);
	REQUIRE(f->name_len + sizeof("_ms") <= sizeof(key));
	memcpy(key, f->name, f->name_len);
	memcpy(key + f->name_len, "_ms", sizeof("_ms"));
	jw_key_len(w, key, f->name_len + 3);
	jw_u64(w, ns / NS_PER_MS);
}

static void write_enum(struct json_writer *w, const struct field_desc *f,
		       uint32_t number, const struct json_style *style)
{
	const char *text = enum_text(f->values, number);

	if (text == NULL || (style->compat_03 && f->values == &enum_priority))
		jw_u64(w, number);
	else
		jw_cstr(w, text);
}

static void write_strs(struct json_writer *w, const struct str *items, size_t n)
{
	jw_array(w);
	for (size_t i = 0; i < n; i++)
		jw_str(w, items[i]);
	jw_array_end(w);
}

static void write_msgs(struct json_writer *w, const struct msg_desc *d,
		       const char *items, size_t n,
		       const struct json_style *style)
{
	jw_array(w);
	for (size_t i = 0; i < n; i++)
		msg_to_json(d, items + i * d->size, style, w);
	jw_array_end(w);
}

static void write_value(struct json_writer *w, const struct msg_desc *d,
			const struct field_desc *f, const char *m,
			const struct json_style *style)
{
	const void *p = m + f->offset;
	size_t n = 0;

	if (f->count_offset != 0)
		n = *(const size_t *)(m + f->count_offset);
	switch ((enum field_kind)f->kind) {
	case K_bool:
		jw_bool(w, *(const bool *)p);
		break;
	case K_u32:
		jw_u64(w, *(const uint32_t *)p);
		break;
	case K_u64:
		jw_u64(w, *(const uint64_t *)p);
		break;
	case K_i64:
		jw_i64(w, *(const int64_t *)p);
		break;
	case K_f64:
		jw_double(w, *(const double *)p);
		break;
	case K_str:
		jw_str(w, *(const struct str *)p);
		break;
	case K_raw:
		write_raw(w, *(const struct str *)p);
		break;
	case K_time:
		jw_time(w, *(const uint64_t *)p);
		break;
	case K_dur:
		write_dur(w, f, *(const uint64_t *)p, is_number(d, f, m));
		break;
	case K_secs:
		write_secs(w, *(const uint64_t *)p);
		break;
	case K_nano:
		jw_nano(w, *(const uint64_t *)p);
		break;
	case K_strs:
		write_strs(w, *(struct str *const *)p, n);
		break;
	case K_enum:
		write_enum(w, f, *(const uint32_t *)p, style);
		break;
	case K_msg:
		msg_to_json(f->sub, *(const void *const *)p, style, w);
		break;
	case K_msgs:
		write_msgs(w, f->sub, *(const char *const *)p, n, style);
		break;
	}
}

void msg_members_to_json(const struct msg_desc *d, const void *m,
			 const struct json_style *style, struct json_writer *w)
{
	uint64_t has = *(const uint64_t *)m;

	for (size_t i = 0; i < d->n; i++) {
		const struct field_desc *f = &d->fields[i];
		const struct field_desc *shown = f;

		if ((has >> i & 1) == 0) {
			/* Most are, and this is on the path of every job. */
			if ((f->flags & (F_NEVER_NULL | F_OR_WORD)) == 0)
				continue;
			/* A nested message has nothing to show then. */
			if ((f->flags & F_OR_WORD) != 0 && (has >> (i + 1) & 1))
				shown = f + 1;
			else if ((f->flags & F_OR_WORD) != 0 ||
				 f->kind == K_msg)
				continue;
		}
		if ((f->flags & F_INTERNAL) != 0)
			continue;
		jw_key_len(w, f->name, f->name_len);
		write_value(w, d, shown, m, style);
	}
}

void msg_to_json(const struct msg_desc *d, const void *m,
		 const struct json_style *style, struct json_writer *w)
{
	turn_step();
	/* Jobs look the same alone and in lists. */
	if (d == &msg_job) {
		job_to_json(m, style, w);
		return;
	}
	jw_object(w);
	msg_members_to_json(d, m, style, w);
	jw_object_end(w);
}
