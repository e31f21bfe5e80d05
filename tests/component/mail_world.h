/*
 * Messages between the nodes of cluster_world.h, which a test may lose, and
 * messages that it makes up.
 */
#ifndef CORVO_MAIL_WORLD_H
#define CORVO_MAIL_WORLD_H

#include "cluster/entry.h"
#include "cluster_world.h"

#define ANSWERS_MAX 64

enum mail {
	MAIL_PASS,
	MAIL_LOST,   /* it left, and never arrives */
	MAIL_REFUSED /* it cannot be sent */
};

typedef enum mail mail_fn(int from, int to, const struct raft_message *msg);

/* A request whose message is lost: the library is told that it was sent. */
struct lost_mail {
	struct list node;
	struct raft_io_send *req;
	raft_io_send_cb cb;
};

static uint64_t mail_id[NODES]; /* also when a node's settings are gone */
static mail_fn *mail_rule;      /* NULL: all pass */
static struct list mail_lost;
static struct loop_timer *mail_timer;
static int (*mail_send)(struct raft_io *, struct raft_io_send *,
			const struct raft_message *, raft_io_send_cb);
/* Answers that left, of all nodes. */
static struct {
	int from;
	struct raft_append_entries_result r;
} mail_answer[ANSWERS_MAX];
static unsigned mail_answers;
/* What was applied where. */
static struct entry_origin mail_applied[NODES][INDEX_MAX];

static inline int mail_number(uint64_t id)
{
	for (int i = 0; i < NODES; i++)
		if (mail_id[i] == id)
			return i;
	return -1;
}

static inline void mail_settle(void)
{
	while (!list_empty(&mail_lost)) {
		struct lost_mail *l =
		    list_entry(mail_lost.next, struct lost_mail, node);

		list_remove(&l->node);
		if (l->cb != NULL)
			l->cb(l->req, 0);
		free(l);
	}
}

static inline void mail_on_timer(void *ctx _unused_)
{
	mail_settle();
	loop_timer_arm(mail_timer, NS_PER_MS);
}

/* What holds of every message, whoever sends it. */
static inline void mail_check(const struct raft_message *msg)
{
	const struct raft_append_entries *a = &msg->append_entries;

	if (msg->type == RAFT_IO_APPEND_ENTRIES)
		assert_true(a->leader_commit <=
			    a->prev_log_index + a->n_entries);
}

static inline int mail_on_send(struct raft_io *io, struct raft_io_send *req,
			       const struct raft_message *msg,
			       raft_io_send_cb cb)
{
	struct node *n = container_of(io, struct node, io);
	int from = mail_number(n->raft.id);
	enum mail fate = MAIL_PASS;
	struct lost_mail *l;

	mail_check(msg);
	if (msg->type == RAFT_IO_APPEND_ENTRIES_RESULT) {
		mail_answer[mail_answers % ANSWERS_MAX].from = from;
		mail_answer[mail_answers++ % ANSWERS_MAX].r =
		    msg->append_entries_result;
	}
	if (mail_rule != NULL)
		fate = mail_rule(from, mail_number(msg->server_id), msg);
	if (fate == MAIL_PASS)
		return mail_send(io, req, msg, cb);
	if (fate == MAIL_REFUSED)
		return RAFT_NOCONNECTION;
	l = xcalloc(1, sizeof(*l));
	l->req = req;
	l->cb = cb;
	list_push_back(&mail_lost, &l->node);
	return 0;
}

static inline int mail_on_apply(void *ctx, uint64_t raft_index,
				const void *tag _unused_,
				const struct entry_origin *o,
				struct str entry _unused_)
{
	struct member *k = ctx;

	assert_true(raft_index < INDEX_MAX);
	mail_applied[k->number][raft_index] = *o;
	k->applied++;
	return 0;
}

/* Its store has what it had applied. */
static inline int mail_try_start(struct member *k, struct buf *why)
{
	static struct node_ops own;
	struct port_config pc = w_config(k->number);
	struct node_config c = { .settings = &k->s };
	int r;

	own = ops;
	own.apply = mail_on_apply;
	for (uint64_t i = 1; i < INDEX_MAX; i++)
		if (mail_applied[k->number][i].id != 0) {
			c.store_index = i;
			c.store_origin = mail_applied[k->number][i];
		}
	c.store_origin.history = pc.me.cluster;
	pc.me.raft_id = raft_digest(k->s.node_id, 0);
	w_open_as(k->number, &pc);
	c.port = w.port[k->number];
	k->stopped = false;
	r = node_start(w.loop, &c, &own, k, &k->node, why);
	if (r == 0) {
		mail_send = k->node->sends.send;
		k->node->sends.send = mail_on_send;
	}
	return r;
}

