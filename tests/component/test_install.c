/*
 * A snapshot of another node in the place of store and log: over a crash after
 * every step, with the votes kept, and a log that fits to a store which is
 * ahead of it.
 */
#include "install_world.h"

static void assert_node_starts(struct world *w)
{
	struct node_info info;

	assert_int_equal(start_node(w, STORE, &w->i.manifest.store_origin), 0);
	node_info(w->node, &info);
	assert_int_equal(info.snapshot_index, INDEX);
	assert_int_equal(w->node->raft.configuration.n, 2);
	assert_int_equal(w->node->applied, STORE);
	end_node(w);
}

/* --- in place --- */

static void assert_old(const struct world *w)
{
	assert_true(has(w, "rocks/OLD"));
	assert_true(has(w, "raft/acked"));
	assert_true(has(w, "checkpoints/snapshot-40"));
}

static void assert_in_place(const struct world *w)
{
	assert_true(has(w, "rocks/NEW"));
	assert_false(has(w, "rocks/OLD"));
	assert_false(has(w, "incoming"));
	assert_int_equal(count(w, "checkpoints", ""), 0);
	/* the snapshot with its .meta, and term and vote */
	assert_int_equal(count(w, "raft", "snapshot-7-1000-"), 2);
	assert_int_equal(count(w, "raft", "metadata"), 1);
	assert_int_equal(count(w, "raft", ""), 3);
}

static void nothing_is_done_where_nothing_is_ready(void **state)
{
	struct world *w = *state;

	make_node(w, 9, OTHER);
	assert_int_equal(install_finish(&w->s, &why), 0);
	assert_old(w);
	/* a snapshot that is on its way stays, to be gone on with */
	assert_int_equal(dir_make(in_dir(w, "incoming/1000")), 0);
	put(w, "incoming/1000/NEW", STR("new"));
	assert_int_equal(install_finish(&w->s, &why), 0);
	assert_old(w);
	assert_true(has(w, "incoming/1000/NEW"));
}

static void a_crash_after_any_step_is_finished_by_the_next_start(void **state)
{
	struct world *w = *state;

	for (unsigned a = 0; a <= INSTALL_STEPS; a++)
		for (unsigned b = 0; b <= INSTALL_STEPS; b += 3) {
			make_node(w, 9, OTHER);
			make_ready(w);
			assert_int_equal(install_steps(&w->s, a, &why), 0);
			assert_int_equal(install_steps(&w->s, b, &why), 0);
			assert_int_equal(install_finish(&w->s, &why), 0);
			assert_in_place(w);
		}
	assert_node_starts(w);
}

/* In the middle of a step, too. */
static void what_a_step_left_by_half_is_done_anew(void **state)
{
	struct world *w = *state;

	make_node(w, 9, OTHER);
	make_ready(w);
	assert_int_equal(unlink(in_dir(w, "rocks/OLD")), 0);
	assert_int_equal(unlink(in_dir(w, "raft/acked")), 0);
	put(w, "raft/snapshot-7-1000-1.meta", STR("half"));
	put(w, "raft/snapshot-7-1000-1", STR("half"));
	assert_int_equal(install_finish(&w->s, &why), 0);
	assert_in_place(w);
	assert_node_starts(w);
}

static void a_vote_is_kept(void **state)
{
	_cleanup_(buf_done) struct buf before = BUF_INIT(0);
	_cleanup_(buf_done) struct buf after = BUF_INIT(0);
	struct world *w = *state;

	make_node(w, 9, OTHER);
	make_ready(w);
	assert_int_equal(file_read(in_dir(w, "raft/metadata1"), 100, &before),
			 0);
	assert_int_equal(install_finish(&w->s, &why), 0);
	assert_int_equal(file_read(in_dir(w, "raft/metadata1"), 100, &after),
			 0);
	assert_true(str_eq(buf_str(&before), buf_str(&after)));
	assert_int_equal(start_node(w, STORE, &w->i.manifest.store_origin), 0);
	assert_int_equal(w->node->raft.current_term, 9);
	assert_int_equal(w->node->raft.voted_for, OTHER);
	end_node(w);
}

/*
 * While the files came, another leader sent the entries: the node has said that
 * it has some which the snapshot has not.
 */
static void a_log_that_got_beyond_the_snapshot_is_kept(void **state)
{
	struct world *w = *state;

	make_node(w, 9, OTHER);
	w->i.manifest.index = w->i.manifest.applied = w->i.manifest.store =
	    OLD_INDEX;
	w->i.term = 1; /* that of the entry in the log */
	make_ready(w);
	assert_int_equal(dir_make(in_dir(w, "incoming/40")), 0);
	assert_int_equal(install_finish(&w->s, &why), 0);
	assert_old(w);
	assert_false(has(w, "incoming"));
}

