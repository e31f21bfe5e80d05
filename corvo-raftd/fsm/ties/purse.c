/*
 * Budgets in memory and in the store. See ties/purse.h.
 */
#include "fsm/ties/purse.h"

#include <stdlib.h>

#include "fsm/core/entry.h"
#include "fsm/core/scan.h"
#include "fsm/core/state.h"

#define NAME_MAX_BYTES (1 + LIMIT_BUDGET_TARGET_BYTES)

/* Scope and target, as in the key. */
struct name {
	char p[NAME_MAX_BYTES];
};

static struct str name_of(struct name *n, enum budget_scope scope,
			  struct str target)
{
	CHECK(target.n <= LIMIT_BUDGET_TARGET_BYTES);
	n->p[0] = (char)scope;
	memcpy(n->p + 1, target.p, target.n);
	return str_of(n->p, 1 + target.n);
}

struct fsm_purse *purse_find(const struct fsm *f, enum budget_scope scope,
			     struct str target)
{
	struct name n;

	if (f->purses.of[scope] == 0 || target.n > LIMIT_BUDGET_TARGET_BYTES)
		return NULL;
	return hmap_get(&f->purses.by_name, name_of(&n, scope, target));
}

/* --- tags --- */

static struct str tag_name(struct str target)
{
	struct str name, value;

	(void)str_split(target, ':', &name, &value);
	return name;
}

/* Its place, in the order of names; false: it has none, and belongs there. */
static bool tag_place(const struct fsm_purses *s, struct str name, size_t *ret)
{
	size_t i = 0;
	int order = 1;

	while (i < s->tags_n && (order = str_cmp(s->tags[i].name, name)) < 0)
		i++;
	*ret = i;
	return i < s->tags_n && order == 0;
}

bool purse_tags_are_full(const struct fsm *f, struct str target)
{
	size_t i;

	return f->purses.tags_n == LIMIT_BUDGET_TAGS &&
	       !tag_place(&f->purses, tag_name(target), &i);
}

static void count_tag(struct fsm_purses *s, struct str target)
{
	struct str name = tag_name(target);
	size_t i;

	if (!tag_place(s, name, &i)) {
		CHECK(s->tags_n < LIMIT_BUDGET_TAGS);
		memmove(&s->tags[i + 1], &s->tags[i],
			(s->tags_n++ - i) * sizeof(s->tags[0]));
		s->tags[i].name = str_dup(name);
		s->tags[i].n = 0;
	}
	s->tags[i].n++;
}

static void uncount_tag(struct fsm_purses *s, struct str target)
{
	size_t i;

	CHECK(tag_place(s, tag_name(target), &i) && s->tags[i].n > 0);
	if (--s->tags[i].n > 0)
		return;
	free((char *)s->tags[i].name.p);
	memmove(&s->tags[i], &s->tags[i + 1],
		(--s->tags_n - i) * sizeof(s->tags[0]));
}

/* --- in memory --- */

static void counts_free(struct fsm_purse *p)
{
	for (size_t i = 0; i < LIMIT_BUDGET_LIMITS; i++)
		free(p->counts[i].slots);
}

static void purse_free(struct fsm_purse *p)
{
	counts_free(p);
	arena_done(&p->arena);
	free(p);
}

static void count_init(struct purse_count *c, const struct m_budget_limit *l,
		       uint64_t since)
{
	*c = (struct purse_count){ .since = since };
	if (l->per == BUDGET_PER_WINDOW)
		c->slots = xcalloc(2 * LIMIT_BUDGET_SLOTS, sizeof(*c->slots));
}

static bool is_same_limit(const struct m_budget_limit *a,
			  const struct m_budget_limit *b)
{
	return a->per == b->per && a->window == b->window &&
	       str_eq(a->unit, b->unit);
}

