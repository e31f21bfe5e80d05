#include "net.h"

#include <stdlib.h>
#include <string.h>

#define REFUSED_MAX_NS (100 * NS_PER_MS)
#define ALIGN          8

/* A request of a node, until it hears of it. */
struct net_send {
	struct list node;
	struct sim_event event;
	struct sim_host *from;
	struct raft_io_send *req;
	raft_io_send_cb cb;
	int status;
};

/* A copy on its way. */
struct net_message {
	struct list node;
	struct sim_event event;
	struct sim_net *net;
	struct sim_host *from, *to;
	uint64_t from_id, from_place, to_id;
	unsigned from_life, to_life;
	struct raft_message m;
};

/* --- copies --- */

static void copy_entries(const struct raft_append_entries *from,
			 struct raft_append_entries *to)
{
	size_t bytes = ALIGN;
	char *batch;

	to->entries = NULL;
	if (from->n_entries == 0)
		return;
	for (unsigned i = 0; i < from->n_entries; i++)
		bytes += from->entries[i].buf.len + ALIGN;
	to->entries = raft_malloc(from->n_entries * sizeof(*to->entries));
	batch = raft_malloc(bytes);
	CHECK(to->entries != NULL && batch != NULL);
	bytes = 0;
	for (unsigned i = 0; i < from->n_entries; i++) {
		struct raft_entry *e = &to->entries[i];

		*e = from->entries[i];
		e->batch = batch;
		e->buf.base = batch + bytes;
		memcpy(e->buf.base, from->entries[i].buf.base, e->buf.len);
		bytes += (e->buf.len + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	}
}

static void copy_snapshot(const struct raft_install_snapshot *from,
			  struct raft_install_snapshot *to)
{
	_cleanup_(buf_done) struct buf members = BUF_INIT(0);

