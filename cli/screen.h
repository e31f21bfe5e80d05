/*
 * The terminal, as a grid of lines and a source of keys; screen.c is the only
 * file that knows ncurses. One at a time, one thread.
 */
#ifndef CORVO_CLI_SCREEN_H
#define CORVO_CLI_SCREEN_H

#include "util/str.h"

/* Other keys are their characters. */
enum screen_key {
	KEY_NOTHING = -1, /* time is up */
	KEY_QUIT = 3,     /* Ctrl-C, as no signal; or the terminal is gone */
	KEY_RETURN = '\n',
	KEY_ESCAPE = 27,
	KEY_ERASE = 127,
	KEY_OTHER = 0x10000,
	KEY_LINE_UP,
	KEY_LINE_DOWN,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_FIRST,
	KEY_LAST,
	KEY_SIZE, /* the terminal has another size now */
};

/* False: this is no terminal one can draw on. */
bool screen_begin(void);
void screen_end(void); /* the terminal is as it was */

void screen_size(int *ret_rows, int *ret_columns);

/* Whole pictures: clear, lines, show. Text is printable and cut at the edge;
 * strong: a heading, over the whole width. */
void screen_clear(void);
void screen_line(int row, struct str text, bool strong);
void screen_show(void);

/* The next key, after so long at most. */
int screen_key(uint64_t wait_ns);

#endif
