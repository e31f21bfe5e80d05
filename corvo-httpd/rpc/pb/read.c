/*
 * Messages from protobuf. See rpc/pb/pb.h.
 *
 * read_message calls itself along descriptors, which nest a few levels, never
 * along data.
 */
#include <stdio.h>

#include "rpc/pb/store.h"
#include "rpc/pb/wire.h"
#include "util/turn.h"

struct input {
	const struct msg_reader *rd;
	const uint8_t *start;
};

static int malformed(const struct input *in, const struct wire *w,
		     const char *what)
{
	buf_printf(in->rd->why, "invalid protobuf at byte %zu: %s",
		   (size_t)(w->p - in->start), what);
	return -ERR_PARSE_ERROR;
}

/* --- what is not known --- */

/* One value; a group by its bare beginning. */
static bool skip_value(struct wire *w, enum wire_type type)
{
	uint64_t number;
	struct str bytes;

	switch (type) {
	case WIRE_VARINT:
		return wire_varint(w, &number);
	case WIRE_64:
		return wire_fixed(w, &number, 8);
	case WIRE_32:
		return wire_fixed(w, &number, 4);
	case WIRE_BYTES:
		return wire_bytes(w, &bytes);
	case WIRE_GROUP:
	case WIRE_GROUP_END:
		break;
	}
	return true;
}

/* Groups are of protobuf's first days; a newer client may still send them. */
static int skip(const struct input *in, struct wire *w, uint32_t number,
		enum wire_type type)
{
	uint32_t open[LIMIT_PB_GROUPS];
	size_t depth = 0;

	for (;;) {
		if (turn_step())
			return -ERR_OVERLOADED;
		if (type == WIRE_GROUP && depth == LIMIT_PB_GROUPS)
			return malformed(in, w, "groups are nested too deeply");
		if (type == WIRE_GROUP_END &&
		    (depth == 0 || open[depth - 1] != number))
			return malformed(in, w,
					 "a group ends that is not open");
		if (type == WIRE_GROUP)
			open[depth++] = number;
		else if (type == WIRE_GROUP_END)
			depth--;
		else if (!skip_value(w, type))
			return malformed(in, w, "a value is cut off");
		if (depth == 0)
			return 0;
		if (!wire_tag(w, &number, &type))
			return malformed(in, w, "a group does not end");
	}
}

static int skip_unknown(const struct input *in, struct wire *w,
			const struct pb_place *up, uint32_t number,
			enum wire_type type)
{
	char name[24];

	(void)snprintf(name, sizeof(name), "field_%u", number);
	pb_ignore(in->rd, up, str_from(name));
	return skip(in, w, number, type);
}

/* --- values --- */

static bool is_text(enum pb_type t)
{
	return t >= PB_string && t <= PB_word;
}

static enum wire_type wire_type_of(const struct pb_field *f)
{
	if (f->type == PB_double)
		return WIRE_64;
	return is_text(f->type) || f->type == PB_time || f->type == PB_message
		   ? WIRE_BYTES
		   : WIRE_VARINT;
}

/* What the number of 64 bits stands for in a field of that type. */
static int put_varint(const struct input *in, const struct pb_place *at,
		      void *m, uint64_t v)
{
	int64_t i = (int64_t)v;

	switch ((enum pb_type)at->f->type) {
	case PB_bool:
		return pb_put_bool(at, m, v != 0);
	case PB_uint64:
	case PB_ns:
		return pb_put_int(in->rd, at, m, false, v);
	case PB_uint32:
		return pb_put_int(in->rd, at, m, false, (uint32_t)v);
	case PB_int32:
	case PB_secs:
	case PB_enum:
		i = (int32_t)v; /* as all readers of protobuf cut it */
		break;
	case PB_int64:
	case PB_ms:
	case PB_double:
	case PB_string:
	case PB_bytes:
	case PB_json:
	case PB_dur:
	case PB_word:
	case PB_time:
	case PB_message:
		break;
	}
	return pb_put_int(in->rd, at, m, i < 0,
			  i < 0 ? 0 - (uint64_t)i : (uint64_t)i);
}

static int read_time(const struct input *in, const struct pb_place *at, void *m,
		     struct str bytes)
{
	struct wire w = wire_of(bytes);
	uint64_t seconds = 0, nanos = 0;
	enum wire_type type;
	uint32_t number;
	int r;

	while (w.p < w.end) {
		turn_step();
		if (turn_is_over())
			return -ERR_OVERLOADED;
		if (!wire_tag(&w, &number, &type))
			return malformed(in, &w, "a field cannot be read");
		if (type == WIRE_VARINT && (number == 1 || number == 2)) {
			if (!wire_varint(&w, number == 1 ? &seconds : &nanos))
				return malformed(in, &w, "a value is cut off");
			continue;
		}
		r = skip(in, &w, number, type);
		if (r < 0)
			return r;
	}
	return pb_put_time(in->rd, at, m, (int64_t)seconds, (int32_t)nanos);
}

