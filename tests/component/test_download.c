/*
 * A snapshot on its way from another node: whatever that does, the files are
 * complete in the end, or not believed.
 */
#include "download_world.h"

/* --- it goes well --- */

static void all_files_come_and_nothing_else_stays(void **state)
{
	struct world *w = *state;

	assert_int_equal(dir_make(incoming(w, "a-folder")), 0);
	put(incoming(w, "000099.sst"), "x", 1);
	assert_int_equal(dir_make(in_dir(w, "incoming/400")), 0);
	assert_int_equal(fetch(w), 0);
	assert_complete(w);
	assert_int_equal(w->sent, all_bytes(w));
	assert_int_equal(access(incoming(w, "a-folder"), F_OK), -1);
	assert_int_equal(access(incoming(w, "000099.sst"), F_OK), -1);
	assert_int_equal(access(in_dir(w, "incoming/400"), F_OK), -1);
}

static void what_is_there_is_not_fetched_again(void **state)
{
	struct world *w = *state;

	assert_int_equal(fetch(w), 0);
	assert_int_equal(fetch(w), 0);
	assert_complete(w);
	assert_int_equal(w->sent, 0);
}

static void a_file_that_is_partly_there_goes_on(void **state)
{
	struct world *w = *state;
	size_t half = LONGEST / 2;

	assert_int_equal(dir_make(incoming(w, "")), 0);
	put(incoming(w, "000012.sst"), w->files[1].bytes, half);
	assert_int_equal(fetch(w), 0);
	assert_complete(w);
	assert_int_equal(w->sent, all_bytes(w) - half);
}

/* Neither the size nor the name make a file. */
static void a_file_that_is_there_is_not_believed(void **state)
{
	struct world *w = *state;

	assert_int_equal(fetch(w), 0);
	w->files[1].bytes[LONGEST / 3] ^= 1;
	assert_int_equal(fetch(w), 0);
	assert_complete(w);
	assert_int_equal(w->sent, LONGEST);
}

/* The begin that is there is of another file: noticed at its end. */
static void a_wrong_begin_is_fetched_anew(void **state)
{
	struct world *w = *state;
	char other[1000] = "something else";

	assert_int_equal(dir_make(incoming(w, "")), 0);
	put(incoming(w, "000012.sst"), other, sizeof(other));
	assert_int_equal(fetch(w), 0);
	assert_complete(w);
	assert_int_equal(w->lists, 2);
}

static void tables_of_the_store_are_linked(void **state)
{
	struct world *w = *state;
	struct stat st;

	assert_int_equal(dir_make(in_dir(w, "rocks")), 0);
	assert_int_equal(dir_make(in_dir(w, "incoming/400")), 0);
	put(in_dir(w, "rocks/000012.sst"), w->files[1].bytes, LONGEST);
	/* the same size, other bytes */
	put(in_dir(w, "rocks/000013.sst"), w->files[1].bytes, LONGEST / 2);
	put(in_dir(w, "incoming/400/000013.sst"), w->files[2].bytes,
	    LONGEST / 2);
	/* the store writes to it */
	put(in_dir(w, "rocks/MANIFEST-000004"), w->files[3].bytes, 5000);
	assert_int_equal(fetch(w), 0);
	assert_complete(w);
	assert_int_equal(w->sent, 16 + 5000);
	assert_int_equal(stat(in_dir(w, "rocks/000012.sst"), &st), 0);
	assert_int_equal(st.st_nlink, 2);
	assert_int_equal(stat(in_dir(w, "rocks/MANIFEST-000004"), &st), 0);
	assert_int_equal(st.st_nlink, 1);
}

/* Only what is new comes, and the one before goes. */
static void the_next_snapshot_takes_the_tables_of_the_last(void **state)
{
	struct world *w = *state;

	assert_int_equal(fetch(w), 0);
	w->index = INDEX + 1;
	w->files[0].bytes[3] ^= 1;
	assert_int_equal(fetch(w), 0);
	assert_complete(w);
	assert_int_equal(w->sent, 16 + 5000);
	assert_int_equal(access(in_dir(w, "incoming/500"), F_OK), -1);
}

/* A link that turns out to be of another file is not written through. */
static void a_link_into_the_store_is_never_written_to(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct world *w = *state;
	char from[256];

	assert_int_equal(dir_make(in_dir(w, "rocks")), 0);
	assert_int_equal(dir_make(incoming(w, "")), 0);
	put(in_dir(w, "rocks/000012.sst"), "short", 5);
	(void)snprintf(from, sizeof(from), "%s", in_dir(w, "rocks/000012.sst"));
	assert_int_equal(link(from, incoming(w, "000012.sst")), 0);
	assert_int_equal(fetch(w), 0);
	assert_complete(w);
	assert_int_equal(file_read(from, 100, &b), 0);
	assert_str_is(buf_str(&b), "short");
}

