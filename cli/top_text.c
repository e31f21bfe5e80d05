/*
 * The lines of `corvo top`. Names and errors come from a server and may hold
 * anything: what cannot be printed, or is an order to a terminal, becomes a
 * question mark, what is too wide is cut.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <wchar.h>

#include "out.h"
#include "top.h"

#define NAME_MIN     8
#define NAME_MAX     32
#define WIDE         200 /* of the last column of a row */
#define FAILURES_MAX 10

static const char *const sort_names[TOP_SORTS] = {
	[SORT_NAME] = "name",     [SORT_PENDING] = "pending",
	[SORT_ACTIVE] = "active", [SORT_DEAD] = "dead",
	[SORT_IN] = "in/s",       [SORT_OUT] = "out/s",
	[SORT_OLDEST] = "oldest",
};

const char *top_sort_name(enum top_sort s)
{
	return sort_names[s];
}

/* --- cells --- */

/* Appends as much as has place in `width` columns; returns how many it took. */
static int put_printable(struct buf *b, struct str s, int width)
{
	mbstate_t state = { 0 };
	int used = 0;

	while (s.n > 0) {
		wchar_t c;
		size_t n = mbrtowc(&c, s.p, s.n, &state);
		bool bad = n == 0 || n > s.n;
		bool shown = !bad && !str_is_order((uint32_t)c);
		int w = shown ? wcwidth(c) : -1;

		if (bad) {
			n = 1;
			state = (mbstate_t){ 0 };
		}
		if (used + (w < 0 ? 1 : w) > width)
			break;
		if (w < 0)
			buf_putc(b, '?');
		else
			buf_append(b, s.p, n);
		used += w < 0 ? 1 : w;
		s = str_skip(s, n);
	}
	return used;
}

static int width_of(struct str s)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	return put_printable(&b, s, NAME_MAX);
}

static void put_spaces(struct buf *b, int n)
{
	while (n-- > 0)
		buf_putc(b, ' ');
}

static void put_left(struct buf *b, struct str s, int width)
{
	put_spaces(b, width - put_printable(b, s, width));
	buf_puts(b, "  ");
}

static void put_right(struct buf *b, struct str s, int width)
{
	put_spaces(b, width - (int)s.n);
	buf_put_str(b, s);
	buf_puts(b, "  ");
}

static void put_count(struct buf *b, uint64_t n, int width)
{
	_cleanup_(buf_done) struct buf t = BUF_INIT(0);

	buf_put_u64(&t, n);
	put_right(b, buf_str(&t), width);
}

static void put_rate(struct buf *b, bool known, double v, int width)
{
	_cleanup_(buf_done) struct buf t = BUF_INIT(0);

	if (known)
		buf_printf(&t, "%.1f", v);
	else
		buf_puts(&t, "-");
	put_right(b, buf_str(&t), width);
}

/* How long ago; "-" when it never was. */
static void put_age(struct buf *b, uint64_t now_ns, uint64_t then_ns, int width)
{
	_cleanup_(buf_done) struct buf t = BUF_INIT(0);
	uint64_t age = now_ns > then_ns ? now_ns - then_ns : 0;

	if (then_ns == 0)
		buf_puts(&t, "-");
	else
		out_put_seconds(&t, (double)age / (double)NS_PER_S);
	put_right(b, buf_str(&t), width);
}

/* --- lines --- */

/* Takes what b holds as the next line, and empties it. */
static void add_line(struct top_page *p, struct buf *b, bool strong)
{
	struct str text = str_trim(buf_str(b));

	/* spaces before the first column are part of it */
	text = str_of(b->p, text.n > 0 ? (size_t)(text.p - b->p) + text.n : 0);
	if (p->n == p->cap) {
		struct top_line *old = p->lines;

		p->cap = MAX(p->cap * 2, (size_t)64);
		p->lines = arena_alloc(&p->mem, p->cap * sizeof(*p->lines));
		if (p->n > 0)
			memcpy(p->lines, old, p->n * sizeof(*old));
	}
	p->lines[p->n].text = arena_copy(&p->mem, text);
	p->lines[p->n].strong = strong;
	p->n++;
	buf_clear(b);
}

