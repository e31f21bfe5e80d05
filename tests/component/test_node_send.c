/*
 * How entries for other nodes are cut into messages, with the library's sender
 * replaced by one that keeps what it is given.
 */
#include "cluster/node_impl.h"
#include "lib/testlib.h"

#define MIB      (1u << 20)
#define SENT_MAX 1024

struct sent {
	struct raft_message m;
	struct raft_io_send *req;
	raft_io_send_cb cb;
	bool ended;
};

static struct {
	struct node n;
	struct sent sent[SENT_MAX];
	size_t n_sent;
	size_t fail_at; /* this one is not taken; 0: all are */
	unsigned ends;  /* callbacks of whole messages */
	int status;
} w;

static int fake_send(struct raft_io *io, struct raft_io_send *req,
		     const struct raft_message *message, raft_io_send_cb cb)
{
	assert_ptr_equal(io, &w.n.io);
	if (w.fail_at != 0 && w.n_sent + 1 == w.fail_at)
		return RAFT_NOMEM;
	assert_true(w.n_sent < SENT_MAX);
	w.sent[w.n_sent++] = (struct sent){ *message, req, cb, false };
	return 0;
}

static void on_end(struct raft_io_send *req, int status)
{
	assert_non_null(req);
	w.ends++;
	w.status = status;
}

/* What was taken, from `from` on, has left with that status. */
static void end_sent(size_t from, int status)
{
	for (size_t i = from; i < w.n_sent; i++) {
		if (w.sent[i].ended)
			continue;
		w.sent[i].ended = true;
		w.sent[i].cb(w.sent[i].req, status);
	}
}

static int set_up(void **state _unused_)
{
	memset(&w, 0, sizeof(w));
	w.n.port = (struct port *)&w; /* nobody looks at it */
	w.n.election_ns = 300 * NS_PER_MS;
	w.n.raft.heartbeat_timeout = 50;
	w.n.raft.current_term = 99;
	w.n.io.send = fake_send;
	node_wire_sends(&w.n);
	return 0;
}

static int tear_down(void **state _unused_)
{
	end_sent(0, 0);
	node_sends_done(&w.n);
	return 0;
}

/* Entries with the indexes from first on; the term is a tenth of the index. */
static struct raft_message message_of(raft_index first, unsigned n,
				      size_t bytes, struct raft_entry *entries)
{
	struct raft_message m = { .type = RAFT_IO_APPEND_ENTRIES,
				  .server_id = 7,
				  .server_address = "there" };

	for (unsigned i = 0; i < n; i++)
		entries[i] = (struct raft_entry){ .term = (first + i) / 10,
						  .type = RAFT_COMMAND,
						  .buf = { .len = bytes } };
	m.append_entries =
	    (struct raft_append_entries){ .term = 99,
					  .prev_log_index = first - 1,
					  .prev_log_term = (first - 1) / 10,
					  .leader_commit = 5,
					  .entries = entries,
					  .n_entries = n };
	return m;
}

static int send_it(struct raft_message *m)
{
	static struct raft_io_send req;

	return w.n.io.send(&w.n.io, &req, m, on_end);
}

/* The messages from `from` on are the entries of one, without a gap. */
static unsigned assert_chain(size_t from, raft_index first)
{
	unsigned n = 0;

	for (size_t i = from; i < w.n_sent; i++) {
		const struct raft_append_entries *a =
		    &w.sent[i].m.append_entries;
		uint64_t bytes = 0;

		assert_int_equal(w.sent[i].m.type, RAFT_IO_APPEND_ENTRIES);
		assert_int_equal(w.sent[i].m.server_id, 7);
		assert_int_equal(a->term, 99);
		assert_int_equal(a->leader_commit, 5);
		assert_int_equal(a->prev_log_index, first + n - 1);
		assert_int_equal(a->prev_log_term, (first + n - 1) / 10);
		for (unsigned e = 0; e < a->n_entries; e++) {
			assert_int_equal(a->entries[e].term,
					 (first + n + e) / 10);
			bytes += a->entries[e].buf.len;
		}
		assert_true(bytes <= 4 * MIB || a->n_entries == 1);
		n += a->n_entries;
	}
	return n;
}

static void a_small_message_stays_one(void **state _unused_)
{
	struct raft_entry e[3];
	struct raft_message m = message_of(20, 3, 1000, e);
	struct raft_message beat = message_of(23, 0, 0, e);

	assert_int_equal(send_it(&m), 0);
	assert_int_equal(send_it(&beat), 0);
	assert_int_equal(w.n_sent, 2);
	assert_int_equal(assert_chain(0, 20), 3);
	assert_int_equal(w.ends, 0);
	end_sent(0, 0);
	assert_int_equal(w.ends, 2);
}

