/*
 * Changes of the members that are taken back: guard_members.c.
 */
#include "mail_world.h"

#define STRANGER 77 /* whom only a change that is taken back knows */

static int cut_off; /* hears and is heard by nobody */

static enum mail all_but_it(int from, int to,
			    const struct raft_message *msg _unused_)
{
	return from == cut_off || to == cut_off ? MAIL_LOST : MAIL_PASS;
}

static bool others_lead(void *ctx)
{
	const struct member *k = ctx, *l = leader();

	return l != NULL && l != k && node_is_ready(l->node);
}

/* The entry with the first members is gone from all logs. */
static bool all_are_cut(void *ctx _unused_)
{
	for (int i = 0; i < NODES; i++)
		if (m[i].node->raft.log.offset == 0)
			return false;
	return true;
}

static void all_have_the_same_members(void)
{
	for (int i = 0; i < NODES; i++) {
		struct node_server found;

		assert_int_equal(m[i].node->raft.configuration.n, NODES);
		assert_int_equal(node_voters(m[i].node), NODES);
		assert_false(node_server_find(m[i].node, STRANGER, &found));
		for (int k = 0; k < NODES; k++)
			assert_true(node_server_find(
			    m[i].node, raft_digest(m[k].s.node_id, 0), &found));
		assert_int_equal(
		    m[i].node->raft.configuration_uncommitted_index, 0);
	}
}

static void begin(bool cut)
{
	for (int i = 0; i < NODES; i++)
		m[i].s.snapshot_bytes = SNAPSHOT_BYTES;
	mail_begin();
	for (int i = 0; i < NODES; i++)
		m[i].node->trailing_bytes = SNAPSHOT_BYTES / 4;
	do {
		propose(cut ? SMALL : 100);
		w_wait(all_equal, NULL);
	} while (cut && !all_are_cut(NULL));
}

/* A leader that nobody hears adds a member; the others go on without both. */
static struct member *with_a_stranger(bool cut)
{
	struct member *k;

	begin(cut);
	w_wait(all_is_well, NULL);
	k = leader();
	cut_off = k->number;
	mail_rule = all_but_it;
	assert_int_equal(node_add(k->node, STRANGER, "there.invalid:9400",
				  mail_on_answer, NULL),
			 0);
	w_wait(is_stored, k);
	assert_int_equal(k->node->raft.configuration.n, NODES + 1);
	w_wait(others_lead, k);
	return k;
}

static void come_together(void)
{
	mail_rule = NULL;
	w_wait(all_equal, NULL);
	all_have_the_same_members();
	propose(100);
	w_wait(all_equal, NULL);
}

static void a_change_is_taken_back(void **state _unused_)
{
	(void)with_a_stranger(false);
	come_together();
	mail_end();
}

static void after_the_members_were_cut_off_the_log(void **state _unused_)
{
	(void)with_a_stranger(true);
	come_together();
	mail_end();
}

static void restart(struct member *k)
{
	mail_settle();
	stop(k);
	mail_start(k);
	/* it holds as long as it is in the log */
	assert_int_equal(k->node->raft.configuration.n, NODES + 1);
}

static void after_a_restart(void **state _unused_)
{
	restart(with_a_stranger(false));
	come_together();
	mail_end();
}

static void after_both(void **state _unused_)
{
	struct member *k = with_a_stranger(true);

	restart(k);
	come_together();
	/* and once more, with what it wrote down meanwhile */
	stop(k);
	mail_start(k);
	come_together();
	mail_end();
}

/* A change that is not taken back holds, and is the last one from then on. */
static void a_change_that_stays_is_committed(void **state _unused_)
{
	struct member *k;
	int answer = 0;

	begin(true);
	w_wait(all_is_well, NULL);
	k = leader();
	assert_int_equal(node_add(k->node, STRANGER, "there.invalid:9400",
				  mail_on_answer, &answer),
			 0);
	w_wait(all_equal, NULL);
	assert_int_equal(answer, 1);
	mail_settle();
	stop(k);
	mail_start(k);
	w_wait(has_leader, NULL);
	w_wait(all_equal, NULL);
	for (int i = 0; i < NODES; i++) {
		const struct raft *r = &m[i].node->raft;

		assert_int_equal(r->configuration.n, NODES + 1);
		assert_int_equal(r->configuration_uncommitted_index, 0);
		assert_int_equal(m[i].node->guard.members.index,
				 r->configuration_index);
	}
	mail_end();
}

/* What it says of the members is what is committed. */
static void a_snapshot_has_no_change_under_way(void **state _unused_)
{
	struct member *k;
	uint64_t last;

	begin(false);
	w_wait(all_is_well, NULL);
	k = leader();
	mail_rule = mail_none;
	mail_put(k, NULL);
	last = raft_last_index(&k->node->raft);
	assert_int_equal(node_add(k->node, STRANGER, "there.invalid:9400",
				  mail_on_answer, NULL),
			 0);
	w_wait(is_stored, k);
	node_want_snapshot(k->node);
	hear_entries(k, &m[(k->number + 1) % NODES],
		     k->node->raft.current_term + 1, last, last, 0);
	assert_int_equal(k->node->raft.snapshot.pending.index, last);
	assert_int_equal(k->node->raft.snapshot.pending.configuration.n, NODES);
	assert_int_equal(k->node->raft.configuration.n, NODES + 1);
	mail_end();
}

/* Who is handed the lead would not know of the change yet. */
static void a_change_or_a_transfer_and_not_both(void **state _unused_)
{
	const char *address = "there.invalid:9400";
	struct member *k;
	int answer = 0;

	begin(false);
	w_wait(all_is_well, NULL);
	k = leader();
	mail_rule = mail_none;
	assert_int_equal(
	    node_add(k->node, STRANGER, address, mail_on_answer, NULL), 0);
	assert_int_equal(node_transfer(k->node, 0, mail_on_answer, NULL),
			 -ERR_CONFLICT);
	mail_rule = NULL;
	w_wait(all_is_well, NULL);
	k = leader();
	mail_rule = mail_none;
	assert_int_equal(node_transfer(k->node, 0, mail_on_answer, &answer), 0);
	assert_int_equal(
	    node_add(k->node, STRANGER + 1, address, mail_on_answer, NULL),
	    -ERR_CONFLICT);
	assert_int_equal(node_remove(k->node, STRANGER, mail_on_answer, NULL),
			 -ERR_CONFLICT);
	mail_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_change_is_taken_back),
		CASE(after_the_members_were_cut_off_the_log),
		CASE(after_a_restart),
		CASE(after_both),
		CASE(a_change_that_stays_is_committed),
		CASE(a_snapshot_has_no_change_under_way),
		CASE(a_change_or_a_transfer_and_not_both),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
