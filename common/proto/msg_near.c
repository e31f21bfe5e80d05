/*
 * Members that are probably meant by a name no member has. Names are hostile:
 * the work for each is bounded by the length of the names of the table.
 */
#include "proto/msg_near.h"

#include <stdio.h>

#define NAME_MAX_BYTES 64 /* no member's name is longer */

/* Of few letters each changed one makes another word. */
static size_t slips_allowed(struct str a, struct str b)
{
	size_t shorter = MIN(a.n, b.n), longer = MAX(a.n, b.n);

	if (shorter >= 5)
		return 2;
	return longer >= 3 ? 1 : 0;
}

/* Which there are, without their order and number. */
static uint32_t letters(struct str s)
{
	uint32_t set = 0;

	for (size_t i = 0; i < s.n; i++)
		set |= 1u << ((unsigned char)s.p[i] & 31);
	return set;
}

/* Most names are far for this alone, which costs a tenth of the table. A slip
 * takes away one letter at most, and brings one. */
static bool has_other_letters(struct str a, struct str b)
{
	return (size_t)__builtin_popcount(letters(a) ^ letters(b)) >
	       2 * slips_allowed(a, b);
}

/*
 * Letters added, left out, changed or exchanged with the next. Rows of the
 * usual table, one for each letter of `a`; `before` is the one two back, which
 * an exchange is counted from.
 */
static size_t slips(struct str a, struct str b)
{
	size_t rows[3][NAME_MAX_BYTES + 1];
	size_t *before = rows[0], *last = rows[1], *row = rows[2];

	for (size_t j = 0; j <= b.n; j++)
		last[j] = j;
	for (size_t i = 1; i <= a.n; i++) {
		size_t *oldest = before;

		row[0] = i;
		for (size_t j = 1; j <= b.n; j++) {
			size_t n = last[j - 1] + (a.p[i - 1] != b.p[j - 1]);

			n = MIN(n, MIN(last[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] &&
			    a.p[i - 2] == b.p[j - 1])
				n = MIN(n, before[j - 2] + 1);
			row[j] = n;
		}
		before = last;
		last = row;
		row = oldest;
	}
	return last[b.n];
}

size_t name_slips(struct str name, struct str member)
{
	size_t longer = MAX(name.n, member.n), n;

	if (longer > NAME_MAX_BYTES ||
	    longer - MIN(name.n, member.n) > slips_allowed(name, member) ||
	    has_other_letters(name, member))
		return NAME_FAR;
	n = slips(name, member);
	return n <= slips_allowed(name, member) ? n : NAME_FAR;
}

/* Keeps the nearest of the names that were tried. */
static void try_name(struct str name, struct str member, size_t *best,
		     struct buf *ret)
{
	size_t n = name_slips(name, member);

	if (n >= *best)
		return;
	*best = n;
	buf_clear(ret);
	buf_put_str(ret, member);
}

static bool may_be_sent(const struct field_desc *f)
{
	return (f->flags & (F_INTERNAL | F_PATH | F_ANSWER)) == 0;
}

bool msg_longer(const struct msg_desc *d, struct str name, struct buf *ret)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct field_desc *f = &d->fields[i];

		if (!may_be_sent(f) || name.n == 0 || name.n >= f->name_len ||
		    f->name[name.n] != '_' ||
		    memcmp(f->name, name.p, name.n) != 0)
			continue;
		buf_puts(ret, f->name);
		return true;
	}
	return false;
}

bool msg_near(const struct msg_desc *d, struct str name, struct buf *ret)
{
	size_t best = NAME_FAR;

	for (size_t i = 0; i < d->n; i++) {
		const struct field_desc *f = &d->fields[i];
		char ms[NAME_MAX_BYTES + sizeof("_ms")];

		if (!may_be_sent(f))
			continue;
		try_name(name, str_of(f->name, f->name_len), &best, ret);
		if (f->kind != K_dur && f->kind != K_secs)
			continue;
		(void)snprintf(ms, sizeof(ms), "%s_ms", f->name);
		try_name(name, str_from(ms), &best, ret);
	}
	return best != NAME_FAR;
}
