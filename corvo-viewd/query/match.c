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

/* What the index keeps of ASCII; of the rest it knows better than we. */
static bool has_word(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c >= 0x80 || (c >= '0' && c <= '9') ||
		    ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'))
			return true;
	}
	return false;
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
	struct hmap seen; /* as they stand in the expression */
	size_t prefixes;
};

/* True: it is new, so it stays in the expression. */
static bool is_new(struct terms *t, struct str term, bool prefix)
{
	if (hmap_put(&t->seen, term, t) != NULL)
		return false;
	t->prefixes += prefix;
	return true;
}

enum match match_build(struct str q, struct buf *out)
{
	size_t start = out->n;
	struct terms terms = { 0 };
	struct str term;

	while (next_term(&q, &term) &&
	       terms.prefixes <= LIMIT_SEARCH_PREFIXES) {
		bool prefix = take_star(&term, &q);
		size_t before = out->n, begin;

		if (!has_word(term))
			continue;
		if (before > start)
			buf_putc(out, ' ');
		begin = out->n;
		put_term(out, term, prefix);
		if (!is_new(&terms, str_skip(buf_str(out), begin), prefix))
			out->n = before;
	}
	hmap_done(&terms.seen);
	if (terms.prefixes > LIMIT_SEARCH_PREFIXES) {
		out->n = start;
		return MATCH_TOO_MANY;
	}
	return out->n > start ? MATCH_BUILT : MATCH_NOTHING;
}
