/*
 * Answers that the other end has yet to take, and questions whose time is over.
 */
#include "rpc_world.h"

#define LARGE_BYTES (4u << 20)
#define ASKED       100

static void ask(struct world *w, uint64_t deadline_ns)
{
	(void)rpc_call(w->client, QUERY_GET_SETTINGS, STR_NULL, STR("ask"),
		       deadline_ns, ERR_LEADER_UNAVAILABLE, 0, w_reply, w);
}

static bool has_seen_all(struct world *w)
{
	return w->seen_n == ASKED;
}

static bool has_room_again(struct world *w)
{
	return w->rooms > 0;
}

/*
 * Who makes large answers asks before whether there is room. There is none once
 * enough of them wait, which the other end has yet to take, and then there is
 * again, of which the server is told.
 */
static void room_actor(int fd, const char *path, unsigned number)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	unsigned made = 0;
	struct world w;

	(void)fd;
	(void)number;
	while (body.n < LARGE_BYTES)
		buf_puts(&body, "not so much as it will be in the end ");
	w_start(&w, path);
	w_serve(&w);
	w_dial(&w);
	w_wait(&w, client_up);
	for (unsigned i = 0; i < ASKED; i++)
		ask(&w, 0);
	w_wait(&w, has_seen_all);
	while (made < ASKED && rpc_req_has_room(w.seen[made].req))
		rpc_reply(w.seen[made++].req, 0, 7, buf_str(&body));
	EXPECT(made > 1 && made < 10 && w.rooms == 0);
	w_wait(&w, has_room_again);
	EXPECT(rpc_req_has_room(w.seen[made].req));
	while (made < ASKED)
		rpc_reply(w.seen[made++].req, 0, 7, STR("small"));
	w_wait(&w, all_replied);
	EXPECT(w.replies == ASKED && w.last_err == 0);
	w_end(&w);
}

/* Whoever asked has given up when it comes: it is not looked at. */
static void late_actor(int fd, const char *path, unsigned number)
{
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	w_serve(&w);
	w_dial(&w);
	w_wait(&w, client_up);
	ask(&w, clock_mono_ns());
	rpc_client_flush(w.client); /* before it looks at the time itself */
	ask(&w, clock_mono_ns() + 3600 * NS_PER_S);
	w.answer = true;
	w_wait(&w, all_replied);
	EXPECT(w.replies == 2 && w.seen_n == 1);
	w_end(&w);
}

RPC_TEST(room)
RPC_TEST(late)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_late),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	actor_path_remove();
	return r;
}
