#include "cluster/manifest.h"

#include <inttypes.h>
#include <stdio.h>

#define FIRST_FORMAT "corvo snapshot 1 index %" SCNu64 "%n"
#define FORMAT_HEAD                                                            \
	"corvo snapshot 2 index %" SCNu64 " applied %" SCNu64 " term %" SCNu64 \
	" id %" SCNx64 " history%n"
#define FORMAT_STORE "store %" SCNu64 " term %" SCNu64 " id %" SCNx64 "%n"

void manifest_put(struct buf *b, const struct manifest *m)
{
	size_t begin = b->n;

	buf_printf(b,
		   "corvo snapshot 2 index %" PRIu64 " applied %" PRIu64
		   " term %" PRIu64 " id %" PRIx64 " history ",
		   m->index, m->applied, m->origin.term, m->origin.id);
	history_put(b, &m->origin.history);
	if (m->store != 0)
		buf_printf(b, " store %" PRIu64 " term %" PRIu64 " id %" PRIx64,
			   m->store, m->store_origin.term, m->store_origin.id);
	buf_putc(b, '\n');
	CHECK(b->n - begin < MANIFEST_BYTES);
	while (b->n - begin < MANIFEST_BYTES)
		buf_putc(b, '\0');
}

/* Of the first versions. */
static bool parse_first(const char *text, struct manifest *ret)
{
	int end = 0;

	if (sscanf(text, FIRST_FORMAT, &ret->index, &end) != 1 ||
	    text[end] != '\n')
		return false;
	ret->applied = ret->index;
	return true;
}

/* What follows the history, up to the end of the line. */
static bool parse_store(struct str s, struct manifest *ret)
{
	struct entry_origin *o = &ret->store_origin;
	int end = 0;

	if (s.n == 0)
		return true;
	if (sscanf(s.p, FORMAT_STORE, &ret->store, &o->term, &o->id, &end) !=
		3 ||
	    (size_t)end != s.n)
		return false;
	o->history = ret->origin.history;
	return ret->store >= ret->applied;
}

bool manifest_parse(struct str s, struct manifest *ret)
{
	char text[MANIFEST_BYTES + 1] = "";
	struct str line, history, store, rest;
	int end = 0;

	*ret = (struct manifest){ 0 };
	memcpy(text, s.p, MIN(s.n, (size_t)MANIFEST_BYTES));
	if (parse_first(text, ret))
		return true;
	if (sscanf(text, FORMAT_HEAD, &ret->index, &ret->applied,
		   &ret->origin.term, &ret->origin.id, &end) != 4 ||
	    end == 0 || text[end] != ' ')
		return false;
	end++; /* the history may be empty */
	if (!str_split(str_from(text + end), '\n', &line, &rest))
		return false;
	(void)str_split(line, ' ', &history, &store);
	return history_parse(history, &ret->origin.history) &&
	       parse_store(store, ret) && ret->applied <= ret->index;
}
