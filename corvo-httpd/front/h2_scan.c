/*
 * See front/h2_scan.h.
 */
#include "front/h2_scan.h"

#include <string.h>

#define PREFACE_BYTES 24

/* Of RFC 9113, 6. */
#define TYPE_DATA    0
#define TYPE_HEADERS 1
#define TYPE_RESET   3
#define TYPE_LAST    9
#define FLAG_END     1

void h2_scan_init(struct h2_scan *s)
{
	*s = (struct h2_scan){ .skip = PREFACE_BYTES };
}

static uint32_t big_endian(const uint8_t *p, size_t n)
{
	uint32_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

static enum h2_id_verdict judge(struct h2_scan *s, uint8_t type, uint8_t flags,
				int32_t id)
{
	struct h2_ids *ids = &s->ids;
	enum h2_id_verdict v = H2_ID_FINE;

	if (type == TYPE_DATA || type == TYPE_HEADERS)
		v = h2_ids_judge(ids, id);
	if (v != H2_ID_FINE || id % 2 == 0)
		return v;
	if (type == TYPE_HEADERS && id > ids->last)
		h2_ids_open(ids, id);
	if (type == TYPE_RESET ||
	    (type <= TYPE_HEADERS && (flags & FLAG_END) != 0))
		h2_ids_end(ids, id);
	return v;
}

size_t h2_scan_feed(struct h2_scan *s, const uint8_t *p, size_t n,
		    enum h2_id_verdict *ret, unsigned *unknown_n)
{
	size_t at = 0, start = 0; /* of the frame that is looked at */

	*ret = H2_ID_FINE;
	while (at < n) {
		size_t more = MIN((size_t)s->skip, n - at);

		at += more;
		s->skip -= (uint32_t)more;
		if (at == n)
			break;
		if (s->head_n == 0)
			start = at;
		more = MIN((size_t)(H2_FRAME_HEAD - s->head_n), n - at);
		memcpy(s->head + s->head_n, p + at, more);
		s->head_n += (uint8_t)more;
		at += more;
		if (s->head_n < H2_FRAME_HEAD)
			break;
		s->head_n = 0;
		s->skip = big_endian(s->head, 3);
		*unknown_n += s->head[3] > TYPE_LAST;
		*ret = judge(s, s->head[3], s->head[4],
			     (int32_t)(big_endian(s->head + 5, 4) & INT32_MAX));
		if (*ret != H2_ID_FINE)
			return start;
	}
	return n;
}
