/*
 * Windows of pending jobs: more jobs than a window holds, jobs that return
 * below the frontier, memory that stays bounded. The order of fetches is
 * compared with a scan of the store.
 */
#include "fsm/core/state.h"
#include "fsm/order/lane.h"
#include "fsm/order/queue.h"
#include "fsm/order/window.h"
#include "fsm_fixture.h"

#define MANY     21000
#define ID_BYTES 32

static void id_of(char *ret, size_t i)
{
	(void)snprintf(ret, ID_BYTES, "job_%06zu", i);
}

/* n jobs from number `first` on, in entries of 1000. */
static void enqueue_many(struct fx *x, size_t first, size_t n,
			 uint64_t scheduled_at)
{
	for (size_t done = 0; done < n;) {
		size_t upto = MIN(n, done + 1000);

		fx_begin(x);
		for (; done < upto; done++) {
			struct m_enqueue m = { 0 };
			char id[ID_BYTES];

			id_of(id, first + done);
			MSG_SET(&m, enqueue, job_id, str_from(id));
			MSG_SET(&m, enqueue, queue, STR("q"));
			if (scheduled_at != 0)
				MSG_SET(&m, enqueue, scheduled_at,
					scheduled_at);
			fx_add(x, OP_ENQUEUE, 0, &m);
		}
		fx_commit(x);
	}
}

static size_t fetch_many(struct fx *x, size_t count, size_t *ret_ids)
{
	struct str queue = STR("q");
	struct m_fetch m = { 0 };
	struct m_fetch_reply r;

	MSG_SET_LIST(&m, fetch, queues, &queue, 1);
	MSG_SET(&m, fetch, count, (uint32_t)count);
	assert_int_equal(fx_do(x, OP_FETCH, &m, &r), 0);
	for (size_t i = 0; i < r.jobs_n; i++) {
		uint64_t n;

		assert_true(str_parse_u64(str_skip(r.jobs[i].job_id, 4), &n));
		ret_ids[i] = n;
	}
	return r.jobs_n;
}

/* The next fetches hand out first, first + 1, ... last. */
static void expect_in_order(struct fx *x, size_t first, size_t last)
{
	size_t ids[LIMIT_FETCH_COUNT];

	while (first <= last) {
		size_t want = MIN(last - first + 1, (size_t)LIMIT_FETCH_COUNT);

		assert_int_equal(fetch_many(x, want, ids), want);
		for (size_t i = 0; i < want; i++)
			assert_int_equal(ids[i], first + i);
		first += want;
	}
}

static const struct fsm_queue *queue_of(struct fx *x, int side)
{
	return queue_find(x->side[side].f, STR("q"));
}

static void expect_bounded(struct fx *x)
{
	for (int i = 0; i < FX_SIDES; i++)
		assert_true(x->side[i].f->window_jobs <= window_jobs_max);
}

static void test_deep_queue(void **state)
{
	struct fx *x = *state;

	x->unchecked = true;
	enqueue_many(x, 0, MANY, 0);
	expect_bounded(x);
	assert_false(
	    queue_of(x, 0)->lanes.base.windows[PRIORITY_NORMAL].complete);
	expect_in_order(x, 0, 5000);
	fx_restart(x, FX_ROCKS);
	enqueue_many(x, MANY, 500, 0);
	expect_in_order(x, 5001, MANY + 499);
	expect_bounded(x);
	fx_expect_none(x, "q");
	assert_true(
	    queue_of(x, 0)->lanes.base.windows[PRIORITY_NORMAL].complete);
}

static void give_back(struct fx *x, size_t i)
{
	struct m_fail m = { 0 };
	char id[ID_BYTES];

	id_of(id, i);
	MSG_SET(&m, fail, job_id, str_from(id));
	MSG_SET(&m, fail, requeue, true);
	assert_int_equal(fx_do(x, OP_FAIL, &m, NULL), 0);
}

/* Returns below the frontier are found, in their places. */
static void test_returns(void **state)
{
	struct fx *x = *state;

	x->unchecked = true;
	enqueue_many(x, 0, 10000, 0);
	expect_in_order(x, 0, 8999); /* past the first window */
	give_back(x, 500);
	give_back(x, 20);
	give_back(x, 8999);
	give_back(x, 21);
	expect_in_order(x, 20, 21);
	expect_in_order(x, 500, 500);
	expect_in_order(x, 8999, 9000);
	give_back(x, 9000);
	expect_in_order(x, 9000, 9999);
	fx_expect_none(x, "q");
	give_back(x, 7);
	expect_in_order(x, 7, 7);
}

/* Many scheduled jobs come due in front of many pending ones. */
static void test_promotions_below_frontier(void **state)
{
	struct fx *x = *state;
	uint32_t total = 0;
	bool more = true;

	x->unchecked = true;
	enqueue_many(x, 0, 12000, x->now_ns + 1);
	enqueue_many(x, 12000, 9000, 0);
	expect_in_order(x, 12000, 12009);
	x->now_ns += 1;
	while (more) {
		total += fx_maintain(x, OP_PROMOTE, 0, &more);
		expect_bounded(x);
		if (total == 6000)
			fx_restart(x, FX_ROCKS);
	}
	assert_int_equal(total, 12000);
	expect_in_order(x, 0, 11999);
	expect_in_order(x, 12010, 20999);
	fx_expect_none(x, "q");
}

