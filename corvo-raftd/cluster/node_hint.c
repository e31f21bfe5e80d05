/*
 * Where to begin with a follower of which little is known.
 *
 * After a message that could not be sent the library goes back to the entry
 * behind the last one it knows the follower to have. A new leader knows of
 * none: it begins with the first entry of all, and when that is not in the log
 * any more, with a snapshot, although the log has all the follower is missing.
 *
 * But a follower that refuses entries says how long its own log is, and which
 * entry it has not got. So it is asked from the end of its own log, or from
 * before what it last refused: that index only falls, so in the end it is one
 * that fits, or one that the log has not. Only then it is a snapshot's turn.
 * To begin anywhere is safe: a follower takes only what fits to what it has.
 *
 * One that was not heard of since a message to it was lost may have started
 * anew, with a snapshot in place: it is offered none before it has answered.
 */
#include "cluster/node_impl.h"

/* As the library numbers them. */
enum progress_state { PROBE, PIPELINE, SNAPSHOT };

static struct node_hint *find_hint(struct node *n, raft_id id)
{
	struct node_hints *h = &n->hints;

	if (h->term != n->raft.current_term)
		*h = (struct node_hints){ .term = n->raft.current_term };
	for (unsigned i = 0; i < h->n; i++)
		if (h->of[i].id == id)
			return &h->of[i];
	if (h->n == ARRAY_SIZE(h->of)) /* members have come and gone */
		h->n = 0;
	h->of[h->n] = (struct node_hint){ .id = id };
	return &h->of[h->n++];
}

static struct raft_progress *find_progress(struct node *n, raft_id id)
{
	const struct raft_configuration *c = &n->raft.configuration;

	if (n->stopping || n->raft.state != RAFT_LEADER || id == n->raft.id)
		return NULL;
	for (unsigned i = 0; i < c->n; i++)
		if (c->servers[i].id == id)
			return &n->raft.leader_state.progress[i];
	return NULL;
}

/* Whether the library would send entries from there on. */
static bool has_before(struct node *n, raft_index next)
{
	if (next == 1)
		return n->raft.log.snapshot.last_index == 0;
	return node_term_of(n, next - 1) != 0;
}

static void look(struct node *n, uint64_t id)
{
	struct raft_progress *p = find_progress(n, id);
	const struct node_hint *h;
	raft_index at;

	if (p == NULL || p->state == PIPELINE)
		return;
	h = find_hint(n, id);
	at = raft_last_index(&n->raft);
	if (h->heard)
		at = MIN(at, h->last);
	if (h->refused > 0)
		at = MIN(at, h->refused - 1);
	at = MAX(at, p->match_index);
	if ((p->match_index > 0 && has_before(n, p->next_index)) ||
	    at + 1 <= p->next_index || !has_before(n, at + 1))
		return;
	p->state = PROBE;
	p->snapshot_index = 0;
	p->next_index = at + 1;
}

void node_hint_heard(struct node *n, uint64_t id,
		     const struct raft_append_entries_result *r)
{
	struct node_hint *h;

	if (r->term != n->raft.current_term || find_progress(n, id) == NULL)
		return;
	h = find_hint(n, id);
	/* what it has not got is known of the log it had */
	if (r->rejected == 0 || !h->heard || r->last_log_index > h->last)
		h->refused = 0;
	h->heard = true;
	h->last = r->last_log_index;
	if (r->rejected == 0)
		return;
	if (h->refused == 0 || r->rejected < h->refused)
		h->refused = r->rejected;
	look(n, id);
}

void node_hint_lost(struct node *n, uint64_t id)
{
	if (find_progress(n, id) == NULL)
		return;
	*find_hint(n, id) = (struct node_hint){ .id = id };
	look(n, id);
}

bool node_hint_is_heard(struct node *n, uint64_t id)
{
	return find_progress(n, id) == NULL || find_hint(n, id)->heard;
}
