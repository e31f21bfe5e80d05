/*
 * What becomes of entries that are written to the log. When a follower cannot
 * write them the library tells the leader, and nobody else: it would go on, and
 * write later ones behind those that are missing. So nothing is written after
 * the first failure, and it is told. A leader ends there: the library takes out
 * of its memory what others may have by now, leads on, and looks for a snapshot
 * to send them, which may never have been made.
 */
#include <stdlib.h>

#include "cluster/node_impl.h"
#include "rt/log.h"

/* A request to write. The library is given one of ours in place of its own. */
struct write {
	struct list node; /* in node.writes */
	struct raft_io_append ours;
	struct raft_io_append *theirs;
	raft_io_append_cb cb;
	struct node *owner;
	const struct raft_entry *entries; /* the library's until it hears */
	uint64_t first, end;              /* of their indexes; end: not one */
	uint64_t left; /* from there on they were cut off the log */
	struct guard_answer answer; /* to be given then */
	bool members;               /* are among them */
	bool leads;                 /* this node, when it began */
	struct list waits;          /* when it has ended */
	int status;                 /* and how */
};

void node_log_failed(struct node *n, int status)
{
	if (n->log_failed)
		return;
	n->log_failed = true;
	log_error("the raft log in %s/raft cannot be written: %s; nothing more "
		  "is written",
		  n->data_dir,
		  n->io.errmsg[0] != '\0' ? n->io.errmsg
					  : raft_strerror(status));
}

static void tell(struct write *w)
{
	int status = w->status;
	struct guard_answer answer = w->answer;
	bool hidden = node_piece_hides(w->owner);
	struct raft_io_append *theirs = w->theirs;
	raft_io_append_cb cb = w->cb;
	struct node *n = w->owner;
	bool members = w->members;

	n->pieces.writes -= w->leads;
	guard_writing_ends(n, &w->answer);
	list_remove(&w->node);
	free(w);
	cb(theirs, status);
	if (hidden)
		node_piece_shows(n, &answer);
	guard_vote_written(n, members);
	guard_writing_ended(n);
}

void node_written(struct list *written)
{
	tell(list_entry(written, struct write, waits));
}

static void on_written(struct raft_io_append *req, int status)
{
	struct write *w = container_of(req, struct write, ours);

	w->status = status;
	if (status != 0 && status != RAFT_CANCELED && !w->owner->stopping) {
		node_log_failed(w->owner, status);
		/* what it has proposed has no outcome, and others go on */
		if (w->leads)
			abort();
	}
	if (!node_piece_holds(w->owner, &w->waits))
		tell(w);
}

static int append(struct raft_io *io, struct raft_io_append *req,
		  const struct raft_entry entries[], unsigned count,
		  raft_io_append_cb cb)
{
	struct node *n = container_of(io, struct node, io);
	struct write *w;
	int r;

	if (n->log_failed)
		return RAFT_IOERR;
	w = xcalloc(1, sizeof(*w));
	w->theirs = req;
	w->cb = cb;
	w->owner = n;
	w->entries = entries;
	w->end = raft_last_index(&n->raft) + 1; /* it has them already */
	CHECK(count > 0 && w->end > count);
	w->first = w->end - count;
	w->left = w->end;
	w->answer = guard_writing(n);
	w->members = guard_vote_writing(n, entries, count);
	w->leads = n->raft.state == RAFT_LEADER;
	n->pieces.writes += w->leads;
	list_push_back(&n->writes, &w->node);
	r = n->append(io, &w->ours, entries, count, on_written);
	if (r != 0) {
		n->pieces.writes -= w->leads;
		guard_vote_written(n, w->members);
		list_remove(&w->node);
		free(w);
		return r;
	}
	return 0;
}

/* --- what is being written and was cut off --- */

void node_writes_cut(struct node *n, uint64_t index)
{
	LIST_FOREACH (it, &n->writes) {
		struct write *w = list_entry(it, struct write, node);

		w->left = MIN(w->left, MAX(w->first, index));
	}
}

/* How many entries of the message come before one of those. */
static unsigned come_before(const struct write *w,
			    const struct raft_append_entries *a)
{
	uint64_t first = a->prev_log_index + 1;

	for (uint64_t i = MAX(w->left, first);
	     i < w->end && i - first < a->n_entries; i++)
		if (a->entries[i - first].term == w->entries[i - w->first].term)
			return (unsigned)(i - first);
	return a->n_entries;
}

void node_writes_wait(struct node *n, struct raft_append_entries *a)
{
	LIST_FOREACH (it, &n->writes) {
		struct write *w = list_entry(it, struct write, node);

		node_leave_out_entries(a, come_before(w, a));
	}
}

void node_watch_appends(struct node *n)
{
	list_init(&n->writes);
	n->append = n->io.append;
	n->io.append = append;
}
