/*
 * A leader whose log has other entries than those that were applied here:
 * guard_applied.c.
 */
#include "mail_world.h"

#define WORDS "consensus was violated"

static struct member *a_follower(void)
{
	mail_begin();
	for (int i = 0; i < 5; i++)
		propose(100);
	w_wait(all_is_well, NULL);
	mail_rule = mail_none;
	return &m[(leader()->number + 1) % NODES];
}

static struct member *another(const struct member *k)
{
	return &m[(k->number + 1) % NODES];
}

static void it_does_not_start(struct member *k)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	mail_settle();
	stop(k);
	assert_int_equal(mail_try_start(k, &why), -ERR_CONFLICT);
	buf_putc(&why, '\0');
	assert_non_null(strstr(why.p, WORDS));
	assert_non_null(strstr(why.p, "--join"));
	node_free(k->node);
	k->node = NULL;
	port_free(w.port[k->number]);
	w.port[k->number] = NULL;
}

static void other_entries_in_the_place_of_those_applied(void **state _unused_)
{
	struct member *k = a_follower();
	uint64_t last = raft_last_index(&k->node->raft);

	hear_entries(k, another(k), k->node->raft.current_term + 1, last - 2,
		     last, 2);
	assert_true(node_has_diverged(k->node));
	assert_true(node_is_dead(k->node));
	assert_int_equal(w_logged(WORDS), 1);
	assert_int_equal(w_logged("cannot be written"), 0);
	assert_int_equal(raft_last_index(&k->node->raft), last);
	/* and it takes part in nothing any more */
	mail_answers = 0;
	hear_entries(k, another(k), k->node->raft.current_term + 1, last, last,
		     0);
	assert_int_equal(mail_answers, 0);
	it_does_not_start(k);
	mail_end();
}

/* The library has forgotten by then what was committed. */
static void after_a_restart(void **state _unused_)
{
	struct member *k = a_follower();
	uint64_t last = raft_last_index(&k->node->raft);

	mail_settle();
	stop(k);
	mail_start(k);
	assert_true(k->node->raft.commit_index < last);
	hear_entries(k, another(k), k->node->raft.current_term + 1, last - 2, 0,
		     2);
	assert_true(node_has_diverged(k->node));
	assert_int_equal(raft_last_index(&k->node->raft), last);
	it_does_not_start(k);
	mail_end();
}

/* As a log would be whose end was cut off, and written anew, unnoticed. */
static void a_store_that_applied_another_entry(void **state _unused_)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct member *k = a_follower();
	uint64_t last = raft_last_index(&k->node->raft);

	mail_settle();
	stop(k);
	/* the first entry of the leader is no command */
	for (uint64_t i = 1; i <= last; i++)
		mail_applied[k->number][i].id = 0;
	mail_applied[k->number][2] =
	    (struct entry_origin){ .term = 1, .id = 5 };
	assert_int_equal(mail_try_start(k, &why), -ERR_CONFLICT);
	buf_putc(&why, '\0');
	assert_non_null(strstr(why.p, "has applied another entry 2"));
	node_free(k->node);
	k->node = NULL;
	port_free(w.port[k->number]);
	w.port[k->number] = NULL;
	mail_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(other_entries_in_the_place_of_those_applied),
		CASE(after_a_restart),
		CASE(a_store_that_applied_another_entry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
