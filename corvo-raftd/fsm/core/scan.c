/*
 * Reads what is due: keys that begin with a prefix, a time and an id, in
 * order. They are our own.
 */
#include "fsm/core/scan.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"

#define PROGRESS_KEYS 1024 /* between signs of it */

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
	r = txn_scan_first(f->txn, key_str(&start), key_str(&upto), s->max + 1,
			   due_scan_add, s);
	return r < 0 ? fsm_fail(f, r) : 0;
}

static void show_progress(struct fsm *f)
{
	if (f->progress.fn != NULL && ++f->progress.keys % PROGRESS_KEYS == 0)
		f->progress.fn(f->progress.ctx);
}

static int load_keys(struct fsm *f, const char *kind, bool named, load_fn *fn)
{
	struct kv_iter *it;
	struct key from, upto;
	int r = 0;

	key_prefix(&from, kind);
	key_prefix_end(&from, &upto);
	it = kv_iter_new(f->kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it) && r == 0; kv_iter_next(it)) {
		struct str key = str_skip(kv_iter_key(it), from.n);
		uint32_t space = SPACE_DEFAULT;

		arena_reset(&f->item_arena);
		show_progress(f);
		if (named && !key_take_space(&key, &space))
			r = -ERR_INTERNAL_ERROR;
		else if (space != SPACE_DEFAULT) /* there is no other */
			r = -ERR_INTERNAL_ERROR;
		else
			r = fn(f, key, kv_iter_value(it));
	}
	if (r == 0)
		r = kv_iter_error(it);
	kv_iter_free(it);
	return r;
}

int load_all(struct fsm *f, const char *kind, load_fn *fn)
{
	return load_keys(f, kind, false, fn);
}

int load_all_named(struct fsm *f, const char *kind, load_fn *fn)
{
	return load_keys(f, kind, true, fn);
}
