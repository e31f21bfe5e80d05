#include "heal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "rt/log.h"
#include "util/clock.h"

#define LOOK_NS    NS_PER_S
#define UNKNOWN_NS (60 * NS_PER_S) /* until a leader is asked again */
#define ANSWER_NS  (10 * NS_PER_S)

struct heal {
	struct heal_config c;
	struct loop_timer *look;
	struct rpc_client *client; /* NULL: nothing is asked */
	bool answered;
	int err;
	uint64_t found;        /* snapshot; 0: none yet */
	uint64_t index;        /* entry that is wanted */
	uint64_t leader;       /* who was asked */
	uint64_t unknown_by;   /* the last one that did not know the question */
	uint64_t unknown_till; /* clock_mono_ns: it is not asked */
	int told;              /* the last error that was logged */
};

static void end_ask(struct heal *h)
{
	if (h->client != NULL)
		h->c.close(h->c.ctx, h->client);
	h->client = NULL;
	h->answered = false;
}

static void on_found(void *ctx, const struct rpc_reply *r)
{
	struct heal *h = ctx;
	struct arena a = ARENA_INIT;
	struct m_snapshot_found m = { 0 };

	h->answered = true;
	h->err = r->err;
	if (h->err == 0 && msg_decode(&msg_snapshot_found, r->body, &a, &m) < 0)
		h->err = ERR_BAD_MESSAGE;
	h->found = m.index;
	arena_done(&a);
	loop_timer_arm(h->look, 0); /* the link is not closed in its callback */
}

static void ask(struct heal *h)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct m_snapshot_ask m = { 0 };

	h->client = h->c.open(h->c.ctx, h->leader);
	if (h->client == NULL)
		return;
	MSG_SET(&m, snapshot_ask, index, h->index);
	msg_encode(&msg_snapshot_ask, &m, &b);
	(void)rpc_call(h->client, QUERY_SNAPSHOT_NEWEST, STR_NULL, buf_str(&b),
		       clock_mono_ns() + ANSWER_NS, ERR_LEADER_UNAVAILABLE, 0,
		       on_found, h);
}

static void refused(struct heal *h)
{
	if (h->err == ERR_BAD_MESSAGE) {
		h->unknown_by = h->leader;
		h->unknown_till = clock_mono_ns() + UNKNOWN_NS;
	}
	if (h->err == h->told)
		return;
	h->told = h->err;
	if (h->err == ERR_BAD_MESSAGE)
		log_warn("the store of this node is damaged, and the leader is "
			 "of a version that gives no store when it is asked; "
			 "waiting for it to offer a snapshot");
	else
		log_warn("the store of this node is damaged, and the leader "
			 "gives none: %s; trying again",
			 err_text(h->err));
}

static void take_answer(struct heal *h, const struct history *history)
{
	struct node_install i = { .leader = h->leader, .store_only = true };

	end_ask(h);
	if (h->err != 0) {
		refused(h);
		return;
	}
	h->told = 0;
	if (h->found == 0)
		return; /* one is being taken */
	i.manifest.index = h->found;
	i.manifest.applied = h->index;
	i.manifest.origin.history = *history;
	follow_offer(h->c.follow, &i);
}

static void on_look(void *ctx)
{
	struct heal *h = ctx;
	struct follow_status st;
	struct history history;
	uint64_t index, leader;

	loop_timer_arm(h->look, LOOK_NS);
	if (!h->c.wanted(h->c.ctx, &index, &leader, &history)) {
		end_ask(h);
		return;
	}
	if (h->client != NULL && h->answered) {
		take_answer(h, &history);
		return;
	}
	follow_status(h->c.follow, &st);
	if (h->client != NULL || st.active ||
	    (leader == h->unknown_by && clock_mono_ns() < h->unknown_till))
		return;
	h->index = index;
	h->leader = leader;
	ask(h);
}

struct heal *heal_new(const struct heal_config *c)
{
	struct heal *h = xcalloc(1, sizeof(*h));

	h->c = *c;
	h->look = loop_timer_add(c->loop, on_look, h);
	loop_timer_arm(h->look, LOOK_NS);
	return h;
}

void heal_free(struct heal *h)
{
	if (h == NULL)
		return;
	end_ask(h);
	loop_timer_remove(h->look);
	free(h);
}
