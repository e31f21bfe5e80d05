/*
 * See front/h2_head.h. The library has checked names and values by RFC 9113;
 * what the RFC leaves open is held to what front/framing.h asks of HTTP/1.
 */
#include "front/h2_head.h"

#include <stdlib.h>

#include "front/framing_parts.h"
#include "proto/err.h"
#include "proto/limits.h"

#define NO_TEXT     UINT32_MAX
#define LINE_EXTRA  4 /* ": " and CR LF, which it has in HTTP/1 */
#define ABSURD_SIZE (8 * (size_t)LIMIT_HEAD_BYTES)

void h2_head_init(struct h2_head *h)
{
	*h = (struct h2_head){ .method = NO_TEXT,
			       .path = NO_TEXT,
			       .authority = NO_TEXT };
}

void h2_head_done(struct h2_head *h)
{
	buf_done(&h->text);
	free(h->items);
	h->items = NULL;
}

static int refuse(struct h2_head *h, int err, const char *why)
{
	if (h->err == 0) {
		h->err = err;
		h->why = why;
	}
	return -h->err;
}

static void count(struct h2_head *h, size_t n)
{
	h->cost += n + LINE_EXTRA + LIMIT_HEAD_ENTRY_BYTES;
}

bool h2_head_add_bad(struct h2_head *h, size_t n)
{
	(void)refuse(h, ERR_BAD_REQUEST, "a header is malformed");
	count(h, n);
	return h->cost <= ABSURD_SIZE;
}

static uint32_t put_text(struct h2_head *h, struct str s)
{
	uint32_t at = (uint32_t)h->text.n;

	buf_put_str(&h->text, s);
	buf_putc(&h->text, '\0');
	return at;
}

static void add_item(struct h2_head *h, uint32_t name, uint32_t value)
{
	if (h->n == h->cap) {
		h->cap = MAX(h->cap * 2, (size_t)8);
		h->items = xrealloc(h->items, h->cap * sizeof(h->items[0]));
	}
	h->items[h->n++] = (struct h2_item){ name, value };
}

const char *h2_head_text(const struct h2_head *h, uint32_t at)
{
	return at == NO_TEXT ? NULL : h->text.p + at;
}

/* The parts of the request line. */
static void add_pseudo(struct h2_head *h, struct str name, struct str value)
{
	if (str_is(name, ":method"))
		h->method = put_text(h, value);
	else if (str_is(name, ":path"))
		h->path = put_text(h, value);
	else if (str_is(name, ":authority"))
		h->authority = put_text(h, value);
}

bool h2_head_add(struct h2_head *h, struct str name, struct str value)
{
	count(h, name.n + value.n);
	if (h->cost > LIMIT_HEAD_BYTES) {
		(void)refuse(h, ERR_HEAD_TOO_LARGE, NULL);
		return h->cost <= ABSURD_SIZE;
	}
	if (memchr(value.p, '\0', value.n) != NULL)
		(void)refuse(h, ERR_BAD_REQUEST, "a header has a NUL in it");
	else if (name.n > 0 && name.p[0] == ':')
		add_pseudo(h, name, value);
	else
		add_item(h, put_text(h, name), put_text(h, value));
	return true;
}

/* --- a whole one --- */

static int check_method(struct h2_head *h)
{
	const char *m = h2_head_text(h, h->method);
	size_t n = m != NULL ? strlen(m) : 0;

	if (n == 0 || n > LIMIT_METHOD_BYTES ||
	    framing_run((const uint8_t *)m, n, TOKEN) != n)
		return refuse(h, ERR_BAD_REQUEST,
			      "the method is missing, too long or no word");
	return 0;
}

static int check_path(struct h2_head *h)
{
	const char *p = h2_head_text(h, h->path);
	size_t n = p != NULL ? strlen(p) : 0;

	if (n > LIMIT_URI_BYTES)
		return refuse(h, ERR_URI_TOO_LONG, NULL);
	if (n == 0 || (p[0] != '/' && strcmp(p, "*") != 0) ||
	    framing_run((const uint8_t *)p, n, TARGET) != n)
		return refuse(h, ERR_BAD_REQUEST,
			      "the path must be /path, percent-encoded");
	return 0;
}

/* Who is asked is told once. */
static int check_host(struct h2_head *h)
{
	const char *a = h2_head_text(h, h->authority);
	struct head named = { 0 };
	const char *host;

	for (size_t i = 0; i < h->n; i++)
		head_note(&named, str_from(h->text.p + h->items[i].name),
			  h->text.p + h->items[i].value);
	host = named.value[HEAD_HOST];
	if (a != NULL && host != NULL && strcmp(a, host) != 0)
		return refuse(h, ERR_BAD_REQUEST,
			      "host is not what :authority says");
	if (a != NULL &&
	    framing_run((const uint8_t *)a, strlen(a), HOST) != strlen(a))
		return refuse(h, ERR_BAD_REQUEST, "there is no such host");
	if (a != NULL && host == NULL)
		add_item(h, put_text(h, STR("host")), h->authority);
	return 0;
}

/* "name=value&name" in place, from there on. */
static void split_arguments(struct h2_head *h, char *p)
{
	while (*p != '\0') {
		char *end = strchrnul(p, '&');
		char *next = *end == '&' ? end + 1 : end;
		char *equals;

		*end = '\0';
		equals = strchr(p, '=');
		for (char *s = p; s < end; s++)
			if (*s == '+')
				*s = ' ';
		if (equals != NULL)
			*equals = '\0';
		h->cost += LIMIT_HEAD_ENTRY_BYTES;
		add_item(h, (uint32_t)(p - h->text.p),
			 equals != NULL ? (uint32_t)(equals + 1 - h->text.p)
					: NO_TEXT);
		h->arguments_n++;
		p = next;
	}
}

int h2_head_whole(struct h2_head *h)
{
	char *query;

	if (h->err != 0 || check_method(h) != 0 || check_path(h) != 0 ||
	    check_host(h) != 0)
		return -h->err;
	query = strchr(h->text.p + h->path, '?');
	if (query == NULL)
		return 0;
	*query = '\0';
	split_arguments(h, query + 1);
	return h->cost > LIMIT_HEAD_BYTES ? refuse(h, ERR_HEAD_TOO_LARGE, NULL)
					  : 0;
}

void h2_head_each(const struct h2_head *h, head_header_fn *fn, void *ctx)
{
	for (size_t i = 0; i < h->n - h->arguments_n; i++)
		fn(ctx, h->text.p + h->items[i].name,
		   h->text.p + h->items[i].value);
}

static void note(void *ctx, const char *name, const char *value)
{
	head_note(ctx, str_from(name), value);
}

void h2_head_read(const struct h2_head *h, struct head *ret)
{
	*ret = (struct head){ .has_arguments = h->arguments_n > 0 };
	h2_head_each(h, note, ret);
}

const char *h2_head_argument(const struct h2_head *h, const char *name)
{
	for (size_t i = h->n - h->arguments_n; i < h->n; i++)
		if (strcmp(h->text.p + h->items[i].name, name) == 0)
			return h2_head_text(h, h->items[i].value);
	return NULL;
}

void h2_head_each_argument(const struct h2_head *h, head_name_fn *fn, void *ctx)
{
	for (size_t i = h->n - h->arguments_n; i < h->n; i++)
		fn(ctx, h->text.p + h->items[i].name);
}

size_t h2_head_bytes(const struct h2_head *h)
{
	return h->text.cap + h->cap * sizeof(h->items[0]);
}