/* Counts of the limits *to has: those that *from had too, or new ones. */
static void move_counts(struct fsm_purse *to, struct fsm_purse *from,
			uint64_t since)
{
	for (size_t i = 0; i < to->m.limits_n; i++) {
		const struct m_budget_limit *l = &to->m.limits[i];
		bool found = false;

		for (size_t k = 0;
		     from != NULL && !found && k < from->m.limits_n; k++) {
			found = is_same_limit(l, &from->m.limits[k]);
			if (!found)
				continue;
			to->counts[i] = from->counts[k];
			from->counts[k].slots = NULL;
			to->counts[i].next_ns = 0;
		}
		if (!found)
			count_init(&to->counts[i], l, since);
	}
}

/* From its record; NULL: that cannot be read. */
static struct fsm_purse *purse_new(struct str raw)
{
	struct fsm_purse *p = xcalloc(1, sizeof(*p));

	if (msg_decode(&msg_budget, arena_copy(&p->arena, raw), &p->arena,
		       &p->m) == 0 &&
	    p->m.scope < PURSE_SCOPES && p->m.limits_n <= LIMIT_BUDGET_LIMITS)
		return p;
	purse_free(p);
	return NULL;
}

static void purse_put(struct fsm *f, struct fsm_purse *p)
{
	struct fsm_purses *s = &f->purses;
	struct name n;
	struct fsm_purse *old =
	    hmap_put(&s->by_name, name_of(&n, p->m.scope, p->m.target), p);

	if (old != NULL) {
		purse_free(old);
		return;
	}
	s->of[p->m.scope]++;
	if (p->m.scope == BUDGET_TAG)
		count_tag(s, p->m.target);
}

/* --- what is stored --- */

static struct str slots_text(struct fsm *f, const uint64_t *slots)
{
	char *p = arena_alloc(&f->item_arena, LIMIT_BUDGET_SLOTS * 8);

	for (size_t i = 0; i < LIMIT_BUDGET_SLOTS; i++)
		put_be64(p + 8 * i, slots[i]);
	return str_of(p, LIMIT_BUDGET_SLOTS * 8);
}

static void count_write(struct fsm *f, const struct purse_count *c,
			struct m_budget_count *m)
{
	*m = (struct m_budget_count){ 0 };
	MSG_SET(m, budget_count, period, c->period);
	MSG_SET(m, budget_count, spent, c->spent);
	MSG_SET(m, budget_count, reserved, (uint64_t)c->reserved);
	if (c->reserved > UINT64_MAX)
		MSG_SET(m, budget_count, reserved_high,
			(uint64_t)(c->reserved >> 64));
	MSG_SET(m, budget_count, reports, c->reports);
	MSG_SET(m, budget_count, since, c->since);
	if (c->told)
		MSG_SET(m, budget_count, told, true);
	if (c->next_ns > 0)
		MSG_SET(m, budget_count, next_ns, c->next_ns);
	if (c->aside_ns > 0)
		MSG_SET(m, budget_count, aside_ns, c->aside_ns);
	if (c->slots == NULL)
		return;
	MSG_SET(m, budget_count, slots, slots_text(f, c->slots));
	MSG_SET(m, budget_count, slot_reports,
		slots_text(f, c->slots + LIMIT_BUDGET_SLOTS));
}

void purse_save(struct fsm *f, const struct fsm_purse *p)
{
	struct m_budget_count *counts =
	    arena_alloc(&f->item_arena, p->m.limits_n * sizeof(*counts));
	struct m_budget_counts m = { 0 };
	struct key k;

	for (size_t i = 0; i < p->m.limits_n; i++)
		count_write(f, &p->counts[i], &counts[i]);
	MSG_SET_LIST(&m, budget_counts, counts, counts, p->m.limits_n);
	key_budget_counts(&k, SPACE_DEFAULT, (uint8_t)p->m.scope, p->m.target);
	fsm_put(f, &k, &msg_budget_counts, &m);
}

/* It may be less than what is spent already: that is told now, if it was not.
 */
static void tell_lowered(struct fsm *f, struct fsm_purse *p)
{
	for (size_t i = 0; i < p->m.limits_n; i++) {
		const struct m_budget_limit *l = &p->m.limits[i];
		struct purse_count *c = &p->counts[i];

		if (purse_is_per_job(l))
			continue;
		purse_roll(f, l, c, f->now_ns);
		if (c->spent >= l->amount && c->spent > 0 && !c->told)
			purse_tell(f, p, i);
		c->told = c->spent >= l->amount && c->spent > 0;
	}
}

