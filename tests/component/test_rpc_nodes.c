/*
 * Requests that one node passes on to another. The link is one of this machine:
 * what carries it makes no difference.
 */
#include "rpc_world.h"

static void start(struct world *w, const char *path)
{
	w_start(w, path);
	w->client = rpc_client_to_node(w->loop, "n1", w_open_dial, w);
}

static struct rpc_call *pass_on(struct world *w, const char *body,
				uint64_t number, uint64_t deadline_ns)
{
	struct frame_request item = { .op = OP_ACK,
				      .flags = FRAME_KEEP,
				      .deadline_ns = deadline_ns,
				      .done = 3,
				      .origin = 77,
				      .number = number,
				      .key = STR("q"),
				      .body = str_from(body) };

	return rpc_forward(w->client, &item, ERR_LEADER_UNAVAILABLE, w_reply,
			   w);
}

/* Whose request it is, and how long it has, come along. */
static void as_it_came_actor(int fd, const char *path, unsigned number)
{
	uint64_t deadline_ns = clock_mono_ns() + 3600 * NS_PER_S;
	struct world w;

	(void)fd;
	(void)number;
	start(&w, path);
	w_serve_node(&w);
	(void)pass_on(&w, "one", 9, deadline_ns);
	w_wait(&w, has_seen);
	EXPECT(w.seen[0].flags == FRAME_KEEP);
	EXPECT(w.seen[0].origin == 77 && w.seen[0].number == 9);
	EXPECT(w.seen[0].done == 3);
	/* the other clock runs on meanwhile */
	EXPECT(w.seen[0].deadline_ns >= deadline_ns);
	EXPECT(w.seen[0].deadline_ns < deadline_ns + 600 * NS_PER_S);
	rpc_reply(w.seen[0].req, 0, 7, STR("done"));
	w_wait(&w, has_reply);
	EXPECT(w.last_err == 0);

	/* in time, or not at all */
	rpc_server_free(w.server);
	w.server = NULL;
	w.replies = 0;
	(void)pass_on(&w, "late", 10, clock_mono_ns() + 20 * NS_PER_MS);
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_LEADER_UNAVAILABLE);
	w_end(&w);
}

static bool has_two(struct world *w)
{
	return w->seen_n == 2;
}

/* A leader that leads no more: what it has not answered is sent again. */
static void pause_actor(int fd, const char *path, unsigned number)
{
	struct rpc_req before;
	struct world w;

	(void)fd;
	(void)number;
	start(&w, path);
	w_serve_node(&w);
	(void)pass_on(&w, "one", 9, 0);
	w_wait(&w, has_seen);
	before = w.seen[0].req;
	w.seen_n = 0;
	rpc_server_pause(w.server);
	EXPECT(w.peer_downs == 1 && !rpc_req_is_live(before));
	w_idle(&w); /* the client hears of it */
	(void)pass_on(&w, "two", 10, 0);
	w_idle(&w);
	EXPECT(w.seen_n == 0 && w.replies == 0);
	rpc_reply(before, 0, 7, STR("of no interest"));
	rpc_server_resume(w.server);
	w_wait(&w, has_two);
	EXPECT(w.seen[0].number == 9);
	EXPECT(w.seen[0].flags == (FRAME_KEEP | FRAME_RESEND));
	EXPECT(w.seen[1].number == 10);
	EXPECT(w.seen[1].flags == FRAME_KEEP);
	EXPECT(w.replies == 0);
	w_end(&w);
}

struct taken {
	unsigned n;
	struct frame_request item[2];
};

static void take(void *arg, void *ctx, const struct frame_request *item)
{
	struct taken *t = arg;

	EXPECT(((struct world *)ctx)->loop != NULL);
	t->item[t->n++] = *item;
}

/* Who asked others becomes the leader itself. */
static void take_back_actor(int fd, const char *path, unsigned number)
{
	struct taken t = { 0 };
	struct world w;

	(void)fd;
	(void)number;
	start(&w, path);
	w_serve_node(&w);
	(void)pass_on(&w, "sent", 9, 0);
	w_wait(&w, has_seen);
	(void)pass_on(&w, "unsent", 10, 0);
	rpc_client_take_back(w.client, take, &t);
	EXPECT(t.n == 2 && rpc_client_pending(w.client) == 0);
	EXPECT(t.item[0].number == 9 && t.item[1].number == 10);
	EXPECT(t.item[0].flags == (FRAME_KEEP | FRAME_RESEND));
	EXPECT(t.item[1].flags == FRAME_KEEP && t.item[1].origin == 77);
	rpc_reply(w.seen[0].req, 0, 7, STR("of no interest"));
	w_wait(&w, has_cancel);
	EXPECT(w.replies == 0);
	w_end(&w);
}

RPC_TEST(as_it_came)
RPC_TEST(pause)
RPC_TEST(take_back)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_it_came),
		cmocka_unit_test(test_pause),
		cmocka_unit_test(test_take_back),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	actor_path_remove();
	return r;
}
