/*
 * Three raft nodes on one loop, which talk through their ports: they choose a
 * leader, what it proposes is applied by all, one that was away catches up, by
 * the log or by a snapshot.
 */
#include "cluster/install.h"
#include "cluster/node_impl.h"

#include <raft.h>
#include <raft/uv.h>

#include "port_world.h"

#define NODES   3
#define BIG     (512u << 10) /* bytes of a large entry */
#define BACKLOG 40           /* of them */

#define INDEX_MAX      4096
#define SNAPSHOT_BYTES (64u << 10)
#define SMALL          (8u << 10)
#define FEW            150 /* entries */

struct member {
	int number;
	char dir[64];
	struct settings s;
	struct node *node;
	bool stopped;
	uint32_t applied; /* number of the last entry, since its start */
	/* what its store is to have, when it starts */
	uint64_t store_index;
	struct entry_origin store_origin;
	/* the last snapshot the leader offered */
	struct node_install offer;
	struct buf offer_members;
	unsigned offers;
};

/* An entry as the first node applied it that did. */
struct seen {
	uint32_t number;
	struct entry_origin origin;
};

static struct member m[NODES];
static struct seen seen[INDEX_MAX];
static uint64_t seen_last; /* index */
static uint32_t proposed;  /* number of the last entry that is safe */
static bool answered;
static int last_err;

/* An entry is its number, again and again. */
static int on_apply(void *ctx, uint64_t raft_index, const void *tag _unused_,
		    const struct entry_origin *o, struct str entry)
{
	struct member *k = ctx;
	uint32_t first;

	assert_true(entry.n % sizeof(first) == 0);
	memcpy(&first, entry.p, sizeof(first));
	for (size_t at = 0; at < entry.n; at += sizeof(first))
		assert_memory_equal(entry.p + at, &first, sizeof(first));
	/* one whose fate was unknown may come twice; none is left out */
	assert_true(first <= k->applied + 1);
	k->applied = MAX(k->applied, first);
	assert_true(raft_index < INDEX_MAX);
	seen[raft_index] = (struct seen){ first, *o };
	seen_last = MAX(seen_last, raft_index);
	return 0;
}

static int on_before_snapshot(void *ctx _unused_)
{
	return 0;
}

static int on_make_durable(void *ctx _unused_, uint64_t index _unused_,
			   struct buf *why _unused_)
{
	return 0;
}

static void on_change(void *ctx _unused_)
{
}

static void on_install(void *ctx, const struct node_install *i)
{
	struct member *k = ctx;

	k->offer = *i;
	buf_clear(&k->offer_members);
	buf_put_str(&k->offer_members, i->members);
	k->offer.members = buf_str(&k->offer_members);
	k->offers++;
}

/* The configuration has names nobody can resolve: where a node is now, only
 * this knows. */
static void address_of(void *ctx _unused_, uint64_t raft_id,
		       const char *configured, struct buf *ret)
{
	for (int i = 0; i < NODES; i++)
		if (w.port[i] != NULL &&
		    raft_digest(m[i].s.node_id, 0) == raft_id) {
			buf_puts(ret, port_bound(w.port[i]));
			return;
		}
	buf_puts(ret, configured);
}

static const struct node_ops ops = {
	.apply = on_apply,
	.before_snapshot = on_before_snapshot,
	.make_durable = on_make_durable,
	.on_change = on_change,
	.address_of = address_of,
	.on_install = on_install,
};

/* --- a cluster --- */

static void on_raft_closed(struct raft *r)
{
	*(bool *)r->data = true;
}

static int no_init(struct raft_uv_transport *t _unused_, raft_id id _unused_,
		   const char *address _unused_)
{
	return 0;
}

static void no_close(struct raft_uv_transport *t, raft_uv_transport_close_cb cb)
{
	cb(t);
}

