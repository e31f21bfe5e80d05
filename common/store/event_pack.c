/*
 * Events of an entry in one record. See event_pack.h.
 */
#include "store/event_pack.h"

#include "store/key.h"

#define HEAD_BYTES   8
#define LENGTH_BYTES 4

void event_pack_add(struct buf *b, uint64_t seq, const struct m_event *e)
{
	char head[HEAD_BYTES], length[LENGTH_BYTES] = { 0 };
	size_t at;

	if (b->n == 0) {
		put_be64(head, seq);
		buf_append(b, head, sizeof(head));
	}
	at = b->n;
	buf_append(b, length, sizeof(length));
	msg_encode(&msg_event, e, b);
	put_be32(b->p + at, (uint32_t)(b->n - at - LENGTH_BYTES));
}

bool event_pack_open(struct event_pack *p, struct str raw)
{
	if (raw.n < HEAD_BYTES)
		return false;
	p->seq = get_be64(raw.p);
	p->rest = str_skip(raw, HEAD_BYTES);
	return true;
}

int event_pack_next(struct event_pack *p, uint64_t *ret_seq,
		    struct str *ret_raw)
{
	uint32_t n;

	if (p->rest.n == 0)
		return 0;
	if (p->rest.n < LENGTH_BYTES)
		return -ERR_BAD_MESSAGE;
	n = get_be32(p->rest.p);
	if (n > p->rest.n - LENGTH_BYTES)
		return -ERR_BAD_MESSAGE;
	*ret_raw = str_of(p->rest.p + LENGTH_BYTES, n);
	*ret_seq = p->seq++;
	p->rest = str_skip(p->rest, LENGTH_BYTES + n);
	return 1;
}
