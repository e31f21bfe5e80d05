/*
 * RPC with both ends in one process, each test in a process of its own: what
 * is in a frame, deadlines, cancelling, refusals.
 */
#include "rpc_world.h"

#define OTHER_HASH (corvo_defs_hash + 1)

/* --- the tests --- */

static void batching_actor(int fd, const char *path, unsigned number)
{
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	greet(&w, corvo_defs_hash);
	w_wait(&w, client_up);
	for (int i = 0; i < 100; i++)
		(void)w_call(&w, "x", 0, 0);
	w_wait(&w, raw_has_frame);
	w_idle(&w);
	/* calls of one turn are one frame, in order */
	EXPECT(w.raw.frames == 1 && w.raw.frame.kind == FRAME_REQUEST);
	EXPECT(w.raw.frame.n == 100);
	for (unsigned i = 0; i < 100; i++) {
		EXPECT(w.raw.frame.requests[i].id ==
		       w.raw.frame.requests[0].id + i);
		EXPECT(w.raw.frame.requests[i].op == OP_ACK);
		EXPECT(w.raw.frame.requests[i].flags == 0);
		EXPECT(str_is(w.raw.frame.requests[i].key, "q"));
		EXPECT(str_is(w.raw.frame.requests[i].body, "x"));
	}
	EXPECT(rpc_client_pending(w.client) == 100);
	w_end(&w);
}

static void replies_actor(int fd, const char *path, unsigned number)
{
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	w_serve(&w);
	w_dial(&w);
	w.answer = true;
	/* before the link is up; with room for the table to grow */
	for (int i = 0; i < 300; i++)
		(void)w_call(&w, "abc", 0, 0);
	w_wait(&w, all_replied);
	EXPECT(w.was_up && w.states == 1);
	EXPECT(w.replies == 300 && w.reply_bytes == 900);
	/* a reply for nobody, and a second one */
	rpc_reply(w.seen[0].req, 0, 7, STR("again"));
	w_idle(&w);
	EXPECT(w.replies == 300);
	w_end(&w);
}

static void sizes_actor(int fd, const char *path, unsigned number)
{
	char *body = xcalloc(1, RPC_BODY_BYTES + 1);
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	w_serve(&w);
	w_dial(&w);
	for (int i = 0; i < 12; i++)
		(void)w_call(&w, "x", 0, 0);
	while (w.seen_n < 12)
		w_wait(&w, has_seen);
	/* 36 MiB of replies of one turn, and one of the largest size */
	for (int i = 0; i < 11; i++)
		rpc_reply(w.seen[i].req, 0, 7, str_of(body, 3u << 20));
	rpc_reply(w.seen[11].req, 0, 7, str_of(body, RPC_BODY_BYTES));
	w_wait(&w, all_replied);
	EXPECT(w.replies == 12);
	EXPECT(w.reply_bytes == 11ULL * (3u << 20) + RPC_BODY_BYTES);
	EXPECT(w.last_err == 0);

	w.seen_n = w.replies = 0;
	(void)w_call(&w, "x", 0, 0);
	w_wait(&w, has_seen);
	rpc_reply(w.seen[0].req, 0, 7, str_of(body, RPC_BODY_BYTES + 1));
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_INTERNAL_ERROR);

	/* large requests */
	w.seen_n = w.replies = 0;
	w.reply_bytes = 0;
	w.answer = true;
	for (int i = 0; i < 5; i++)
		(void)rpc_call(w.client, OP_ENQUEUE, STR_NULL,
			       str_of(body, 5u << 20), 0, ERR_INTERNAL_ERROR, 0,
			       w_reply, &w);
	w_wait(&w, all_replied);
	EXPECT(w.reply_bytes == 5ULL * (5u << 20));
	w_end(&w);
	free(body);
}

