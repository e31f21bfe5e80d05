/*
 * Who must not stand yet: guard_vote.c. The leader's message is its own, and
 * comes by hand, so that nothing is written before the test looks.
 */
#include "mail_world.h"

#define STRANGER 77 /* whom the change adds */

/* A leader with a change of the members that nobody else has heard of. */
static struct member *with_a_change(void)
{
	struct member *l;

	mail_begin();
	propose(100);
	w_wait(all_is_well, NULL);
	l = leader();
	mail_rule = mail_none;
	assert_int_equal(node_add(l->node, STRANGER, "there.invalid:9400",
				  mail_on_answer, NULL),
			 0);
	return l;
}

/* The last entry of the leader's log, from the leader. */
static void hear_last(struct member *k, struct member *l)
{
	struct raft_message msg = { .type = RAFT_IO_APPEND_ENTRIES,
				    .server_id = l->node->raft.id,
				    .server_address = "there" };
	struct raft_append_entries *a = &msg.append_entries;
	uint64_t last = raft_last_index(&l->node->raft);
	const struct raft_entry *e = node_entry(l->node, last);
	char *batch = raft_malloc(e->buf.len);

	assert_int_equal(e->type, RAFT_CHANGE);
	memcpy(batch, e->buf.base, e->buf.len);
	*a = (struct raft_append_entries){
		.term = l->node->raft.current_term,
		.prev_log_index = last - 1,
		.prev_log_term = node_term_of(l->node, last - 1),
		.leader_commit = last - 1,
		.n_entries = 1,
		.entries = raft_malloc(sizeof(*e)),
	};
	a->entries[0] = (struct raft_entry){ .term = e->term,
					     .type = e->type,
					     .buf = { batch, e->buf.len },
					     .batch = batch };
	node_receive(&k->node->io, &msg);
	assert_int_equal(raft_last_index(&k->node->raft), last);
}

/* The leader asks it to lead in its place. */
static void hear_timeout_now(struct member *k, struct member *l)
{
	uint64_t last = raft_last_index(&l->node->raft);
	struct raft_message msg = { .type = RAFT_IO_TIMEOUT_NOW,
				    .server_id = l->node->raft.id,
				    .server_address = "there" };

	msg.timeout_now = (struct raft_timeout_now){
		.term = l->node->raft.current_term,
		.last_log_index = last,
		.last_log_term = node_term_of(l->node, last),
	};
	node_receive(&k->node->io, &msg);
}

/* It has heard nothing of its leader for as long as there is. */
static void wait_in_vain(struct member *k, struct member *l _unused_)
{
	struct raft *r = &k->node->raft;

	r->election_timer_start = 0;
	assert_true(r->io->time(r->io) >= 2 * r->election_timeout);
	k->node->receive.tick(r->io);
}

/*
 * A node that stands before the members it heard of are on its disk never
 * takes them over, and would count the votes of those before.
 */
static void stands_when_it_knows(void (*call)(struct member *k,
					      struct member *l))
{
	struct member *l = with_a_change();
	struct member *k = &m[(l->number + 1) % NODES];
	const struct raft *r = &k->node->raft;

	hear_last(k, l);
	assert_int_equal(r->configuration.n, NODES);
	call(k, l);
	w_wait(is_stored, k);
	assert_int_equal(r->configuration.n, NODES + 1);
	/* now it may */
	call(k, l);
	assert_int_equal(r->state, RAFT_CANDIDATE);
	mail_end();
}

static void when_the_leader_asks(void **state _unused_)
{
	stands_when_it_knows(hear_timeout_now);
}

static void when_no_leader_is_heard(void **state _unused_)
{
	stands_when_it_knows(wait_in_vain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(when_the_leader_asks),
		CASE(when_no_leader_is_heard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