static void add_head(const struct top_look *l, struct top_page *p,
		     struct buf *b)
{
	buf_puts(b, "corvo ");
	(void)put_printable(b, l->version, NAME_MAX);
	buf_puts(b, "  node ");
	(void)put_printable(b, l->node, NAME_MAX);
	buf_puts(b, "  ");
	(void)put_printable(b, l->role, NAME_MAX);
	buf_puts(b, l->healthy ? "" : " (not ready)");
	buf_puts(b, "  up ");
	out_put_seconds(b, (double)l->uptime_s);
	buf_printf(b, "  view lag %" PRIu64 " ms", l->view_lag_ms);
	add_line(p, b, false);
	if (l->unled.n == 0)
		return;
	(void)put_printable(b, l->unled, WIDE);
	add_line(p, b, true);
}

static void add_totals(const struct top_look *l, struct top_page *p,
		       struct buf *b)
{
	struct top_queue all = { .has_rates = l->queues_n > 0 };

	for (size_t i = 0; i < l->queues_n; i++) {
		const struct top_queue *q = &l->queues[i];

		all.pending += q->pending;
		all.active += q->active;
		all.scheduled += q->scheduled;
		all.retrying += q->retrying;
		all.dead += q->dead;
		all.in += q->in;
		all.out += q->out;
		all.has_rates = all.has_rates && q->has_rates;
	}
	buf_printf(b,
		   "queues %zu  workers %zu  pending %" PRIu64
		   "  active %" PRIu64 "  scheduled %" PRIu64
		   "  retrying %" PRIu64 "  dead %" PRIu64,
		   l->queues_n, l->workers_n, all.pending, all.active,
		   all.scheduled, all.retrying, all.dead);
	add_line(p, b, false);
	if (all.has_rates)
		buf_printf(b, "in %.1f/s  out %.1f/s  ", all.in, all.out);
	if (l->recent_s > 0)
		buf_printf(b,
			   "last %" PRIu64 " s: %" PRIu64 " enqueued, %" PRIu64
			   " completed, %" PRIu64 " failed",
			   l->recent_s, l->recent_in, l->recent_out,
			   l->recent_failed);
	add_line(p, b, false);
}

/* --- nodes --- */

static void add_node(const struct top_node *n, int width, struct top_page *p,
		     struct buf *b)
{
	_cleanup_(buf_done) struct buf t = BUF_INIT(0);

	put_left(b, n->name, width);
	put_left(b, n->role, 11);
	put_left(b, n->alive ? STR("up") : STR("DOWN"), 4);
	put_count(b, n->lag, 8);
	put_count(b, n->lag_ms, 8);
	put_count(b, n->contact_ms, 10);
	buf_printf(&t, "%" PRId64, n->clock_ms);
	put_right(b, buf_str(&t), 8);
	buf_clear(&t);
	out_put_bytes(&t, n->disk_free);
	put_right(b, buf_str(&t), 10);
	put_left(b, n->version, 12);
	buf_puts(b, n->alive && !n->clock_ok ? "clock off " : "");
	buf_puts(b, n->alive && !n->disk_ok ? "disk full" : "");
	add_line(p, b, false);
}

/* One that is alone is in the head. */
static void add_nodes(const struct top_look *l, struct top_page *p,
		      struct buf *b)
{
	int width = NAME_MIN;

	if (l->nodes_n < 2)
		return;
	for (size_t i = 0; i < l->nodes_n; i++)
		width = MAX(width, width_of(l->nodes[i].name));
	put_left(b, STR("NODE"), width);
	buf_puts(b, "ROLE             UP       LAG    LAG MS  CONTACT MS  "
		    "CLOCK MS   DISK FREE  VERSION");
	add_line(p, b, true);
	for (size_t i = 0; i < l->nodes_n; i++)
		add_node(&l->nodes[i], width, p, b);
	add_line(p, b, false);
}

/* --- queues --- */

static double key_of(const struct top_queue *q, enum top_sort sort)
{
	switch (sort) {
	case SORT_PENDING:
		return (double)q->pending;
	case SORT_ACTIVE:
		return (double)q->active;
	case SORT_DEAD:
		return (double)q->dead;
	case SORT_IN:
		return q->in;
	case SORT_OUT:
		return q->out;
	case SORT_OLDEST: /* the longest wait is the largest */
		return q->oldest_ns == 0 ? 0
					 : (double)(UINT64_MAX - q->oldest_ns);
	case SORT_NAME:
	case TOP_SORTS:
		break;
	}
	return 0;
}

