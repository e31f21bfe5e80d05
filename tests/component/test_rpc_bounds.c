/*
 * Answers that the other end has yet to take, and questions whose time is over.
 */
#include "rpc_world.h"
#include "util/crc32.h"
#include "util/rng.h"

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
	while (made < ASKED && rpc_req_has_room(w.seen[made].req, RPC_LARGE))
		rpc_reply(w.seen[made++].req, 0, 7, buf_str(&body));
	EXPECT(made > 0 && made < 10 && w.rooms == 0);
	/* others have theirs yet */
	EXPECT(rpc_req_has_room(w.seen[made].req, RPC_NOT_LARGE));
	while (made < ASKED &&
	       rpc_req_has_room(w.seen[made].req, RPC_NOT_LARGE))
		rpc_reply(w.seen[made++].req, 0, 7, buf_str(&body));
	EXPECT(made > 1 && made < 10 && w.rooms == 0);
	w_wait(&w, has_room_again);
	EXPECT(rpc_req_has_room(w.seen[made].req, RPC_NOT_LARGE));
	while (made < ASKED)
		rpc_reply(w.seen[made++].req, 0, 7, STR("small"));
	w_wait(&w, all_replied);
	EXPECT(w.replies == ASKED && w.last_err == 0);
	w_end(&w);
}

/* Who is answered with little does not wait for what is on its way to others:
 * that comes in parts, and whole in the end. */
static void parts_actor(int fd, const char *path, unsigned number)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct world w;

	(void)fd;
	(void)number;
	while (body.n < 4 * LARGE_BYTES)
		buf_puts(&body, "not so much as it will be in the end ");
	w_start(&w, path);
	w_serve(&w);
	w_dial(&w);
	ask(&w, 0);
	w_wait(&w, has_seen);
	rpc_reply(w.seen[0].req, 0, 7, buf_str(&body));
	rpc_server_flush(w.server); /* it has begun */
	w.answer = true;
	ask(&w, 0);
	w_wait(&w, has_reply);
	EXPECT(w.replies == 1 && w.reply_bytes == strlen("ask"));
	w_wait(&w, all_replied);
	EXPECT(w.replies == 2 && w.last_err == 0);
	EXPECT(w.reply_bytes == strlen("ask") + body.n);
	w_end(&w);
}

/* --- answers whose memory is taken over --- */

/* Of each as it came and as it went, in their order. */
struct taken {
	struct world w;
	uint32_t crc[8];
	size_t n;
};

static void take_reply(void *ctx, const struct rpc_reply *r)
{
	struct taken *t = ctx;

	t->w.replies++;
	EXPECT(r->err == 0 && r->seq == 7);
	t->crc[t->n++] = crc32_add(0, r->body);
}

/* Sizes around those at which it goes another way. */
static void taken_actor(int fd, const char *path, unsigned number)
{
	static const size_t sizes[] = {
		0, 65535, 65536, 65537, 131071, LARGE_BYTES, LARGE_BYTES + 1
	};
	static struct taken t;
	uint32_t crc[ARRAY_SIZE(sizes)];
	struct rng rng;

	(void)fd;
	(void)number;
	rng_seed(&rng, 1);
	w_start(&t.w, path);
	w_serve(&t.w);
	w_dial(&t.w);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct buf body = BUF_INIT(0);

		while (body.n < sizes[i])
			buf_putc(&body, (char)rng_below(&rng, 256));
		crc[i] = crc32_add(0, buf_str(&body));
		t.w.seen_n = t.w.replies = 0;
		(void)rpc_call(t.w.client, QUERY_GET_SETTINGS, STR_NULL,
			       STR("ask"), 0, ERR_LEADER_UNAVAILABLE, 0,
			       take_reply, &t);
		w_wait(&t.w, has_seen);
		rpc_reply_take(t.w.seen[0].req, 7, &body);
		EXPECT(body.n == 0 || body.n <= 65536);
		buf_done(&body);
		w_wait(&t.w, has_reply);
	}
	EXPECT(memcmp(crc, t.crc, sizeof(crc)) == 0);
	w_end(&t.w);
}

