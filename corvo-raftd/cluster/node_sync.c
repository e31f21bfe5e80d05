/*
 * Whether a node that follows has, since its start, all that was ever answered.
 *
 * The index that was committed at the start says nothing of that, nor does what
 * the library takes for committed while its log is short. And messages of raft
 * may have waited for a connection since before the start. So the leader is
 * asked. One of an older version does not say it; then its messages have to do,
 * once it has committed an entry of its own term: before that it may not know
 * how far the one before it had got.
 */
#include "cluster/node_impl.h"

void node_told(struct node *n, uint64_t term, uint64_t committed)
{
	n->sync = (struct node_sync){ .done = n->sync.done,
				      .asked = true,
				      .term = term,
				      .told = committed };
}

void node_not_told(struct node *n)
{
	n->sync.by_messages = true;
}

bool node_wants_to_be_told(const struct node *n)
{
	const struct node_sync *s = &n->sync;

	return !s->done && node_is_following(n) &&
	       (s->told == 0 || s->term != n->raft.current_term);
}

void node_sync_heard(struct node *n, const struct raft_append_entries *a)
{
	struct node_sync *s = &n->sync;

	if (!s->by_messages || a->term < n->raft.current_term)
		return;
	if (a->term != s->term)
		*s = (struct node_sync){ .done = s->done,
					 .by_messages = true,
					 .term = a->term };
	s->newest = MAX(s->newest, a->leader_commit);
	if (s->told == 0)
		s->told = s->newest;
}

static void look_whether_up(struct node *n)
{
	uint64_t committed = node_committed(n);

	if (n->followed || !node_is_following(n) || committed == 0 ||
	    n->raft.last_applied < committed)
		return;
	n->followed = true;
	n->ops->on_change(n->ctx);
}

void node_look_at_sync(struct node *n)
{
	struct node_sync *s = &n->sync;

	look_whether_up(n);
	if (s->done || !node_is_following(n) || s->told == 0 ||
	    s->term != n->raft.current_term || n->raft.last_applied < s->told)
		return;
	if (s->asked || node_term_of(n, s->told) == s->term) {
		s->done = true;
		n->ops->on_change(n->ctx);
	} else {
		s->told = s->newest; /* it is of an earlier term, or cut off */
	}
}