static void deadline_actor(int fd, const char *path, unsigned number)
{
	uint64_t start_ns;
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	w_serve(&w);
	w_dial(&w);
	w_wait(&w, client_up);
	start_ns = clock_mono_ns();
	(void)w_call(&w, "slow", 30 * NS_PER_MS, 0);
	w_wait(&w, has_reply);
	EXPECT(clock_mono_ns() - start_ns >= 30 * NS_PER_MS);
	EXPECT(w.last_err == ERR_LEADER_UNAVAILABLE);
	EXPECT(rpc_client_pending(w.client) == 0);
	w_wait(&w, has_cancel);
	EXPECT(w.cancelled_id == w.seen[0].req.id);
	/* too late */
	rpc_reply(w.seen[0].req, 0, 7, STR("late"));
	w_idle(&w);
	EXPECT(w.replies == 1);

	/* a deadline in the past ends the call, but not inside rpc_call */
	w.replies = 0;
	(void)rpc_call(w.client, OP_ACK, STR_NULL, STR("x"), 1,
		       ERR_VIEW_UNAVAILABLE, 0, w_reply, &w);
	EXPECT(w.replies == 0);
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_VIEW_UNAVAILABLE);
	w_end(&w);
}

/* A call that changes something: its error says whether that was done. */
static void changes_actor(int fd, const char *path, unsigned number)
{
	uint64_t start_ns, deadline_ns;
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	w_dial(&w);
	/* never sent */
	(void)w_call(&w, "unsent", 10 * NS_PER_MS, RPC_CHANGES);
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_LEADER_UNAVAILABLE);

	/* the server is told the deadline, and says in time what it did */
	w_serve(&w);
	w_wait(&w, client_up);
	w.replies = 0;
	start_ns = clock_mono_ns();
	(void)w_call(&w, "slow", 100 * NS_PER_MS, RPC_CHANGES);
	w_wait(&w, has_seen);
	deadline_ns = w.seen[0].deadline_ns;
	EXPECT(deadline_ns >= start_ns + 100 * NS_PER_MS);
	EXPECT(deadline_ns <= clock_mono_ns() + 100 * NS_PER_MS);
	while (clock_mono_ns() < deadline_ns)
		w_idle(&w);
	EXPECT(w.replies == 0);
	rpc_reply(w.seen[0].req, ERR_OVERLOADED, 7, STR("no"));
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_OVERLOADED);

	/* it says nothing */
	w.replies = 0;
	start_ns = clock_mono_ns();
	(void)w_call(&w, "silent", 10 * NS_PER_MS, RPC_CHANGES);
	w_wait(&w, has_reply);
	EXPECT(clock_mono_ns() - start_ns >= 10 * NS_PER_MS + RPC_LATE_NS);
	EXPECT(w.last_err == ERR_OUTCOME_UNKNOWN);

	/* it goes away, and nobody comes back */
	w.replies = w.seen_n = 0;
	(void)w_call(&w, "killed", 300 * NS_PER_MS, RPC_CHANGES);
	w_wait(&w, has_seen);
	rpc_server_free(w.server);
	w.server = NULL;
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_OUTCOME_UNKNOWN);
	w_end(&w);
}

static bool seen_two(struct world *w)
{
	return w->seen_n == 2;
}

static bool replied_two(struct world *w)
{
	return w->replies == 2;
}

/* A call whose answer is kept: the server hears which have arrived. */
static void keep_actor(int fd, const char *path, unsigned number)
{
	struct seen first;
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	w_serve(&w);
	w_dial(&w);
	w_wait(&w, client_up);
	/* one that waits long and is not kept holds up nobody */
	(void)w_call(&w, "long", 0, 0);
	(void)w_call(&w, "one", 0, RPC_CHANGES | RPC_KEEP);
	w_wait(&w, seen_two);
	EXPECT(!(w.seen[0].flags & FRAME_KEEP));
	first = w.seen[1];
	EXPECT(first.flags == FRAME_KEEP && first.origin != 0);
	EXPECT(first.done == first.req.id);

	/* the link is lost: the same number of the same caller comes again */
	w.seen_n = 0;
	rpc_server_free(w.server);
	w_serve(&w);
	w_wait(&w, seen_two);
	EXPECT(w.seen[1].flags == (FRAME_KEEP | FRAME_RESEND));
	EXPECT(w.seen[1].origin == first.origin);
	EXPECT(w.seen[1].req.id == first.req.id);
	EXPECT(w.seen[1].done == first.req.id);

	/* answered: the next one says so */
	rpc_reply(w.seen[1].req, 0, 7, STR("done"));
	w_wait(&w, has_reply);
	w.seen_n = 0;
	(void)w_call(&w, "two", 0, RPC_CHANGES | RPC_KEEP);
	(void)w_call(&w, "three", 0, RPC_CHANGES | RPC_KEEP);
	w_wait(&w, seen_two);
	EXPECT(w.seen[0].done > first.req.id);
	EXPECT(w.seen[1].done == w.seen[0].req.id);

	/* out of order: the first that is missing counts */
	rpc_reply(w.seen[1].req, 0, 7, STR("done"));
	w_wait(&w, replied_two);
	first = w.seen[0];
	w.seen_n = 0;
	(void)w_call(&w, "four", 0, RPC_CHANGES | RPC_KEEP);
	w_wait(&w, has_seen);
	EXPECT(w.seen[0].done == first.req.id);
	w_end(&w);
}

