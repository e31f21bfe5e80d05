/*
 * Reads what is due: keys that begin with a prefix, a time and an id, in
 * order. They are our own.
 */
#include "fsm/fsm_impl.h"

static bool due_scan_add(void *ctx, struct str key, struct str value _unused_)
{
	struct due_scan *s = ctx;
	uint64_t ns = get_be64(key.p + s->prefix_n);

	if (ns > s->upto_ns || s->n == s->max) {
		s->next = ns;
		return false;
	}
	if (s->keys != NULL)
		s->keys[s->n] = arena_copy(s->arena, key);
	s->ids[s->n++] = arena_copy(s->arena, str_skip(key, s->prefix_n + 8));
	return true;
}

int due_scan_run(struct fsm *f, const struct key *prefix, uint64_t from,
		 struct due_scan *s)
{
	struct key start = *prefix, upto;
	int r;

	s->arena = &f->item_arena;
	s->prefix_n = prefix->n;
	if (s->upto_ns == 0)
		s->upto_ns = f->now_ns;
	s->next = NEVER;
	s->n = 0;
	if (from == NEVER)
		return 0;
	put_be64(start.p + start.n, from);
	start.n += 8;
	key_prefix_end(prefix, &upto);
	r = txn_scan(f->txn, key_str(&start), key_str(&upto), due_scan_add, s);
	return r < 0 ? fsm_fail(f, r) : 0;
}
