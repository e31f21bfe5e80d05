/*
 * How good results are: scores of jobs, their sums by the names their usage was
 * counted under, and that one takes the place of another.
 */
#include "fsm/core/state.h"
#include "fsm_fixture.h"

#define HOUR (3600 * NS_PER_S)

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

/* --- short forms --- */

static struct m_score of(const char *id, const char *name, double value)
{
	struct m_score m = { 0 };

	MSG_SET(&m, score, job_id, str_from(id));
	MSG_SET(&m, score, name, str_from(name));
	MSG_SET(&m, score, value, value);
	return m;
}

static void give(struct fx *x, const char *id, const char *name, double value)
{
	struct m_score m = of(id, name, value);

	assert_int_equal(fx_do(x, OP_SCORE, &m, NULL), 0);
}

/* A job that ended, with a report of this model. */
static void done(struct fx *x, const char *id, const char *queue,
		 const char *model)
{
	struct m_usage u = { 0 };
	struct m_ack m = { 0 };

	fx_enqueue(x, id, queue);
	fx_expect(x, queue, id);
	MSG_SET(&u, usage, input_tokens, 1);
	MSG_SET(&u, usage, model, str_from(model));
	MSG_SET(&m, ack, job_id, str_from(id));
	MSG_SET(&m, ack, usage, &u);
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
}

static size_t sums(struct fx *x, const char *by, struct m_usage_group **ret)
{
	struct m_usage_ask ask = { 0 };
	struct buf why = BUF_INIT(0);
	struct str names[1] = { str_from(by) };
	struct m_usage_reply r;

	MSG_SET(&ask, usage_ask, scores, true);
	MSG_SET(&ask, usage_ask, to, UINT64_MAX / 2);
	MSG_SET_LIST(&ask, usage_ask, group_by, names, by[0] != '\0');
	assert_int_equal(
	    record_usage(x->side[FX_MEM].kv, &ask, &x->arena, &r, &why), 0);
	buf_done(&why);
	*ret = r.groups;
	return r.groups_n;
}

static void sum_is(struct fx *x, const char *by, const char *key,
		   uint64_t count, int64_t total)
{
	struct m_usage_group *g;
	size_t n = sums(x, by, &g);

	for (size_t i = 0; i < n; i++) {
		if (by[0] != '\0' && !str_is(g[i].keys[0], key))
			continue;
		assert_int_equal(g[i].scores->count, count);
		assert_int_equal(g[i].scores->total, total);
		return;
	}
	fail_msg("no scores of %s %s", by, key);
}

static struct m_score_list list_of(struct fx *x, const char *id)
{
	struct m_score_list list;

	assert_int_equal(
	    record_scores(x->side[FX_ROCKS].kv, str_from(id), &x->arena, &list),
	    0);
	return list;
}

/* --- what is recorded --- */

static void test_scores_are_kept_and_summed_up(void **state)
{
	struct fx *x = *state;
	struct m_score m = of("job_1", "tone", 0.1234567), got;
	struct m_score_list list;

	done(x, "job_1", "q", "large");
	done(x, "job_2", "q", "small");
	done(x, "job_3", "other", "large");
	MSG_SET(&m, score, by, STR("ann"));
	MSG_SET(&m, score, comment, STR("too loud"));
	assert_int_equal(fx_do(x, OP_SCORE, &m, &got), 0);
	assert_true(got.value == 0.123457); /* to a millionth */
	assert_int_equal(got.n, 1);
	assert_int_equal(got.created_at, x->now_ns);
	give(x, "job_1", "accuracy", 0.5);
	give(x, "job_2", "accuracy", -1);
	give(x, "job_3", "accuracy", 1);
	list = list_of(x, "job_1");
	assert_int_equal(list.scores_n, 2);
	assert_true(str_is(list.scores[0].comment, "too loud"));
	assert_true(str_is(list.scores[1].name, "accuracy"));
	sum_is(x, "model", "small", 1, -1000000);
	sum_is(x, "queue", "other", 1, 1000000);
	fx_timeline(x, "job_2", "enqueued started usage completed scored");
}