static void send_by_actor(int fd, const char *path, unsigned number)
{
	uint64_t start_ns;
	struct rpc_call *call;
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	w_dial(&w);
	/* nobody listens: it ends long before its deadline */
	start_ns = clock_mono_ns();
	call = w_call(&w, "unsent", 3600 * NS_PER_S, RPC_ONCE);
	rpc_send_by(w.client, call, start_ns + 30 * NS_PER_MS);
	w_wait(&w, has_reply);
	EXPECT(clock_mono_ns() - start_ns >= 30 * NS_PER_MS);
	EXPECT(w.last_err == ERR_LEADER_UNAVAILABLE);
	EXPECT(rpc_client_pending(w.client) == 0);

	/* sent in time: from then on only the deadline counts */
	w_serve(&w);
	w_wait(&w, client_up);
	w.replies = 0;
	start_ns = clock_mono_ns();
	call = w_call(&w, "sent", 1500 * NS_PER_MS, 0);
	rpc_send_by(w.client, call, start_ns + NS_PER_S);
	w_wait(&w, has_reply);
	EXPECT(clock_mono_ns() - start_ns >= 1500 * NS_PER_MS);
	EXPECT(w.seen_n == 1 && w.last_err == ERR_LEADER_UNAVAILABLE);

	/* a later moment than the deadline changes nothing */
	w.replies = 0;
	call = w_call(&w, "short", 10 * NS_PER_MS, 0);
	rpc_send_by(w.client, call, clock_mono_ns() + 3600 * NS_PER_S);
	w_wait(&w, has_reply);
	w_end(&w);
}

static void cancel_actor(int fd, const char *path, unsigned number)
{
	struct rpc_call *call;
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	w_serve(&w);
	w_dial(&w);
	w_wait(&w, client_up);
	call = w_call(&w, "sent", 0, 0);
	w_wait(&w, has_seen);
	rpc_cancel(w.client, call);
	w_wait(&w, has_cancel);
	EXPECT(w.cancelled_id == w.seen[0].req.id);
	rpc_reply(w.seen[0].req, 0, 7, STR("late"));
	w_idle(&w);
	EXPECT(w.replies == 0 && rpc_client_pending(w.client) == 0);

	/* one that was not sent needs no word */
	call = w_call(&w, "unsent", NS_PER_S, 0);
	rpc_cancel(w.client, call);
	w_idle(&w);
	EXPECT(w.seen_n == 1 && w.cancels == 1);
	/* freed with calls under way: no callback */
	(void)w_call(&w, "left", NS_PER_S, 0);
	w_end(&w);
}

static void late_reply(void *ctx, const struct rpc_reply *r)
{
	w_reply(ctx, r);
	EXPECT(str_eq(r->body, STR("given")));
}

