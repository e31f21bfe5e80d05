/*
 * What jobs have used: reports with ack, ack_batch, heartbeat and fail, sums by
 * hour, names and days, prices, and that nothing counts twice.
 */
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm_fixture.h"

#define HOUR (3600 * NS_PER_S)
#define DAY  (24 * HOUR)

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

/* --- short forms --- */

static struct m_usage report(uint64_t input, uint64_t cost)
{
	struct m_usage u = { 0 };

	MSG_SET(&u, usage, input_tokens, input);
	if (cost > 0)
		MSG_SET(&u, usage, cost_usd, cost);
	return u;
}

static struct m_usage of_model(struct m_usage u, const char *model)
{
	MSG_SET(&u, usage, model, str_from(model));
	MSG_SET(&u, usage, provider, STR("acme"));
	return u;
}

static void take(struct fx *x, const char *id, const char *tags)
{
	struct m_enqueue m = fx_new(id, "q");

	if (tags != NULL)
		MSG_SET(&m, enqueue, tags, str_from(tags));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	fx_expect(x, "q", id);
}

static int ack(struct fx *x, const char *id, const struct m_usage *u)
{
	struct m_ack m = { 0 };

	MSG_SET(&m, ack, job_id, str_from(id));
	MSG_SET(&m, ack, usage, (struct m_usage *)u);
	return fx_do(x, OP_ACK, &m, NULL);
}

static void done(struct fx *x, const char *id, const struct m_usage *u)
{
	take(x, id, NULL);
	assert_int_equal(ack(x, id, u), 0);
}

static void beat(struct fx *x, const char *id, const struct m_usage *u)
{
	struct m_heartbeat m = { 0 };
	struct m_beat b = { 0 };

	MSG_SET(&b, beat, job_id, str_from(id));
	MSG_SET(&b, beat, usage, (struct m_usage *)u);
	MSG_SET_LIST(&m, heartbeat, jobs, &b, 1);
	assert_int_equal(fx_do(x, OP_HEARTBEAT, &m, NULL), 0);
}

static void set_price(struct fx *x, const char *model, uint64_t input)
{
	struct m_price m = { 0 };

	MSG_SET(&m, price, provider, STR("acme"));
	MSG_SET(&m, price, model, str_from(model));
	MSG_SET(&m, price, input_per_million, input);
	MSG_SET(&m, price, units, STR("{\"pages\":0.25}"));
	assert_int_equal(fx_do(x, OP_SET_PRICE, &m, NULL), 0);
}

static void set_tag(struct fx *x, const char *name)
{
	struct m_usage_settings m = { 0 };
	struct str tag = str_from(name);

	MSG_SET_LIST(&m, usage_settings, tags, &tag, 1);
	assert_int_equal(fx_do(x, OP_SET_USAGE, &m, NULL), 0);
}

/* All there is, grouped. */
static struct m_usage_reply sums(struct fx *x, const char *by)
{
	struct m_usage_ask ask = { 0 };
	struct buf why = BUF_INIT(0);
	struct str names[1] = { str_from(by) };
	struct m_usage_reply r;

	MSG_SET(&ask, usage_ask, to, UINT64_MAX / 2);
	MSG_SET_LIST(&ask, usage_ask, group_by, names, by[0] != '\0');
	assert_int_equal(
	    record_usage(x->side[FX_MEM].kv, &ask, &x->arena, &r, &why), 0);
	buf_done(&why);
	return r;
}

static const struct m_usage_sum *sum_of(struct fx *x, const char *by,
					const char *key)
{
	struct m_usage_reply r = sums(x, by);

	for (size_t i = 0; i < r.groups_n; i++)
		if (str_is(r.groups[i].keys[0], key))
			return r.groups[i].sum;
	fail_msg("no sum of %s %s", by, key);
	return NULL;
}

static const struct m_usage_sum *total(struct fx *x)
{
	return sums(x, "").totals;
}

/* --- reports --- */