static int compare_queues(const void *a, const void *b, void *ctx)
{
	const struct top_queue *x = a, *y = b;
	enum top_sort sort = *(enum top_sort *)ctx;
	double kx = key_of(x, sort), ky = key_of(y, sort);

	if (kx != ky)
		return kx > ky ? -1 : 1;
	return str_cmp(x->name, y->name);
}

static bool is_shown(struct str name, struct str filter)
{
	return filter.n == 0 ||
	       memmem(name.p, name.n, filter.p, filter.n) != NULL;
}

static void add_queue(const struct top_look *l, const struct top_queue *q,
		      int name_width, struct top_page *p, struct buf *b)
{
	put_left(b, q->name, name_width);
	put_count(b, q->pending, 9);
	put_count(b, q->active, 7);
	put_count(b, q->scheduled, 9);
	put_count(b, q->retrying, 8);
	put_count(b, q->dead, 7);
	put_rate(b, q->has_rates, q->in, 8);
	put_rate(b, q->has_rates, q->out, 8);
	put_age(b, l->wall_ns, q->oldest_ns, 8);
	buf_puts(b, q->paused ? "paused" : "");
	add_line(p, b, false);
}

static void add_queues(struct top_look *l, enum top_sort sort,
		       struct str filter, struct top_page *p, struct buf *b)
{
	int width = NAME_MIN;

	if (l->queues_n > 0)
		qsort_r(l->queues, l->queues_n, sizeof(*l->queues),
			compare_queues, &sort);
	for (size_t i = 0; i < l->queues_n; i++)
		if (is_shown(l->queues[i].name, filter))
			width = MAX(width, width_of(l->queues[i].name));
	put_left(b, STR("QUEUE"), width);
	buf_puts(b, "  PENDING   ACTIVE  SCHEDULED  RETRYING     DEAD  "
		    "    IN/S     OUT/S    OLDEST");
	add_line(p, b, true);
	for (size_t i = 0; i < l->queues_n; i++)
		if (is_shown(l->queues[i].name, filter))
			add_queue(l, &l->queues[i], width, p, b);
}

/* --- workers and failures --- */

static void add_workers(const struct top_look *l, struct top_page *p,
			struct buf *b)
{
	int width = NAME_MIN;

	for (size_t i = 0; i < l->workers_n; i++)
		width = MAX(width, width_of(l->workers[i].id));
	add_line(p, b, false);
	put_left(b, STR("WORKER"), width);
	buf_puts(b, " ACTIVE      SEEN  HOST");
	add_line(p, b, true);
	for (size_t i = 0; i < l->workers_n; i++) {
		const struct top_worker *w = &l->workers[i];

		put_left(b, w->id, width);
		if (l->has_active)
			put_count(b, w->active, 7);
		else
			put_right(b, STR("-"), 7);
		put_age(b, l->wall_ns, w->seen_ns, 8);
		(void)put_printable(b, w->hostname, WIDE);
		add_line(p, b, false);
	}
}

static void add_failures(const struct top_look *l, struct str filter,
			 struct top_page *p, struct buf *b)
{
	size_t shown = 0;

	add_line(p, b, false);
	put_left(b, STR("LAST FAILURES"), 30);
	buf_puts(b, "     AGO  STATE     ATTEMPT  QUEUE: ERROR");
	add_line(p, b, true);
	for (size_t i = 0; i < l->failures_n && shown < FAILURES_MAX; i++) {
		const struct top_failure *f = &l->failures[i];

		if (!is_shown(f->queue, filter))
			continue;
		shown++;
		put_left(b, f->id, 30);
		put_age(b, l->wall_ns, f->at_ns, 8);
		put_left(b, f->state, 8);
		put_count(b, f->attempt, 7);
		(void)put_printable(b, f->queue, NAME_MAX);
		buf_puts(b, ": ");
		(void)put_printable(b, f->error, WIDE);
		add_line(p, b, false);
	}
}

void top_page_make(struct top_look *l, enum top_sort sort, struct str filter,
		   struct top_page *ret)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	*ret = (struct top_page){ 0 };
	add_head(l, ret, &b);
	add_totals(l, ret, &b);
	ret->head = ret->n;
	add_nodes(l, ret, &b);
	add_queues(l, sort, filter, ret, &b);
	add_workers(l, ret, &b);
	add_failures(l, filter, ret, &b);
}

void top_page_done(struct top_page *p)
{
	arena_done(&p->mem);
	*p = (struct top_page){ 0 };
}
