/*
 * See view_ask.h. A message with these two members needs a row here.
 */
#include "proto/view_ask.h"

#define WITH_WAIT(row) row(view_query) row(search) row(fulltext) row(iterations)

bool view_ask_get(const struct msg_desc *d, const void *m, uint64_t *ret_seq,
		  uint64_t *ret_wait_ns)
{
#define ROW(name)                             \
	if (d == &msg_##name) {               \
		const struct m_##name *x = m; \
		*ret_seq = x->min_seq;        \
		*ret_wait_ns = x->wait_ns;    \
		return true;                  \
	}
	WITH_WAIT(ROW)
#undef ROW
	return false;
}

bool view_ask_set(const struct msg_desc *d, void *m, uint64_t seq,
		  uint64_t wait_ns)
{
#define ROW(name)                                   \
	if (d == &msg_##name) {                     \
		struct m_##name *x = m;             \
		MSG_SET(x, name, min_seq, seq);     \
		MSG_SET(x, name, wait_ns, wait_ns); \
		return true;                        \
	}
	WITH_WAIT(ROW)
#undef ROW
	return false;
}
