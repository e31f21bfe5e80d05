/*
 * What the state knows of the cluster, for whoever runs it.
 */
#include "fsm/core/cluster.h"

void fsm_members(const struct fsm *f, fsm_member_fn *fn, void *ctx)
{
	for (size_t i = 0; i < f->cluster.members_n; i++)
		fn(ctx, &f->cluster.members[i]->m);
}

bool fsm_member_find(const struct fsm *f, uint64_t raft_id,
		     struct m_member *ret)
{
	const struct m_member *m = cluster_find(f, raft_id);

	if (m != NULL)
		*ret = *m;
	return m != NULL;
}

bool fsm_leader(const struct fsm *f, struct m_leader *ret)
{
	return cluster_leader(f, ret);
}

bool fsm_take_compare(struct fsm *f)
{
	bool ret = f->compare;

	f->compare = false;
	return ret;
}

uint32_t fsm_level(const struct fsm *f)
{
	return f->cluster.level;
}

uint32_t fsm_level_for(const struct fsm *f, const uint64_t *voters, size_t n,
		       uint64_t self)
{
	uint32_t known[LIMIT_MEMBERS];

	if (n > LIMIT_MEMBERS)
		return f->cluster.level;
	for (size_t i = 0; i < n; i++) {
		const struct m_member *m = cluster_find(f, voters[i]);

		known[i] = voters[i] == self ? FEATURE_LEVEL
			   : m != NULL       ? m->level_max
					     : 0;
	}
	return level_agreed(f->cluster.level, known, n);
}

/* "n1", "n1 and n2", "n1, n2 and n3" */
void fsm_level_why(const struct fsm *f, uint32_t level, struct buf *ret)
{
	const struct fsm_cluster *c = &f->cluster;
	uint32_t least = level;
	size_t n = 0, told = 0;

	for (size_t i = 0; i < c->members_n; i++) {
		if (c->members[i]->m.level_max >= level)
			continue;
		least = MIN(least, c->members[i]->m.level_max);
		n++;
	}
	buf_printf(ret, "this needs feature level %u; ", level);
	if (n == 0) {
		buf_printf(ret,
			   "the cluster uses %u until all its nodes are known "
			   "to know more: try again",
			   c->level);
		return;
	}
	buf_puts(ret, n == 1 ? "node " : "nodes ");
	for (size_t i = 0; i < c->members_n; i++) {
		const struct m_member *m = &c->members[i]->m;

		if (m->level_max >= level)
			continue;
		if (told > 0)
			buf_puts(ret, told + 1 == n ? " and " : ", ");
		buf_put_str(ret, m->name);
		told++;
	}
	buf_printf(ret, " run%s a version that knows only %u: upgrade %s first",
		   n == 1 ? "s" : "", MAX(least, LEVEL_FIRST),
		   n == 1 ? "it" : "them");
}
