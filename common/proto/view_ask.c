/*
 * See view_ask.h. A message with these two members needs a row here.
 */
#include "proto/view_ask.h"

#define WITH_WAIT(row) row(view_query) row(search) row(fulltext) row(try_policy)

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

uint64_t view_ask_budget_ns(const struct m_search *m)
{
	return m->time_budget == 0 ? SEARCH_BUDGET_NS
				   : MIN(m->time_budget, SEARCH_BUDGET_MAX_NS);
}

uint64_t view_ask_run_ns(const struct msg_desc *d, const void *m,
			 uint64_t op_timeout_ns)
{
	return op_timeout_ns + (d == &msg_search ? view_ask_budget_ns(m) : 0);
}

uint64_t view_ask_answer_ns(const struct msg_desc *d, const void *m,
			    uint64_t op_timeout_ns)
{
	bool has_turn =
	    d == &msg_search || d == &msg_fulltext || d == &msg_try_policy;

	return view_ask_run_ns(d, m, op_timeout_ns) +
	       (has_turn ? VIEW_TURN_NS : 0);
}
