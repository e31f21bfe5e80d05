/*
 * Snapshots of the leader. The library would take the manifest for the state,
 * and go on with a store that has not got it. So an offer is taken out of what
 * it receives, and told: the files are fetched beside it, and put in place at
 * the next start (download.h, install.h).
 *
 * Until then the leader offers it again and again, and sends heartbeats in
 * between. These fit to no entry of ours and are answered as such, which the
 * leader takes for a sign of life and for nothing else.
 */
#include <inttypes.h>

#include "cluster/node_impl.h"
#include "rt/log.h"

const struct raft_entry *node_entry(struct node *n, uint64_t index)
{
	const struct raft_log *l = &n->raft.log;
	size_t at = (size_t)(index - l->offset - 1);

	if (index <= l->offset || index > raft_last_index(&n->raft))
		return NULL;
	return &l->entries[(l->front + at) % l->size];
}

uint64_t node_term_of(struct node *n, uint64_t index)
{
	const struct raft_log *l = &n->raft.log;
	const struct raft_entry *e;

	if (index == l->snapshot.last_index)
		return l->snapshot.last_term;
	e = node_entry(n, index);
	return e != NULL ? e->term : 0;
}

bool node_needs_snapshot(struct node *n, uint64_t index, uint64_t term)
{
	return n->raft.log.snapshot.last_index < index &&
	       node_term_of(n, index) != term;
}

/* The library knows what to answer to the others: it reads nothing of them. */
static bool is_needed(struct node *n, const struct raft_install_snapshot *a)
{
	return n->raft.state != RAFT_UNAVAILABLE &&
	       a->term >= n->raft.current_term &&
	       node_needs_snapshot(n, a->last_index, a->last_term);
}

static void tell(struct node *n, const struct raft_message *m)
{
	const struct raft_install_snapshot *a = &m->install_snapshot;
	struct node_install i = { .term = a->last_term,
				  .members_index = a->conf_index,
				  .leader = m->server_id };
	struct raft_buffer members;

	if (!manifest_parse(str_of(a->data.base, a->data.len), &i.manifest) ||
	    i.manifest.index != a->last_index) {
		log_error("the leader offers a snapshot that cannot be read, "
			  "of entry %llu",
			  a->last_index);
		return;
	}
	/* what its store had, when it got it, is not what ours will have */
	i.manifest.store = 0;
	if (raft_configuration_encode(&a->conf, &members) != 0)
		return; /* no memory; it comes again */
	i.members = str_of(members.base, members.len);
	n->ops->on_install(n->ctx, &i);
	raft_free(members.base);
}

/*
 * The rest of what the library does with an offer: it notices the term and the
 * leader, and waits longer before it wants to be one. It does so with every
 * heartbeat; this one is about an entry that nobody has.
 */
static void hear_leader(struct node *n, const struct raft_message *m)
{
	struct raft_message h = {
		.type = RAFT_IO_APPEND_ENTRIES,
		.server_id = m->server_id,
		.server_address = m->server_address,
	};

	h.append_entries = (struct raft_append_entries){
		.term = m->install_snapshot.term,
		.prev_log_index = UINT64_MAX,
		.prev_log_term = m->install_snapshot.term,
	};
	n->receive.recv(&n->io, &h);
}

/*
 * A leader that was not told how far the snapshot has got this node sends
 * entries from before its end. All of these are committed, and the same
 * everywhere. But the library looks for the entry before the first one in its
 * log, where the snapshot has left none: it would refuse them, and the leader
 * go back one entry at a time, sending all from there again; and those from the
 * first on it would append behind the last one it has. How much of the log
 * behind the snapshot fits is another matter, and not answered: guard.c.
 */
static void leave_out_known(struct node *n, struct raft_append_entries *a)
{
	const struct raft_log *l = &n->raft.log;
	uint64_t index = l->snapshot.last_index;
	unsigned known;

	if (a->prev_log_index >= index || index > node_committed(n) ||
	    (a->prev_log_index > 0 && node_term_of(n, a->prev_log_index) != 0))
		return;
	known =
	    (unsigned)MIN(index - a->prev_log_index, (uint64_t)a->n_entries);
	a->prev_log_index = index;
	a->prev_log_term = l->snapshot.last_term;
	if (known == 0)
		return;
	if (known == a->n_entries) {
		raft_free(a->entries[0].batch);
		raft_free(a->entries);
		a->entries = NULL;
	} else {
		memmove(a->entries, a->entries + known,
			(a->n_entries - known) * sizeof(*a->entries));
	}
	a->n_entries -= known;
}

/* What the library would have freed. */
static void drop(struct raft_message *m)
{
	struct raft_append_entries *a = &m->append_entries;

	if (m->type == RAFT_IO_APPEND_ENTRIES && a->n_entries > 0) {
		raft_free(a->entries[0].batch);
		raft_free(a->entries);
	}
	if (m->type == RAFT_IO_INSTALL_SNAPSHOT) {
		raft_configuration_close(&m->install_snapshot.conf);
		raft_free(m->install_snapshot.data.base);
	}
}

void node_receive_result(struct node *n, struct raft_message *m)
{
	struct raft_append_entries_result r;
	raft_id id = m->server_id;

	if (!guard_receiving(n, m))
		return;
	r = m->append_entries_result;
	if (n->raft.state == RAFT_LEADER && r.term == n->raft.current_term)
		node_sends_heard(n, m);
	n->receive.recv(&n->io, m);
	guard_received(n);
	node_hint_heard(n, id, &r);
}

static void pass_on(struct node *n, struct raft_message *m)
{
	if (!guard_receiving(n, m)) {
		drop(m);
		return;
	}
	guard_vote_receiving(n, m);
	n->receive.recv(&n->io, m);
	guard_vote_received(n);
	guard_received(n);
}

void node_receive(struct raft_io *io, struct raft_message *m)
{
	struct node *n = container_of(io, struct node, io);

	node_note_sender(n, m->server_id);
	if (!node_frozen_takes(n, m) || !guard_vote_takes(n, m))
		return;
	if (m->type == RAFT_IO_APPEND_ENTRIES_RESULT) {
		if (!node_piece_keeps(n, m))
			node_receive_result(n, m);
		return;
	}
	if (m->type == RAFT_IO_APPEND_ENTRIES)
		node_sync_heard(n, &m->append_entries);
	if (m->type == RAFT_IO_APPEND_ENTRIES)
		leave_out_known(n, &m->append_entries);
	if (m->type != RAFT_IO_INSTALL_SNAPSHOT ||
	    !is_needed(n, &m->install_snapshot)) {
		pass_on(n, m);
		return;
	}
	hear_leader(n, m);
	if (n->ops->on_install != NULL && !n->stopping)
		tell(n, m);
	drop(m);
}

static void on_tick(struct raft_io *io)
{
	struct node *n = container_of(io, struct node, io);

	node_stay_follower(n);
	n->receive.tick(io);
}

static int start(struct raft_io *io, unsigned msecs, raft_io_tick_cb tick,
		 raft_io_recv_cb recv)
{
	struct node *n = container_of(io, struct node, io);

	n->receive.recv = recv;
	n->receive.tick = tick;
	return n->receive.start(io, msecs, on_tick, node_receive);
}

void node_watch_installs(struct node *n)
{
	n->receive.start = n->io.start;
	n->io.start = start;
}
