/*
 * The record of a clock that was set. See core/clock.h.
 */
#include "fsm/core/clock.h"

#include "fsm/core/entry.h"

int clock_load(struct fsm *f)
{
	struct m_clock_walk m;
	struct key k;
	int r;

	key_clock(&k);
	arena_reset(&f->item_arena);
	r = fsm_read(f, &k, &msg_clock_walk, &m);
	if (r <= 0)
		return r;
	if (m.after.n > KEY_MAX)
		return -ERR_INTERNAL_ERROR;
	f->clock = (struct fsm_clock){ .open = true,
				       .from_ns = m.from_ns,
				       .to_ns = m.to_ns,
				       .kind = m.kind };
	if (m.after.n > 0)
		memcpy(f->clock.after.p, m.after.p, m.after.n);
	f->clock.after.n = m.after.n;
	return 0;
}

void clock_save(struct fsm *f)
{
	const struct fsm_clock *c = &f->clock;
	struct m_clock_walk m = { 0 };
	struct key k;

	key_clock(&k);
	if (!c->open) {
		fsm_delete(f, &k);
		return;
	}
	MSG_SET(&m, clock_walk, from_ns, c->from_ns);
	MSG_SET(&m, clock_walk, to_ns, c->to_ns);
	MSG_SET(&m, clock_walk, kind, c->kind);
	MSG_SET(&m, clock_walk, after, key_str(&c->after));
	fsm_put(f, &k, &msg_clock_walk, &m);
}
