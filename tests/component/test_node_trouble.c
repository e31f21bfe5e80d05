/*
 * Three nodes, of which one cannot write its log or its term, or hears late
 * that it is to lead.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster_world.h"

/* One that follows. */
static struct member *follower(void)
{
	w_wait(has_leader, NULL);
	return &m[(leader()->number + 1) % NODES];
}

/* All have the same; who leads, and one that follows. */
static void start_all(struct member **ret_leader, struct member **ret_follower)
{
	for (int i = 0; i < NODES; i++)
		start(&m[i]);
	propose(100);
	w_wait(all_applied, NULL);
	*ret_follower = follower();
	*ret_leader = leader();
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
	struct raft_entry entry = { .term = 1, .type = RAFT_COMMAND };
	struct raft_io_append more;
	struct member *lead, *k;
	size_t asked;

	memset(&broken, 0, sizeof(broken));
	start_all(&lead, &k);
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
	/* nor what libraft had at hand when it failed */
	assert_int_equal(
	    k->node->io.append(&k->node->io, &more, &entry, 1, NULL),
	    RAFT_IOERR);
	assert_int_equal(broken.asked, asked);
}

static void on_barrier(struct raft_barrier *req _unused_, int status _unused_)
{
}

/* Also when what cannot be written is nobody's request. */
static void a_leader_that_cannot_write_ends(void **state _unused_)
{
	static struct raft_barrier barrier; /* answered when the node stops */
	struct member *lead, *k;
	int status;
	pid_t pid;

	memset(&broken, 0, sizeof(broken));
	start_all(&lead, &k);
	lead->node->append = append_to_nothing;
	assert_int_equal(raft_barrier(&lead->node->raft, &barrier, on_barrier),
			 0);
	assert_int_equal(broken.asked, 1);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)signal(SIGABRT, SIG_DFL);
		broken.cb[0](broken.req[0], RAFT_IOERR);
		_exit(EXIT_SUCCESS);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	/* One that goes on never gives an entry up, so nobody may say any more
	 * that he has this one: libraft would look for it. */
	for (int i = 0; i < NODES; i++)
		if (&m[i] != lead)
			stop(&m[i]);
	w_idle();
	broken.cb[0](broken.req[0], RAFT_CANCELED);
}

/* --- a transfer that comes about late --- */

static struct {
	struct raft_io *io;
	struct raft_io_send *req;
	struct raft_message message;
	raft_io_send_cb cb;
	int (*send)(struct raft_io *io, struct raft_io_send *req,
		    const struct raft_message *message, raft_io_send_cb cb);
} kept;

/* All but the word that the other is to lead. */
static int send_but_one(struct raft_io *io, struct raft_io_send *req,
			const struct raft_message *message, raft_io_send_cb cb)
{
	if (message->type != RAFT_IO_TIMEOUT_NOW)
		return kept.send(io, req, message, cb);
	kept.io = io;
	kept.req = req;
	kept.message = *message;
	kept.cb = cb;
	return 0;
}

static bool is_given_up(void *ctx)
{
	return ((struct node *)ctx)->raft.transfer == NULL;
}

/* Whose word does not arrive. */
static void begin_transfer(struct member *from, const struct member *to)
{
	struct node *n = from->node;

	memset(&kept, 0, sizeof(kept));
	kept.send = n->sends.send;
	n->sends.send = send_but_one;
	answered = false;
	assert_int_equal(node_transfer(n, node_id(to->node), on_answer, NULL),
			 0);
	assert_true(node_is_handing_over(n));
}

static void begin_late_transfer(struct member *from, const struct member *to)
{
	struct node *n = from->node;

	begin_transfer(from, to);
	w_wait(is_given_up, n);
	assert_non_null(kept.req);
	/* it leads on meanwhile, and may be asked to hand over once */
	assert_false(answered);
	assert_false(node_is_handing_over(n));
	assert_true(node_is_leader(n));
	assert_int_equal(node_transfer(n, 0, on_answer, NULL), -ERR_CONFLICT);
	n->sends.send = kept.send;
}

static void a_transfer_that_is_late_has_not_failed(void **state _unused_)
{
	struct member *from, *to;

	start_all(&from, &to);
	begin_late_transfer(from, to);
	assert_int_equal(kept.send(kept.io, kept.req, &kept.message, kept.cb),
			 0);
	w_wait(is_answered, NULL);
	assert_int_equal(last_err, 0);
	assert_false(node_is_leader(from->node));
	propose(100);
	w_wait(all_applied, NULL);
}

static void a_transfer_that_never_comes_about_has_failed(void **state _unused_)
{
	struct member *from, *to;

	start_all(&from, &to);
	begin_late_transfer(from, to);
	w_wait(is_answered, NULL);
	assert_int_equal(last_err, -ERR_REQUEST_TIMEOUT);
	assert_true(node_is_leader(from->node));
	propose(100);
	w_wait(all_applied, NULL);
}

/* The other may have heard that it is to lead, or may hear it yet. */
static void at_a_stop_nobody_knows_about_a_transfer(void **state _unused_)
{
	struct member *from, *to;

	start_all(&from, &to);
	begin_late_transfer(from, to);
	stop(from);
	assert_true(answered);
	assert_int_equal(last_err, -ERR_OUTCOME_UNKNOWN);
}

/* Also while the library still waits for it. */
static void
at_a_stop_nobody_knows_about_one_that_just_began(void **state _unused_)
{
	struct member *from, *to;

	start_all(&from, &to);
	begin_transfer(from, to);
	stop(from);
	assert_true(answered);
	assert_int_equal(last_err, -ERR_OUTCOME_UNKNOWN);
}

/* --- a node that is to lead and cannot keep that --- */

static int refuse_term(struct raft_io *io _unused_, raft_term term _unused_)
{
	return RAFT_IOERR;
}

static int refuse_vote(struct raft_io *io _unused_, raft_id id _unused_)
{
	return RAFT_IOERR;
}

static bool is_dead(void *ctx)
{
	return node_is_dead(ctx);
}

static void hand_over_to_one_that_cannot_write(bool term)
{
	struct member *from, *to;

	start_all(&from, &to);
	if (term)
		to->node->set_term = refuse_term;
	else
		to->node->set_vote = refuse_vote;
	answered = false;
	assert_int_equal(
	    node_transfer(from->node, node_id(to->node), on_answer, NULL), 0);
	w_wait(is_dead, to->node);
	assert_false(node_is_leader(to->node));
	w_wait(is_answered, NULL);
}

static void a_new_leader_that_cannot_keep_its_term_ends(void **state _unused_)
{
	hand_over_to_one_that_cannot_write(true);
}

static void a_new_leader_that_cannot_keep_its_vote_ends(void **state _unused_)
{
	hand_over_to_one_that_cannot_write(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_follows_a_failed_write_is_not_written),
		CASE(a_leader_that_cannot_write_ends),
		CASE(a_transfer_that_is_late_has_not_failed),
		CASE(a_transfer_that_never_comes_about_has_failed),
		CASE(at_a_stop_nobody_knows_about_a_transfer),
		CASE(at_a_stop_nobody_knows_about_one_that_just_began),
		CASE(a_new_leader_that_cannot_keep_its_term_ends),
		CASE(a_new_leader_that_cannot_keep_its_vote_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
