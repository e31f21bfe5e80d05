#include "wild_distort.h"

#include "util/nano.h"

#define FAR_NS      (LIMIT_DURATION_S * NS_PER_S)
#define TIME_MAX_NS (7258118400 * NS_PER_S) /* the end of 2199 */

/* In percent. */
enum {
	CHANGED = 12, /* members of these */
	ADDED = WILD_ADDED,
	INNER = 35, /* members of a message that was added */
};

bool wild_chance(struct rw *w, unsigned percent)
{
	return rng_below(&w->r, 100) < percent;
}

struct str wild_name(struct rw *w, const char *prefix)
{
	return arena_printf(&w->arena, "%s%llu", prefix,
			    (unsigned long long)rng_below(&w->r, 3));
}

/* --- numbers --- */

uint64_t wild_number(struct rw *w, uint64_t max)
{
	const uint64_t all[] = { 0, 1, 2, max / 2, max - 1, max, max / 2 + 1 };

	if (wild_chance(w, 40))
		return rng_below(&w->r, MIN(max, (uint64_t)9)) + 1;
	return all[rng_below(&w->r, ARRAY_SIZE(all))];
}

uint64_t wild_duration(struct rw *w)
{
	const uint64_t all[] = { 0,   1,        NS_PER_S - 1, NS_PER_S,
				 DAY, HOUR + 1, FAR_NS - 1,   FAR_NS };

	if (wild_chance(w, 50))
		return rng_below(&w->r, 20 * NS_PER_S);
	return all[rng_below(&w->r, ARRAY_SIZE(all))];
}

uint64_t wild_moment(struct rw *w)
{
	uint64_t now = w->x->now_ns;
	const uint64_t all[] = {
		0,       1,         NS_PER_S,     now - 1,        now,
		now + 1, now + DAY, now + FAR_NS, TIME_MAX_NS - 1
	};

	if (wild_chance(w, 50))
		return now - NS_PER_S + rng_below(&w->r, 9 * NS_PER_S);
	return all[rng_below(&w->r, ARRAY_SIZE(all))];
}

static uint64_t limit_of(const struct field_desc *f)
{
	if (f->kind == K_nano)
		return (f->max != 0 ? f->max : UINT64_MAX / NANO_PER_UNIT) *
		       NANO_PER_UNIT;
	if (f->max != 0)
		return f->max;
	return f->kind == K_u32 ? UINT32_MAX : UINT64_MAX;
}

/* --- texts --- */

/* What is drawn stands alone: compilers differ in the order of arguments. */
struct str wild_amounts(struct rw *w)
{
	const char *unit = wild_chance(w, 50) ? "tokens" : "pages";
	unsigned long long amount = wild_number(w, LIMIT_UNIT_AMOUNT);
	unsigned long long seconds = wild_number(w, LIMIT_UNIT_AMOUNT);

	return arena_printf(&w->arena, "{\"%s\":%llu,\"gpu_seconds\":%llu}",
			    unit, amount, seconds);
}

struct str wild_tags(struct rw *w)
{
	static const char *const all[] = {
		"{\"team\":\"red\",\"user\":\"ann\",\"g\":\"g0\"}",
		"{\"user\":\"bob\",\"team\":\"blue\"}",
		"{\"team\":\"blue\",\"user\":\"ann\",\"org\":\"x\"}",
		"{\"g\":\"g1\",\"org\":\"x\",\"user\":\"ann\"}",
		"{\"team\":\"red\"}",
		"{}",
	};

	return str_from(all[rng_below(&w->r, ARRAY_SIZE(all))]);
}

struct str wild_json(struct rw *w)
{
	static const char *const all[] = { "1", "{}", "[1,\"two\"]",
					   "{\"n\":2}", "null" };

	return str_from(all[rng_below(&w->r, ARRAY_SIZE(all))]);
}

static bool is_one_of(const char *name, const char *const *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, all[i]) == 0)
			return true;
	return false;
}

/* Empty: it is better left alone. */
static struct str word(struct rw *w, const struct field_desc *f)
{
	static const char *const free_texts[] = {
		"group",    "tag_key", "tag_value", "worker_id", "model",
		"provider", "by",      "comment",   "reason",    "unique_key",
		"hostname", "error",   "backtrace",
	};
	static const char *const units[] = { "usd", "tokens", "gpu_seconds",
					     "pages" };

	if (f->flags & F_QUEUE)
		return some_queue(w);
	if (f->values != NULL)
		return str_from(
		    f->values->values[rng_below(&w->r, f->values->n)].text);
	if (strcmp(f->name, "unit") == 0)
		return str_from(units[rng_below(&w->r, ARRAY_SIZE(units))]);
	if (strcmp(f->name, "group_tag") == 0)
		return wild_chance(w, 50) ? STR("team") : STR("g");
	if (strcmp(f->name, "report_id") == 0)
		return wild_name(w, "r");
	if (is_one_of(f->name, free_texts, ARRAY_SIZE(free_texts)))
		return wild_name(w, "g");
	return STR_NULL;
}

