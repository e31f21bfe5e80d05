/*
 * What stands before each message on a link, whatever carries it: its length
 * and a mark. For the kinds of link only.
 */
#ifndef CORVO_IPC_HEAD_H
#define CORVO_IPC_HEAD_H

#include <endian.h>
#include <string.h>

#include "proto/limits.h"
#include "util/base.h"

#define IPC_MARK 0x31767263u /* "crv1" */

struct ipc_head {
	uint32_t len; /* of the bytes that follow; little endian, as mark */
	uint32_t mark;
};

static inline struct ipc_head ipc_head_of(size_t n)
{
	return (struct ipc_head){ htole32((uint32_t)n), htole32(IPC_MARK) };
}

/* The length of the message behind the head at p; false: it is none of ours. */
static inline bool ipc_head_read(const char *p, size_t *ret_len)
{
	struct ipc_head h;

	memcpy(&h, p, sizeof(h));
	*ret_len = le32toh(h.len);
	return le32toh(h.mark) == IPC_MARK && *ret_len <= LIMIT_MESSAGE_BYTES;
}

/* Copies head and data to `to`, from their byte `from` on. */
static inline void ipc_head_copy(char *to, const struct ipc_head *h,
				 const void *data, size_t n, size_t from)
{
	size_t head_n = from < sizeof(*h) ? sizeof(*h) - from : 0;
	size_t skip = from > sizeof(*h) ? from - sizeof(*h) : 0;

	memcpy(to, (const char *)h + sizeof(*h) - head_n, head_n);
	if (n > skip)
		memcpy(to + head_n, (const char *)data + skip, n - skip);
}

#endif
