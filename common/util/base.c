#include "util/base.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAST_WORDS_WAIT_MS 1000

/*
 * Not through stdio, which may hold a lock or half a line when we get here. A
 * pipe that nobody reads must not keep us from dying: we wait a moment for
 * room, and a line this short fits then.
 */
_printf_(1, 2) static _noreturn_ void die(const char *fmt, ...)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	char text[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text) - 1, fmt, ap);
	va_end(ap);
	n = MAX(0, MIN(n, (int)sizeof(text) - 2));
	text[n++] = '\n';
	if (poll(&p, 1, LAST_WORDS_WAIT_MS) > 0 && (p.revents & POLLOUT) != 0)
		(void)!write(STDERR_FILENO, text, (size_t)n);
	abort();
}

void check_failed(const char *file, int line, const char *what)
{
	die("%s:%d: CHECK failed: %s", file, line, what);
}

static _noreturn_ void out_of_memory(size_t n)
{
	die("out of memory: %zu bytes wanted", n);
}

void *xmalloc(size_t n)
{
	void *p = malloc(n ? n : 1);

	if (p == NULL)
		out_of_memory(n);
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (p == NULL)
		out_of_memory(n * size);
	return p;
}

void *xrealloc(void *p, size_t n)
{
	p = realloc(p, n ? n : 1);
	if (p == NULL)
		out_of_memory(n);
	return p;
}

char *xstrdup(const char *s)
{
	return xstrndup(s, strlen(s));
}

char *xstrndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *p = xmalloc(len + 1);

	memcpy(p, s, len);
	p[len] = '\0';
	return p;
}
