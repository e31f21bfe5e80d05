/*
 * The seam to ncurses. What is drawn was made printable before.
 */
#include "screen.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include <ncurses.h>
#include <term.h> /* after it */

static SCREEN *screen;

bool screen_begin(void)
{
	/* initscr would end the program when it does not know the terminal */
	screen = newterm(NULL, stdout, stdin);
	if (screen == NULL)
		return false;
	/* one that can only go on in the next line, such as "dumb" */
	if (tigetstr("cup") == NULL) {
		delscreen(screen);
		screen = NULL;
		return false;
	}
	(void)raw();
	(void)noecho();
	(void)keypad(stdscr, TRUE);
	(void)curs_set(0);
	(void)set_escdelay(25);
	return true;
}

void screen_end(void)
{
	(void)endwin();
	delscreen(screen);
	screen = NULL;
}

void screen_size(int *ret_rows, int *ret_columns)
{
	getmaxyx(stdscr, *ret_rows, *ret_columns);
}

void screen_clear(void)
{
	(void)erase();
}

void screen_line(int row, struct str text, bool strong)
{
	/* inserting cuts at the edge, adding would go on in the next line */
	if (text.n > 0)
		(void)mvinsnstr(row, 0, text.p, (int)text.n);
	if (strong)
		(void)mvchgat(row, 0, -1, A_REVERSE, 0, NULL);
}

void screen_show(void)
{
	(void)refresh();
}

static int translate(int key)
{
	switch (key) {
	case ERR:
		return KEY_NOTHING;
	case KEY_UP:
		return KEY_LINE_UP;
	case KEY_DOWN:
		return KEY_LINE_DOWN;
	case KEY_PPAGE:
		return KEY_PAGE_UP;
	case KEY_NPAGE:
		return KEY_PAGE_DOWN;
	case KEY_HOME:
		return KEY_FIRST;
	case KEY_END:
		return KEY_LAST;
	case KEY_RESIZE:
		return KEY_SIZE;
	case KEY_BACKSPACE:
	case '\b':
		return KEY_ERASE;
	case KEY_ENTER:
	case '\r':
		return KEY_RETURN;
	default:
		return key < 256 ? key : KEY_OTHER;
	}
}

/* Then there is never a key again, and no waiting for one. */
static bool is_gone(void)
{
	struct pollfd in = { .fd = STDIN_FILENO };

	return poll(&in, 1, 0) == 1 &&
	       (in.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

int screen_key(uint64_t wait_ns)
{
	uint64_t ms = (wait_ns + NS_PER_MS - 1) / NS_PER_MS;
	int key;

	timeout((int)MIN(ms, (uint64_t)INT32_MAX));
	key = getch();
	return key == ERR && is_gone() ? KEY_QUIT : translate(key);
}
