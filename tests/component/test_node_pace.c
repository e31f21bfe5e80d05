/*
 * What a leader spares itself and the others: snapshots that nobody needs.
 */
#include "cluster_world.h"

#define AWAY 2 /* the node that is not there */

static struct node *leads(void)
{
	w_wait(has_leader, NULL);
	return leader()->node;
}

/* --- when the log is cut --- */

/* It weighs enough to be cut if it were at rest; nobody has looked yet. */
static void a_log_that_has_just_grown_is_not_at_rest(void **state _unused_)
{
	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	for (int i = 0; i < BACKLOG; i++)
		propose(BIG);
	assert_false(node_wants_entry(leads()));
}

static bool is_cut(void *ctx _unused_)
{
	return leader() != NULL &&
	       leader()->node->raft.log.snapshot.last_index > 0;
}

/* --- messages that do not arrive --- */

static struct {
	uint64_t to;
	int (*send)(struct raft_io *io, struct raft_io_send *req,
		    const struct raft_message *message, raft_io_send_cb cb);
	struct {
		struct raft_io_send *req;
		raft_io_send_cb cb;
	} lost[64];
	unsigned n;
	unsigned failed;
} net;

static int lose_entries(struct raft_io *io, struct raft_io_send *req,
			const struct raft_message *message, raft_io_send_cb cb)
{
	if (message->type != RAFT_IO_APPEND_ENTRIES ||
	    message->server_id != net.to)
		return net.send(io, req, message, cb);
	if (net.n == ARRAY_SIZE(net.lost))
		return RAFT_NOCONNECTION;
	net.lost[net.n].req = req;
	net.lost[net.n++].cb = cb;
	return 0;
}

/* Outside of the call that sent them, as the library has it. */
static bool some_have_failed(void *ctx _unused_)
{
	unsigned n = net.n;

	net.n = 0;
	for (unsigned i = 0; i < n; i++)
		net.lost[i].cb(net.lost[i].req, RAFT_NOCONNECTION);
	net.failed += n;
	return net.failed >= 2;
}

static void lose_all(bool on)
{
	(void)some_have_failed(NULL);
	net.to = raft_digest(m[AWAY].s.node_id, 0);
	for (int i = 0; i < AWAY; i++) {
		if (on)
			net.send = m[i].node->sends.send;
		m[i].node->sends.send = on ? lose_entries : net.send;
	}
}

/* The old one may have been elected again: then it is asked once more. */
static bool another_leads(void *ctx)
{
	struct member *old = ctx;

	if (leader() == old && answered) {
		answered = false;
		if (node_transfer(old->node, 0, on_answer, NULL) != 0)
			answered = true;
	}
	return leader() != NULL && leader() != old;
}

static void hand_over(void)
{
	struct member *old = leader();

	answered = false;
	assert_int_equal(node_transfer(old->node, 0, on_answer, NULL), 0);
	w_wait(another_leads, old);
}

/* Its snapshot has more than the one that is away. */
static bool is_cut_behind(void *ctx)
{
	const struct member *k = ctx;

	return leader() != NULL &&
	       leader()->node->raft.log.snapshot.last_index > k->store_index;
}

static bool has_all_or_an_offer(void *ctx _unused_)
{
	return m[AWAY].offers > 0 || all_applied(NULL);
}

/* The new leader's first messages to the one that is away fail. The log has
 * all that it is missing, but not the first entry of all. */
static void who_is_a_little_behind_is_sent_entries(void **state _unused_)
{
	for (int i = 0; i < NODES; i++) {
		m[i].s.snapshot_bytes = SNAPSHOT_BYTES;
		start(&m[i]);
	}
	propose(100);
	for (int i = 0; i < FEW || !is_cut(NULL); i++)
		propose(SMALL / 8);
	w_wait(all_applied, NULL);
	m[AWAY].store_index = seen_last;
	m[AWAY].store_origin = seen[seen_last].origin;
	lose_all(true);
	stop(&m[AWAY]);
	w_wait(has_leader, NULL);
	hand_over();
	node_want_snapshot(leads());
	propose(100);
	w_wait(is_cut_behind, &m[AWAY]);
	net.failed = 0;
	w_wait(some_have_failed, NULL);
	lose_all(false);
	start(&m[AWAY]);
	propose(100);
	w_wait(has_all_or_an_offer, NULL);
	assert_int_equal(m[AWAY].offers, 0);
}