	members_encode(&from->conf, &members);
	members_decode(buf_str(&members), &to->conf);
	to->data.base = raft_malloc(from->data.len);
	CHECK(to->data.base != NULL);
	memcpy(to->data.base, from->data.base, from->data.len);
}

static void copy_message(const struct raft_message *from,
			 struct raft_message *to)
{
	*to = *from;
	if (from->type == RAFT_IO_APPEND_ENTRIES)
		copy_entries(&from->append_entries, &to->append_entries);
	if (from->type == RAFT_IO_INSTALL_SNAPSHOT)
		copy_snapshot(&from->install_snapshot, &to->install_snapshot);
}

static void drop_contents(struct raft_message *m)
{
	if (m->type == RAFT_IO_APPEND_ENTRIES &&
	    m->append_entries.n_entries > 0) {
		raft_free(m->append_entries.entries[0].batch);
		raft_free(m->append_entries.entries);
	}
	if (m->type == RAFT_IO_INSTALL_SNAPSHOT) {
		raft_configuration_close(&m->install_snapshot.conf);
		raft_free(m->install_snapshot.data.base);
	}
}

static void message_free(struct net_message *x, bool drop)
{
	list_remove(&x->node);
	sim_forget(x->net->sim, &x->event);
	if (drop)
		drop_contents(&x->m);
	free(x);
}

/* --- arrival --- */

static void note(struct sim *s, const char *what, const struct sim_host *from,
		 const struct sim_host *to, const struct raft_message *m)
{
	const struct raft_append_entries *a = &m->append_entries;
	const struct raft_append_entries_result *r = &m->append_entries_result;
	uint64_t route = from->number * 10 + to->number;

	if (m->type == RAFT_IO_APPEND_ENTRIES)
		sim_note(s, what, route, a->term, a->prev_log_index,
			 a->n_entries, a->leader_commit);
	else if (m->type == RAFT_IO_APPEND_ENTRIES_RESULT)
		sim_note(s, what, route, r->term, r->rejected,
			 r->last_log_index, UINT64_C(777));
	else
		sim_note(s, what, route, m->type, m->request_vote.term, 0,
			 UINT64_C(999));
}

/* A process that was started anew has none of the old one's streams. */
static bool can_arrive(const struct net_message *x)
{
	const struct sim_host *to = x->to;

	return to->recv != NULL && to->id == x->to_id &&
	       (!x->net->is_stream || to->life == x->to_life);
}

static void on_arrival(void *ctx)
{
	struct net_message *x = ctx;
	struct sim_host *from = x->from, *to = x->to;
	struct raft_message m = x->m;
	enum cut c = x->net->cut[from->number][to->number];
	char address[SIM_ADDRESS];

	if (can_arrive(x) && c == CUT_HOLDS) {
		list_remove(&x->node);
		list_push_back(&x->net->held, &x->node);
		return;
	}
	if (!can_arrive(x) || c != CUT_NONE) {
		message_free(x, true);
		return;
	}
	host_address(x->from_place, address);
	m.server_id = x->from_id;
	m.server_address = address;
	message_free(x, false);
	note(to->sim, "got", from, to, &m);
	to->recv(to->io, &m);
}

/* --- departure --- */

static void launch(struct sim_host *from, struct sim_host *to,
		   const struct raft_message *m)
{
	struct sim_net *net = from->net;
	struct net_message *x = xcalloc(1, sizeof(*x));
	uint64_t *last = &net->last_ns[from->number][to->number];
	uint64_t wait =
	    sim_skewed(net->sim, net->delay_min_ns, net->delay_max_ns);

	*x = (struct net_message){ .net = net,
				   .from = from,
				   .to = to,
				   .from_id = from->id,
				   .from_place = host_place(from),
				   .to_id = m->server_id,
				   .from_life = from->life,
				   .to_life = to->life };
	copy_message(m, &x->m);
	if (net->is_stream) {
		uint64_t now = net->sim->now_ns;

		*last = MAX(*last + 1, now + wait);
		wait = *last - now;
	}
	list_push_back(&net->flying, &x->node);
	sim_after(net->sim, &x->event, &to->loop, wait, on_arrival, x);
}

static struct sim_host *find(struct sim_net *net, uint64_t id)
{
	for (unsigned i = 0; i < SIM_NODES; i++)
		if (net->host[i] != NULL && net->host[i]->id == id)
			return net->host[i];
	return NULL;
}

/* What the sender is to hear; launches what is to arrive. */
static int depart(struct sim_host *from, const struct raft_message *m,
		  bool may_dial)
{
	struct sim_net *net = from->net;
	struct sim_host *to = find(net, m->server_id);

	if (to == NULL || to->recv == NULL || !may_dial ||
	    net->cut[from->number][to->number] == CUT_REFUSES ||
	    sim_chance(net->sim, net->refuse))
		return RAFT_NOCONNECTION;
	if (net->cut[from->number][to->number] == CUT_LOSES ||
	    sim_chance(net->sim, net->loss))
		return 0;
	note(net->sim, "sent", from, to, m);
	launch(from, to, m);
	if (!net->is_stream && sim_chance(net->sim, net->twice))
		launch(from, to, m);
	return 0;
}

static void send_end(struct net_send *x, int status)
{
	struct raft_io_send *req = x->req;
	raft_io_send_cb cb = x->cb;

	list_remove(&x->node);
	sim_forget(x->from->sim, &x->event);
	free(x);
	if (cb != NULL) /* nobody waits for a hint to lead */
		cb(req, status);
}

static void on_sent(void *ctx)
{
	struct net_send *x = ctx;

	send_end(x, x->status);
}

int net_send(struct sim_host *from, bool may_dial, struct raft_io_send *req,
	     const struct raft_message *m, raft_io_send_cb cb)
{
	struct net_send *x = xcalloc(1, sizeof(*x));
	uint64_t max;

	x->from = from;
	x->req = req;
	x->cb = cb;
	x->status = depart(from, m, may_dial);
	max = x->status == 0 ? from->net->delay_max_ns : REFUSED_MAX_NS;
	list_push_back(&from->net->sends, &x->node);
	sim_after(from->sim, &x->event, &from->loop,
		  sim_skewed(from->sim, 0, max), on_sent, x);
	return 0;
}

/* --- ends and cuts --- */

static void lose_some(struct sim_net *net, struct list *all,
		      const struct sim_host *h)
{
	LIST_FOREACH_SAFE (it, all) {
		struct net_message *x =
		    list_entry(it, struct net_message, node);

		if ((x->from == h || x->to == h) && sim_chance(net->sim, 50))
			message_free(x, true);
	}
}

void net_abandon(struct sim_host *h)
{
	LIST_FOREACH (it, &h->net->sends) {
		struct net_send *x = list_entry(it, struct net_send, node);

		if (x->from == h)
			x->cb = NULL;
	}
	net_leave(h);
}

void net_leave(struct sim_host *h)
{
	struct sim_net *net = h->net;

	LIST_FOREACH_SAFE (it, &net->sends) {
		struct net_send *x = list_entry(it, struct net_send, node);

		if (x->from == h)
			send_end(x, RAFT_CANCELED);
	}
	lose_some(net, &net->flying, h);
	lose_some(net, &net->held, h);
}

static void release_held(struct sim_net *net)
{
	LIST_FOREACH_SAFE (it, &net->held) {
		struct net_message *x =
		    list_entry(it, struct net_message, node);

		if (net->cut[x->from->number][x->to->number] == CUT_HOLDS)
			continue;
		list_remove(&x->node);
		list_push_back(&net->flying, &x->node);
		sim_after(net->sim, &x->event, &x->to->loop,
			  sim_skewed(net->sim, 0, net->delay_max_ns),
			  on_arrival, x);
	}
}

void net_cut(struct sim_net *net, unsigned from, unsigned to, enum cut c)
{
	net->cut[from][to] = c;
	release_held(net);
}

void net_heal(struct sim_net *net)
{
	memset(net->cut, 0, sizeof(net->cut));
	net->loss = net->twice = net->refuse = 0;
	release_held(net);
}

void net_init(struct sim_net *net, struct sim *s)
{
	*net = (struct sim_net){ .sim = s };
	list_init(&net->sends);
	list_init(&net->held);
	list_init(&net->flying);
}

void net_done(struct sim_net *net)
{
	CHECK(list_empty(&net->sends));
	while (!list_empty(&net->flying))
		message_free(
		    list_entry(net->flying.next, struct net_message, node),
		    true);
	while (!list_empty(&net->held))
		message_free(
		    list_entry(net->held.next, struct net_message, node), true);
}