/* Writes the first entry of all three logs: the same three voters. */
static void bootstrap(const struct member *k)
{
	struct raft_uv_transport t = { .init = no_init, .close = no_close };
	struct raft_fsm fsm = { .version = 1 };
	struct raft_configuration conf;
	struct raft_io io = { 0 };
	struct raft r;
	char dir[96];
	bool closed = false;

	(void)snprintf(dir, sizeof(dir), "%s/raft", k->dir);
	assert_int_equal(dir_make(dir), 0);
	assert_int_equal(raft_uv_init(&io, loop_uv(w.loop), dir, &t), 0);
	assert_int_equal(
	    raft_init(&r, &io, &fsm, raft_digest(k->s.node_id, 0), "here"), 0);
	raft_configuration_init(&conf);
	for (int i = 0; i < NODES; i++) {
		char address[64];

		(void)snprintf(address, sizeof(address), "%s.invalid:9400",
			       m[i].s.node_id);
		assert_int_equal(raft_configuration_add(
				     &conf, raft_digest(m[i].s.node_id, 0),
				     address, RAFT_VOTER),
				 0);
	}
	assert_int_equal(raft_bootstrap(&r, &conf), 0);
	raft_configuration_close(&conf);
	r.data = &closed;
	raft_close(&r, on_raft_closed);
	while (!closed)
		(void)uv_run(loop_uv(w.loop), UV_RUN_ONCE);
	raft_uv_close(&io);
}

static void start(struct member *k)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct port_config pc = w_config(k->number);
	struct node_config c = { .settings = &k->s,
				 .store_index = k->store_index,
				 .store_origin = k->store_origin };

	/* all write the same history, whoever leads */
	c.store_origin.history = pc.me.cluster;
	pc.me.raft_id = raft_digest(k->s.node_id, 0);
	w_open_as(k->number, &pc);
	c.port = w.port[k->number];
	k->applied = seen[k->store_index].number;
	k->stopped = false;
	if (node_start(w.loop, &c, &ops, k, &k->node, &why) != 0)
		fail_msg("%.*s", STR_ARG(buf_str(&why)));
}

static void on_stopped(void *ctx)
{
	struct member *k = ctx;

	k->stopped = true;
}

static bool has_stopped(void *ctx)
{
	return ((struct member *)ctx)->stopped;
}

static void stop(struct member *k)
{
	if (k->node == NULL)
		return;
	node_stop(k->node, on_stopped, k);
	w_wait(has_stopped, k);
	node_free(k->node);
	k->node = NULL;
	port_free(w.port[k->number]);
	w.port[k->number] = NULL;
}

static int set_up(void **state _unused_)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	static const char *const names[NODES] = { "node-0", "node-1",
						  "node-2" };

	w_begin();
	proposed = 0;
	seen_last = 0;
	memset(seen, 0, sizeof(seen));
	for (int i = 0; i < NODES; i++) {
		m[i] = (struct member){ .number = i };
		(void)snprintf(m[i].dir, sizeof(m[i].dir),
			       "/tmp/corvo-cluster-XXXXXX");
		assert_non_null(mkdtemp(m[i].dir));
		assert_int_equal(settings_load(0, NULL, &m[i].s, &why), 0);
		m[i].s.data_dir = m[i].dir;
		m[i].s.node_id = names[i];
		m[i].s.bootstrap = false;
	}
	for (int i = 0; i < NODES; i++)
		bootstrap(&m[i]);
	return 0;
}

static int tear_down(void **state _unused_)
{
	for (int i = 0; i < NODES; i++) {
		stop(&m[i]);
		assert_int_equal(dir_remove(m[i].dir), 0);
		settings_done(&m[i].s);
		buf_done(&m[i].offer_members);
	}
	w_end();
	return 0;
}

/* --- what they do --- */

static struct member *leader(void)
{
	struct member *found = NULL;
	uint64_t term = 0;

	for (int i = 0; i < NODES; i++) {
		struct node_info info;

		if (m[i].node == NULL || !node_is_leader(m[i].node))
			continue;
		node_info(m[i].node, &info);
		if (info.term > term)
			found = &m[i];
		term = MAX(term, info.term);
	}
	return found;
}

static bool has_leader(void *ctx _unused_)
{
	return leader() != NULL;
}

static void on_answer(void *ctx _unused_, int err)
{
	answered = true;
	last_err = err;
}

static bool is_answered(void *ctx _unused_)
{
	return answered;
}

