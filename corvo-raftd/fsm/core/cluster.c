/*
 * The records of the cluster. See core/cluster.h.
 */
#include "fsm/core/cluster.h"

#include <stdlib.h>

#include "fsm/core/entry.h"
#include "fsm/core/scan.h"

/* --- nodes --- */

/* Where it stands, or would. */
static size_t place_of(const struct fsm_cluster *c, uint64_t raft_id)
{
	size_t i = 0;

	while (i < c->members_n && c->members[i]->m.raft_id < raft_id)
		i++;
	return i;
}

static bool is_at(const struct fsm_cluster *c, size_t i, uint64_t raft_id)
{
	return i < c->members_n && c->members[i]->m.raft_id == raft_id;
}

const struct m_member *cluster_find(const struct fsm *f, uint64_t raft_id)
{
	const struct fsm_cluster *c = &f->cluster;
	size_t i = place_of(c, raft_id);

	return is_at(c, i, raft_id) ? &c->members[i]->m : NULL;
}

static void keep_text(struct str *text, char **at)
{
	if (text->n > 0)
		memcpy(*at, text->p, text->n);
	text->p = *at;
	*at += text->n;
}

static struct fsm_member *member_new(const struct m_member *m)
{
	struct fsm_member *ret = xmalloc(
	    sizeof(*ret) + m->name.n + m->address.n + m->http.n + m->version.n);
	char *at = ret->texts;

	ret->m = *m;
	keep_text(&ret->m.name, &at);
	keep_text(&ret->m.address, &at);
	keep_text(&ret->m.http, &at);
	keep_text(&ret->m.version, &at);
	return ret;
}

/* In memory. m may point into the one whose place it takes. */
static void put_member(struct fsm *f, const struct m_member *m)
{
	struct fsm_cluster *c = &f->cluster;
	struct fsm_member *fresh = member_new(m);
	size_t i = place_of(c, m->raft_id);

	if (is_at(c, i, m->raft_id)) {
		free(c->members[i]);
	} else {
		MUST(f, c->members_n < LIMIT_MEMBERS);
		memmove(&c->members[i + 1], &c->members[i],
			(c->members_n - i) * sizeof(c->members[0]));
		c->members_n++;
	}
	c->members[i] = fresh;
}

void cluster_put(struct fsm *f, const struct m_member *m)
{
	struct key k;

	key_member(&k, m->raft_id);
	fsm_put(f, &k, &msg_member, m);
	put_member(f, m);
}

void cluster_remove(struct fsm *f, uint64_t raft_id)
{
	struct fsm_cluster *c = &f->cluster;
	size_t i = place_of(c, raft_id);
	struct key k;

	MUST(f, is_at(c, i, raft_id));
	key_member(&k, raft_id);
	fsm_delete(f, &k);
	free(c->members[i]);
	c->members_n--;
	memmove(&c->members[i], &c->members[i + 1],
		(c->members_n - i) * sizeof(c->members[0]));
}

/* --- leader and level --- */

bool cluster_leader(const struct fsm *f, struct m_leader *ret)
{
	const struct fsm_cluster *c = &f->cluster;

	*ret = (struct m_leader){ 0 };
	if (c->leader_id == 0)
		return false;
	MSG_SET(ret, leader, raft_id, c->leader_id);
	MSG_SET(ret, leader, name, str_of(c->leader_name, c->leader_name_n));
	MSG_SET(ret, leader, term, c->leader_term);
	MSG_SET(ret, leader, since, c->leader_since);
	return true;
}

void cluster_set_leader(struct fsm *f, const struct m_leader *l)
{
	struct fsm_cluster *c = &f->cluster;

	MUST(f, l->name.n <= sizeof(c->leader_name));
	c->leader_id = l->raft_id;
	c->leader_term = l->term;
	c->leader_since = l->since;
	c->leader_name_n = l->name.n;
	if (l->name.n > 0)
		memcpy(c->leader_name, l->name.p, l->name.n);
}

void cluster_save(struct fsm *f)
{
	struct m_cluster_doc m = { 0 };
	struct m_leader leader;
	struct key k;

	if (cluster_leader(f, &leader))
		MSG_SET(&m, cluster_doc, leader, &leader);
	if (f->cluster.level != LEVEL_FIRST)
		MSG_SET(&m, cluster_doc, level, f->cluster.level);
	key_cluster(&k);
	fsm_put(f, &k, &msg_cluster_doc, &m);
}

uint32_t level_agreed(uint32_t now, const uint32_t *known, size_t n)
{
	uint32_t least = n > 0 ? known[0] : now;

	for (size_t i = 1; i < n; i++)
		least = MIN(least, known[i]);
	return MAX(now, least);
}

/* --- start and end --- */

static int load_member(struct fsm *f, struct str key, struct str value)
{
	struct m_member m;

	if (key.n != 8 || f->cluster.members_n == LIMIT_MEMBERS ||
	    msg_decode(&msg_member, value, &f->item_arena, &m) < 0 ||
	    m.raft_id != get_be64(key.p))
		return -ERR_INTERNAL_ERROR;
	put_member(f, &m);
	return 0;
}

int cluster_load(struct fsm *f)
{
	struct m_cluster_doc m;
	struct key k;
	int r = load_all(f, "mb|", load_member);

	if (r < 0)
		return r;
	key_cluster(&k);
	arena_reset(&f->item_arena);
	r = fsm_read(f, &k, &msg_cluster_doc, &m);
	if (r <= 0)
		return r;
	if (MSG_HAS(&m, cluster_doc, level))
		f->cluster.level = m.level;
	if (m.leader == NULL)
		return 0;
	if (m.leader->name.n > LIMIT_NODE_NAME_BYTES)
		return -ERR_INTERNAL_ERROR;
	cluster_set_leader(f, m.leader);
	return 0;
}

void cluster_free(struct fsm *f)
{
	struct fsm_cluster *c = &f->cluster;

	while (c->members_n > 0)
		free(c->members[--c->members_n]);
}
