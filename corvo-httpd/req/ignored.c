/*
 * Members of a request that nothing is done with: named in the answer, or the
 * request is refused. See req/req.h.
 */
#include "req/req.h"

/* Of X-Corvo-Ignored: the answer's head has to fit into what is kept for it. */
#define IGNORED_BYTES_MAX 512

bool req_is_strict(struct req *r)
{
	const char *h = req_header(r, HEAD_STRICT);

	return h != NULL ? !str_is(str_from(h), "0") : r->h->set->strict;
}

/* As it may stand in a header: names are any text. */
static void put_path(struct buf *out, struct str path)
{
	for (size_t i = 0; i < path.n; i++) {
		unsigned char c = (unsigned char)path.p[i];

		if (c > ' ' && c < 0x7f && c != ',' && c != '%')
			buf_putc(out, (char)c);
		else
			buf_printf(out, "%%%02X", c);
	}
}

static void name_ignored(struct req *r)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	for (size_t i = 0; i < r->ignored.n; i++) {
		size_t before = text.n;

		if (before > 0)
			buf_puts(&text, ", ");
		put_path(&text, r->ignored.paths[i]);
		if (text.n > IGNORED_BYTES_MAX)
			text.n = before;
	}
	r->x.ignored = arena_cstr(&r->arena, buf_str(&text));
}

void req_ignore(struct req *r, struct str path)
{
	struct ignored *i = &r->ignored;

	if (i->paths == NULL)
		i->paths =
		    arena_alloc(&r->arena, LIMIT_IGNORED * sizeof(*i->paths));
	if (i->n < LIMIT_IGNORED)
		i->paths[i->n++] = path;
}

static void put_paths(const struct ignored *i, struct buf *why)
{
	for (size_t k = 0; k < i->n; k++)
		buf_printf(why, "%s%.*s", k > 0 ? ", " : "",
			   STR_ARG(i->paths[k]));
}

void ignored_explain(const struct ignored *i, struct buf *why)
{
	put_paths(i, why);
	buf_puts(why, ": would be ignored, and the request is strict");
}

/* What a setting is called wrongly would silently stay as it was. */
static bool refuse_unknown(struct req *r)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(4096);

	put_paths(&r->unknown, &text);
	buf_puts(&text, r->unknown.n == 1 ? ": there is no such member"
					  : ": there are no such members");
	req_fail_text(r, ERR_VALIDATION_ERROR, buf_str(&text));
	return false;
}

bool req_read_done(struct req *r)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(4096);

	if (r->unknown.n > 0)
		return refuse_unknown(r);
	if (r->ignored.n == 0)
		return true;
	if (!req_is_strict(r)) {
		name_ignored(r);
		return true;
	}
	ignored_explain(&r->ignored, &text);
	req_fail_text(r, ERR_VALIDATION_ERROR, buf_str(&text));
	return false;
}