static void test_reports_add_up(void **state)
{
	struct fx *x = *state;
	struct m_usage a = of_model(report(100, 5), "large");
	struct m_usage b = of_model(report(7, 3), "small");
	struct m_fail fail = { 0 };
	const struct m_job *j;

	take(x, "job_1", NULL);
	beat(x, "job_1", &a);
	MSG_SET(&fail, fail, job_id, STR("job_1"));
	MSG_SET(&fail, fail, retry_after, 0);
	MSG_SET(&fail, fail, usage, &b);
	assert_int_equal(fx_do(x, OP_FAIL, &fail, NULL), 0);
	fx_expect(x, "q", "job_1");
	assert_int_equal(ack(x, "job_1", &a), 0);
	j = fx_job(x, "job_1");
	assert_int_equal(j->usage->count, 3);
	assert_int_equal(j->usage->input_tokens, 207);
	assert_int_equal(j->usage->cost_usd, 13);
	assert_str_is(j->usage->model, "large");
	assert_int_equal(sum_of(x, "queue", "q")->cost_usd, 13);
	assert_int_equal(sum_of(x, "model", "large")->count, 2);
	assert_int_equal(sum_of(x, "model", "small")->input_tokens, 7);
	assert_int_equal(sum_of(x, "provider", "acme")->count, 3);
	fx_timeline(x, "job_1",
		    "enqueued started usage usage failed retrying "
		    "started usage completed");
}

static void test_a_batch_of_acks_counts_each(void **state)
{
	struct fx *x = *state;
	struct m_usage u = report(10, 1);
	struct m_ack_item items[2] = { 0 };
	struct m_ack_batch m = { 0 };

	take(x, "job_1", NULL);
	take(x, "job_2", NULL);
	for (int i = 0; i < 2; i++) {
		MSG_SET(&items[i], ack_item, job_id,
			i == 0 ? STR("job_1") : STR("job_2"));
		MSG_SET(&items[i], ack_item, usage, &u);
	}
	MSG_SET_LIST(&m, ack_batch, acks, items, 2);
	assert_int_equal(fx_do(x, OP_ACK_BATCH, &m, NULL), 0);
	assert_int_equal(total(x)->count, 2);
	assert_int_equal(fx_job(x, "job_2")->usage->cost_usd, 1);
}

static void test_nothing_used_is_no_report(void **state)
{
	struct fx *x = *state;
	struct m_usage none = of_model((struct m_usage){ 0 }, "large");

	done(x, "job_1", &none);
	assert_false(MSG_HAS(fx_job(x, "job_1"), job, usage));
	assert_int_equal(total(x)->count, 0);
	fx_timeline(x, "job_1", "enqueued started completed");
}

static void test_sums_outlive_their_jobs(void **state)
{
	struct fx *x = *state;
	struct m_usage u = report(10, 1);

	done(x, "job_1", &u);
	fx_job_op(x, OP_DELETE, "job_1", "deleted");
	assert_int_equal(total(x)->cost_usd, 1);
}

/* --- once --- */

static void test_a_request_that_comes_again_counts_once(void **state)
{
	struct fx *x = *state;
	struct m_usage u = report(10, 1);
	struct m_heartbeat beats = { 0 };
	struct m_ack m = { 0 };
	struct m_beat b = { 0 };

	take(x, "job_1", NULL);
	MSG_SET(&b, beat, job_id, STR("job_1"));
	MSG_SET(&b, beat, usage, &u);
	MSG_SET_LIST(&beats, heartbeat, jobs, &b, 1);
	assert_int_equal(fx_do(x, OP_HEARTBEAT, &beats, NULL), 0);
	assert_int_equal(fx_resend(x, OP_HEARTBEAT, &beats, NULL), 0);
	assert_int_equal(total(x)->count, 1);
	MSG_SET(&m, ack, job_id, STR("job_1"));
	MSG_SET(&m, ack, lease_token,
		active_find(x->side[FX_MEM].f, STR("job_1"))->token);
	MSG_SET(&m, ack, usage, &u);
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
	assert_int_equal(fx_resend(x, OP_ACK, &m, NULL), 0);
	/* the client sends it again by itself: the token is spent by it */
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), 0);
	assert_int_equal(total(x)->count, 2);
	assert_int_equal(fx_job(x, "job_1")->usage->count, 2);
	u.input_tokens++;
	assert_int_equal(fx_do(x, OP_ACK, &m, NULL), ERR_LEASE_LOST);
	assert_int_equal(total(x)->count, 2);
}