/* The next entry, through whoever leads, however often that changes. */
static void propose(size_t bytes)
{
	uint32_t *entry = xmalloc(bytes);
	const void *tag;

	for (size_t i = 0; i < bytes / sizeof(*entry); i++)
		entry[i] = proposed + 1;
	do {
		w_wait(has_leader, NULL);
		answered = false;
		last_err = node_propose(leader()->node, str_of(entry, bytes),
					&tag, on_answer, NULL);
		if (last_err == 0)
			w_wait(is_answered, NULL);
	} while (last_err != 0);
	proposed++;
	free(entry);
}

static bool all_applied(void *ctx _unused_)
{
	for (int i = 0; i < NODES; i++)
		if (m[i].node != NULL && m[i].applied < proposed)
			return false;
	return true;
}

static void three_nodes_agree(void **state _unused_)
{
	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	for (int i = 0; i < 20; i++)
		propose(100);
	w_wait(all_applied, NULL);
}

/* More than fits one message; the others are not held up meanwhile. */
static void a_node_that_was_away_catches_up(void **state _unused_)
{
	start(&m[0]);
	start(&m[1]);
	for (int i = 0; i < BACKLOG; i++)
		propose(BIG);
	start(&m[2]);
	for (int i = 0; i < 20; i++)
		propose(100);
	w_wait(all_applied, NULL);
}

static void another_one_leads_when_the_leader_stops(void **state _unused_)
{
	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	for (int round = 0; round < 3; round++) {
		struct member *old;

		propose(1000);
		old = leader();
		assert_non_null(old);
		stop(old);
		propose(1000);
		assert_ptr_not_equal(leader(), old);
		start(old);
		w_wait(all_applied, NULL);
	}
}

/* Again and again, by the leader there is, whom it follows. */
static bool is_offered(void *ctx)
{
	const struct member *k = ctx, *l = leader();
	struct node_info mine, leads;

	if (k->offers < 2 || l == NULL ||
	    k->offer.leader != raft_digest(l->s.node_id, 0))
		return false;
	node_info(k->node, &mine);
	node_info(l->node, &leads);
	return mine.state_number == 0 && mine.term == leads.term;
}

/* As it would have come, with a store that has applied more. */
static void install(struct member *k)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	char folder[128];

	assert_true(seen_last > k->offer.manifest.index);
	k->store_index = k->offer.manifest.store = seen_last;
	k->store_origin = k->offer.manifest.store_origin =
	    seen[seen_last].origin;
	(void)snprintf(folder, sizeof(folder), "%s/incoming/%llu", k->dir,
		       (unsigned long long)k->offer.manifest.index);
	assert_int_equal(dir_make(folder), 0);
	assert_int_equal(install_ready(&k->s, &k->offer, &why), 0);
	assert_int_equal(install_finish(&k->s, &why), 0);
}

/*
 * While a snapshot is offered, and nothing is done about it, the node hears of
 * its leader and disturbs nobody. With it in place it goes on by the log.
 */
static void
a_node_that_was_away_too_long_needs_a_snapshot(void **state _unused_)
{
	struct node_info info;

	for (int i = 0; i < NODES; i++)
		m[i].s.snapshot_bytes = SNAPSHOT_BYTES;
	start(&m[0]);
	start(&m[1]);
	for (int i = 0; i < BACKLOG; i++)
		propose(SMALL);
	start(&m[2]);
	w_wait(is_offered, &m[2]);
	/* at most what was on its way when the log was cut */
	assert_true(m[2].applied < proposed);
	stop(&m[2]);
	propose(SMALL);
	install(&m[2]);
	start(&m[2]);
	propose(SMALL);
	w_wait(all_applied, NULL);
	node_info(m[2].node, &info);
	assert_true(info.snapshot_index >= m[2].offer.manifest.index);
}

static bool is_cut(void *ctx _unused_)
{
	struct node_info info;

	if (leader() == NULL)
		return false;
	node_info(leader()->node, &info);
	return info.snapshot_index > 0;
}

