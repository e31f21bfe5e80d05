/*
 * Three nodes, of which one cannot write its log.
 */
#include "cluster_world.h"

/* One that follows. */
static struct member *follower(void)
{
	w_wait(has_leader, NULL);
	return &m[(leader()->number + 1) % NODES];
}

/* --- a log that cannot be written --- */

#define ASKED_MAX 64

/* What is asked for and not answered. */
static struct {
	struct raft_io_append *req[ASKED_MAX];
	raft_io_append_cb cb[ASKED_MAX];
	size_t asked;
} broken;

static int append_to_nothing(struct raft_io *io _unused_,
			     struct raft_io_append *req,
			     const struct raft_entry entries[] _unused_,
			     unsigned n _unused_, raft_io_append_cb cb)
{
	assert_true(broken.asked < ASKED_MAX);
	broken.req[broken.asked] = req;
	broken.cb[broken.asked++] = cb;
	return 0;
}

static bool is_asked(void *ctx _unused_)
{
	return broken.asked > 0;
}

static void what_follows_a_failed_write_is_not_written(void **state _unused_)
{
	struct member *k;
	size_t asked;

	memset(&broken, 0, sizeof(broken));
	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	propose(100);
	w_wait(all_applied, NULL);
	k = follower();
	k->node->append = append_to_nothing;
	propose(100);
	w_wait(is_asked, NULL);
	assert_false(node_is_dead(k->node));
	asked = broken.asked;
	for (size_t i = 0; i < asked; i++)
		broken.cb[i](broken.req[i], RAFT_IOERR);
	assert_true(node_is_dead(k->node));
	/* the others go on, and it is sent what they write */
	for (int i = 0; i < 20; i++)
		propose(100);
	assert_int_equal(broken.asked, asked);
	assert_true(k->applied < proposed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_follows_a_failed_write_is_not_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