static void test_one_takes_the_place_of_another(void **state)
{
	struct fx *x = *state;
	struct m_score m = of("job_1", "accuracy", 3);
	struct m_usage_group *g;

	done(x, "job_1", "q", "large");
	give(x, "job_1", "accuracy", 1);
	x->now_ns += 2 * HOUR;
	give(x, "job_1", "accuracy", 2);
	sum_is(x, "model", "large", 1, 2000000);
	assert_int_equal(list_of(x, "job_1").scores_n, 1);
	/* by somebody else it is another one */
	MSG_SET(&m, score, by, STR("ann"));
	assert_int_equal(fx_do(x, OP_SCORE, &m, NULL), 0);
	sum_is(x, "model", "large", 2, 5000000);
	fx_restart(x, FX_ROCKS);
	MSG_SET(&m, score, value, 4);
	assert_int_equal(fx_do(x, OP_SCORE, &m, NULL), 0);
	sum_is(x, "model", "large", 2, 6000000);
	/* extremes are of all that was recorded in an hour that has some */
	assert_int_equal(sums(x, "", &g), 1);
	assert_int_equal(g[0].scores->min, 2000000);
	assert_int_equal(g[0].scores->max, 4000000);
}

static void turn(struct fx *x, const char *id, enum agent_status status)
{
	struct m_ack ack = { 0 };

	MSG_SET(&ack, ack, job_id, str_from(id));
	MSG_SET(&ack, ack, agent_status, status);
	assert_int_equal(fx_do(x, OP_ACK, &ack, NULL), 0);
}

static void test_iterations(void **state)
{
	struct fx *x = *state;
	struct m_score m = of("job_1", "tone", 3);
	struct m_enqueue job = { 0 };
	struct m_agent agent = { 0 };

	MSG_SET(&job, enqueue, job_id, STR("job_1"));
	MSG_SET(&job, enqueue, queue, STR("q"));
	MSG_SET(&job, enqueue, agent, &agent);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &job, NULL), 0);
	fx_expect(x, "q", "job_1");
	MSG_SET(&m, score, iteration, 1); /* the worker is at it */
	assert_int_equal(fx_do(x, OP_SCORE, &m, NULL), 0);
	turn(x, "job_1", AGENT_CONTINUE);
	MSG_SET(&m, score, iteration, 2);
	fx_refused(x, OP_SCORE, &m, ERR_NOT_FOUND,
		   "iteration: job \"job_1\" has had 1 of them");
	fx_expect(x, "q", "job_1");
	assert_int_equal(fx_do(x, OP_SCORE, &m, NULL), 0);
	turn(x, "job_1", AGENT_DONE);
	assert_int_equal(fx_do(x, OP_SCORE, &m, NULL), 0);
	MSG_SET(&m, score, iteration, 3);
	fx_refused(x, OP_SCORE, &m, ERR_NOT_FOUND,
		   "iteration: job \"job_1\" has had 2 of them");
	MSG_SET(&m, score, iteration, 0);
	fx_refused(x, OP_SCORE, &m, ERR_VALIDATION_ERROR,
		   "iteration: must be at least 1");
	MSG_UNSET(&m, score, iteration); /* of all: another one again */
	assert_int_equal(fx_do(x, OP_SCORE, &m, NULL), 0);
	assert_int_equal(list_of(x, "job_1").scores_n, 3);
	assert_int_equal(list_of(x, "job_1").scores[1].iteration, 2);
	done(x, "job_2", "plain", "large");
	m = of("job_2", "tone", 3);
	MSG_SET(&m, score, iteration, 1);
	fx_refused(x, OP_SCORE, &m, ERR_VALIDATION_ERROR,
		   "iteration: job \"job_2\" is not an agent job");
}

/* The names it was counted under are those it is taken from. */
static void test_a_correction_follows_the_first_count(void **state)
{
	struct fx *x = *state;
	struct m_usage_settings set = { 0 };
	struct m_zone_offset east = { 0 };
	struct m_move move = { 0 };

	done(x, "job_1", "q", "large");
	give(x, "job_1", "accuracy", 1);
	MSG_SET(&east, zone_offset, seconds, 14 * 3600);
	MSG_SET(&set, usage_settings, timezone, STR("Pacific/Kiritimati"));
	MSG_SET_LIST(&set, usage_settings, offsets, &east, 1);
	assert_int_equal(fx_do(x, OP_SET_USAGE, &set, NULL), 0);
	fx_job_op(x, OP_RETRY, "job_1", "retried");
	MSG_SET(&move, move, job_id, STR("job_1"));
	MSG_SET(&move, move, queue, STR("r"));
	assert_int_equal(fx_do(x, OP_MOVE, &move, NULL), 0);
	fx_expect(x, "r", "job_1");
	give(x, "job_1", "accuracy", 5);
	sum_is(x, "queue", "r", 1, 5000000);
	sum_is(x, "", "", 1, 5000000);
}