static void a_rate_is_kept(void **state)
{
	struct world *w = *state;
	uint64_t begin_ns = clock_mono_ns(), least_ns;

	w->s.snapshot_rate = 1u << 20;
	assert_int_equal(fetch(w), 0);
	assert_complete(w);
	/* but for the first part, which need not wait */
	least_ns = (all_bytes(w) - (1u << 17)) * NS_PER_S / (1u << 20);
	assert_true(clock_mono_ns() - begin_ns >= least_ns / 2);
	assert_true(w->parts >= 4);
}

/* --- it does not --- */

static void a_snapshot_that_is_not_there_yet_is_waited_for(void **state)
{
	struct world *w = *state;

	w->later = 2;
	assert_int_equal(fetch(w), 0);
	assert_complete(w);
	assert_int_equal(w->lists, 3);
}

static void a_newer_snapshot_ends_it(void **state)
{
	struct world *w = *state;

	w->s.snapshot_rate = 128u << 10; /* parts are small then */
	w->gone_after = 2;
	assert_int_equal(fetch(w), -ERR_NOT_FOUND);
	assert_string_equal(w->why, "it is gone");
}

static void a_lost_link_costs_nothing_but_time(void **state)
{
	struct world *w = *state;

	w->s.snapshot_rate = 512u << 10;
	w->silent_after = 3;
	assert_int_equal(fetch(w), 0);
	assert_complete(w);
	assert_int_equal(w->lists, 1);
}

static void an_error_begins_anew_and_goes_on(void **state)
{
	struct world *w = *state;

	w->s.snapshot_rate = 512u << 10;
	w->errors = 1;
	assert_int_equal(fetch(w), 0);
	assert_complete(w);
	assert_int_equal(w->lists, 2);
}

static void a_part_that_does_not_match_comes_again(void **state)
{
	struct world *w = *state;

	w->bad_parts = 1;
	assert_int_equal(fetch(w), 0);
	assert_complete(w);
	assert_true(w->sent > all_bytes(w));
}

static void a_file_that_never_matches_is_given_up(void **state)
{
	struct world *w = *state;

	w->bad_file = true;
	assert_int_equal(fetch(w), -ERR_BAD_MESSAGE);
	assert_non_null(strstr(w->why, "000013.sst"));
	assert_non_null(strstr(w->why, "does not match its checksum"));
	assert_int_equal(access(incoming(w, "000013.sst"), F_OK), -1);
}

static void names_that_lead_elsewhere_are_refused(void **state)
{
	static const char *const names[] = { "../x",    "a/b", ".",      "..",
					     ".hidden", "a b", "CURRENT" };
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		w->odd_name = names[i];
		assert_int_equal(fetch(w), -ERR_BAD_MESSAGE);
		assert_int_equal(access(in_dir(w, "incoming"), F_OK), -1);
	}
}

static void without_room_nothing_is_fetched(void **state)
{
	struct world *w = *state;

	w->s.raft_segment_size = 1ULL << 60;
	assert_int_equal(fetch(w), -ERR_STORAGE_FULL);
	assert_non_null(strstr(w->why, "free some space"));
	assert_int_equal(w->parts, 0);
}

/* Stopped at any moment, also while the worker is busy with it. */
static void on_stop(void *ctx)
{
	struct world *w = ctx;

	loop_stop(w->loop);
}

static void it_can_be_stopped_at_any_moment(void **state)
{
	struct world *w = *state;
	struct loop_timer *t = loop_timer_add(w->loop, on_stop, w);

	w->s.snapshot_rate = 4u << 20;
	for (unsigned i = 0; i < 20; i++) {
		begin(w);
		loop_timer_arm(t, rng_u64(&w->rng) % (20 * NS_PER_MS));
		loop_run(w->loop);
		loop_timer_disarm(t);
		if (w->over)
			dir_remove(in_dir(w, "incoming"));
	}
	loop_timer_remove(t);
	w->s.snapshot_rate = 0;
	assert_int_equal(fetch(w), 0);
	assert_complete(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_files_come_and_nothing_else_stays),
		TEST(what_is_there_is_not_fetched_again),
		TEST(a_file_that_is_partly_there_goes_on),
		TEST(a_file_that_is_there_is_not_believed),
		TEST(a_wrong_begin_is_fetched_anew),
		TEST(tables_of_the_store_are_linked),
		TEST(the_next_snapshot_takes_the_tables_of_the_last),
		TEST(a_link_into_the_store_is_never_written_to),
		TEST(a_rate_is_kept),
		TEST(a_snapshot_that_is_not_there_yet_is_waited_for),
		TEST(a_newer_snapshot_ends_it),
		TEST(a_lost_link_costs_nothing_but_time),
		TEST(an_error_begins_anew_and_goes_on),
		TEST(a_part_that_does_not_match_comes_again),
		TEST(a_file_that_never_matches_is_given_up),
		TEST(names_that_lead_elsewhere_are_refused),
		TEST(without_room_nothing_is_fetched),
		TEST(it_can_be_stopped_at_any_moment),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	ipc_exit();
	return r;
}