static void the_term_is_at_least_that_of_the_snapshot(void **state)
{
	struct world *w = *state;

	make_node(w, 3, OTHER);
	make_ready(w);
	assert_int_equal(install_finish(&w->s, &why), 0);
	assert_in_place(w);
	assert_int_equal(start_node(w, STORE, &w->i.manifest.store_origin), 0);
	assert_int_equal(w->node->raft.current_term, TERM);
	assert_int_equal(w->node->raft.voted_for, 0);
	end_node(w);
}

static void a_damaged_ready_changes_nothing(void **state)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct world *w = *state;

	make_node(w, 9, OTHER);
	make_ready(w);
	assert_int_equal(
	    file_read(in_dir(w, "incoming/ready"), 1u << 20, &text), 0);
	for (size_t i = 0; i < text.n; i++) {
		text.p[i] ^= 1;
		put(w, "incoming/ready", buf_str(&text));
		text.p[i] ^= 1;
		buf_clear(&why);
		assert_int_equal(install_finish(&w->s, &why), -ERR_CONFLICT);
		assert_old(w);
	}
	put(w, "incoming/ready", str_of(text.p, text.n - 1));
	assert_int_equal(install_finish(&w->s, &why), -ERR_CONFLICT);
	assert_true(said("is damaged"));
}

/* --- what fits --- */

static void a_store_may_be_ahead_as_far_as_the_snapshot_says(void **state)
{
	struct world *w = *state;
	struct entry_origin other = w->i.manifest.store_origin;

	make_node(w, 9, OTHER);
	make_ready(w);
	assert_int_equal(install_finish(&w->s, &why), 0);
	assert_node_starts(w);
	assert_int_equal(start_node(w, STORE + 1, &other), -ERR_CONFLICT);
	assert_true(said("the log ends with entry 1000"));
	end_node(w);
	other.id ^= 1;
	assert_int_equal(start_node(w, STORE, &other), -ERR_CONFLICT);
	assert_true(said("another entry 1003"));
	end_node(w);
	assert_int_equal(start_node(w, APPLIED - 1, &w->i.manifest.origin),
			 -ERR_CONFLICT);
	end_node(w);
	/* and need not be */
	assert_int_equal(start_node(w, APPLIED, &w->i.manifest.origin), 0);
	end_node(w);
}

static void a_manifest_comes_back_as_it_was(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct world *w = *state;
	struct manifest largest = {
		.index = UINT64_MAX,
		.applied = UINT64_MAX,
		.origin = { UINT64_MAX, UINT64_MAX,
			    w->i.manifest.origin.history },
		.store = UINT64_MAX,
		.store_origin = { UINT64_MAX, UINT64_MAX,
				  w->i.manifest.origin.history },
	};
	struct manifest m;

	manifest_put(&b, &w->i.manifest);
	assert_int_equal(b.n, MANIFEST_BYTES);
	assert_true(manifest_parse(buf_str(&b), &m));
	assert_memory_equal(&m, &w->i.manifest, sizeof(m));
	buf_clear(&b);
	manifest_put(&b, &largest);
	assert_true(manifest_parse(buf_str(&b), &m));
	assert_memory_equal(&m, &largest, sizeof(m));
}

static void manifests_of_earlier_versions_are_read(void **state)
{
	static const char *const bad[] = {
		"corvo snapshot 2 index 9 applied 8 term 3 id ab history "
		"00112233445566778899aabbccddeeff store 10 term 3 id ac x\n",
		"corvo snapshot 2 index 9 applied 8 term 3 id ab history "
		"00112233445566778899aabbccddeeff store 7 term 3 id ac\n",
		"corvo snapshot 2 index 9 applied 8 term 3 id ab history "
		"00112233445566778899aabbccddeeff stor 10\n",
		"corvo snapshot 2 index 8 applied 9 term 3 id ab history \n",
	};
	struct manifest m;

	(void)state;
	assert_true(manifest_parse(STR("corvo snapshot 1 index 77\n"), &m));
	assert_int_equal(m.applied, 77);
	assert_int_equal(m.store, 0);
	assert_true(manifest_parse(
	    STR("corvo snapshot 2 index 9 applied 8 term 3 id ab history "
		"00112233445566778899aabbccddeeff\n"),
	    &m));
	assert_int_equal(m.index, 9);
	assert_int_equal(m.origin.id, 0xab);
	assert_int_equal(m.store, 0);
	assert_true(manifest_parse(
	    STR("corvo snapshot 2 index 9 applied 8 term 3 id ab history \n"),
	    &m));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(manifest_parse(str_from(bad[i]), &m));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_done_where_nothing_is_ready),
		TEST(a_crash_after_any_step_is_finished_by_the_next_start),
		TEST(what_a_step_left_by_half_is_done_anew),
		TEST(a_vote_is_kept),
		TEST(a_log_that_got_beyond_the_snapshot_is_kept),
		TEST(the_term_is_at_least_that_of_the_snapshot),
		TEST(a_damaged_ready_changes_nothing),
		TEST(a_store_may_be_ahead_as_far_as_the_snapshot_says),
		TEST(a_manifest_comes_back_as_it_was),
		TEST(manifests_of_earlier_versions_are_read),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	buf_done(&why);
	return r;
}