static void test_a_request_that_comes_again_counts_once(void **state)
{
	struct fx *x = *state;
	struct m_score m = of("job_1", "accuracy", 1), got;

	done(x, "job_1", "q", "large");
	assert_int_equal(fx_do(x, OP_SCORE, &m, NULL), 0);
	assert_int_equal(fx_resend(x, OP_SCORE, &m, &got), 0);
	assert_int_equal(got.n, 1);
	sum_is(x, "model", "large", 1, 1000000);
	fx_timeline(x, "job_1", "enqueued started usage completed scored");
}

static void test_sums_outlive_their_jobs(void **state)
{
	struct fx *x = *state;

	done(x, "job_1", "q", "large");
	give(x, "job_1", "accuracy", 1);
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	assert_int_equal(fx_count_keys(&x->side[FX_MEM], "so|"), 0);
	sum_is(x, "model", "large", 1, 1000000);
	/* one of the same id begins anew */
	done(x, "job_1", "q", "large");
	assert_int_equal(list_of(x, "job_1").scores_n, 0);
	give(x, "job_1", "accuracy", 1);
	sum_is(x, "model", "large", 2, 2000000);
}

/* Nothing is left to take the old one from. */
static void test_a_correction_after_the_sums_are_gone(void **state)
{
	struct fx *x = *state;
	struct m_usage_settings set = { 0 };
	struct m_usage_group *g;
	struct m_maintain purge = { 0 };

	MSG_SET(&set, usage_settings, retention, HOUR);
	assert_int_equal(fx_do(x, OP_SET_USAGE, &set, NULL), 0);
	done(x, "job_1", "q", "large");
	give(x, "job_1", "accuracy", 1);
	x->now_ns += 3 * HOUR;
	MSG_SET(&purge, maintain, limit, 100);
	MSG_SET(&purge, maintain, retention_ns, 100 * HOUR);
	assert_int_equal(fx_do(x, OP_PURGE, &purge, NULL), 0);
	assert_int_equal(sums(x, "", &g), 0);
	give(x, "job_1", "accuracy", 7);
	sum_is(x, "", "", 1, 7000000);
}

static void give_by(struct fx *x, const char *by, double value)
{
	struct m_score m = of("job_1", "accuracy", value);

	MSG_SET(&m, score, by, str_from(by));
	assert_int_equal(fx_do(x, OP_SCORE, &m, NULL), 0);
}

static void clock_to(struct fx *x, uint64_t to_ns)
{
	struct m_clock_set m = { 0 };

	MSG_SET(&m, clock_set, from_ns, x->now_ns);
	MSG_SET(&m, clock_set, to_ns, to_ns);
	x->now_ns = to_ns;
	assert_int_equal(fx_do(x, OP_CLOCK_SET, &m, NULL), 0);
}

/*
 * The sums of an hour are purged, the clock goes back, and the hour comes
 * again: corrections of old scores take nothing from what is counted now.
 */
static void test_a_correction_after_the_hour_came_again(void **state)
{
	struct fx *x = *state;
	struct m_usage_settings set = { 0 };
	struct m_maintain purge = { 0 };
	uint64_t was;

	MSG_SET(&set, usage_settings, retention, HOUR);
	assert_int_equal(fx_do(x, OP_SET_USAGE, &set, NULL), 0);
	fx_enqueue(x, "job_1", "q");
	fx_expect(x, "q", "job_1");
	was = x->now_ns;
	give_by(x, "ann", 1);
	give_by(x, "bob", 1);
	clock_to(x, was + 5 * HOUR);
	MSG_SET(&purge, maintain, limit, 100);
	MSG_SET(&purge, maintain, retention_ns, 100 * HOUR);
	assert_int_equal(fx_do(x, OP_PURGE, &purge, NULL), 0);
	clock_to(x, was);
	give_by(x, "eve", 4);
	sum_is(x, "", "", 1, 4000000);
	fx_restart(x, FX_ROCKS);
	give_by(x, "ann", 2);
	sum_is(x, "", "", 2, 6000000);
	give_by(x, "bob", 3);
	sum_is(x, "", "", 3, 9000000);
	give_by(x, "ann", 1); /* which is counted in this hour by now */
	sum_is(x, "", "", 3, 8000000);
}