/* A job that was handed out when nobody waited any more is not forgotten. */
static void abandon_actor(int fd, const char *path, unsigned number)
{
	struct rpc_call *call;
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	w_serve(&w);
	w_dial(&w);
	w_wait(&w, client_up);
	call = w_call(&w, "fetch", 3600 * NS_PER_S, RPC_CHANGES);
	w_wait(&w, has_seen);
	rpc_reply(w.seen[0].req, 0, 7, STR("given"));
	rpc_abandon(w.client, call, late_reply, &w); /* they cross */
	w_wait(&w, has_reply);
	EXPECT(rpc_client_pending(w.client) == 0);

	/* after a loss of the link the server hears of both again */
	w.seen_n = w.cancels = w.replies = 0;
	call = w_call(&w, "fetch", 3600 * NS_PER_S, RPC_CHANGES);
	w_wait(&w, has_seen);
	rpc_abandon(w.client, call, late_reply, &w);
	w_wait(&w, has_cancel);
	w.seen_n = w.cancels = 0;
	rpc_server_free(w.server);
	w_serve(&w);
	w_wait(&w, has_cancel);
	EXPECT(w.seen_n == 1 && (w.seen[0].flags & FRAME_RESEND));
	rpc_reply(w.seen[0].req, 0, 7, STR("given"));
	w_wait(&w, has_reply);

	/* one that was not sent is forgotten */
	w.replies = 0;
	call = w_call(&w, "unsent", 0, RPC_CHANGES);
	rpc_abandon(w.client, call, late_reply, &w);
	EXPECT(rpc_client_pending(w.client) == 0);
	w_end(&w);
}

static void hash_actor(int fd, const char *path, unsigned number)
{
	struct buf why = BUF_INIT(0);
	struct world w;

	(void)fd;
	(void)number;
	/* the client refuses a server */
	w_start(&w, path);
	greet(&w, OTHER_HASH);
	(void)w_call(&w, "x", 50 * NS_PER_MS, 0);
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_LEADER_UNAVAILABLE);
	EXPECT(!rpc_client_is_up(w.client) && w.states == 0);
	EXPECT(w.raw.frames == 0);
	w_end(&w);

	/* the server refuses a client, and says who it is */
	w_start(&w, path);
	w_serve(&w);
	EXPECT(ipc_dial(w.ipc, path, &raw_ops, &w.raw, &w.raw.link, &why) == 0);
	w_wait(&w, raw_is_up);
	raw_hello(&w.raw, 5, OTHER_HASH);
	w_wait(&w, raw_has_frame);
	EXPECT(w.raw.frame.kind == FRAME_HELLO && w.raw.frame.epoch == 5);
	raw_request(&w.raw, 5, 1);
	w_idle(&w);
	EXPECT(w.seen_n == 0 && w.peer_downs == 0);
	link_close(w.raw.link);
	/* the next one is served */
	w.answer = true;
	w_dial(&w);
	(void)w_call(&w, "x", 0, 0);
	w_wait(&w, has_reply);
	EXPECT(w.last_err == 0);
	w_end(&w);
}

static void epoch_actor(int fd, const char *path, unsigned number)
{
	struct buf why = BUF_INIT(0);
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	w_serve(&w);
	EXPECT(ipc_dial(w.ipc, path, &raw_ops, &w.raw, &w.raw.link, &why) == 0);
	w_wait(&w, raw_is_up);
	raw_request(&w.raw, 5, 1); /* before the hello */
	raw_hello(&w.raw, 5, corvo_defs_hash);
	raw_request(&w.raw, 4, 2); /* of another connection */
	raw_request(&w.raw, 5, 3); /* good, though its op is unknown */
	w_wait(&w, has_seen);
	w_idle(&w);
	EXPECT(w.seen_n == 1 && w.seen[0].req.id == 3);
	EXPECT(w.seen[0].op == 424242);
	/* a new hello voids what came before */
	raw_hello(&w.raw, 6, corvo_defs_hash);
	w_wait(&w, has_peer_down);
	EXPECT(!rpc_req_is_live(w.seen[0].req));
	rpc_reply(w.seen[0].req, 0, 7, STR("stale"));
	w_idle(&w);
	EXPECT(w.raw.frame.kind == FRAME_HELLO && w.raw.frame.epoch == 6);
	w_end(&w);

	/* and a client takes replies of its own epoch only */
	w_start(&w, path);
	greet(&w, corvo_defs_hash);
	w_wait(&w, client_up);
	(void)w_call(&w, "x", 0, 0);
	w_wait(&w, raw_has_frame);
	raw_reply(&w.raw, w.raw.frame.epoch + 1, w.raw.frame.requests[0].id);
	raw_reply(&w.raw, w.raw.frame.epoch, 987654);
	w_idle(&w);
	EXPECT(w.replies == 0);
	raw_reply(&w.raw, w.raw.frame.epoch, w.raw.frame.requests[0].id);
	w_wait(&w, has_reply);
	w_end(&w);
}