static inline void mail_start(struct member *k)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (mail_try_start(k, &why) != 0)
		fail_msg("%.*s", STR_ARG(buf_str(&why)));
}

static inline void mail_begin(void)
{
	mail_rule = NULL;
	mail_answers = 0;
	memset(mail_applied, 0, sizeof(mail_applied));
	list_init(&mail_lost);
	mail_timer = loop_timer_add(w.loop, mail_on_timer, NULL);
	loop_timer_arm(mail_timer, 0);
	for (int i = 0; i < NODES; i++)
		mail_id[i] = raft_digest(m[i].s.node_id, 0);
	for (int i = 0; i < NODES; i++)
		mail_start(&m[i]);
}

/* Before the nodes are stopped: they wait for what they sent. */
static inline void mail_end(void)
{
	mail_rule = NULL;
	mail_settle();
	loop_timer_remove(mail_timer);
}

/* --- what nodes do --- */

static inline void mail_on_answer(void *ctx, int err)
{
	if (ctx != NULL)
		*(int *)ctx = err == 0 ? 1 : -1;
}

/* One more entry through that node, which takes itself for the leader. */
static inline void mail_put(struct member *k, int *answer)
{
	uint32_t entry[16] = { 0 };
	const void *tag;

	assert_int_equal(node_propose(k->node,
				      str_of((char *)entry, sizeof(entry)),
				      &tag, mail_on_answer, answer),
			 0);
}

static inline bool all_equal(void *ctx _unused_)
{
	uint64_t index = 0;

	for (int i = 0; i < NODES; i++) {
		struct raft *r = &m[i].node->raft;

		if (i == 0)
			index = raft_last_index(r);
		if (r->last_applied != index || raft_last_index(r) != index)
			return false;
	}
	return true;
}

/* Who leads knows it, and all have what it has. */
static inline bool all_is_well(void *ctx)
{
	struct member *l = leader();

	return l != NULL && l->node->raft.state == RAFT_LEADER &&
	       l->node->raft.transfer == NULL && node_is_ready(l->node) &&
	       all_equal(ctx);
}

static inline bool is_stored(void *ctx)
{
	struct raft *r = &((struct member *)ctx)->node->raft;

	return r->last_stored == raft_last_index(r);
}

static inline enum mail mail_none(int from _unused_, int to _unused_,
				  const struct raft_message *msg _unused_)
{
	return MAIL_LOST;
}

/* --- messages that are made up --- */

/* As if `from` led that term. The entries are of the term `of`. */
static inline void hear_entries_of(struct member *k, const struct member *from,
				   uint64_t term, uint64_t of, uint64_t prev,
				   uint64_t commit, unsigned count)
{
	struct raft_message msg = { .type = RAFT_IO_APPEND_ENTRIES,
				    .server_id =
					raft_digest(from->s.node_id, 0),
				    .server_address = "there" };
	struct raft_append_entries *a = &msg.append_entries;
	size_t len = entry_wrapped_len(4);

	*a = (struct raft_append_entries){
		.term = term,
		.prev_log_index = prev,
		.prev_log_term = node_term_of(k->node, prev),
		.leader_commit = commit,
		.n_entries = count,
	};
	if (count > 0) {
		char *batch = raft_calloc(count, len);

		a->entries = raft_calloc(count, sizeof(*a->entries));
		for (unsigned i = 0; i < count; i++) {
			struct entry_head h = { .index = prev + 1 + i,
						.id = 1000 + of };

			entry_wrap(&h, STR("1234"), batch + i * len);
			a->entries[i] = (struct raft_entry){
				.term = of,
				.type = RAFT_COMMAND,
				.buf = { batch + i * len, len },
				.batch = batch,
			};
		}
	}
	node_receive(&k->node->io, &msg);
}

/* The entries are of its own. */
static inline void hear_entries(struct member *k, const struct member *from,
				uint64_t term, uint64_t prev, uint64_t commit,
				unsigned count)
{
	hear_entries_of(k, from, term, term, prev, commit, count);
}

static inline void hear_answer(struct member *k, const struct member *from,
			       uint64_t last)
{
	struct raft_message msg = { .type = RAFT_IO_APPEND_ENTRIES_RESULT,
				    .server_id =
					raft_digest(from->s.node_id, 0),
				    .server_address = "there" };

	msg.append_entries_result = (struct raft_append_entries_result){
		.term = k->node->raft.current_term,
		.last_log_index = last,
	};
	node_receive(&k->node->io, &msg);
}

#endif