static void a_large_message_goes_in_parts_and_ends_once(void **state _unused_)
{
	struct raft_entry e[100];
	struct raft_message m = message_of(20, 100, MIB / 2, e);

	assert_int_equal(send_it(&m), 0);
	assert_true(w.n_sent >= 13);
	assert_int_equal(assert_chain(0, 20), 100);
	for (size_t i = 0; i < w.n_sent; i++) {
		assert_int_equal(w.ends, 0);
		w.sent[i].ended = true;
		w.sent[i].cb(w.sent[i].req, 0);
	}
	assert_int_equal(w.ends, 1);
	assert_int_equal(w.status, 0);
}

static uint64_t largest_from(size_t from)
{
	uint64_t most = 0;

	for (size_t i = from; i < w.n_sent; i++) {
		const struct raft_append_entries *a =
		    &w.sent[i].m.append_entries;
		uint64_t bytes = 0;

		for (unsigned e = 0; e < a->n_entries; e++)
			bytes += a->entries[e].buf.len;
		most = MAX(most, bytes);
	}
	return most;
}

/* What has left at once says nothing of the link; what follows does. */
static void parts_follow_the_link(void **state _unused_)
{
	struct raft_entry e[512];
	struct raft_message m = message_of(20, 512, 32 << 10, e);
	struct raft_message beat = message_of(532, 0, 0, e);
	size_t n;

	assert_int_equal(send_it(&m), 0);
	assert_true(largest_from(0) <= 256 << 10);
	end_sent(0, 0); /* 16 MiB in no time */
	n = w.n_sent;
	m = message_of(532, 512, 32 << 10, e);
	assert_int_equal(send_it(&m), 0);
	assert_true(largest_from(n) > 256 << 10);
	/* slow, by an election timeout that is shorter than any */
	w.n.election_ns = 1;
	end_sent(n, 0);
	n = w.n_sent;
	m = message_of(1044, 512, 32 << 10, e);
	assert_int_equal(send_it(&m), 0);
	assert_true(largest_from(n) <= 64 << 10);
	assert_int_equal(send_it(&beat), 0);
}

static void an_entry_of_any_size_goes_alone(void **state _unused_)
{
	struct raft_entry e[3];
	struct raft_message m = message_of(20, 3, 9 * MIB, e);

	assert_int_equal(send_it(&m), 0);
	assert_int_equal(w.n_sent, 3);
	assert_int_equal(assert_chain(0, 20), 3);
}

static void one_lost_part_is_the_whole_lost(void **state _unused_)
{
	struct raft_entry e[40];
	struct raft_message m = message_of(20, 40, MIB / 2, e);

	assert_int_equal(send_it(&m), 0);
	assert_true(w.n_sent > 2);
	w.sent[1].ended = true;
	w.sent[1].cb(w.sent[1].req, RAFT_IOERR);
	end_sent(0, 0);
	assert_int_equal(w.ends, 1);
	assert_int_equal(w.status, RAFT_IOERR);
}

static void what_is_not_taken_is_told(void **state _unused_)
{
	struct raft_entry e[40];
	struct raft_message m = message_of(20, 40, MIB / 2, e);

	w.fail_at = 1;
	assert_int_equal(send_it(&m), RAFT_NOMEM);
	assert_int_equal(w.ends, 0);
	/* later, when parts are on their way that use the entries */
	w.fail_at = 3;
	assert_int_equal(send_it(&m), 0);
	assert_int_equal(w.n_sent, 2);
	assert_int_equal(w.ends, 0);
	end_sent(0, 0);
	assert_int_equal(w.ends, 1);
	assert_int_equal(w.status, RAFT_NOMEM);
}

