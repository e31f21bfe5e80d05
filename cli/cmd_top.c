/*
 * `corvo top`: looks at the server again and again and draws what it saw; or
 * once, as plain text. A server that does not answer is said so, with the
 * last look still on the screen. Keys come from the user, everything else
 * from the server.
 */
#include <stdio.h>
#include <unistd.h>

#include "cmd.h"
#include "screen.h"
#include "top.h"
#include "util/clock.h"
#include "util/timefmt.h"

#define INTERVAL_NS     (1 * NS_PER_S)
#define INTERVAL_MIN_NS (100 * NS_PER_MS)
#define ASK_TIMEOUT_S   3L /* keys wait as long at most */
#define FILTER_MAX      64
#define PAUSED_NS       (3600 * NS_PER_S) /* until a key comes */

struct top {
	struct api api;
	uint64_t interval_ns;
	struct top_look look; /* the last that was answered */
	bool has_look;
	struct buf problem; /* why the newest was not; empty: it was */
	uint64_t next_ns;   /* when to look again, clock_mono_ns */
	enum top_sort sort;
	struct buf filter;
	bool typing; /* keys go into the filter */
	bool paused;
	bool quit;
	size_t scroll; /* lines above the screen */
};

/* --- looking --- */

static void look_again(struct top *t)
{
	struct top_look now;
	int r;

	buf_clear(&t->problem);
	r = top_look_take(&t->api, t->has_look ? &t->look : NULL, &now,
			  &t->problem);
	t->next_ns = clock_mono_ns() + t->interval_ns;
	if (r < 0) {
		top_look_done(&now);
		return;
	}
	top_look_done(&t->look);
	t->look = now;
	t->has_look = true;
}

/* --- drawing --- */

static void put_status(const struct top *t, struct buf *b)
{
	if (t->problem.n > 0) {
		buf_puts(b, "server away: ");
		out_put_clean(b, buf_str(&t->problem));
	} else if (t->typing) {
		buf_printf(b, "filter: %.*s_", STR_ARG(buf_str(&t->filter)));
	} else {
		buf_printf(
		    b, "q quit  s sort: %s  p %s  / filter%s%.*s",
		    top_sort_name(t->sort), t->paused ? "go on" : "pause",
		    t->filter.n > 0 ? ": " : "", STR_ARG(buf_str(&t->filter)));
	}
}

/* The head stays; of the rest as much as there is room for. */
static void draw_page(struct top *t, const struct top_page *p, int rows)
{
	size_t room = rows > (int)p->head ? (size_t)rows - p->head : 0;
	size_t body = p->n - p->head;

	t->scroll = MIN(t->scroll, body > room ? body - room : 0);
	for (size_t i = 0; i < p->head && i < (size_t)rows; i++)
		screen_line((int)i, p->lines[i].text, p->lines[i].strong);
	for (size_t i = 0; i < room && t->scroll + i < body; i++) {
		const struct top_line *l = &p->lines[p->head + t->scroll + i];

		screen_line((int)(p->head + i), l->text, l->strong);
	}
}

static void draw(struct top *t)
{
	_cleanup_(buf_done) struct buf status = BUF_INIT(0);
	struct top_page page;
	int rows, columns;

	screen_size(&rows, &columns);
	screen_clear();
	if (t->has_look) {
		top_page_make(&t->look, t->sort, buf_str(&t->filter), &page);
		draw_page(t, &page, rows - 1);
		top_page_done(&page);
	}
	put_status(t, &status);
	screen_line(rows - 1, buf_str(&status), true);
	screen_show();
}

/* --- keys --- */

static void type_filter(struct top *t, int key)
{
	if (key == KEY_RETURN) {
		t->typing = false;
	} else if (key == KEY_ESCAPE) {
		t->typing = false;
		buf_clear(&t->filter);
	} else if (key == KEY_ERASE) {
		if (t->filter.n > 0)
			t->filter.n--;
	} else if (key >= ' ' && key < KEY_ERASE && t->filter.n < FILTER_MAX) {
		buf_putc(&t->filter, (char)key);
	}
}

static void scroll_by(struct top *t, bool down, size_t lines)
{
	if (down)
		t->scroll += lines; /* draw_page knows the end */
	else
		t->scroll -= MIN(t->scroll, lines);
}

static void scroll(struct top *t, int key)
{
	int rows, columns;

	screen_size(&rows, &columns);
	switch (key) {
	case KEY_LINE_UP:
	case KEY_LINE_DOWN:
		scroll_by(t, key == KEY_LINE_DOWN, 1);
		break;
	case KEY_PAGE_UP:
	case KEY_PAGE_DOWN:
		scroll_by(t, key == KEY_PAGE_DOWN, rows > 6 ? rows - 6 : 1);
		break;
	case KEY_FIRST:
		t->scroll = 0;
		break;
	case KEY_LAST:
		t->scroll = t->has_look ? SIZE_MAX / 2 : 0;
		break;
	default:
		break;
	}
}

static void on_key(struct top *t, int key)
{
	if (key == KEY_QUIT) {
		t->quit = true;
	} else if (t->typing) {
		type_filter(t, key);
	} else if (key == 'q') {
		t->quit = true;
	} else if (key == 's') {
		t->sort = (t->sort + 1) % TOP_SORTS;
	} else if (key == 'p') {
		t->paused = !t->paused;
		t->next_ns = clock_mono_ns();
	} else if (key == '/') {
		t->typing = true;
	} else {
		scroll(t, key);
	}
}

static void watch(struct top *t)
{
	while (!t->quit) {
		uint64_t now = clock_mono_ns();

		if (!t->paused && now >= t->next_ns)
			look_again(t);
		draw(t);
		now = clock_mono_ns();
		if (t->paused)
			on_key(t, screen_key(PAUSED_NS));
		else
			on_key(t, screen_key(t->next_ns > now ? t->next_ns - now
							      : 0));
	}
}

/* --- the verb --- */

static int print_once(struct top *t, bool json)
{
	_cleanup_(buf_done) struct buf all = BUF_INIT(0);
	struct top_page page;

	look_again(t);
	if (!t->has_look)
		return cmd_failed("%.*s", STR_ARG(buf_str(&t->problem)));
	if (json) {
		top_look_json(&t->look, &all);
		out_json(buf_str(&all));
		return CLI_OK;
	}
	top_page_make(&t->look, t->sort, STR_NULL, &page);
	for (size_t i = 0; i < page.n; i++)
		(void)printf("%.*s\n", STR_ARG(page.lines[i].text));
	top_page_done(&page);
	return CLI_OK;
}

static int run_live(struct top *t)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !screen_begin())
		return cmd_failed("this is no terminal to draw on; "
				  "`corvo top --once` prints what there is");
	watch(t);
	screen_end();
	return CLI_OK;
}

int cmd_top(const struct cmd_args *a)
{
	struct top t = { .interval_ns = INTERVAL_NS, .sort = SORT_PENDING };
	const char *interval = a->opt[OPT_INTERVAL];
	int r;

	if (interval != NULL &&
	    (!duration_read(str_from(interval), &t.interval_ns) ||
	     t.interval_ns < INTERVAL_MIN_NS || t.interval_ns > PAUSED_NS))
		return cmd_usage(
		    "--interval takes a duration from 100ms to 1h");
	cmd_api(a, &t.api);
	t.api.timeout_s = ASK_TIMEOUT_S;
	if (a->opt[OPT_ONCE] != NULL || a->json)
		r = print_once(&t, a->json);
	else
		r = run_live(&t);
	top_look_done(&t.look);
	buf_done(&t.problem);
	buf_done(&t.filter);
	return r;
}
