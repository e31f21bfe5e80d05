/*
 * Bounds on what is sent to another node at a time; the library has none: an
 * AppendEntries message carries all entries from the follower's next index to
 * the end of the log, be it a gigabyte.
 *
 * Such a message is sent as several, each with so many bytes of entries as the
 * link takes in a part of the election timeout, or one: what takes longer would
 * keep a follower waiting for a word of its leader. The term of the entry
 * before each of them is known: it is an entry of the message. For the library
 * it stays one: it hears of its end when the last part has left. So what it
 * believes a follower was sent is true, and a follower that catches up is never
 * told of a gap. It answers each part, by which both know that the other is
 * alive.
 *
 * A follower that went back (the library asks again from an earlier entry) is
 * only probed: it gets the first part, the same one until it answers, and the
 * rest follows from there. When it answers, the library goes on behind what it
 * has, wherever that is.
 *
 * And to a node that does not take what is on its way to it no more is sent but
 * heartbeats. That is RAFT_NOCONNECTION to the library, which tries again with
 * the next entry, answer or heartbeat.
 *
 * What is committed the library tells with the next entry, or with the next
 * heartbeat. Where no entry follows, that is long for somebody who reads from
 * a follower what was written a moment ago; so such followers are sent a
 * heartbeat at once.
 */
#include <stdlib.h>

#include "cluster/node_impl.h"
#include "cluster/raft_wire.h"
#include "util/clock.h"

#define SEND_BYTES     (4u << 20)   /* of entries in one message, at most */
#define SEND_LEAST     (64u << 10)  /* or so many, however slow the link is */
#define SEND_FIRST     (256u << 10) /* while nothing is known of it */
#define SEND_PART      4          /* of the election timeout, for one message */
#define SEND_SLACK     (4u << 20) /* that the system takes at once */
#define SEND_BEATS     8          /* heartbeats of ours under way */
#define SEND_WINDOW    (16u << 20) /* under way to one node, to send more */
#define SEND_MESSAGES  256         /* as that */
#define ENTRY_OVERHEAD 64

struct send_peer {
	struct list node;
	raft_id id;
	uint64_t bytes;    /* under way */
	unsigned messages; /* under way */
	uint64_t part;     /* bytes of entries in one message */
	/* since there was something under way without a pause */
	uint64_t since_ns, left;
	unsigned beats;   /* under way */
	uint64_t beat_ns; /* when the last was sent */
	raft_term term;   /* all that follows is of it */
	raft_index next;  /* behind what was sent last */
	raft_index sent;  /* the furthest entry */
	/* the last probe: from its first entry to the one before probe_end */
	raft_index probe, probe_end;
	raft_index has;  /* entries, by its last answer */
	raft_index told; /* to be committed */
};

/* A message of the library, and its parts on their way. */
struct send {
	struct node *node;
	struct send_peer *peer;
	struct raft_io_send *req;
	raft_io_send_cb cb;
	uint64_t max; /* bytes of entries in a part */
	uint64_t bytes;
	unsigned pending;
	int status;
	struct send_part {
		struct raft_io_send req;
		struct send *of;
		uint64_t bytes;
	} part[];
};

/* What was sent and heard in an earlier term says nothing of this one. */
static struct send_peer *of_this_term(struct node *n, struct send_peer *p)
{
	if (p->term == n->raft.current_term)
		return p;
	p->term = n->raft.current_term;
	p->next = p->sent = p->probe = p->probe_end = p->has = p->told = 0;
	return p;
}

static struct send_peer *find_peer(struct node *n, raft_id id)
{
	struct send_peer *p;

	LIST_FOREACH (it, &n->sends.peers) {
		p = list_entry(it, struct send_peer, node);
		if (p->id == id)
			return of_this_term(n, p);
	}
	p = xcalloc(1, sizeof(*p));
	p->id = id;
	p->part = SEND_FIRST;
	list_push_back(&n->sends.peers, &p->node);
	return of_this_term(n, p);
}

/* All that leaves goes by here, a message or a part of one. */
static int transmit(struct node *n, struct raft_io_send *req,
		    const struct raft_message *message, raft_io_send_cb cb)
{
	struct raft_message m = *message;

	guard_vote_sending(n, &m);
	return guard_sending(n, &m) ? n->sends.send(&n->io, req, &m, cb)
				    : RAFT_NOCONNECTION;
}

/* How many entries from `at` on go into one message of so many bytes. */
static unsigned part_len(const struct raft_append_entries *a, unsigned at,
			 uint64_t max, uint64_t *ret_bytes)
{
	unsigned n = 0, members = 0;

	*ret_bytes = 0;
	while (at + n < a->n_entries) {
		const struct raft_entry *e = &a->entries[at + n];
		uint64_t bytes = e->buf.len + ENTRY_OVERHEAD;

		members += e->type == RAFT_CHANGE;
		if (n > 0 &&
		    (*ret_bytes + bytes > max || members > WIRE_MEMBERS_MAX))
			break;
		*ret_bytes += bytes;
		n++;
	}
	return n;
}

