/*
 * The bytes may be anything: a disk that lies, a copy that was cut short. No
 * number in them is used before the bytes it promises were seen to be there.
 */
#include "cluster/segment.h"

#include <string.h>

#include "cluster/entry.h"
#include "util/crc32.h"
#include "util/le.h"

#define FORMAT        1
#define FORMAT_BYTES  8
#define CRCS_BYTES    8
#define COUNT_BYTES   8
#define ENTRY_BYTES   16 /* of one entry, in the header */
#define WORD          8  /* everything begins at a multiple of this */
#define SMALLEST_READ (CRCS_BYTES + COUNT_BYTES)
/* A search looks at every word; more than this would take too long, and fewer
 * than this are ever under way. */
#define SEARCH_ENTRIES 64

struct batch {
	uint64_t n;
	const char *entries; /* of the header */
	struct str data;
	size_t size;
};

enum batch_state { BATCH_GOOD, BATCH_BAD, BATCH_CUT };

static size_t entry_len(const struct batch *b, uint64_t i)
{
	return get_le32(b->entries + i * ENTRY_BYTES + 12);
}

/* The batch at the begin of `s`. */
static enum batch_state batch_read(struct str s, struct batch *ret)
{
	struct str header;
	size_t len = 0;

	if (s.n < SMALLEST_READ)
		return BATCH_CUT;
	ret->n = get_le64(s.p + CRCS_BYTES);
	if (ret->n == 0)
		return BATCH_BAD;
	if (ret->n > (s.n - SMALLEST_READ) / ENTRY_BYTES)
		return BATCH_CUT;
	header = str_of(s.p + CRCS_BYTES, COUNT_BYTES + ret->n * ENTRY_BYTES);
	if (crc32_add(0, header) != get_le32(s.p))
		return BATCH_BAD;
	ret->entries = header.p + COUNT_BYTES;
	for (uint64_t i = 0; i < ret->n; i++)
		len += entry_len(ret, i);
	s = str_skip(s, CRCS_BYTES + header.n);
	if (len > s.n)
		return BATCH_CUT;
	ret->data = str_of(s.p, len);
	ret->size = CRCS_BYTES + header.n + len;
	/* The second checksum stands right before the header. */
	return crc32_add(0, ret->data) == get_le32(header.p - sizeof(uint32_t))
		   ? BATCH_GOOD
		   : BATCH_BAD;
}

static void batch_entry(const struct batch *b, uint64_t i, size_t *at,
			struct segment_entry *ret)
{
	const char *p = b->entries + i * ENTRY_BYTES;

	ret->term = get_le64(p);
	ret->type = (unsigned char)p[8];
	ret->data = str_of(b->data.p + *at, entry_len(b, i));
	*at += ret->data.n;
}

static bool give_batch(struct segment_walk *w, const struct batch *b,
		       segment_fn *fn, void *ctx)
{
	size_t at = 0;

	for (uint64_t i = 0; i < b->n; i++) {
		struct segment_entry e;

		batch_entry(b, i, &at, &e);
		e.index = w->next;
		if (!fn(ctx, &e))
			return false;
		w->next++;
	}
	return true;
}

static bool is_zero(struct str s)
{
	/* each byte is that before it, and the first is zero */
	return s.n == 0 || (s.p[0] == 0 && memcmp(s.p, s.p + 1, s.n - 1) == 0);
}

enum segment_end segment_walk(struct segment_walk *w, segment_fn *fn, void *ctx)
{
	struct str s = w->bytes;
	enum batch_state state = BATCH_GOOD;
	struct batch b;

	w->end = 0;
	if (is_zero(s))
		return SEGMENT_UNUSED;
	if (s.n < FORMAT_BYTES)
		return SEGMENT_CUT;
	if (get_le64(s.p) == 0) /* the begin of the first write is missing */
		return SEGMENT_BROKEN;
	if (get_le64(s.p) != FORMAT)
		return SEGMENT_STRANGE;
	for (w->end = FORMAT_BYTES; w->end < s.n; w->end += b.size) {
		state = batch_read(str_skip(s, w->end), &b);
		if (state != BATCH_GOOD)
			break;
		if (!give_batch(w, &b, fn, ctx))
			return SEGMENT_STOPPED;
	}
	if (w->end == s.n)
		return SEGMENT_WHOLE;
	if (is_zero(str_skip(s, w->end)))
		return SEGMENT_UNUSED;
	return state == BATCH_CUT ? SEGMENT_CUT : SEGMENT_BROKEN;
}

void segment_put(struct buf *b, const struct segment_entry *e)
{
	char head[FORMAT_BYTES + CRCS_BYTES + COUNT_BYTES + ENTRY_BYTES] = "";
	char *crcs = head, *p;

	CHECK(e->data.n % WORD == 0 && e->data.n <= UINT32_MAX);
	if (b->n == 0)
		crcs = put_le64(head, FORMAT);
	p = put_le64(crcs + CRCS_BYTES, 1);
	p = put_le64(p, e->term);
	p = put_le32(p, e->type); /* a byte, and three that are not used */
	p = put_le32(p, (uint32_t)e->data.n);
	(void)put_le32(crcs + CRCS_BYTES / 2, crc32_add(0, e->data));
	(void)put_le32(crcs, crc32_add(0, str_of(crcs + CRCS_BYTES,
						 COUNT_BYTES + ENTRY_BYTES)));
	buf_append(b, head, (size_t)(p - head));
	buf_put_str(b, e->data);
}

static uint64_t batch_committed(const struct batch *b, const struct history *h)
{
	uint64_t ret = 0;
	size_t at = 0;

	for (uint64_t i = 0; i < b->n; i++) {
		struct segment_entry e;
		struct entry_head head;
		struct str bytes;

		batch_entry(b, i, &at, &e);
		if (e.type == SEGMENT_COMMAND &&
		    entry_unwrap(e.data, &head, &bytes) &&
		    head.committed > ret &&
		    (history_is_none(h) || history_eq(&head.history, h)))
			ret = head.committed;
	}
	return ret;
}

uint64_t segment_committed_after(struct str bytes, size_t at,
				 const struct history *h)
{
	uint64_t ret = 0;
	struct batch b;

	while ((at += WORD) + SMALLEST_READ <= bytes.n) {
		uint64_t n = get_le64(bytes.p + at + CRCS_BYTES);
		uint64_t c;

		if (n == 0 || n > SEARCH_ENTRIES ||
		    batch_read(str_skip(bytes, at), &b) != BATCH_GOOD)
			continue;
		c = batch_committed(&b, h);
		ret = MAX(ret, c);
		at += b.size - WORD;
	}
	return ret;
}
