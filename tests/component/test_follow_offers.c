/*
 * A node that is offered snapshots: by a leader whose files are no store, by
 * another one after it, by one it cannot reach.
 */
#include "download_world.h"

#include "follow.h"

#define FIRST  1 /* raft ids of leaders */
#define SECOND 2

struct follower {
	struct world *w;
	struct follow *follow;
	struct loop_timer *tick;
	bool (*until)(struct follower *f);
	struct node_install offer;
	unsigned opened[3], closed;
	bool unreachable;
	bool silent;    /* nothing is offered */
	bool overtaken; /* the log got there by itself */
	bool ready;
};

static struct rpc_client *open_link(void *ctx, uint64_t raft_id)
{
	struct follower *f = ctx;
	struct buf why = BUF_INIT(0);

	assert_true(raft_id == FIRST || raft_id == SECOND);
	f->opened[raft_id]++;
	if (f->unreachable)
		return NULL;
	if (f->w->client == NULL)
		f->w->client = rpc_client_new(f->w->ipc, in_dir(f->w, "link"),
					      PROC_RAFTD, &why);
	return f->w->client;
}

static void close_link(void *ctx, struct rpc_client *c)
{
	struct follower *f = ctx;

	assert_ptr_equal(c, f->w->client);
	rpc_client_free(c); /* as who has a link for each of them does */
	f->w->client = NULL;
	f->closed++;
}

static bool is_needed(void *ctx, const struct node_install *i)
{
	struct follower *f = ctx;

	assert_int_equal(i->manifest.index, f->offer.manifest.index);
	return !f->overtaken;
}

static void on_ready(void *ctx)
{
	struct follower *f = ctx;

	f->ready = true;
}

/* The leader offers it again and again. */
static void on_tick(void *ctx)
{
	struct follower *f = ctx;

	if (!f->silent)
		follow_offer(f->follow, &f->offer);
	loop_timer_arm(f->tick, 5 * NS_PER_MS);
	if (f->until(f))
		loop_stop(f->w->loop);
}

static void wait_for(struct follower *f, bool (*until)(struct follower *f))
{
	f->until = until;
	loop_timer_arm(f->tick, 0);
	loop_run(f->w->loop);
	loop_timer_disarm(f->tick);
}

static void start(struct follower *f, struct world *w)
{
	struct follow_config c = { .loop = w->loop,
				   .settings = &w->s,
				   .open = open_link,
				   .close = close_link,
				   .is_needed = is_needed,
				   .on_ready = on_ready,
				   .ctx = f };

	*f = (struct follower){ .w = w };
	f->follow = follow_new(&c);
	f->tick = loop_timer_add(w->loop, on_tick, f);
	f->offer = (struct node_install){
		.manifest = { .index = INDEX, .applied = INDEX },
		.term = 1,
		.members = STR("members"),
		.leader = FIRST,
	};
}

static void end(struct follower *f)
{
	loop_timer_remove(f->tick);
	follow_free(f->follow);
	assert_false(f->ready);
}

static bool has_problem(struct follower *f)
{
	struct follow_status st;

	follow_status(f->follow, &st);
	return st.problem.n > 0 && !st.active;
}

static bool is_fetching(struct follower *f)
{
	struct follow_status st;

	follow_status(f->follow, &st);
	return st.active && f->w->parts > 0;
}

static bool is_asked_again(struct follower *f)
{
	return f->w->lists >= 2 && f->w->parts > 0;
}

/* All of it came as it was listed, and is no store: not put in place. */
static void files_that_are_no_store_are_thrown_away(void **state)
{
	struct world *w = *state;
	struct follower f;

	start(&f, w);
	wait_for(&f, has_problem);
	assert_int_equal(f.opened[FIRST], 1);
	assert_int_equal(f.closed, 1);
	assert_int_equal(access(in_dir(w, "incoming"), F_OK), -1);
	wait_for(&f, is_asked_again); /* after a pause */
	assert_int_equal(f.opened[FIRST], 2);
	end(&f);
	assert_int_equal(f.closed, 2);
}

static bool is_second_asked(struct follower *f)
{
	return f->opened[SECOND] == 1 && is_fetching(f);
}

static void another_leader_is_asked_instead(void **state)
{
	struct world *w = *state;
	struct follow_status st;
	struct follower f;

	w->s.snapshot_rate = 32u << 10; /* it takes a while */
	start(&f, w);
	wait_for(&f, is_fetching);
	follow_status(f.follow, &st);
	assert_int_equal(st.index, INDEX);
	assert_true(st.total > 0 && st.done < st.total);
	f.offer.leader = SECOND;
	f.offer.manifest.index = w->index = INDEX + 7;
	w->parts = 0;
	wait_for(&f, is_second_asked);
	follow_status(f.follow, &st);
	assert_int_equal(st.index, INDEX + 7);
	assert_int_equal(f.closed, 1);
	end(&f);
	assert_int_equal(f.closed, 2);
}

static bool is_tried_twice(struct follower *f)
{
	return f->opened[FIRST] == 2;
}

static void a_leader_that_cannot_be_reached_is_tried_again(void **state)
{
	struct world *w = *state;
	struct follow_status st;
	struct follower f;

	start(&f, w);
	f.unreachable = true;
	wait_for(&f, is_tried_twice);
	follow_status(f.follow, &st);
	assert_false(st.active);
	assert_int_equal(f.closed, 0);
	f.unreachable = false;
	wait_for(&f, is_fetching);
	end(&f);
}

/* The leader has a newer one by now, and offers it soon. */
static bool is_over(struct follower *f)
{
	struct follow_status st;

	follow_status(f->follow, &st);
	return f->closed > 0 && !st.active;
}

static void a_snapshot_that_is_gone_is_no_problem(void **state)
{
	struct world *w = *state;
	struct follow_status st;
	struct follower f;

	w->s.snapshot_rate = 128u << 10;
	w->gone_after = 1;
	start(&f, w);
	follow_offer(f.follow, &f.offer);
	f.silent = true;
	wait_for(&f, is_over);
	f.silent = false;
	follow_status(f.follow, &st);
	assert_int_equal(st.problem.n, 0);
	w->gone_after = 0;
	f.offer.manifest.index = w->index = INDEX + 1;
	w->parts = 0;
	wait_for(&f, is_fetching);
	end(&f);
}

static void a_snapshot_that_the_log_overtook_is_left(void **state)
{
	struct world *w = *state;
	struct follow_status st;
	struct follower f;

	start(&f, w);
	f.overtaken = true;
	follow_offer(f.follow, &f.offer);
	f.silent = true;
	wait_for(&f, is_over);
	follow_status(f.follow, &st);
	assert_int_equal(st.problem.n, 0);
	assert_int_equal(access(in_dir(w, "incoming"), F_OK), -1);
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_that_are_no_store_are_thrown_away),
		TEST(another_leader_is_asked_instead),
		TEST(a_leader_that_cannot_be_reached_is_tried_again),
		TEST(a_snapshot_that_is_gone_is_no_problem),
		TEST(a_snapshot_that_the_log_overtook_is_left),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	ipc_exit();
	return r;
}
