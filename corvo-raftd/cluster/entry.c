#include "cluster/entry.h"

#include <string.h>

#include "util/le.h"

#define SHORT_HEAD_BYTES 4
#define HAS_HEAD         (1u << 31)

size_t entry_wrapped_len(size_t len)
{
	len += ENTRY_HEAD_BYTES;
	return (len + ENTRY_ALIGN - 1) & ~(size_t)(ENTRY_ALIGN - 1);
}

void entry_wrap(const struct entry_head *h, struct str bytes, char *p)
{
	char *end = p + entry_wrapped_len(bytes.n);
	uint64_t behind = h->index - h->committed;

	CHECK(bytes.n < HAS_HEAD && h->index > h->committed);
	p = put_le32(p, (uint32_t)bytes.n | HAS_HEAD);
	p = put_le32(p, (uint32_t)MIN(behind, UINT32_MAX));
	p = put_le64(p, h->index);
	p = put_le64(p, h->id);
	memcpy(p, h->history.id, HISTORY_BYTES);
	p += HISTORY_BYTES;
	memcpy(p, bytes.p, bytes.n);
	p += bytes.n;
	memset(p, 0, (size_t)(end - p));
}

bool entry_unwrap(struct str raw, struct entry_head *ret, struct str *bytes)
{
	size_t head = SHORT_HEAD_BYTES;
	uint32_t len, behind;

	*ret = (struct entry_head){ 0 };
	if (raw.n < SHORT_HEAD_BYTES)
		return false;
	len = get_le32(raw.p);
	if (len & HAS_HEAD) {
		if (raw.n < ENTRY_HEAD_BYTES)
			return false;
		behind = get_le32(raw.p + 4);
		ret->index = get_le64(raw.p + 8);
		ret->id = get_le64(raw.p + 16);
		memcpy(ret->history.id, raw.p + 24, HISTORY_BYTES);
		if (behind == 0 || ret->index == 0)
			return false;
		ret->committed = ret->index - MIN(behind, ret->index);
		head = ENTRY_HEAD_BYTES;
		len &= ~HAS_HEAD;
	}
	*bytes = str_of(raw.p + head, len);
	return len <= raw.n - head;
}
