/*
 * Members. A change of the members holds from the moment it is in the log, and
 * goes with it when it is cut off there. The members before it are those of the
 * last change that is left.
 *
 * The library looks for these in its log, at the last change that is committed,
 * and does not expect that a snapshot has taken its place. At a start it takes
 * the last change in the log for one that is committed, so that nothing is put
 * back when it is cut off. And a snapshot gets the members there are, committed
 * or not, as those of the last change that is.
 *
 * So the committed ones are kept here, and it does not get to put back
 * anything: while it receives entries it knows of no change under way.
 */
#include <string.h>

#include "cluster/node_impl.h"
#include "util/le.h"

#define HEAD_BYTES 9 /* format, number of members */
#define ID_BYTES   8
#define FORMAT     1

static uint64_t uncommitted(const struct node *n)
{
	return MAX(n->guard.members.hidden,
		   n->raft.configuration_uncommitted_index);
}

static void keep(struct guard_members *g, uint64_t index, const void *p,
		 size_t len)
{
	g->index = index;
	buf_clear(&g->bytes);
	buf_append(&g->bytes, p, len);
}

/* --- as the library encodes them --- */

static int decode_one(struct str *b, struct raft_configuration *ret)
{
	const char *end;
	uint64_t id;
	size_t len;

	if (b->n <= ID_BYTES)
		return RAFT_MALFORMED;
	id = get_le64(b->p);
	*b = str_skip(*b, ID_BYTES);
	end = memchr(b->p, '\0', b->n);
	len = end != NULL ? (size_t)(end - b->p) : b->n;
	if (len + 2 > b->n)
		return RAFT_MALFORMED;
	if (raft_configuration_add(ret, id, b->p, (uint8_t)b->p[len + 1]) != 0)
		return RAFT_MALFORMED;
	*b = str_skip(*b, len + 2);
	return 0;
}

int guard_members_decode(struct str b, struct raft_configuration *ret)
{
	uint64_t count;
	int r = 0;

	raft_configuration_init(ret);
	if (b.n < HEAD_BYTES || b.p[0] != FORMAT)
		return RAFT_MALFORMED;
	count = get_le64(b.p + 1);
	b = str_skip(b, HEAD_BYTES);
	for (uint64_t i = 0; r == 0 && i < count; i++)
		r = decode_one(&b, ret);
	if (r != 0)
		raft_configuration_close(ret);
	return r;
}

/* Members of the log were looked at when they came (raft_wire.h), or made by
 * the library. */
static void put_in_place(struct raft_configuration *c, struct str bytes)
{
	struct raft_configuration now;

	CHECK(guard_members_decode(bytes, &now) == 0);
	raft_configuration_close(c);
	*c = now;
}

/* --- which are committed --- */

void guard_members_loaded(struct node *n, const struct raft_snapshot *s,
			  uint64_t first, const struct raft_entry *entries,
			  size_t count)
{
	struct guard_members *g = &n->guard.members;
	/* the first entry of a cluster is its members, for good */
	uint64_t committed = s != NULL ? s->index : 1;
	struct raft_buffer b;

	if (s != NULL) {
		CHECK(raft_configuration_encode(&s->configuration, &b) == 0);
		keep(g, s->configuration_index, b.base, b.len);
		raft_free(b.base);
	}
	for (size_t i = 0; i < count && first + i <= committed; i++)
		if (entries[i].type == RAFT_CHANGE && first + i >= g->index)
			keep(g, first + i, entries[i].buf.base,
			     entries[i].buf.len);
}

void guard_members_look(struct node *n)
{
	struct guard_members *g = &n->guard.members;
	const struct raft_entry *e;

	if (n->raft.configuration_index <= g->index)
		return;
	e = node_entry(n, n->raft.configuration_index);
	CHECK(e != NULL && e->type == RAFT_CHANGE);
	keep(g, n->raft.configuration_index, e->buf.base, e->buf.len);
}

void guard_members_started(struct node *n)
{
	struct guard_members *g = &n->guard.members;
	struct raft *r = &n->raft;

	if (guard_is_on(GUARD_MEMBERS) && g->index > 0 &&
	    r->configuration_index > MAX(g->index, node_committed(n))) {
		r->configuration_uncommitted_index = r->configuration_index;
		r->configuration_index = g->index;
	}
	guard_members_look(n);
}

/* --- what is put back --- */

void guard_members_hide(struct node *n)
{
	if (!guard_is_on(GUARD_MEMBERS))
		return;
	n->guard.members.hidden = n->raft.configuration_uncommitted_index;
	n->raft.configuration_uncommitted_index = 0;
}

void guard_members_show(struct node *n)
{
	struct guard_members *g = &n->guard.members;

	/* it may have been committed meanwhile */
	if (g->hidden > n->raft.configuration_index)
		n->raft.configuration_uncommitted_index =
		    MAX(n->raft.configuration_uncommitted_index, g->hidden);
	g->hidden = 0;
	guard_members_look(n);
}

void guard_members_cut(struct node *n, uint64_t index)
{
	struct guard_members *g = &n->guard.members;

	if (g->hidden < index)
		return;
	guard_members_look(n);
	for (uint64_t i = index - 1; i > g->index; i--) {
		const struct raft_entry *e = node_entry(n, i);

		if (e == NULL || e->type != RAFT_CHANGE)
			continue;
		put_in_place(&n->raft.configuration,
			     str_of(e->buf.base, e->buf.len));
		g->hidden = i;
		return;
	}
	put_in_place(&n->raft.configuration, buf_str(&g->bytes));
	g->hidden = 0;
}

void guard_members_snapshot(struct node *n)
{
	struct raft_snapshot *s = &n->raft.snapshot.pending;

	guard_members_look(n);
	if (uncommitted(n) == 0 || !guard_is_on(GUARD_MEMBERS))
		return;
	put_in_place(&s->configuration, buf_str(&n->guard.members.bytes));
	s->configuration_index = n->guard.members.index;
}