/* The log keeps some of what was cut, by bytes: many small entries. */
static void a_node_that_is_a_little_behind_needs_none(void **state _unused_)
{
	for (int i = 0; i < NODES; i++) {
		m[i].s.snapshot_bytes = SNAPSHOT_BYTES;
		start(&m[i]);
	}
	propose(100);
	w_wait(all_applied, NULL);
	w_wait(has_leader, NULL);
	stop(&m[leader() == &m[0] ? 1 : 0]);
	for (int i = 0; i < FEW; i++)
		propose(100);
	w_wait(has_leader, NULL);
	node_want_snapshot(leader()->node);
	propose(100);
	w_wait(is_cut, NULL);
	for (int i = 0; i < NODES; i++)
		if (m[i].node == NULL)
			start(&m[i]);
	w_wait(all_applied, NULL);
	for (int i = 0; i < NODES; i++)
		assert_int_equal(m[i].offers, 0);
}

/* While a snapshot came, the log got there by itself. */
static void a_log_that_has_the_entry_is_not_given_up(void **state _unused_)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct node_install i = { .members_index = 1,
				  .members = STR("whatever") };
	char dir[128];

	for (int k = 0; k < NODES; k++)
		start(&m[k]);
	for (int k = 0; k < 5; k++)
		propose(100);
	w_wait(all_applied, NULL);
	i.manifest = (struct manifest){ .index = seen_last,
					.applied = seen_last,
					.origin = seen[seen_last].origin };
	i.term = seen[seen_last].origin.term;
	stop(&m[1]);
	(void)snprintf(dir, sizeof(dir), "%s/incoming/%llu", m[1].dir,
		       (unsigned long long)seen_last);
	assert_int_equal(dir_make(dir), 0);
	assert_int_equal(install_ready(&m[1].s, &i, &why), 0);
	assert_int_equal(install_finish(&m[1].s, &why), 0);
	assert_int_equal(access(dir, F_OK), -1);
	start(&m[1]); /* whose store is empty: it has all entries */
	propose(100);
	w_wait(all_applied, NULL);
}

/* What is committed is not for the leader alone to know, until something else
 * is to be said: here no heartbeat ever is. */
static void followers_hear_of_a_commit_at_once(void **state _unused_)
{
	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	propose(100);
	w_wait(all_applied, NULL);
	for (int i = 0; i < NODES; i++) {
		raft_set_election_timeout(&m[i].node->raft, 3600 * 1000);
		raft_set_heartbeat_timeout(&m[i].node->raft, 1800 * 1000);
	}
	for (int i = 0; i < 3; i++) {
		propose(100);
		w_wait(all_applied, NULL);
	}
}

/* --- a stream with something else in it --- */

static int raw = -1; /* the socket of one that is a member's */

static void on_raw(void *ctx _unused_, struct port_conn *c)
{
	assert_non_null(c);
	raw = port_conn_take_fd(c);
}

static bool has_raw(void *ctx _unused_)
{
	return raw >= 0;
}

/* From a node that has the secret and is a member. */
static void send_on_stream(int from, int to, struct str bytes)
{
	struct port_target t = { .raft_id = raft_digest(m[to].s.node_id, 0),
				 .address = port_bound(w.port[to]) };

	raw = -1;
	(void)port_dial(w.port[from], PURPOSE_RAFT, &t, on_raw, NULL);
	w_wait(has_raw, NULL);
	assert_int_equal(send(raw, bytes.p, bytes.n, MSG_NOSIGNAL), bytes.n);
	w_wait(raw_is_closed, &raw);
	(void)close(raw);
}

static void garbage_on_a_stream_ends_it_and_nothing_else(void **state _unused_)
{
	/* an "append entries" whose header has 2^60 bytes; a vote without one;
	 * words of another protocol */
	static const struct str rows[] = {
		{ "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10", 16 },
		{ "\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16 },
		{ "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27 },
	};

	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	propose(100);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (int to = 0; to < NODES; to++)
			send_on_stream((to + 1) % NODES, to, rows[i]);
	/* many at once are one line each node, for a while */
	assert_int_equal(w_logged("closed a raft stream of node-"), NODES);
	propose(100);
	w_wait(all_applied, NULL);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(three_nodes_agree),
		CASE(a_node_that_was_away_catches_up),
		CASE(a_node_that_was_away_too_long_needs_a_snapshot),
		CASE(a_node_that_is_a_little_behind_needs_none),
		CASE(another_one_leads_when_the_leader_stops),
		CASE(a_log_that_has_the_entry_is_not_given_up),
		CASE(followers_hear_of_a_commit_at_once),
		CASE(garbage_on_a_stream_ends_it_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