static void test_a_report_with_the_name_of_the_last_counts_once(void **state)
{
	struct fx *x = *state;
	struct m_usage u = report(10, 1);

	take(x, "job_1", NULL);
	MSG_SET(&u, usage, report_id, STR("call-1"));
	beat(x, "job_1", &u);
	fx_restart(x, FX_ROCKS);
	beat(x, "job_1", &u);
	assert_int_equal(total(x)->count, 1);
	MSG_SET(&u, usage, report_id, STR("call-2"));
	beat(x, "job_1", &u);
	assert_int_equal(total(x)->count, 2);
}

/* --- prices --- */

static void test_a_cost_follows_from_the_price_list(void **state)
{
	struct fx *x = *state;
	struct m_usage u = of_model(report(1001, 0), "large");
	const struct m_usage_sum *s;

	set_price(x, "large", 37500000); /* 0.0375 a million */
	MSG_SET(&u, usage, units, STR("{\"pages\":2,\"walks\":3}"));
	done(x, "job_1", &u);
	s = fx_job(x, "job_1")->usage;
	/* 37.5375 billionths a token, rounded once, and half a usd */
	assert_int_equal(s->cost_usd, 37538 + 500000000);
	assert_int_equal(s->computed_usd, s->cost_usd);
	assert_false(MSG_HAS(s, usage_sum, unpriced));
	assert_str_is(s->units, "{\"pages\":2,\"walks\":3}");
	/* what the worker says counts, 0 as well */
	MSG_SET(&u, usage, cost_usd, 0);
	done(x, "job_2", &u);
	assert_int_equal(fx_job(x, "job_2")->usage->cost_usd, 0);
	assert_int_equal(total(x)->computed_usd, 500037538);
}

static void test_tokens_without_a_price_are_told(void **state)
{
	struct fx *x = *state;
	struct m_usage u = of_model(report(10, 0), "large");
	struct m_price_ref gone = { 0 };

	set_price(x, "large", NS_PER_S);
	MSG_SET(&gone, price_ref, provider, STR("acme"));
	MSG_SET(&gone, price_ref, model, STR("large"));
	assert_int_equal(fx_do(x, OP_DELETE_PRICE, &gone, NULL), 0);
	fx_refused(x, OP_DELETE_PRICE, &gone, ERR_NOT_FOUND,
		   "there is no price of model \"large\" of provider \"acme\"");
	done(x, "job_1", &u);
	assert_int_equal(total(x)->unpriced, 1);
	assert_int_equal(total(x)->cost_usd, 0);
}

/* --- what cannot be --- */

static void test_units_that_cannot_be_are_refused(void **state)
{
	static const struct {
		const char *units, *why;
	} rows[] = {
		{ "{\"pages\":-1}",
		  "usage.units.pages: must be a number from 0 to 1000000000" },
		{ "{\"pages\":\"2\"}",
		  "usage.units.pages: must be a number from 0 to 1000000000" },
		{ "{\"pages\":1e10}",
		  "usage.units.pages: must be a number from 0 to 1000000000" },
		{ "{\"usd\":1}", "usage.units.usd: is told by cost_usd" },
		{ "{\"tokens\":1}",
		  "usage.units.tokens: are told by input_tokens and so on" },
		{ "{\"\":1}", "usage.units.: a name must have 1 to 64 bytes" },
		{ "{\"a\":1,\"a\":2}", "usage.units.a: is given twice" },
	};
	struct fx *x = *state;

	take(x, "job_1", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct m_usage u = report(1, 1);
		struct m_ack m = { 0 };

		MSG_SET(&u, usage, units, str_from(rows[i].units));
		MSG_SET(&m, ack, job_id, STR("job_1"));
		MSG_SET(&m, ack, usage, &u);
		fx_refused(x, OP_ACK, &m, ERR_VALIDATION_ERROR, rows[i].why);
	}
	fx_expect_state(x, "job_1", JOB_ACTIVE);
}