void purse_set(struct fsm *f, const struct m_budget *m)
{
	struct fsm_purse *old = purse_find(f, m->scope, m->target), *p;
	struct key k;

	key_budget(&k, SPACE_DEFAULT, (uint8_t)m->scope, m->target);
	fsm_put(f, &k, &msg_budget, m);
	p = purse_new(buf_str(&f->scratch));
	MUST(f, p != NULL);
	move_counts(p, old, f->last_seq);
	purse_put(f, p);
	if (old != NULL)
		tell_lowered(f, p);
	purse_save(f, p);
}

void purse_remove(struct fsm *f, struct fsm_purse *p)
{
	struct fsm_purses *s = &f->purses;
	struct name n;
	struct key k;

	key_budget(&k, SPACE_DEFAULT, (uint8_t)p->m.scope, p->m.target);
	fsm_delete(f, &k);
	key_budget_counts(&k, SPACE_DEFAULT, (uint8_t)p->m.scope, p->m.target);
	fsm_delete(f, &k);
	MUST(f, hmap_remove(&s->by_name,
			    name_of(&n, p->m.scope, p->m.target)) == p);
	MUST(f, s->of[p->m.scope] > 0);
	s->of[p->m.scope]--;
	if (p->m.scope == BUDGET_TAG)
		uncount_tag(s, p->m.target);
	purse_free(p);
}

/* --- loading --- */

static int load_budget(struct fsm *f, struct str key, struct str value)
{
	struct fsm_purse *p = purse_new(value);

	if (p == NULL || key.n < 1 || key.n > NAME_MAX_BYTES) {
		if (p != NULL)
			purse_free(p);
		return -ERR_INTERNAL_ERROR;
	}
	move_counts(p, NULL, 0);
	purse_put(f, p);
	return 0;
}

static void count_read(const struct m_budget_count *m, struct purse_count *c)
{
	c->period = m->period;
	c->spent = m->spent;
	c->reserved = (unsigned __int128)m->reserved_high << 64 | m->reserved;
	c->reports = m->reports;
	c->since = m->since;
	c->told = m->told;
	c->next_ns = m->next_ns;
	c->aside_ns = m->aside_ns;
	for (size_t i = 0; c->slots != NULL && i < LIMIT_BUDGET_SLOTS; i++) {
		c->slots[i] = get_be64(m->slots.p + 8 * i);
		c->slots[LIMIT_BUDGET_SLOTS + i] =
		    get_be64(m->slot_reports.p + 8 * i);
	}
}

static int load_counts(struct fsm *f, struct str key, struct str value)
{
	struct fsm_purse *p = hmap_get(&f->purses.by_name, key);
	struct m_budget_counts m;

	if (p == NULL ||
	    msg_decode(&msg_budget_counts, value, &f->item_arena, &m) < 0 ||
	    m.counts_n != p->m.limits_n)
		return -ERR_INTERNAL_ERROR;
	for (size_t i = 0; i < m.counts_n; i++) {
		if (p->counts[i].slots != NULL &&
		    (m.counts[i].slots.n != LIMIT_BUDGET_SLOTS * 8 ||
		     m.counts[i].slot_reports.n != LIMIT_BUDGET_SLOTS * 8))
			return -ERR_INTERNAL_ERROR;
		count_read(&m.counts[i], &p->counts[i]);
	}
	return 0;
}

int purses_load(struct fsm *f)
{
	int r = load_all_named(f, "bg|", load_budget);

	return r < 0 ? r : load_all_named(f, "bw|", load_counts);
}

void purses_free(struct fsm *f)
{
	struct fsm_purses *s = &f->purses;
	struct str key;
	size_t pos = 0;
	void *v;

	while (hmap_next(&s->by_name, &pos, &key, &v))
		purse_free(v);
	hmap_done(&s->by_name);
	for (size_t i = 0; i < s->tags_n; i++)
		free((char *)s->tags[i].name.p);
}
