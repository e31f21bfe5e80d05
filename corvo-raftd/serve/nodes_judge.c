/*
 * Whose store differs, by the digests that nodes told. Those that most nodes
 * have are right; where that cannot be said, the leader's is. Loop thread.
 */
#include <inttypes.h>

#include "rt/log.h"
#include "serve/nodes_impl.h"

/* Digests at the leader's entry. */
struct count {
	size_t same, other;   /* as the leader's, and not */
	const char *other_is; /* that all of the others have */
	bool split;           /* they have several */
};

static bool is_at(const struct heard *h, const struct compare_result *own)
{
	return h->raft_id != 0 && h->digest.index == own->index;
}

static bool is_same(const struct heard *h, const struct compare_result *own)
{
	return strcmp(h->digest.text, own->text) == 0;
}

static struct count count(const struct svc_nodes *n,
			  const struct compare_result *own)
{
	struct count c = { .same = 1 };

	for (size_t i = 0; i < ARRAY_SIZE(n->heard); i++) {
		const struct heard *h = &n->heard[i];

		if (!is_at(h, own))
			continue;
		if (is_same(h, own)) {
			c.same++;
			continue;
		}
		c.other++;
		if (c.other_is != NULL &&
		    strcmp(c.other_is, h->digest.text) != 0)
			c.split = true;
		c.other_is = h->digest.text;
	}
	return c;
}

static void say(struct svc *s, uint64_t raft_id, uint64_t index)
{
	struct m_member m = { 0 };

	(void)fsm_member_find(s->p->fsm, raft_id, &m);
	log_error("the store of node %.*s is not what the others have at entry "
		  "%" PRIu64 "; docs/runbook.md says what to do about it",
		  STR_ARG(m.name), index);
}

static void set(struct svc *s, struct store_verdict *v, uint64_t raft_id,
		bool bad, uint64_t index)
{
	if (bad && (!v->known || v->differs == 0))
		say(s, raft_id, index);
	if (!bad || v->differs == 0)
		v->differs = bad ? index : 0;
	v->known = true;
}

void nodes_judge(struct svc_nodes *n)
{
	const struct compare_result *own = compare_last(n->s);
	struct count c;
	bool odd;

	if (own->index == 0)
		return;
	c = count(n, own);
	odd = c.other > c.same && !c.split;
	if (c.same + c.other > 1)
		set(n->s, &n->own, node_id(n->s->p->node), odd, own->index);
	for (size_t i = 0; i < ARRAY_SIZE(n->heard); i++) {
		struct heard *h = &n->heard[i];

		if (is_at(h, own))
			set(n->s, &h->verdict, h->raft_id,
			    is_same(h, own) == odd, own->index);
	}
}