static void test_a_batch_with_a_bad_report_does_nothing(void **state)
{
	struct fx *x = *state;
	struct m_usage good = report(1, 1), bad = report(1, 1);
	struct m_ack_item items[2] = { 0 };
	struct m_ack_batch m = { 0 };

	take(x, "job_1", NULL);
	take(x, "job_2", NULL);
	MSG_SET(&bad, usage, units, STR("{\"pages\":null}"));
	MSG_SET(&items[0], ack_item, job_id, STR("job_1"));
	MSG_SET(&items[0], ack_item, usage, &good);
	MSG_SET(&items[1], ack_item, job_id, STR("job_2"));
	MSG_SET(&items[1], ack_item, usage, &bad);
	MSG_SET_LIST(&m, ack_batch, acks, items, 2);
	fx_refused(x, OP_ACK_BATCH, &m, ERR_VALIDATION_ERROR,
		   "usage.units.pages: must be a number from 0 to 1000000000");
	fx_expect_state(x, "job_1", JOB_ACTIVE);
}

static void test_there_are_so_many_units_at_most(void **state)
{
	struct fx *x = *state;
	struct m_usage u = report(1, 1);
	char text[32];

	take(x, "job_1", NULL);
	for (int i = 0; i < LIMIT_UNITS; i++) {
		(void)snprintf(text, sizeof(text), "{\"unit%d\":0.5}", i);
		MSG_SET(&u, usage, units, str_from(text));
		beat(x, "job_1", &u);
	}
	fx_restart(x, FX_MEM);
	fx_restart(x, FX_ROCKS);
	MSG_SET(&u, usage, units, STR("{\"unit7\":1,\"more\":1}"));
	assert_int_equal(ack(x, "job_1", &u), ERR_VALIDATION_ERROR);
	MSG_SET(&u, usage, units, STR("{\"unit7\":1}"));
	assert_int_equal(ack(x, "job_1", &u), 0);
	assert_non_null(
	    memmem(total(x)->units.p, total(x)->units.n, "\"unit7\":1.5,", 12));
}

/* Two new names in one request, with room for one. */
static void test_the_last_name_of_a_unit_is_for_who_comes_first(void **state)
{
	struct fx *x = *state;
	struct m_usage u = report(1, 1), first = u, second = u;
	struct m_beat beats[2] = { 0 };
	struct m_heartbeat m = { 0 };
	struct m_heartbeat_reply r;
	char text[32];

	take(x, "job_1", NULL);
	for (int i = 1; i < LIMIT_UNITS; i++) {
		(void)snprintf(text, sizeof(text), "{\"unit%d\":0.5}", i);
		MSG_SET(&u, usage, units, str_from(text));
		beat(x, "job_1", &u);
	}
	MSG_SET(&first, usage, units, STR("{\"one\":1}"));
	MSG_SET(&second, usage, units, STR("{\"more\":1}"));
	MSG_SET(&beats[0], beat, job_id, STR("job_1"));
	MSG_SET(&beats[0], beat, usage, &first);
	MSG_SET(&beats[1], beat, job_id, STR("job_1"));
	MSG_SET(&beats[1], beat, usage, &second);
	MSG_SET_LIST(&m, heartbeat, jobs, beats, 2);
	assert_int_equal(fx_do(x, OP_HEARTBEAT, &m, &r), 0);
	assert_str_is(r.jobs[0].status, "ok");
	assert_int_equal(r.jobs[0].code.n, 0);
	assert_str_is(r.jobs[1].status, "ok");
	assert_str_is(r.jobs[1].code, "VALIDATION_ERROR");
	assert_int_equal(total(x)->count, LIMIT_UNITS);
}