static struct str raw(struct rw *w, const struct field_desc *f)
{
	static const char *const sums[] = { "units", "limits", "expected" };

	if (is_one_of(f->name, sums, ARRAY_SIZE(sums)))
		return wild_amounts(w);
	if (strcmp(f->name, "tags") == 0)
		return wild_tags(w);
	if (strcmp(f->name, "result_schema") == 0)
		return STR("{\"type\":\"object\"}");
	return f->flags & F_OBJECT ? STR("{\"n\":2}") : wild_json(w);
}

/* --- along a descriptor --- */

static void *member(void *m, const struct field_desc *f)
{
	return (char *)m + f->offset;
}

/* Not those of the server, nor what names the object of the request. */
static bool is_for_clients(const struct field_desc *f)
{
	static const char *const names[] = { "id",       "job_id",      "name",
					     "target",   "lease_token", "cron",
					     "timezone", "queues",      "token",
					     "url" };

	return !(f->flags & (F_INTERNAL | F_ANSWER | F_PATH)) &&
	       !is_one_of(f->name, names, ARRAY_SIZE(names));
}

static bool set_number(struct rw *w, const struct field_desc *f, void *p)
{
	switch (f->kind) {
	case K_bool:
		*(bool *)p = wild_chance(w, 50);
		return true;
	case K_u32:
		*(uint32_t *)p = (uint32_t)wild_number(w, limit_of(f));
		return true;
	case K_u64:
	case K_nano:
		*(uint64_t *)p = wild_number(w, limit_of(f));
		return true;
	case K_f64:
		*(double *)p =
		    f->max != 0
			? (double)wild_number(w, f->max)
			: (double)wild_number(w, 2 * LIMIT_SCORE_VALUE + 1) -
			      LIMIT_SCORE_VALUE;
		return true;
	case K_time:
		*(uint64_t *)p = wild_moment(w);
		return true;
	case K_dur:
	case K_secs:
		*(uint64_t *)p = wild_duration(w);
		return true;
	case K_enum:
		*(uint32_t *)p =
		    f->values->values[rng_below(&w->r, f->values->n)].number;
		return true;
	default:
		return false;
	}
}

static bool set_text(struct rw *w, const struct field_desc *f, void *p)
{
	struct str s = f->kind == K_str ? word(w, f) : raw(w, f);

	if (s.n > 0)
		*(struct str *)p = s;
	return s.n > 0;
}

/* One or two of them. */
static bool set_messages(struct rw *w, const struct field_desc *f, void *m,
			 unsigned depth)
{
	size_t n = f->kind == K_msg ? 1 : 1 + rng_below(&w->r, 2);
	char *all = arena_zalloc(&w->arena, n * f->sub->size);

	if (depth == 0)
		return false;
	for (size_t i = 0; i < n; i++)
		wild_distort(w, f->sub, all + i * f->sub->size, INNER,
			     depth - 1);
	*(void **)member(m, f) = all;
	if (f->kind == K_msgs)
		*(size_t *)((char *)m + f->count_offset) = n;
	return true;
}

/* False: it stays as it is. */
static bool set_member(struct rw *w, const struct field_desc *f, void *m,
		       unsigned depth)
{
	if (f->kind == K_str || f->kind == K_raw)
		return set_text(w, f, member(m, f));
	if (f->kind == K_msg || f->kind == K_msgs)
		return set_messages(w, f, m, depth);
	return set_number(w, f, member(m, f));
}

static void distort_inner(struct rw *w, const struct field_desc *f, void *m,
			  unsigned depth)
{
	size_t n =
	    f->kind == K_msgs ? *(size_t *)((char *)m + f->count_offset) : 1;
	char *all = *(char **)member(m, f);

	for (size_t i = 0; depth > 0 && i < n; i++)
		wild_distort(w, f->sub, all + i * f->sub->size, ADDED,
			     depth - 1);
}

void wild_distort(struct rw *w, const struct msg_desc *d, void *m, unsigned add,
		  unsigned depth)
{
	uint64_t *has = m; /* the first member of each */

	for (size_t i = 0; i < d->n; i++) {
		const struct field_desc *f = &d->fields[i];
		uint64_t bit = 1ULL << i;

		if (!is_for_clients(f))
			continue;
		if (*has & bit && (f->kind == K_msg || f->kind == K_msgs))
			distort_inner(w, f, m, depth);
		else if (wild_chance(w, *has & bit              ? CHANGED
					: f->flags & F_REQUIRED ? 95
								: add) &&
			 set_member(w, f, m, depth))
			*has |= bit;
	}
}