/* Jobs retried by hand go to the end, behind what is only in the store. */
static void test_to_the_end(void **state)
{
	struct fx *x = *state;
	char id[ID_BYTES];

	x->unchecked = true;
	enqueue_many(x, 0, 10000, 0);
	for (size_t i = 0; i < 10; i++) {
		id_of(id, i * 2);
		fx_job_op(x, OP_CANCEL, id, "cancelled");
	}
	id_of(id, 0);
	fx_job_op(x, OP_RETRY, id, "retried");
	for (size_t i = 0; i < 10; i++)
		expect_in_order(x, i * 2 + 1, i * 2 + 1);
	expect_in_order(x, 20, 9999);
	expect_in_order(x, 0, 0);
	fx_expect_none(x, "q");
}

static void set_priorities(struct fx *x, size_t from, size_t upto, uint32_t p)
{
	while (from < upto) {
		size_t end = MIN(upto, from + 1000);

		fx_begin(x);
		for (; from < end; from++) {
			struct m_set_priority m = { 0 };
			char id[ID_BYTES];

			id_of(id, from);
			MSG_SET(&m, set_priority, job_id, str_from(id));
			MSG_SET(&m, set_priority, priority, p);
			fx_add(x, OP_PRIORITY, 0, &m);
		}
		fx_commit(x);
	}
}

/* What returns to its place is in the window twice. */
static void test_there_and_back(void **state)
{
	struct fx *x = *state;

	x->unchecked = true;
	enqueue_many(x, 0, 5000, 0);
	set_priorities(x, 0, 5000, PRIORITY_HIGH);
	set_priorities(x, 1, 5000, PRIORITY_NORMAL);
	expect_in_order(x, 0, 4999);
	fx_expect_none(x, "q");
}

/* --- the window by itself, against a sorted array --- */

#define SEQS 400

struct model {
	uint64_t span; /* that many seqs are drawn: few come back often */
	bool pending[SEQS];
};

static uint64_t model_first(const struct model *m, uint64_t from)
{
	for (; from < SEQS; from++) {
		if (m->pending[from])
			return from;
	}
	return NEVER;
}

/* As queue_first does, with the model in the place of the store. */
static const struct window_job *first_of(struct window *w,
					 const struct model *m, uint32_t n)
{
	uint64_t s = w->frontier;
	char id[ID_BYTES];

	if (!window_is_dry(w))
		return window_first(w);
	while (n > 0 && (s = model_first(m, s)) != NEVER) {
		id_of(id, s++);
		window_fill(
		    w, &(struct pending){ .seq = s - 1, .id = str_from(id) });
		n--;
	}
	window_filled(w, model_first(m, MIN(s, (uint64_t)SEQS)) != NEVER);
	return window_first(w);
}

static void window_step(struct window *w, struct model *m, struct rng *r,
			uint64_t *next)
{
	uint64_t s = rng_below(r, m->span);
	const struct window_job *j;
	struct window_job popped;
	bool is_new;
	char id[ID_BYTES];

	switch (rng_below(r, 4)) {
	case 0: /* a new job, or one that returns */
		is_new = rng_below(r, 2) && *next < m->span;
		if (is_new)
			s = (*next)++;
		if (s >= *next || m->pending[s])
			return;
		m->pending[s] = true;
		id_of(id, s);
		/* as an enqueue does it, or a return */
		window_insert(
		    w,
		    &(struct pending){ .seq = s,
				       .id = str_from(id),
				       .as_created = is_new,
				       .doc = is_new ? STR("doc") : STR_NULL },
		    8);
		return;
	case 1: /* one that leaves otherwise */
		m->pending[s] = false;
		window_changed(w, s);
		return;
	default:
		do { /* stale ones are skipped */
			j = first_of(w, m, 4);
			s = j ? j->seq : NEVER;
			if (j != NULL) {
				window_pop(w, &popped);
				assert_int_equal(popped.seq, s);
				assert_true(popped.doc == NULL ||
					    popped.as_created);
				free(popped.doc);
			}
		} while (j != NULL && !m->pending[s]);
		assert_true(s == model_first(m, 0));
		if (s != NEVER)
			m->pending[s] = false;
	}
}

static void test_random(void **state)
{
	struct rng r;

	(void)state;
	test_rng(&r);
	for (int round = 0; round < 200; round++) {
		struct window w = { 0 };
		struct model m = { .span = 1 + rng_below(&r, SEQS) };
		uint64_t next = 0;

		if (rng_below(&r, 2)) /* the others come back more often */
			m.span = 1 + rng_below(&r, 12);
		if (rng_below(&r, 2))
			window_reset(&w, true);
		for (int i = 0; i < 1000; i++) {
			window_step(&w, &m, &r, &next);
			assert_true(window_size(&w) <= 8);
		}
		window_done(&w);
	}
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_deep_queue),
		TEST(test_returns),
		TEST(test_promotions_below_frontier),
		TEST(test_to_the_end),
		TEST(test_there_and_back),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests_name("fsm_window", tests, NULL, NULL);
}
