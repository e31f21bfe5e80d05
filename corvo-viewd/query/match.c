/*
 * See query/match.h. Pure function of its arguments; out grows to at most three
 * times the text.
 */
#include "query/match.h"

#include "proto/limits.h"
#include "util/hmap.h"

static bool is_space(unsigned char c)
{
	return c <= ' ' || c == 0x7f;
}

/* Takes the next word or phrase off *rest; false at the end. */
static bool next_term(struct str *rest, struct str *ret)
{
	struct str s = *rest;
	size_t n = 0;

	while (s.n > 0 && is_space((unsigned char)s.p[0]))
		s = str_skip(s, 1);
	if (s.n == 0)
		return false;
	if (s.p[0] == '"') {
		(void)str_split(str_skip(s, 1), '"', ret, rest);
		return true;
	}
	while (n < s.n && !is_space((unsigned char)s.p[n]) && s.p[n] != '"')
		n++;
	*ret = str_of(s.p, n);
	*rest = str_skip(s, n);
	return true;
}

/* A star at the end of a word, or right after the quotes of a phrase. */
static bool take_star(struct str *term, struct str *rest)
{
	if (term->n > 0 && term->p[term->n - 1] == '*') {
		term->n--;
		return true;
	}
	if (rest->n > 0 && rest->p[0] == '*') {
		*rest = str_skip(*rest, 1);
		return true;
	}
	return false;
}

/* SQLite reads the expression up to the first NUL. */
static void put_term(struct buf *out, struct str term, bool prefix)
{
	buf_putc(out, '"');
	for (size_t i = 0; i < term.n; i++)
		buf_putc(out, term.p[i] == '\0' ? ' ' : term.p[i]);
	buf_puts(out, prefix ? "\"*" : "\"");
}

struct terms {
	struct hmap seen;         /* as they stand in the expression */
	size_t prefixes, phrases; /* the latter in words */
};

/* True: it is new, so it stays in the expression. */
static bool is_new(struct terms *t, struct str term, size_t words, bool prefix)
{
	if (hmap_put(&t->seen, term, t) != NULL)
		return false;
	t->prefixes += prefix;
	t->phrases += words > 1 ? words : 0;
	return true;
}

static enum match judge(const struct terms *t)
{
	if (t->prefixes > LIMIT_SEARCH_PREFIXES)
		return MATCH_MANY_PREFIXES;
	if (t->phrases > LIMIT_SEARCH_PHRASES)
		return MATCH_LONG_PHRASES;
	return t->seen.n > 0 ? MATCH_BUILT : MATCH_NOTHING;
}

enum match match_build(struct str q, match_count_fn *count, void *ctx,
		       struct buf *out)
{
	size_t start = out->n;
	struct terms terms = { 0 };
	struct str term;
	enum match m;

	while (next_term(&q, &term)) {
		bool prefix = take_star(&term, &q);
		size_t before = out->n, words = count(ctx, term), begin;

		if (words == 0)
			continue;
		if (before > start)
			buf_putc(out, ' ');
		begin = out->n;
		put_term(out, term, prefix);
		if (!is_new(&terms, str_skip(buf_str(out), begin), words,
			    prefix))
			out->n = before;
	}
	m = judge(&terms);
	if (m != MATCH_BUILT)
		out->n = start;
	hmap_done(&terms.seen);
	return m;
}
