#include "rt/ipc_bytes.h"

#include <stdlib.h>

#include "rt/ipc_head.h"

#define READ_BYTES (128u << 10)
#define KEEP_BYTES READ_BYTES /* for what could not be sent */

void ipc_rx_init(struct ipc_rx *r)
{
	*r = (struct ipc_rx){ .p = xmalloc(READ_BYTES), .cap = READ_BYTES };
}

void ipc_rx_done(struct ipc_rx *r)
{
	free(r->p);
	*r = (struct ipc_rx){ 0 };
}

void ipc_rx_clear(struct ipc_rx *r)
{
	r->n = r->at = 0;
}

int ipc_rx_next(struct ipc_rx *r, struct str *ret)
{
	const size_t head = sizeof(struct ipc_head);
	size_t len;

	if (r->n - r->at < head)
		return 0;
	if (!ipc_head_read(r->p + r->at, &len))
		return -1;
	if (r->n - r->at - head < len)
		return 0;
	*ret = (struct str){ r->p + r->at + head, len };
	r->at += head + len;
	return 1;
}

/* Of the message that has begun; 0: its head is not there. */
static size_t begun_bytes(const struct ipc_rx *r)
{
	size_t len;

	if (r->n < sizeof(struct ipc_head) || !ipc_head_read(r->p, &len))
		return 0;
	return sizeof(struct ipc_head) + len;
}

void ipc_rx_settle(struct ipc_rx *r)
{
	size_t cap;

	r->n -= r->at;
	if (r->n > 0 && r->at > 0)
		memmove(r->p, r->p + r->at, r->n);
	r->at = 0;
	cap = MAX(begun_bytes(r), (size_t)READ_BYTES);
	/* Grows to what is needed; what was large for one message goes. */
	if (r->cap >= cap && (r->n > 0 || r->cap == READ_BYTES))
		return;
	r->p = xrealloc(r->p, cap);
	r->cap = cap;
}

void ipc_tx_keep(struct ipc_tx *t, const struct ipc_head *h, const void *data,
		 size_t n, size_t from)
{
	t->at = 0;
	t->n = sizeof(*h) + n - from;
	if (t->cap < t->n || t->cap > 2 * KEEP_BYTES) {
		free(t->p);
		t->cap = MAX(t->n, (size_t)KEEP_BYTES);
		t->p = xmalloc(t->cap);
	}
	ipc_head_copy(t->p, h, data, n, from);
}
