/*
 * What the library would commit, say or count, and must not: guard.h. Messages
 * that other nodes could have sent come in an order that a network may choose.
 */
#include "mail_world.h"

/* A leader with three entries that nobody else has, and nobody to talk to.
 * *ret_common: the last one they all have. */
static struct member *with_a_tail(uint64_t *ret_common)
{
	struct member *k;

	mail_begin();
	for (int i = 0; i < 5; i++)
		propose(100);
	w_wait(all_is_well, NULL);
	k = leader();
	*ret_common = raft_last_index(&k->node->raft);
	mail_rule = mail_none;
	for (int i = 0; i < 3; i++)
		mail_put(k, NULL);
	w_wait(is_stored, k);
	assert_int_equal(raft_last_index(&k->node->raft), *ret_common + 3);
	return k;
}

static struct member *another(const struct member *k)
{
	return &m[(k->number + 1) % NODES];
}

static struct member *the_third(const struct member *k)
{
	return &m[(k->number + 2) % NODES];
}

/* One whose time is over meanwhile would stand, or lead no more. */
static void wait_for_ever(const struct member *k)
{
	raft_set_election_timeout(&k->node->raft, 3600 * 1000);
}

/* The new leader has committed as many other entries meanwhile. */
static void a_message_commits_no_more_than_it_proves(void **state _unused_)
{
	uint64_t common, term;
	struct member *k = with_a_tail(&common);

	wait_for_ever(k);
	term = k->node->raft.current_term + 1;
	hear_entries(k, another(k), term, common, common + 3, 0);
	assert_int_equal(node_committed(k->node), common);
	/* a part of a message, all of which it has */
	hear_entries(k, another(k), term, common - 2, common + 3, 0);
	assert_int_equal(node_committed(k->node), common);
	/* an entry of the new leader, and the index of later ones */
	hear_entries(k, another(k), term, common, common + 3, 1);
	w_wait(is_stored, k);
	assert_int_equal(node_committed(k->node), common + 1);
	for (uint64_t i = common + 2; i < INDEX_MAX; i++)
		assert_int_equal(mail_applied[k->number][i].id, 0);
	mail_end();
}

static void an_answer_says_no_more_than_was_asked(void **state _unused_)
{
	uint64_t common;
	struct member *k = with_a_tail(&common);

	mail_answers = 0;
	hear_entries(k, another(k), k->node->raft.current_term + 1, common - 1,
		     common, 0);
	assert_int_equal(mail_answers, 1);
	assert_int_equal(mail_answer[0].from, k->number);
	assert_int_equal(mail_answer[0].r.rejected, 0);
	assert_int_equal(mail_answer[0].r.last_log_index, common - 1);
	mail_end();
}

/* One leader's entries are being written when the next one says hello. */
static void
what_was_written_for_an_earlier_leader_is_no_answer(void **state _unused_)
{
	uint64_t common, term;
	struct member *k = with_a_tail(&common);

	term = k->node->raft.current_term;
	hear_entries(k, another(k), term + 1, common, common, 5);
	mail_answers = 0;
	hear_entries(k, the_third(k), term + 2, common, common, 0);
	w_wait(is_stored, k);
	assert_int_equal(raft_last_index(&k->node->raft), common + 5);
	for (unsigned i = 0; i < mail_answers; i++)
		if (mail_answer[i].from == k->number &&
		    mail_answer[i].r.rejected == 0)
			assert_true(mail_answer[i].r.last_log_index <= common);
	assert_true(mail_answers > 0);
	mail_end();
}

static enum mail refuse_entries(int from _unused_, int to _unused_,
				const struct raft_message *msg)
{
	return msg->type == RAFT_IO_APPEND_ENTRIES &&
		       msg->append_entries.n_entries > 0
		   ? MAIL_REFUSED
		   : MAIL_PASS;
}

/* A follower that has no such guard says what it has of an earlier leader. */
static void nobody_has_what_it_was_not_sent(void **state _unused_)
{
	struct member *k;
	uint64_t common;
	int answer = 0;

	mail_begin();
	propose(100);
	w_wait(all_is_well, NULL);
	k = leader();
	common = raft_last_index(&k->node->raft);
	wait_for_ever(k);
	mail_rule = refuse_entries;
	mail_put(k, &answer);
	w_wait(is_stored, k);
	hear_answer(k, another(k), common + 1);
	hear_answer(k, the_third(k), common + 1);
	assert_int_equal(node_committed(k->node), common);
	assert_int_equal(answer, 0);
	mail_rule = NULL;
	w_wait(all_equal, NULL);
	assert_int_equal(answer, 1);
	mail_end();
}

static int alone; /* the one who may be chosen */

