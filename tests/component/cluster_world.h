/*
 * Three raft nodes on one loop, which talk through their ports.
 */
#ifndef CORVO_CLUSTER_WORLD_H
#define CORVO_CLUSTER_WORLD_H

#include "cluster/install.h"
#include "cluster/node_uv.h"
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
static char elsewhere[64]; /* where a node that does not run is said to be */
static int last_err;

/* An entry is its number, again and again. */
static inline int on_apply(void *ctx, uint64_t raft_index,
			   const void *tag _unused_,
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

static inline int on_before_snapshot(void *ctx _unused_)
{
	return 0;
}

static inline int on_make_durable(void *ctx _unused_, uint64_t index _unused_,
				  struct buf *why _unused_)
{
	return 0;
}

static inline void on_change(void *ctx _unused_)
{
}

static inline void on_install(void *ctx, const struct node_install *i)
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
static inline void address_of(void *ctx _unused_, uint64_t raft_id,
			      const char *configured, struct buf *ret)
{
	for (int i = 0; i < NODES; i++)
		if (w.port[i] != NULL &&
		    raft_digest(m[i].s.node_id, 0) == raft_id) {
			buf_puts(ret, port_bound(w.port[i]));
			return;
		}
	buf_puts(ret, elsewhere[0] != '\0' ? elsewhere : configured);
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

static inline void on_raft_closed(struct raft *r)
{
	*(bool *)r->data = true;
}

static inline int no_init(struct raft_uv_transport *t _unused_,
			  raft_id id _unused_, const char *address _unused_)
{
	return 0;
}

static inline void no_close(struct raft_uv_transport *t,
			    raft_uv_transport_close_cb cb)
{
	cb(t);
}

/* Writes the first entry of all three logs: the same three voters. */
static inline void bootstrap(const struct member *k)
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

static inline void start_with(struct member *k, const struct node_ops *o)
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
	if (node_start(w.loop, &c, o, k, &k->node, &why) != 0)
		fail_msg("%.*s", STR_ARG(buf_str(&why)));
}

static inline void start(struct member *k)
{
	start_with(k, &ops);
}

static inline void on_stopped(void *ctx)
{
	struct member *k = ctx;

	k->stopped = true;
}

static inline bool has_stopped(void *ctx)
{
	return ((struct member *)ctx)->stopped;
}

static inline void stop(struct member *k)
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

static inline int set_up(void **state _unused_)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	static const char *const names[NODES] = { "node-0", "node-1",
						  "node-2" };

	w_begin();
	proposed = 0;
	seen_last = 0;
	elsewhere[0] = '\0';
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

static inline int tear_down(void **state _unused_)
{
	for (int i = 0; i < NODES; i++)
		stop(&m[i]);
	w_end(); /* from here on failures are seen */
	for (int i = 0; i < NODES; i++) {
		assert_int_equal(dir_remove(m[i].dir), 0);
		settings_done(&m[i].s);
		buf_done(&m[i].offer_members);
	}
	return 0;
}

/* --- what they do --- */

static inline struct member *leader(void)
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

static inline bool has_leader(void *ctx _unused_)
{
	return leader() != NULL;
}

static inline void on_answer(void *ctx _unused_, int err)
{
	answered = true;
	last_err = err;
}

static inline bool is_answered(void *ctx _unused_)
{
	return answered;
}

/* The next entry, through whoever leads, however often that changes. */
static inline void propose(size_t bytes)
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

static inline bool all_applied(void *ctx _unused_)
{
	for (int i = 0; i < NODES; i++)
		if (m[i].node != NULL && m[i].applied < proposed)
			return false;
	return true;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
