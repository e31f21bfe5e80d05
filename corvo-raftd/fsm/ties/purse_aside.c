/*
 * Jobs that a budget of their tag or group has no room for. They leave the
 * order of their queue, so that others go on, and come back when the period
 * ends. Where room may come before that (jobs that run end, what was spent
 * falls out of a window, a throttle lets one go) they come back soon to look,
 * one after the other: what waits for one budget costs no more than so many
 * looks a second, however much it is. See ties/purse.h.
 */
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/ties/purse.h"

#define STEP_NS NS_PER_MS       /* between two that come back */
#define LATE_NS (60 * NS_PER_S) /* nobody is kept longer for that */
#define SOME    64              /* looked for at a time */

/* When the next one may come back. */
static uint64_t next_turn(struct purse_count *c, uint64_t until)
{
	uint64_t at = MAX(until, time_after(c->aside_ns, STEP_NS));

	c->aside_ns = MIN(at, time_after(until, LATE_NS));
	return c->aside_ns;
}

void purse_set_aside(struct fsm *f, struct job *j, const struct purse_block *b)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct fsm_purse *p =
	    purse_find(f, b->purse->m.scope, b->purse->m.target);
	uint64_t end = purse_until(f, b->limit, f->now_ns), at = b->until;
	bool is_window = b->limit->per == BUDGET_PER_WINDOW;
	struct purse_count *c;

	MUST(f, p == b->purse); /* nothing has changed it since it judged */
	c = &p->counts[b->limit - p->m.limits];
	if (is_window || at < end)
		at = next_turn(c, at);
	if (!is_window)
		at = MIN(at, end);
	purse_save(f, p);
	buf_puts(&why, "budget exceeded: ");
	purse_describe(f, b, &why);
	job_set_aside(f, j,
		      &(struct hold){
			  .by = p->m.id,
			  .reason = arena_copy(&f->item_arena, buf_str(&why)) },
		      at);
}

/* --- the budget has changed --- */

struct aside_scan {
	struct arena *arena;
	size_t prefix_n;
	struct str ids[SOME];
	size_t n;
};

static bool add_id(void *ctx, struct str key, struct str value _unused_)
{
	struct aside_scan *s = ctx;

	s->ids[s->n++] = arena_copy(s->arena, str_skip(key, s->prefix_n));
	return s->n < SOME;
}

/* Behind the job `after`, which may be gone; empty: from the first on. */
static int find_some(struct fsm *f, struct str id, struct str after,
		     struct aside_scan *s)
{
	struct key from, upto;
	int r;

	key_aside(&from, id, STR(""));
	key_prefix_end(&from, &upto);
	*s = (struct aside_scan){ .arena = &f->item_arena, .prefix_n = from.n };
	if (after.n > 0) {
		key_aside(&from, id, after);
		from.p[from.n++] = '\0'; /* the next key there can be */
	}
	r = txn_scan_first(f->txn, key_str(&from), key_str(&upto), SOME, add_id,
			   s);
	return r < 0 ? fsm_fail(f, r) : 0;
}

static int take_back(struct fsm *f, struct str id)
{
	struct job j;
	int r = job_find(f, id, &j);

	if (r < 0)
		return r;
	MUST(f, r > 0 && j.live.state == JOB_SCHEDULED);
	job_event(f, &j, EVENT_PROMOTED, STR_NULL);
	job_back_to_pending(f, &j);
	budget_take_job(f);
	return 0;
}

int purse_take_back(struct fsm *f, struct str id, struct str *cursor)
{
	struct aside_scan s;
	int r;

	do {
		r = find_some(f, id, *cursor, &s);
		for (size_t i = 0; r == 0 && i < s.n; i++) {
			if (budget_is_spent(f))
				return 0;
			r = take_back(f, s.ids[i]);
			*cursor = s.ids[i];
		}
	} while (r == 0 && s.n > 0);
	return r < 0 ? r : 1;
}