static enum mail only_its_votes(int from, int to,
				const struct raft_message *msg)
{
	switch (msg->type) {
	case RAFT_IO_REQUEST_VOTE:
		return from == alone ? MAIL_PASS : MAIL_LOST;
	case RAFT_IO_REQUEST_VOTE_RESULT:
		return to == alone ? MAIL_PASS : MAIL_LOST;
	default:
		return MAIL_LOST;
	}
}

static uint64_t later_than;

static bool leads_again(void *ctx)
{
	const struct raft *r = &((struct member *)ctx)->node->raft;

	return r->state == RAFT_LEADER && r->current_term > later_than;
}

/* With most nodes having them they could be undone yet. */
static void entries_of_an_earlier_term_are_not_counted(void **state _unused_)
{
	uint64_t common;
	struct member *k = with_a_tail(&common);

	alone = k->number;
	later_than = k->node->raft.current_term;
	mail_rule = only_its_votes;
	w_wait(leads_again, k);
	assert_true(node_term_of(k->node, k->node->raft.last_stored) <=
		    later_than);
	hear_answer(k, another(k), common + 3);
	hear_answer(k, the_third(k), common + 3);
	assert_int_equal(node_committed(k->node), common);
	/* with one of its own they are */
	mail_rule = NULL;
	w_wait(all_equal, NULL);
	assert_true(node_committed(k->node) > common + 3);
	mail_end();
}

/* What a leader knew of the others it knows no more when it leads again. */
static void what_was_sent_in_an_earlier_term_is_forgotten(void **state _unused_)
{
	uint64_t common;
	struct member *k = with_a_tail(&common);

	assert_int_equal(node_sent(k->node, another(k)->node->raft.id),
			 common + 3);
	hear_entries(k, another(k), k->node->raft.current_term + 1, common,
		     common, 0);
	assert_int_equal(node_sent(k->node, another(k)->node->raft.id), 0);
	mail_end();
}

/* --- writes that last --- */

struct kept_write {
	struct list node;
	struct raft_io_append *req;
	raft_io_append_cb cb;
};

static struct list kept_writes;

/* Begun, and not over before the test says so. */
static int keep_write(struct raft_io *io _unused_, struct raft_io_append *req,
		      const struct raft_entry entries[] _unused_,
		      unsigned n _unused_, raft_io_append_cb cb)
{
	struct kept_write *k = xcalloc(1, sizeof(*k));

	k->req = req;
	k->cb = cb;
	list_push_back(&kept_writes, &k->node);
	return 0;
}

static int cut_nothing(struct raft_io *io _unused_, raft_index index _unused_)
{
	return 0;
}

/* Its log is not the disk's any more. */
static void keep_writes(struct member *k)
{
	list_init(&kept_writes);
	k->node->append = keep_write;
	k->node->guard_io.truncate = cut_nothing;
}

static void end_writes(const struct member *k)
{
	const struct raft *r = &k->node->raft;

	while (!list_empty(&kept_writes)) {
		struct kept_write *first =
		    list_entry(kept_writes.next, struct kept_write, node);

		list_remove(&first->node);
		first->cb(first->req, 0);
		free(first);
		assert_true(r->last_stored <=
			    raft_last_index((struct raft *)r));
	}
}

/*
 * A leader's entry is being written when the next one puts its own in its
 * place, and the one after that brings the first one back. It is there once.
 */
static void a_write_that_lasts_is_counted_once(void **state _unused_)
{
	uint64_t last, term;
	struct member *k;

	mail_begin();
	propose(100);
	w_wait(all_is_well, NULL);
	k = another(leader());
	mail_rule = mail_none;
	wait_for_ever(k);
	keep_writes(k);
	last = raft_last_index(&k->node->raft);
	term = k->node->raft.current_term + 1;
	hear_entries_of(k, another(k), term, term, last, 0, 1);
	hear_entries_of(k, the_third(k), term + 1, term + 1, last, 0, 1);
	hear_entries_of(k, another(k), term + 2, term, last, 0, 1);
	end_writes(k);
	/* the leader tries again, until it is told */
	hear_entries_of(k, another(k), term + 2, term, last, 0, 1);
	end_writes(k);
	assert_int_equal(raft_last_index(&k->node->raft), last + 1);
	assert_int_equal(node_term_of(k->node, last + 1), term);
	assert_int_equal(k->node->raft.last_stored, last + 1);
	mail_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_message_commits_no_more_than_it_proves),
		CASE(an_answer_says_no_more_than_was_asked),
		CASE(what_was_written_for_an_earlier_leader_is_no_answer),
		CASE(nobody_has_what_it_was_not_sent),
		CASE(entries_of_an_earlier_term_are_not_counted),
		CASE(what_was_sent_in_an_earlier_term_is_forgotten),
		CASE(a_write_that_lasts_is_counted_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