static void test_too_many_names_are_folded_into_one(void **state)
{
	struct fx *x = *state;
	struct m_beat beats[500] = { 0 };
	struct m_usage u[500];
	struct m_heartbeat m = { 0 };
	struct m_usage_ask ask = { 0 };
	struct buf why = BUF_INIT(0);
	struct m_usage_reply r;
	struct str names_by[1];
	char names[500][16];
	int n = 0;

	x->unchecked = true;
	x->now_ns -= x->now_ns % HOUR;
	take(x, "job_1", NULL);
	MSG_SET_LIST(&m, heartbeat, jobs, beats, 500);
	for (int round = 0; round < 21; round++) {
		for (int i = 0; i < 500; i++) {
			(void)snprintf(names[i], sizeof(names[i]), "m%d", n++);
			u[i] = of_model(report(1, 1), names[i]);
			MSG_SET(&beats[i], beat, job_id, STR("job_1"));
			MSG_SET(&beats[i], beat, usage, &u[i]);
		}
		assert_int_equal(fx_do(x, OP_HEARTBEAT, &m, NULL), 0);
	}
	x->unchecked = false;
	fx_check_side(&x->side[FX_MEM]);
	r = sums(x, "queue");
	assert_int_equal(r.totals->count, n);
	assert_int_equal(r.groups_n, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(r.groups[i].sum->count,
				 r.groups[i].other ? n - LIMIT_USAGE_ROWS
						   : LIMIT_USAGE_ROWS);
	/* one that is known goes where it belongs */
	u[0] = of_model(report(1, 1), "m3");
	beat(x, "job_1", &u[0]);
	MSG_SET(&ask, usage_ask, to, UINT64_MAX / 2);
	MSG_SET(&ask, usage_ask, model, STR("m3"));
	assert_int_equal(
	    record_usage(x->side[FX_MEM].kv, &ask, &x->arena, &r, &why), 0);
	assert_int_equal(r.totals->count, 2);
	/* more groups than an answer has are refused */
	names_by[0] = STR("model");
	MSG_SET_LIST(&ask, usage_ask, group_by, names_by, 1);
	MSG_UNSET(&ask, usage_ask, model);
	ask.model = STR_NULL;
	assert_int_equal(
	    record_usage(x->side[FX_MEM].kv, &ask, &x->arena, &r, &why),
	    -ERR_VALIDATION_ERROR);
	buf_done(&why);
}

/* --- tags and days --- */

static void test_tags_that_are_named_are_summed_up_by(void **state)
{
	struct fx *x = *state;
	struct m_usage u = report(1, 1);

	set_tag(x, "team");
	take(x, "job_1", "{\"team\":\"red\",\"other\":\"x\"}");
	assert_int_equal(ack(x, "job_1", &u), 0);
	take(x, "job_2", "{\"team\":\"blue\"}");
	fx_restart(x, FX_ROCKS);
	assert_int_equal(ack(x, "job_2", &u), 0);
	done(x, "job_3", &u);
	assert_int_equal(sum_of(x, "tag:team", "red")->count, 1);
	assert_int_equal(sum_of(x, "tag:team", "blue")->count, 1);
	assert_int_equal(sum_of(x, "tag:team", "")->count, 1);
	assert_int_equal(sums(x, "tag:other").groups_n, 1);
}

/* At the end of 2023-11-14, and half an hour into it there. */
static void test_days_of_both_kinds_are_exact(void **state)
{
	struct fx *x = *state;
	struct m_usage_settings m = { 0 };
	struct m_zone_offset offsets[2] = { 0 };
	struct m_usage u = report(1, 1);
	uint64_t midnight = x->now_ns - x->now_ns % DAY + DAY;

	MSG_SET(&offsets[0], zone_offset, from_ns, x->now_ns);
	MSG_SET(&offsets[0], zone_offset, seconds, 5400);
	MSG_SET(&offsets[1], zone_offset, from_ns, midnight + HOUR);
	MSG_SET(&offsets[1], zone_offset, seconds, -3600);
	MSG_SET(&m, usage_settings, timezone, STR("Some/Where"));
	MSG_SET_LIST(&m, usage_settings, offsets, offsets, 2);
	assert_int_equal(fx_do(x, OP_SET_USAGE, &m, NULL), 0);
	fx_restart(x, FX_ROCKS);
	x->now_ns =
	    midnight - 5400 * NS_PER_S - 1; /* the last of a local day */
	done(x, "job_1", &u);
	x->now_ns = midnight - 5400 * NS_PER_S; /* the first, the same hour */
	done(x, "job_2", &u);
	x->now_ns = midnight - 1;
	done(x, "job_3", &u);
	x->now_ns = midnight;
	done(x, "job_4", &u);
	x->now_ns = midnight + HOUR; /* it is midnight again there */
	done(x, "job_5", &u);
	assert_int_equal(sum_of(x, "day", "2023-11-14")->count, 3);
	assert_int_equal(sum_of(x, "day", "2023-11-15")->count, 2);
	assert_int_equal(sum_of(x, "local_day", "2023-11-14")->count, 1);
	assert_int_equal(sum_of(x, "local_day", "2023-11-15")->count, 4);
}

static void test_a_range_is_of_whole_hours(void **state)
{
	struct fx *x = *state;
	struct m_usage u = report(1, 1);
	struct m_usage_ask ask = { 0 };
	struct buf why = BUF_INIT(0);
	uint64_t hour = x->now_ns - x->now_ns % HOUR;
	struct m_usage_reply r;

	for (int i = 0; i < 3; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "job_%d", i);
		x->now_ns = hour + (uint64_t)i * HOUR + 1;
		done(x, id, &u);
	}
	MSG_SET(&ask, usage_ask, from, hour + HOUR + 77);
	MSG_SET(&ask, usage_ask, to, hour + 2 * HOUR);
	assert_int_equal(
	    record_usage(x->side[FX_MEM].kv, &ask, &x->arena, &r, &why), 0);
	assert_int_equal(r.totals->count, 1);
	assert_int_equal(r.from, hour + HOUR);
	assert_int_equal(r.to, hour + 2 * HOUR);
	buf_done(&why);
}