/* --- the log of one that fetches a snapshot --- */

/* The newest there is, and no other is being taken. */
static bool is_offered_the_newest(void *ctx)
{
	const struct member *k = ctx;
	const struct raft *r;

	if (k->offers == 0 || leader() == NULL)
		return false;
	r = &leader()->node->raft;
	return r->snapshot.pending.term == 0 &&
	       k->offer.manifest.index == r->log.snapshot.last_index;
}

static bool begins_later(void)
{
	return leader() != NULL && leader()->node->raft.log.offset > 1;
}

static void keep_from(uint64_t index)
{
	for (int i = 0; i < NODES; i++)
		if (m[i].node != NULL)
			node_keep_log(m[i].node, index);
}

static void write_more_than_is_kept(void)
{
	uint64_t snapshot = leads()->raft.log.snapshot.last_index;

	for (int i = 0; i < 2 * BACKLOG ||
			leads()->raft.log.snapshot.last_index <= snapshot;
	     i++)
		propose(SMALL);
}

static void begin_with_an_offer(void)
{
	for (int i = 0; i < NODES; i++)
		m[i].s.snapshot_bytes = SNAPSHOT_BYTES;
	start(&m[0]);
	start(&m[1]);
	for (int i = 0; i < BACKLOG || !begins_later(); i++)
		propose(SMALL);
	start(&m[AWAY]);
	w_wait(is_offered_the_newest, &m[AWAY]);
}

/* It has fetched the snapshot and put it in place, while others wrote. */
static void who_fetched_a_snapshot_goes_on_by_entries(void **state _unused_)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct member *k = &m[AWAY];
	uint64_t index;
	char folder[128];

	begin_with_an_offer();
	index = k->offer.manifest.index;
	keep_from(index);
	stop(k);
	k->store_index = k->offer.manifest.applied;
	k->store_origin = k->offer.manifest.origin;
	write_more_than_is_kept();
	(void)snprintf(folder, sizeof(folder), "%s/incoming/%llu", k->dir,
		       (unsigned long long)index);
	assert_int_equal(dir_make(folder), 0);
	assert_int_equal(install_ready(&k->s, &k->offer, &why), 0);
	assert_int_equal(install_finish(&k->s, &why), 0);
	k->offers = 0;
	start(k);
	propose(SMALL);
	w_wait(has_all_or_an_offer, NULL);
	assert_int_equal(k->offers, 0);
}

/* The world has no room for as many entries as it takes in vain. */
static void write_until_cut_behind(uint64_t index)
{
	while (leads()->raft.log.offset <= index)
		propose(SMALL);
}

/* What nobody fetches, and what is too much, is cut as ever. */
static void the_log_is_not_kept_without_end(void **state _unused_)
{
	uint64_t index;

	begin_with_an_offer();
	index = m[AWAY].offer.manifest.index;
	stop(&m[AWAY]);
	keep_from(index);
	for (int i = 0; i < 2; i++)
		m[i].node->kept_bytes = 2 * SNAPSHOT_BYTES;
	write_until_cut_behind(index);
	index = leads()->raft.log.snapshot.last_index;
	keep_from(0);
	for (int i = 0; i < 2; i++)
		m[i].node->kept_bytes = 1000 * SNAPSHOT_BYTES;
	write_until_cut_behind(index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_log_that_has_just_grown_is_not_at_rest),
		CASE(who_is_a_little_behind_is_sent_entries),
		CASE(who_fetched_a_snapshot_goes_on_by_entries),
		CASE(the_log_is_not_kept_without_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