static bool raw_is_back(struct world *w)
{
	return w->raw.up && w->raw.downs > 0;
}

static bool raw_is_greeted(struct world *w)
{
	return raw_is_back(w) && w->raw.frames > 0 &&
	       w->raw.frame.kind == FRAME_HELLO;
}

static bool raw_is_asked(struct world *w)
{
	return w->raw.frames > 0 && w->raw.frame.kind == FRAME_REQUEST;
}

static const char junk[] = "\x94\x01\x02\xff\xff\xff junk";

/* The client that sent it is served again, once it has greeted anew. */
static void bad_request_actor(int fd, const char *path, unsigned number)
{
	struct buf why = BUF_INIT(0);
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	w_serve(&w);
	EXPECT(ipc_dial(w.ipc, path, &raw_ops, &w.raw, &w.raw.link, &why) == 0);
	w_wait(&w, raw_is_up);
	raw_hello(&w.raw, 5, corvo_defs_hash);
	EXPECT(link_send(w.raw.link, junk, sizeof(junk)) == 0);
	raw_request(&w.raw, 5, 1); /* came with it, and goes with it */
	w_wait(&w, raw_is_back);
	EXPECT(w.seen_n == 0 && w.peer_downs == 1);
	raw_hello(&w.raw, 6, corvo_defs_hash);
	raw_request(&w.raw, 6, 2);
	w_wait(&w, has_seen);
	EXPECT(w.seen[0].req.id == 2 && w.raw.downs == 1);
	w_end(&w);
}

/* A call that was under way is made again, and answered. */
static void bad_reply_actor(int fd, const char *path, unsigned number)
{
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	greet(&w, corvo_defs_hash);
	w_wait(&w, client_up);
	(void)w_call(&w, "x", 0, 0);
	w_wait(&w, raw_is_asked);
	EXPECT(w.raw.frame.requests[0].flags == 0);
	EXPECT(link_send(w.raw.link, junk, sizeof(junk)) == 0);
	w_wait(&w, raw_is_greeted);
	EXPECT(!w.was_up && w.replies == 0);
	raw_hello(&w.raw, w.raw.frame.epoch, corvo_defs_hash);
	w_wait(&w, raw_is_asked);
	EXPECT(w.raw.frame.requests[0].flags == FRAME_RESEND);
	raw_reply(&w.raw, w.raw.frame.epoch, w.raw.frame.requests[0].id);
	w_wait(&w, has_reply);
	EXPECT(w.last_err == 0 && w.was_up);
	w_end(&w);
}

static bool raw_is_down(struct world *w)
{
	return !w->raw.up;
}

/* Nothing but nonsense, again and again: calls end, and nobody hurries. */
static void only_nonsense_actor(int fd, const char *path, unsigned number)
{
	uint64_t start_ns = clock_mono_ns();
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	greet(&w, corvo_defs_hash);
	w_wait(&w, client_up);
	(void)w_call(&w, "x", 100 * NS_PER_MS, 0);
	while (w.raw.downs < 8) {
		w_wait(&w, raw_is_up);
		EXPECT(link_send(w.raw.link, junk, sizeof(junk)) == 0);
		w_wait(&w, raw_is_down);
	}
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_LEADER_UNAVAILABLE);
	/* 5 + 10 + 20 + ... + 320 ms */
	EXPECT(clock_mono_ns() - start_ns > 600 * NS_PER_MS);
	w_end(&w);
}

RPC_TEST(batching)
RPC_TEST(replies)
RPC_TEST(sizes)
RPC_TEST(deadline)
RPC_TEST(changes)
RPC_TEST(keep)
RPC_TEST(send_by)
RPC_TEST(cancel)
RPC_TEST(abandon)
RPC_TEST(hash)
RPC_TEST(epoch)
RPC_TEST(bad_request)
RPC_TEST(bad_reply)
RPC_TEST(only_nonsense)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_batching),
		cmocka_unit_test(test_replies),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_keep),
		cmocka_unit_test(test_send_by),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_abandon),
		cmocka_unit_test(test_hash),
		cmocka_unit_test(test_epoch),
		cmocka_unit_test(test_bad_request),
		cmocka_unit_test(test_bad_reply),
		cmocka_unit_test(test_only_nonsense),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	actor_path_remove();
	return r;
}