/* --- age --- */

static void test_old_sums_go(void **state)
{
	struct fx *x = *state;
	struct m_usage_settings m = { 0 };
	struct m_usage u = report(1, 1);
	bool more = true;

	MSG_SET(&m, usage_settings, retention, DAY);
	assert_int_equal(fx_do(x, OP_SET_USAGE, &m, NULL), 0);
	x->now_ns -= x->now_ns % HOUR;
	done(x, "job_1", &u);
	u = of_model(u, "large");
	done(x, "job_2", &u);
	x->now_ns += HOUR;
	done(x, "job_3", &u);
	x->now_ns += DAY - 1;
	assert_int_equal(fx_maintain(x, OP_PURGE, 10, &more), 0);
	assert_int_equal(total(x)->count, 3);
	x->now_ns += 1;
	assert_int_equal(fsm_purge_due(x->side[FX_MEM].f, 0, 0),
			 x->now_ns + 10 * NS_PER_S);
	/* the number of rows, and one of the two */
	assert_int_equal(fx_maintain(x, OP_PURGE, 2, &more), 2);
	assert_true(more);
	fx_restart(x, FX_ROCKS);
	assert_int_equal(fx_maintain(x, OP_PURGE, 10, &more), 1);
	assert_false(more);
	assert_int_equal(total(x)->count, 1);
}

static void test_settings_that_cannot_be_are_refused(void **state)
{
	struct fx *x = *state;
	struct m_usage_settings m = { 0 };
	struct str tags[9] = { 0 };

	fx_refused(x, OP_SET_USAGE, &m, ERR_VALIDATION_ERROR,
		   "name what to change: tags, timezone or retention");
	tags[0] = tags[1] = STR("team");
	MSG_SET_LIST(&m, usage_settings, tags, tags, 2);
	fx_refused(x, OP_SET_USAGE, &m, ERR_VALIDATION_ERROR,
		   "tags[1]: is named twice");
	MSG_SET_LIST(&m, usage_settings, tags, tags, 9);
	fx_refused(x, OP_SET_USAGE, &m, ERR_VALIDATION_ERROR,
		   "tags: must be at most 8");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_reports_add_up),
		TEST(test_a_batch_of_acks_counts_each),
		TEST(test_nothing_used_is_no_report),
		TEST(test_sums_outlive_their_jobs),
		TEST(test_a_request_that_comes_again_counts_once),
		TEST(test_a_report_with_the_name_of_the_last_counts_once),
		TEST(test_a_cost_follows_from_the_price_list),
		TEST(test_tokens_without_a_price_are_told),
		TEST(test_units_that_cannot_be_are_refused),
		TEST(test_a_batch_with_a_bad_report_does_nothing),
		TEST(test_there_are_so_many_units_at_most),
		TEST(test_the_last_name_of_a_unit_is_for_who_comes_first),
		TEST(test_too_many_names_are_folded_into_one),
		TEST(test_tags_that_are_named_are_summed_up_by),
		TEST(test_days_of_both_kinds_are_exact),
		TEST(test_a_range_is_of_whole_hours),
		TEST(test_old_sums_go),
		TEST(test_settings_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests_name("fsm_usage", tests, NULL, NULL);
}
