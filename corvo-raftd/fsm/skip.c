/*
 * See skip.h. A mark names the entry by what no other has: in another history,
 * or after a new leader has taken the entry back, it means nothing.
 */
#include "fsm/skip.h"

#include "fsm/core/entry.h"

bool fsm_skip(struct fsm *f, uint64_t raft_index,
	      const struct entry_origin *origin)
{
	struct fsm_skips *s = &f->skips;

	if (s->n == FSM_SKIPS_MAX)
		return false;
	s->list[s->n++] =
	    (struct fsm_skip_mark){ raft_index, origin->term, origin->id };
	return true;
}

size_t fsm_skips_n(const struct fsm *f)
{
	return f->skips.n;
}

static bool is_skipped(const struct fsm *f)
{
	for (size_t i = 0; i < f->skips.n; i++) {
		const struct fsm_skip_mark *m = &f->skips.list[i];

		if (m->index == f->entry_index &&
		    m->term == f->next_origin.term &&
		    m->id == f->next_origin.id)
			return true;
	}
	return false;
}

void skip_begin(struct fsm *f)
{
	struct m_event e = { 0 };

	f->skips.is_on = is_skipped(f);
	if (!f->skips.is_on)
		return;
	MSG_SET(&e, event, type, EVENT_ENTRY_SKIPPED);
	MSG_SET(&e, event, data, fsm_event_number(f, "index", f->entry_index));
	fsm_event(f, &e);
}

int skip_refuse(struct fsm *f)
{
	return fsm_refuse(f, ERR_INTERNAL_ERROR,
			  "the operation was not carried out: its entry of the "
			  "log was skipped by corvo admin skip-entry");
}