static unsigned count_parts(const struct raft_append_entries *a, uint64_t max)
{
	unsigned parts = 0, at = 0;
	uint64_t bytes;

	do {
		at += part_len(a, at, max, &bytes);
		parts++;
	} while (at < a->n_entries);
	return parts;
}

/* A probe is cut to its first part, and to what it was before. */
static void cut_probe(struct send_peer *p, struct raft_append_entries *a,
		      uint64_t max)
{
	raft_index first = a->prev_log_index + 1;
	uint64_t bytes;

	if (a->n_entries == 0 || first >= p->next)
		return;
	a->n_entries = part_len(a, 0, max, &bytes);
	if (first == p->probe && p->probe_end > first &&
	    first + a->n_entries > p->probe_end)
		a->n_entries = (unsigned)(p->probe_end - first);
	p->probe = first;
	p->probe_end = first + a->n_entries;
}

/*
 * Who is left as the only voter by a change of members writes that before the
 * others hear of it. One that knew of it would give its vote to nobody with a
 * shorter log, and not stand itself; and were this node started anew without
 * the change, it would need that vote.
 */
static void hold_back_change(struct node *n, struct raft_append_entries *a)
{
	for (unsigned i = 0; i < a->n_entries; i++)
		if (a->entries[i].type == RAFT_CHANGE &&
		    a->prev_log_index + 1 + i > n->raft.last_stored &&
		    guard_vote_names_one(&a->entries[i].buf, n->raft.id))
			a->n_entries = i;
}

static void end_part(struct send *s, int status)
{
	struct raft_io_send *req = s->req;
	raft_io_send_cb cb = s->cb;
	struct node *n = s->node;
	raft_id id = s->peer->id;

	if (s->status == 0)
		s->status = status;
	if (--s->pending > 0)
		return;
	status = s->status;
	s->peer->bytes -= s->bytes;
	s->peer->messages--;
	free(s);
	cb(req, status);
	if (status != 0)
		node_hint_lost(n, id);
}

/*
 * How fast the link is shows when more is under way than the system takes at
 * once; what it took does not count.
 */
static void measure(const struct node *n, struct send_peer *p, uint64_t bytes)
{
	uint64_t took_ns = clock_mono_ns() - p->since_ns;
	uint64_t want_ns = n->election_ns / SEND_PART;

	p->left += bytes;
	if (p->left <= SEND_SLACK || took_ns == 0)
		return;
	p->part = (uint64_t)((double)(p->left - SEND_SLACK) * (double)want_ns /
			     (double)took_ns);
	p->part = MAX(MIN(p->part, (uint64_t)SEND_BYTES), (uint64_t)SEND_LEAST);
}

static void on_part_sent(struct raft_io_send *req, int status)
{
	struct send_part *part = req->data;

	if (status == 0)
		measure(part->of->node, part->of->peer, part->bytes);
	end_part(part->of, status);
}

/* Sends all parts. 0, or an error when nothing was sent. */
static int send_parts(struct node *n, struct send *s,
		      const struct raft_message *m)
{
	const struct raft_append_entries *all = &m->append_entries;
	struct raft_message part = *m;
	struct raft_append_entries *a = &part.append_entries;
	unsigned at = 0;
	int r = 0;

	for (unsigned i = 0; r == 0; i++) {
		uint64_t bytes;

		a->n_entries = part_len(all, at, s->max, &bytes);
		a->entries = all->entries + at;
		s->part[i].req.data = &s->part[i];
		s->part[i].of = s;
		s->part[i].bytes = bytes;
		s->pending++;
		r = transmit(n, &s->part[i].req, &part, on_part_sent);
		if (r != 0 && i == 0)
			return r;
		s->bytes += bytes;
		s->peer->bytes += bytes;
		at += a->n_entries;
		if (at == all->n_entries)
			break;
		a->prev_log_index = all->prev_log_index + at;
		a->prev_log_term = all->entries[at - 1].term;
	}
	if (r != 0)
		end_part(s, r);
	return 0;
}

static void on_beat_sent(struct raft_io_send *req, int status)
{
	struct send_peer *p = req->data;

	(void)status; /* the library hears of it with the next message */
	p->beats--;
	free(req);
}

/* About an entry that it has, as far as is known; a few at a time. */
static void beat(struct node *n, struct send_peer *p, const char *address)
{
	struct raft_message m = { .type = RAFT_IO_APPEND_ENTRIES,
				  .server_id = p->id,
				  .server_address = address };
	raft_index at = MIN(p->has, node_committed(n));
	uint64_t now_ns = clock_mono_ns();
	struct raft_io_send *req;

	if (p->beats >= SEND_BEATS ||
	    now_ns - p->beat_ns < n->raft.heartbeat_timeout * NS_PER_MS)
		return;
	if (at > 0 && node_term_of(n, at) == 0)
		at = 0; /* it is cut off, and so about nothing */
	p->beat_ns = now_ns;
	m.append_entries = (struct raft_append_entries){
		.term = n->raft.current_term,
		.prev_log_index = at,
		.prev_log_term = at > 0 ? node_term_of(n, at) : 0,
		.leader_commit = at,
	};
	req = xcalloc(1, sizeof(*req));
	req->data = p;
	p->beats++;
	if (transmit(n, req, &m, on_beat_sent) != 0)
		on_beat_sent(req, RAFT_NOCONNECTION);
}

