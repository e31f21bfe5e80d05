/*
 * How usage is summed up: the settings all nodes share. See ties/usage.h.
 */
#include "fsm/core/entry.h"
#include "fsm/core/scan.h"
#include "fsm/core/state.h"
#include "fsm/ties/usage.h"
#include "util/civil.h"

#define RETENTION_DEFAULT_NS (2400ULL * S_PER_HOUR * NS_PER_S)

/* Texts and lists in an arena of their own: *raw may go. */
static int keep(struct fsm *f, struct str raw)
{
	struct fsm_usage *u = &f->usage;

	arena_reset(&u->arena);
	return msg_decode(&msg_usage_settings, arena_copy(&u->arena, raw),
			  &u->arena, &u->set);
}

void usage_settings_save(struct fsm *f, const struct m_usage_settings *m)
{
	struct key k;

	key_usage_settings(&k);
	fsm_put(f, &k, &msg_usage_settings, m);
	MUST(f, keep(f, buf_str(&f->scratch)) == 0);
}

static int load_settings(struct fsm *f)
{
	struct str raw;
	struct key k;
	int r;

	key_usage_settings(&k);
	arena_reset(&f->item_arena);
	r = fsm_get(f, &k, &raw);
	if (r <= 0)
		return r;
	return keep(f, raw) < 0 ? -ERR_INTERNAL_ERROR : 0;
}

int usage_load(struct fsm *f)
{
	struct key from, upto;
	struct kv_iter *it;
	int r = load_settings(f);

	if (r == 0)
		r = prices_load(f);
	if (r < 0)
		return r;
	key_prefix(&from, "us|");
	key_prefix_end(&from, &upto);
	it = kv_iter_new(f->kv, key_str(&from), key_str(&upto));
	f->usage.from = NEVER;
	if (kv_iter_valid(it))
		f->usage.from = get_be64(kv_iter_key(it).p + from.n);
	r = kv_iter_error(it);
	kv_iter_free(it);
	return r;
}

void usage_free(struct fsm *f)
{
	prices_free(f);
	arena_done(&f->usage.arena);
}

bool usage_unit_is_known(const struct fsm *f, struct str name)
{
	const struct m_usage_settings *s = &f->usage.set;

	for (size_t i = 0; i < s->units_n; i++)
		if (str_eq(s->units[i], name))
			return true;
	return false;
}

/* Zone files differ between machines: the offsets came with the setting. */
static int64_t offset_at(const struct fsm *f, uint64_t ns)
{
	const struct m_usage_settings *s = &f->usage.set;
	int64_t seconds = 0;

	for (size_t i = 0; i < s->offsets_n; i++)
		if (i == 0 || s->offsets[i].from_ns <= ns)
			seconds = s->offsets[i].seconds;
	return seconds;
}

uint32_t usage_local_day(const struct fsm *f, uint64_t ns)
{
	int64_t wall = (int64_t)(ns / NS_PER_S) + offset_at(f, ns);

	return wall < 0 ? 0 : (uint32_t)(wall / S_PER_DAY);
}

/*
 * Where the clock is set forward at midnight, a day begins an hour later than
 * its first hour would; where it is set back over midnight, it begins twice.
 * So each offset is asked by itself, for as long as it holds.
 */
uint64_t usage_day_ns(const struct fsm *f, uint64_t day, uint64_t after_ns)
{
	const struct m_usage_settings *s = &f->usage.set;
	size_t n = MAX(s->offsets_n, (size_t)1);

	for (size_t i = 0; i < n; i++) {
		int64_t seconds = s->offsets_n > 0 ? s->offsets[i].seconds : 0;
		int64_t at = (int64_t)(day * S_PER_DAY) - seconds;
		uint64_t from = i > 0 ? s->offsets[i].from_ns : 0;
		uint64_t until = i + 1 < n ? s->offsets[i + 1].from_ns : NEVER;
		uint64_t ns = at > 0 ? (uint64_t)at * NS_PER_S : 0;

		ns = MAX(ns, MAX(from, after_ns));
		if (ns < until)
			return ns;
	}
	return NEVER; /* not reached: the last one holds for ever */
}

uint64_t usage_retention(const struct fsm *f)
{
	const struct m_usage_settings *s = &f->usage.set;

	return MSG_HAS(s, usage_settings, retention) ? s->retention
						     : RETENTION_DEFAULT_NS;
}
