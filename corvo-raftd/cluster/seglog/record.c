/*
 * The bytes may be anything. No number in them is used before the bytes it
 * promises were seen to be there.
 */
#include "cluster/seglog/record.h"

#include <string.h>

#include "util/crc32c.h"
#include "util/le.h"

#define MAGIC        "corvolog"
#define MAGIC_BYTES  8
#define FORMAT       1
#define HEAD_CRC_AT  (SEG_HEAD_USED - 4)
#define REC_CRC_SIZE 4

static const char zeros[REC_ALIGN];

void seg_head_put(const struct seg_head *h, char ret[SEG_HEAD_USED])
{
	char *p = ret;

	CHECK(h->salt != 0);
	memcpy(p, MAGIC, MAGIC_BYTES);
	p = put_le32(p + MAGIC_BYTES, FORMAT);
	p = put_le32(p, h->salt);
	p = put_le64(p, h->number);
	p = put_le32(p, 0);
	(void)put_le32(p, crc32c_add(0, str_of(ret, HEAD_CRC_AT)));
}

bool seg_head_parse(struct str bytes, struct seg_head *ret)
{
	if (bytes.n < SEG_HEAD_BYTES ||
	    memcmp(bytes.p, MAGIC, MAGIC_BYTES) != 0 ||
	    get_le32(bytes.p + HEAD_CRC_AT) !=
		crc32c_add(0, str_of(bytes.p, HEAD_CRC_AT)) ||
	    get_le32(bytes.p + 8) != FORMAT)
		return false;
	ret->salt = get_le32(bytes.p + 12);
	ret->number = get_le64(bytes.p + 16);
	return ret->salt != 0;
}

void rec_head_put(const struct rec *r, uint32_t salt, char ret[REC_HEAD_BYTES])
{
	size_t padding = rec_size(r->data.n) - REC_HEAD_BYTES - r->data.n;
	char *p = ret + REC_CRC_SIZE;
	uint32_t crc;

	CHECK(r->data.n <= UINT32_MAX && salt != 0);
	p = put_le32(p, salt);
	p = put_le32(p, (uint32_t)r->data.n);
	p = put_le32(p, r->flushed);
	p = put_le64(p, r->index);
	p = put_le64(p, r->term);
	(void)put_le64(p, r->kind);
	crc = crc32c_add(
	    0, str_of(ret + REC_CRC_SIZE, REC_HEAD_BYTES - REC_CRC_SIZE));
	crc = crc32c_add(crc, r->data);
	(void)put_le32(ret, crc32c_add(crc, str_of(zeros, padding)));
}

static bool is_kind(uint64_t kind)
{
	return (kind >= 1 && kind <= REC_ENTRY_MAX) || kind == REC_TRUNCATE ||
	       kind == REC_END;
}

bool rec_parse(struct str segment, size_t at, uint32_t salt, struct rec *ret)
{
	struct str s = str_skip(segment, at);
	size_t size;

	if (s.n < REC_HEAD_BYTES || get_le32(s.p + REC_SALT_AT) != salt)
		return false;
	size = rec_size(get_le32(s.p + 8));
	if (size > s.n ||
	    get_le32(s.p) !=
		crc32c_add(0, str_of(s.p + REC_CRC_SIZE, size - REC_CRC_SIZE)))
		return false;
	ret->data = str_of(s.p + REC_HEAD_BYTES, get_le32(s.p + 8));
	ret->flushed = get_le32(s.p + 12);
	ret->index = get_le64(s.p + 16);
	ret->term = get_le64(s.p + 24);
	ret->kind = (unsigned)get_le64(s.p + 32);
	return is_kind(get_le64(s.p + 32)) && ret->flushed <= at;
}

bool rec_says_flushed(struct str segment, size_t at, uint32_t salt,
		      size_t flushed)
{
	struct rec r;

	for (; at + REC_HEAD_BYTES <= segment.n; at += REC_ALIGN)
		if (rec_parse(segment, at, salt, &r) && r.flushed > flushed)
			return true;
	return false;
}