static int read_message(const struct input *in, const struct pb_desc *d,
			struct str bytes, const struct pb_place *up, void *m);

/* An entry of a map is a message with a key and a value. */
static int read_entry(const struct input *in, const struct pb_place *at,
		      void *item, struct str bytes)
{
	const struct field_desc *key = &at->f->sub->msg->fields[at->f->key];
	struct wire w = wire_of(bytes);
	struct str name = STR(""), value;
	enum wire_type type;
	uint32_t number;
	int r = 0;

	while (r == 0 && w.p < w.end) {
		turn_step();
		if (turn_is_over())
			return -ERR_OVERLOADED;
		if (!wire_tag(&w, &number, &type))
			return malformed(in, &w, "a field cannot be read");
		if (type != WIRE_BYTES || (number != 1 && number != 2)) {
			r = skip(in, &w, number, type);
			continue;
		}
		if (!wire_bytes(&w, &value))
			return malformed(in, &w, "a value is cut off");
		if (number == 1)
			name = value;
		else
			r = read_message(in, at->f->sub, value, at, item);
	}
	if (r == 0 && !str_is_utf8(name))
		return pb_refuse(in->rd, at, "the key must be UTF-8");
	*(struct str *)((char *)item + key->offset) = name;
	*(uint64_t *)item |= 1ULL << at->f->key;
	return r;
}

static int put_bytes(const struct input *in, struct pb_place *at, void *m,
		     struct str bytes)
{
	void *sub;
	int r;

	if (at->f->type == PB_time)
		return read_time(in, at, m, bytes);
	if (at->f->type != PB_message)
		return pb_put_text(in->rd, at, m, bytes);
	r = pb_put_message(in->rd, at, m, &sub);
	if (r < 0)
		return r;
	if (at->f->flags & PB_MAP)
		return read_entry(in, at, sub, bytes);
	r = read_message(in, at->f->sub, bytes, at, sub);
	return pb_end_message(in->rd, at, sub, r);
}

static int read_field(const struct input *in, struct wire *w,
		      struct pb_place *at, enum wire_type type, void *m)
{
	struct str bytes;
	uint64_t v;
	double d;

	if (type != wire_type_of(at->f)) {
		(void)pb_refuse(in->rd, at, "is not of the type %s",
				pb_type_name(at->f));
		return -ERR_PARSE_ERROR;
	}
	if (type == WIRE_64) {
		if (!wire_fixed(w, &d, sizeof(d)))
			return malformed(in, w, "a value is cut off");
		return pb_put_double(in->rd, at, m, d);
	}
	if (type == WIRE_VARINT) {
		if (!wire_varint(w, &v))
			return malformed(in, w,
					 "a number is cut off or too long");
		return put_varint(in, at, m, v);
	}
	if (!wire_bytes(w, &bytes))
		return malformed(in, w, "a value is longer than what is left");
	return put_bytes(in, at, m, bytes);
}

/* Fields come in the order of their numbers, as a rule. */
static const struct pb_field *find_field(const struct pb_desc *d,
					 uint32_t number, size_t *next)
{
	for (size_t k = 0; k < d->n; k++) {
		size_t i = (*next + k) % d->n;

		if (d->fields[i].number == number) {
			*next = i;
			return &d->fields[i];
		}
	}
	return NULL;
}

static int read_message(const struct input *in, const struct pb_desc *d,
			struct str bytes, const struct pb_place *up, void *m)
{
	struct wire w = wire_of(bytes);
	enum wire_type type;
	uint32_t number;
	size_t next = 0;
	int r = 0;

	while (r == 0 && w.p < w.end) {
		struct pb_place at = { .up = up, .d = d };

		turn_step();
		if (turn_is_over())
			return -ERR_OVERLOADED;
		if (!wire_tag(&w, &number, &type))
			return malformed(in, &w, "a field cannot be read");
		at.f = find_field(d, number, &next);
		if (at.f == NULL) {
			r = skip_unknown(in, &w, up, number, type);
		} else if (at.f->flags & (PB_UNUSED | PB_FOUND)) {
			pb_ignore(in->rd, up, str_from(at.f->name));
			r = skip(in, &w, number, type);
		} else {
			r = read_field(in, &w, &at, type, m);
		}
	}
	return r;
}

int pb_read_unchecked(const struct msg_reader *rd, const struct pb_desc *d,
		      struct str in, void *m)
{
	struct input input = { rd, (const uint8_t *)in.p };

	return read_message(&input, d, in, NULL, m);
}

int pb_read(const struct msg_reader *rd, const struct pb_desc *d, struct str in,
	    void *m)
{
	int r = pb_read_unchecked(rd, d, in, m);

	return r < 0 ? r : pb_finish(rd, d, m);
}