static void raw_part(struct raw *r, uint64_t epoch, uint64_t size,
		     struct str bytes)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct frame_part part = { size, bytes };
	struct frame_writer w;

	frame_begin(&w, &b, FRAME_PART, epoch);
	frame_add_part(&w, &part);
	frame_end(&w);
	EXPECT(link_send(r->link, b.p, b.n) == 0);
}

static bool raw_is_down(struct world *w)
{
	return w->raw.downs > 0;
}

/* What cannot be a part, or is nothing as a whole, ends the connection; the
 * call is made again on the next one. */
static void bad_part(const char *path, uint64_t size, struct str bytes)
{
	struct world w;
	uint64_t epoch;

	w_start(&w, path);
	greet(&w, corvo_defs_hash);
	epoch = w.raw.frame.epoch;
	ask(&w, 0);
	w_wait(&w, raw_has_frame);
	raw_part(&w.raw, epoch, 1000, STR("the first "));
	w_idle(&w);
	EXPECT(w.replies == 0 && w.raw.downs == 0);
	raw_part(&w.raw, epoch, size, bytes);
	w_wait(&w, raw_is_down);
	EXPECT(w.replies == 0 && rpc_client_pending(w.client) == 1);
	link_close(w.raw.link);
	w_end(&w);
}

static void bad_parts_actor(int fd, const char *path, unsigned number)
{
	(void)fd;
	(void)number;
	bad_part(path, (uint64_t)LIMIT_MESSAGE_BYTES + 1, STR("x"));
	bad_part(path, UINT64_MAX, STR("x"));
	bad_part(path, 1000, STR(""));
	bad_part(path, 11, STR("xx"));
	bad_part(path, 5, STR("x"));
	bad_part(path, 11, STR("x"));
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

/* --- a client that has to end --- */

/* One that asks again and again is heard again and again. */
static void hurry_until_heard(struct world *w)
{
	for (int i = 0; i < 2; i++) {
		w->cancels = 0;
		rpc_client_hurry(w->client);
		w_wait(w, has_cancel);
		EXPECT(w->replies == 0);
	}
}

static void hurry_actor(int fd, const char *path, unsigned number)
{
	struct world w;

	(void)fd;
	(void)number;
	w_start(&w, path);
	w_dial(&w);
	(void)w_call(&w, "unsent", 3600 * NS_PER_S, RPC_CHANGES);
	rpc_client_hurry(w.client);
	EXPECT(w.replies == 0); /* not from within */
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_LEADER_UNAVAILABLE);

	/* the server says what became of a change, or it does not */
	w_serve(&w);
	w_wait(&w, client_up);
	for (int answers = 1; answers >= 0; answers--) {
		w.replies = w.seen_n = 0;
		(void)w_call(&w, "sent", 3600 * NS_PER_S, RPC_CHANGES);
		w_wait(&w, has_seen);
		hurry_until_heard(&w);
		if (answers)
			rpc_reply(w.seen[0].req, 0, 7, STR("done"));
		w_wait(&w, has_reply);
		EXPECT(w.last_err == (answers ? 0 : ERR_OUTCOME_UNKNOWN));
	}

	/* a question ends at once; one without a deadline is nobody's */
	w.replies = w.seen_n = 0;
	(void)w_call(&w, "watch", 0, 0);
	(void)w_call(&w, "question", 3600 * NS_PER_S, 0);
	w_wait(&w, has_seen);
	rpc_client_hurry(w.client);
	w_wait(&w, has_reply);
	EXPECT(w.last_err == ERR_LEADER_UNAVAILABLE);
	EXPECT(rpc_client_pending(w.client) == 1);
	w_end(&w);
}

RPC_TEST(hurry)
RPC_TEST(room)
RPC_TEST(parts)
RPC_TEST(taken)
RPC_TEST(bad_parts)
RPC_TEST(late)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room),  cmocka_unit_test(test_parts),
		cmocka_unit_test(test_taken), cmocka_unit_test(test_bad_parts),
		cmocka_unit_test(test_late),  cmocka_unit_test(test_hurry),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	actor_path_remove();
	return r;
}