static int send_entries(struct node *n, struct raft_io_send *req,
			const struct raft_message *message, raft_io_send_cb cb)
{
	struct send_peer *p = find_peer(n, message->server_id);
	struct raft_message m = *message;
	struct send *s;
	uint64_t max;
	unsigned parts;
	int r;

	if ((p->bytes >= SEND_WINDOW && m.append_entries.n_entries > 0) ||
	    p->messages >= SEND_MESSAGES) {
		beat(n, p, message->server_address);
		return RAFT_NOCONNECTION;
	}
	if (p->messages == 0) {
		p->since_ns = clock_mono_ns();
		p->left = 0;
	}
	/* what is measured while they are sent is for the next ones */
	max = MIN(p->part, n->sends.part_bytes);
	hold_back_change(n, &m.append_entries);
	cut_probe(p, &m.append_entries, max);
	parts = count_parts(&m.append_entries, max);
	s = xcalloc(1, sizeof(*s) + parts * sizeof(s->part[0]));
	s->node = n;
	s->peer = p;
	s->max = max;
	s->req = req;
	s->cb = cb;
	p->messages++;
	/* one more, until all are sent: a part may end before that */
	s->pending = 1;
	r = send_parts(n, s, &m);
	if (r != 0) {
		p->messages--;
		free(s);
		return r;
	}
	p->next =
	    m.append_entries.prev_log_index + 1 + m.append_entries.n_entries;
	p->sent = MAX(p->sent, p->next - 1);
	p->told =
	    MAX(p->told, MIN(m.append_entries.leader_commit, p->next - 1));
	end_part(s, 0);
	return 0;
}

/* Who has what it holds already says so. */
static void note_snapshot(struct node *n, const struct raft_message *m)
{
	struct send_peer *p = find_peer(n, m->server_id);

	p->sent = MAX(p->sent, m->install_snapshot.last_index);
}

static int send_message(struct raft_io *io, struct raft_io_send *req,
			const struct raft_message *message, raft_io_send_cb cb)
{
	struct node *n = container_of(io, struct node, io);

	if (message->type == RAFT_IO_APPEND_ENTRIES)
		return send_entries(n, req, message, cb);
	if (message->type == RAFT_IO_INSTALL_SNAPSHOT) {
		/* tried again by the library when it has answered */
		if (!node_hint_is_heard(n, message->server_id)) {
			beat(n, find_peer(n, message->server_id),
			     message->server_address);
			return RAFT_NOCONNECTION;
		}
		note_snapshot(n, message);
	}
	return transmit(n, req, message, cb);
}

uint64_t node_sent(struct node *n, uint64_t id)
{
	return find_peer(n, id)->sent;
}

/* --- what is committed --- */

void node_sends_heard(struct node *n, const struct raft_message *m)
{
	const struct raft_append_entries_result *r = &m->append_entries_result;

	if (r->rejected == 0)
		find_peer(n, m->server_id)->has = r->last_log_index;
}

static void on_told(struct raft_io_send *req, int status)
{
	(void)status; /* it hears of it by the next heartbeat */
	free(req);
}

static void tell_commit(struct node *n, struct send_peer *p)
{
	raft_index commit = node_committed(n);
	struct raft_message m = { .type = RAFT_IO_APPEND_ENTRIES,
				  .server_id = p->id };
	struct raft_io_send *req;
	struct node_server s;

	if (!node_server_find(n, p->id, &s))
		return;
	m.server_address = s.address;
	m.append_entries = (struct raft_append_entries){
		.term = n->raft.current_term,
		.prev_log_index = commit,
		.prev_log_term = node_term_of(n, commit),
		.leader_commit = commit,
	};
	req = xcalloc(1, sizeof(*req));
	if (transmit(n, req, &m, on_told) != 0)
		free(req);
	p->told = commit;
}

void node_tell_commit(struct node *n)
{
	raft_index commit = node_committed(n);

	if (n->port == NULL || commit < raft_last_index(&n->raft))
		return;
	LIST_FOREACH (it, &n->sends.peers) {
		struct send_peer *p =
		    of_this_term(n, list_entry(it, struct send_peer, node));

		/* who is behind would take it for a gap */
		if (p->told < commit && p->has >= commit)
			tell_commit(n, p);
	}
}

void node_wire_sends(struct node *n)
{
	if (n->port == NULL)
		return;
	list_init(&n->sends.peers);
	n->sends.part_bytes = SEND_BYTES;
	n->sends.send = n->io.send;
	n->io.send = send_message;
}

void node_sends_done(struct node *n)
{
	while (!list_empty(&n->sends.peers)) {
		struct send_peer *p =
		    list_entry(n->sends.peers.next, struct send_peer, node);

		list_remove(&p->node);
		CHECK(p->messages == 0 && p->beats == 0);
		free(p);
	}
}
