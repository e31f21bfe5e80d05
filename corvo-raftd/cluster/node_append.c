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
	struct raft_io_append ours;
	struct raft_io_append *theirs;
	raft_io_append_cb cb;
	struct node *node;
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
	bool hidden = node_piece_hides(w->node);
	struct raft_io_append *theirs = w->theirs;
	raft_io_append_cb cb = w->cb;
	struct node *n = w->node;
	bool members = w->members;

	n->pieces.writes -= w->leads;
	guard_writing_ends(n, &w->answer);
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
	if (status != 0 && status != RAFT_CANCELED && !w->node->stopping) {
		node_log_failed(w->node, status);
		/* what it has proposed has no outcome, and others go on */
		if (w->leads)
			abort();
	}
	if (!node_piece_holds(w->node, &w->waits))
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
	w->node = n;
	w->answer = guard_writing(n);
	w->members = guard_vote_writing(n, entries, count);
	w->leads = n->raft.state == RAFT_LEADER;
	n->pieces.writes += w->leads;
	r = n->append(io, &w->ours, entries, count, on_written);
	if (r != 0) {
		n->pieces.writes -= w->leads;
		guard_vote_written(n, w->members);
		free(w);
		return r;
	}
	return 0;
}

void node_watch_appends(struct node *n)
{
	n->append = n->io.append;
	n->io.append = append;
}
