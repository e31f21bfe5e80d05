/*
 * The encoding of protobuf: tags, varints, lengths. Reading is of hostile
 * bytes and never goes past their end.
 */
#ifndef CORVO_PB_WIRE_H
#define CORVO_PB_WIRE_H

#include "util/buf.h"

enum wire_type {
	WIRE_VARINT = 0,
	WIRE_64 = 1,
	WIRE_BYTES = 2,
	WIRE_GROUP = 3,
	WIRE_GROUP_END = 4,
	WIRE_32 = 5,
};

#define WIRE_VARINT_BYTES 10
#define WIRE_NUMBER_MAX   ((1u << 29) - 1) /* of a field */

/* What is left to read. */
struct wire {
	const uint8_t *p, *end;
};

static inline struct wire wire_of(struct str s)
{
	const uint8_t *p = (const uint8_t *)s.p;

	return (struct wire){ p, s.n > 0 ? p + s.n : p };
}

/* False: cut off, or longer than a number of 64 bits can be. */
static inline bool wire_varint(struct wire *w, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 70 && w->p < w->end; shift += 7) {
		uint8_t c = *w->p++;

		if (shift == 63 && c > 1)
			return false;
		v |= (uint64_t)(c & 0x7f) << shift;
		if (c < 0x80) {
			*ret = v;
			return true;
		}
	}
	return false;
}

static inline bool wire_bytes(struct wire *w, struct str *ret)
{
	uint64_t n;

	if (!wire_varint(w, &n) || n > (uint64_t)(w->end - w->p))
		return false;
	*ret = str_of(w->p, (size_t)n);
	w->p += n;
	return true;
}

static inline bool wire_fixed(struct wire *w, void *ret, size_t n)
{
	if (n > (size_t)(w->end - w->p))
		return false;
	memcpy(ret, w->p, n); /* both are little-endian */
	w->p += n;
	return true;
}

static inline bool wire_tag(struct wire *w, uint32_t *number,
			    enum wire_type *type)
{
	uint64_t v;

	if (!wire_varint(w, &v) || v > UINT32_MAX || v >> 3 == 0 ||
	    (v & 7) > WIRE_32)
		return false;
	*number = (uint32_t)(v >> 3);
	*type = (enum wire_type)(v & 7);
	return true;
}

/* --- writing --- */

static inline void wire_put_varint(struct buf *b, uint64_t v)
{
	char out[WIRE_VARINT_BYTES];
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		out[n++] = (char)(v | 0x80);
	out[n++] = (char)v;
	buf_append(b, out, n);
}

static inline void wire_put_tag(struct buf *b, uint32_t number,
				enum wire_type type)
{
	wire_put_varint(b, (uint64_t)number << 3 | type);
}

static inline void wire_put_number(struct buf *b, uint32_t number, uint64_t v)
{
	wire_put_tag(b, number, WIRE_VARINT);
	wire_put_varint(b, v);
}

static inline void wire_put_bytes(struct buf *b, uint32_t number, struct str s)
{
	wire_put_tag(b, number, WIRE_BYTES);
	wire_put_varint(b, s.n);
	buf_put_str(b, s);
}

/* A nested message: what is written between the two is its bytes. */
static inline size_t wire_open(struct buf *b, uint32_t number)
{
	wire_put_tag(b, number, WIRE_BYTES);
	buf_putc(b, 0);
	return b->n;
}

static inline void wire_close(struct buf *b, size_t start)
{
	size_t n = b->n - start, length_n = 1;

	if (b->full)
		return;
	for (size_t v = n; v >= 0x80; v >>= 7)
		length_n++;
	if (length_n > 1) {
		if (buf_reserve(b, length_n - 1) == NULL)
			return;
		memmove(b->p + start + length_n - 1, b->p + start, n);
		b->n += length_n - 1;
	}
	for (size_t i = 0, v = n; i < length_n; i++, v >>= 7)
		b->p[start - 1 + i] = (char)(i + 1 < length_n ? v | 0x80 : v);
}

#endif