static void who_takes_nothing_is_sent_no_more(void **state _unused_)
{
	struct raft_entry e[40], last[1];
	struct raft_message first = message_of(20, 40, MIB / 2, e);
	struct raft_message second = message_of(60, 1, 10, last);
	struct raft_message other = message_of(60, 1, 10, last);
	struct raft_message beat = message_of(60, 0, 0, last);
	size_t n;

	assert_int_equal(send_it(&first), 0);
	n = w.n_sent;
	/* but for a heartbeat, and that not at each try */
	assert_int_equal(send_it(&second), RAFT_NOCONNECTION);
	assert_int_equal(send_it(&second), RAFT_NOCONNECTION);
	assert_int_equal(w.n_sent, n + 1);
	assert_int_equal(w.sent[n].m.append_entries.n_entries, 0);
	assert_int_equal(w.sent[n].m.append_entries.prev_log_index, 0);
	assert_int_equal(w.sent[n].m.append_entries.leader_commit, 0);
	/* one of the library's passes as well */
	assert_int_equal(send_it(&beat), 0);
	assert_int_equal(w.n_sent, n + 2);
	end_sent(n, 0);
	w.n_sent = n;
	other.server_id = 8;
	assert_int_equal(send_it(&other), 0);
	w.n_sent--; /* not part of the chain */
	w.sent[w.n_sent].cb(w.sent[w.n_sent].req, 0);
	end_sent(0, 0);
	assert_int_equal(send_it(&second), 0);
	assert_int_equal(assert_chain(0, 20), 41);
	end_sent(0, 0);
	/* heartbeats weigh nothing, but are not heaped up either */
	for (unsigned i = 0; i < 256; i++) {
		beat = message_of(61, 0, 0, last);
		w.n_sent = i;
		assert_int_equal(send_it(&beat), 0);
	}
	second = message_of(61, 0, 0, last);
	assert_int_equal(send_it(&second), RAFT_NOCONNECTION);
}

/* It is asked for the same again, while the log grows: the same is sent. */
static void who_went_back_is_probed_with_one_part(void **state _unused_)
{
	struct raft_entry e[100], left[100];
	struct raft_message beat = message_of(90, 0, 0, e);
	struct raft_message again = message_of(20, 6, 32 << 10, e);
	struct raft_message more = message_of(20, 70, 32 << 10, e);
	struct raft_message rest;
	unsigned n;

	assert_int_equal(send_it(&beat), 0);
	assert_int_equal(send_it(&again), 0);
	assert_int_equal(w.n_sent, 2);
	assert_int_equal(w.sent[1].m.append_entries.n_entries, 6);
	assert_int_equal(send_it(&more), 0);
	assert_int_equal(w.n_sent, 3);
	n = w.sent[2].m.append_entries.n_entries;
	assert_int_equal(n, 6);
	end_sent(0, 0);
	/* it has answered: the rest follows, all of it */
	rest = message_of(20 + n, 70 - n, 32 << 10, left);
	assert_int_equal(send_it(&rest), 0);
	assert_int_equal(assert_chain(2, 20), 70);
}

static void other_messages_are_left_alone(void **state _unused_)
{
	struct raft_message m = { .type = RAFT_IO_REQUEST_VOTE,
				  .server_id = 7 };

	assert_int_equal(send_it(&m), 0);
	assert_int_equal(w.n_sent, 1);
	assert_ptr_equal(w.sent[0].cb, on_end);
}

/* After messages that were lost it may have started anew, with a snapshot in
 * place: whether it needs one it says itself. */
static void who_was_not_heard_is_offered_no_snapshot(void **state _unused_)
{
	struct raft_server server = { .id = 7, .role = RAFT_VOTER };
	struct raft_progress progress = { .next_index = 1 };
	struct raft_append_entries_result heard = { .term = 99 };
	struct raft_message m = { .type = RAFT_IO_INSTALL_SNAPSHOT,
				  .server_id = 7,
				  .server_address = "there" };

	w.n.raft.id = 1;
	w.n.raft.state = RAFT_LEADER;
	w.n.raft.configuration.servers = &server;
	w.n.raft.configuration.n = 1;
	w.n.raft.leader_state.progress = &progress;
	for (int i = 0; i < 2; i++) {
		size_t n = w.n_sent;

		/* it is asked instead, and not at each try */
		assert_int_equal(send_it(&m), RAFT_NOCONNECTION);
		assert_int_equal(w.n_sent, n + (i == 0));
		assert_int_equal(w.sent[0].m.type, RAFT_IO_APPEND_ENTRIES);
		end_sent(0, 0);
		w.n_sent = 1;
		node_hint_heard(&w.n, 7, &heard);
		assert_int_equal(send_it(&m), 0);
		assert_int_equal(w.n_sent, 2);
		assert_int_equal(w.sent[1].m.type, RAFT_IO_INSTALL_SNAPSHOT);
		end_sent(1, 0);
		node_hint_lost(&w.n, 7);
	}
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(a_small_message_stays_one),
		CASE(a_large_message_goes_in_parts_and_ends_once),
		CASE(parts_follow_the_link),
		CASE(an_entry_of_any_size_goes_alone),
		CASE(one_lost_part_is_the_whole_lost),
		CASE(what_is_not_taken_is_told),
		CASE(who_takes_nothing_is_sent_no_more),
		CASE(who_went_back_is_probed_with_one_part),
		CASE(other_messages_are_left_alone),
		CASE(who_was_not_heard_is_offered_no_snapshot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