/* --- what is refused --- */

static void test_what_cannot_be_is_refused(void **state)
{
	struct fx *x = *state;
	struct m_score m = of("job_1", "accuracy", 1000000.5);
	char name[32];

	fx_enqueue(x, "job_1", "q");
	fx_refused(x, OP_SCORE, &m, ERR_VALIDATION_ERROR,
		   "value: must be from -1000000 to 1000000");
	MSG_SET(&m, score, value, -1000000.5);
	fx_refused(x, OP_SCORE, &m, ERR_VALIDATION_ERROR,
		   "value: must be from -1000000 to 1000000");
	MSG_SET(&m, score, value, -1000000);
	fx_refused(x, OP_SCORE, &m, ERR_VALIDATION_ERROR,
		   "job_id: no worker has taken the job yet, so there is "
		   "nothing to judge");
	fx_expect(x, "q", "job_1");
	for (int i = 0; i < LIMIT_SCORES; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		give(x, "job_1", name, 1);
	}
	fx_refused(x, OP_SCORE, &m, ERR_VALIDATION_ERROR,
		   "name: the job has 64 scores, which is as many as it can "
		   "have");
	give(x, "job_1", "n5", 2); /* these can still be corrected */
	MSG_SET(&m, score, job_id, STR("job_2"));
	fx_refused(x, OP_SCORE, &m, ERR_NOT_FOUND, "job \"job_2\" not found");
}

/* The hour gets as many rows as it may have. */
static void fill_hour(struct fx *x, const char *id)
{
	enum { EACH = 500 };
	struct m_beat beats[EACH] = { 0 };
	struct m_usage u[EACH] = { 0 };
	struct m_heartbeat m = { 0 };
	char names[EACH][16];

	MSG_SET_LIST(&m, heartbeat, jobs, beats, EACH);
	for (int round = 0; round < LIMIT_USAGE_ROWS / EACH; round++) {
		for (int i = 0; i < EACH; i++) {
			(void)snprintf(names[i], sizeof(names[i]), "m%d",
				       round * EACH + i);
			MSG_SET(&u[i], usage, input_tokens, 1);
			MSG_SET(&u[i], usage, model, str_from(names[i]));
			MSG_SET(&beats[i], beat, job_id, str_from(id));
			MSG_SET(&beats[i], beat, usage, &u[i]);
		}
		assert_int_equal(fx_do(x, OP_HEARTBEAT, &m, NULL), 0);
	}
}

static void test_too_many_names_are_folded_into_one(void **state)
{
	struct fx *x = *state;
	struct m_usage_group *g;

	x->unchecked = true;
	x->now_ns -= x->now_ns % HOUR;
	fx_enqueue(x, "job_1", "q");
	fx_expect(x, "q", "job_1");
	give(x, "job_1", "first", 1);
	fill_hour(x, "job_1");
	give(x, "job_1", "late", 3);
	give(x, "job_1", "late", 4); /* takes back what was folded */
	give(x, "job_1", "later", 5);
	x->unchecked = false;
	fx_check_side(&x->side[FX_MEM]);
	assert_int_equal(sums(x, "", &g), 2);
	g = g[0].other ? g : g + 1;
	assert_true(g->other && str_is(g->score, "(other)"));
	assert_int_equal(g->scores->count, 2);
	assert_int_equal(g->scores->total, 9000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_scores_are_kept_and_summed_up),
		TEST(test_one_takes_the_place_of_another),
		TEST(test_iterations),
		TEST(test_a_correction_follows_the_first_count),
		TEST(test_a_request_that_comes_again_counts_once),
		TEST(test_sums_outlive_their_jobs),
		TEST(test_a_correction_after_the_sums_are_gone),
		TEST(test_a_correction_after_the_hour_came_again),
		TEST(test_what_cannot_be_is_refused),
		TEST(test_too_many_names_are_folded_into_one),
	};

	return cmocka_run_group_tests_name("fsm_score", tests, NULL, NULL);
}
