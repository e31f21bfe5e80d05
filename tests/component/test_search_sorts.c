/*
 * Sorts that no index serves against sorting by hand: random jobs with many
 * equal keys, pages of every size, budgets that end in the middle of things,
 * and jobs that go away between two pages.
 *
 * With the smallest of budgets a search looks at so many jobs and stops: a
 * stretch. Its pages are in order by themselves.
 */
#include "query_world.h"
#include "util/rng.h"

#define STRETCH 64
#define ROUNDS  150
#define MOST    400
#define MANY    (LIMIT_TOTAL + 500) /* found by words in order of rows */
#define T0      (1794700000 * NS_PER_S)

struct row {
	char id[32];
	struct m_job job;
	bool matches, gone;
	unsigned given; /* times it was on a page */
};

struct world {
	struct fixture *f;
	struct rng rng;
	struct row *rows; /* as they were written */
	size_t n;
};

static const struct str sorts[] = { { "priority", 8 },
				    { "started_at", 10 },
				    { "completed_at", 12 },
				    { "attempt", 7 } };

static uint64_t below(struct world *w, uint64_t n)
{
	return rng_below(&w->rng, n);
}

/* --- the jobs --- */

static void make_row(struct world *w, size_t i)
{
	struct row *r = &w->rows[i];
	struct m_job *j = &r->job;

	r->matches = below(w, 4) > 0;
	(void)snprintf(r->id, sizeof(r->id), "job_%05llu_%05zu",
		       (unsigned long long)below(w, 100000), i);
	MSG_SET(j, job, id, str_from(r->id));
	MSG_SET(j, job, queue, below(w, 3) == 0 ? STR("a") : STR("b"));
	MSG_SET(j, job, state, 1 + (uint32_t)below(w, 8));
	MSG_SET(j, job, priority, (uint32_t)below(w, 3));
	MSG_SET(j, job, attempt, (uint32_t)below(w, 4));
	MSG_SET(j, job, payload,
		r->matches ? STR("{\"n\": 1}") : STR("{\"n\": 2}"));
	/* Never earlier than the one before, as jobs are made. */
	MSG_SET(j, job, created_at, T0 + i / 5 * NS_PER_MS);
	if (below(w, 3) > 0)
		MSG_SET(j, job, started_at, T0 + below(w, 6) * NS_PER_S);
	if (below(w, 3) > 0)
		MSG_SET(j, job, completed_at, T0 + below(w, 9) * NS_PER_S);
}

static void write_jobs(struct world *w, struct m_job *jobs, size_t n)
{
	struct m_tail_reply r = { .jobs = jobs, .jobs_n = n };

	r.last_seq = ++w->f->seq;
	assert_int_equal(mirror_apply(w->f->view.mirror, &r), 0);
}

static void make_world(struct world *w, struct fixture *f, size_t n)
{
	struct m_job *jobs = xcalloc(n, sizeof(*jobs));

	*w = (struct world){ .f = f, .n = n };
	test_rng(&w->rng);
	w->rows = xcalloc(n, sizeof(*w->rows));
	for (size_t i = 0; i < n; i++) {
		make_row(w, i);
		jobs[i] = w->rows[i].job;
	}
	write_jobs(w, jobs, n);
	free(jobs);
}

static void remove_some(struct world *w)
{
	for (uint64_t n = below(w, 5); n > 0; n--) {
		struct row *r = &w->rows[below(w, w->n)];
		struct m_job j = { 0 };

		if (r->gone)
			continue;
		r->gone = true;
		MSG_SET(&j, job, id, r->job.id);
		MSG_SET(&j, job, deleted, true);
		write_jobs(w, &j, 1);
	}
}

/* --- sorting by hand --- */

struct order {
	unsigned sort; /* of `sorts`; beyond them: creation */
	bool descending;
};

static int by_creation(const struct row *a, const struct row *b)
{
	if (a->job.created_at != b->job.created_at)
		return a->job.created_at < b->job.created_at ? -1 : 1;
	return strcmp(a->id, b->id);
}

static uint64_t key_of(const struct row *r, unsigned sort)
{
	const uint64_t keys[] = { r->job.priority, r->job.started_at,
				  r->job.completed_at, r->job.attempt };

	return keys[sort];
}

static bool has_key(const struct row *r, unsigned sort)
{
	return (sort != 1 && sort != 2) || key_of(r, sort) != 0;
}

static int compare(const void *pa, const void *pb, void *ctx)
{
	const struct row *a = *(const struct row *const *)pa;
	const struct row *b = *(const struct row *const *)pb;
	const struct order *o = ctx;
	int r = 0;

	if (o->sort < ARRAY_SIZE(sorts)) {
		if (has_key(a, o->sort) != has_key(b, o->sort))
			return has_key(a, o->sort) ? -1 : 1;
		r = (key_of(a, o->sort) > key_of(b, o->sort)) -
		    (key_of(a, o->sort) < key_of(b, o->sort));
	}
	if (r == 0)
		r = by_creation(a, b);
	return o->descending ? -r : r;
}

static bool is_planned(const struct row *r, const struct m_search *m)
{
	return m->queue.n == 0 || str_eq(m->queue, r->job.queue);
}

/*
 * What all pages together should be. by_row: looked at in the order of
 * writing instead of creation; stretch: so many at a time.
 */
static size_t expect(struct world *w, const struct m_search *m, struct order o,
		     bool by_row, size_t stretch, struct row **ret)
{
	struct order creation = { .sort = UINT32_MAX,
				  .descending = o.descending };
	struct row **all = xcalloc(w->n, sizeof(struct row *));
	size_t n = 0, found = 0;

	for (size_t i = 0; i < w->n; i++) {
		struct row *r =
		    &w->rows[by_row && o.descending ? w->n - 1 - i : i];

		if (is_planned(r, m))
			all[n++] = r;
	}
	if (!by_row)
		qsort_r(all, n, sizeof(*all), compare, &creation);
	for (size_t from = 0; from < n; from += stretch) {
		size_t first = found;

		for (size_t i = from; i < MIN(from + stretch, n); i++)
			if (all[i]->matches)
				ret[found++] = all[i];
		qsort_r(ret + first, found - first, sizeof(*ret), compare, &o);
	}
	free(all);
	return found;
}

/* --- searching --- */

static void ask_for(struct world *w, struct m_search *m, struct order *o)
{
	*m = (struct m_search){ 0 };
	*o = (struct order){ .sort = (unsigned)below(w, ARRAY_SIZE(sorts)),
			     .descending = below(w, 2) == 0 };
	MSG_SET(m, search, sort, sorts[o->sort]);
	MSG_SET(m, search, order, o->descending ? STR("desc") : STR("asc"));
	MSG_SET(m, search, ids_only, true);
	MSG_SET(m, search, limit, 1 + (uint32_t)below(w, 90));
}

static struct row *row_of(struct world *w, struct str id)
{
	for (size_t i = 0; i < w->n; i++)
		if (str_is(id, w->rows[i].id))
			return &w->rows[i];
	fail_msg("unknown job %.*s", STR_ARG(id));
	return NULL;
}

/* Asks for the next page; false when that was the last one. */
static bool next_page(struct world *w, struct m_search *m,
		      struct m_search_reply *ret)
{
	static char cursor[1024];

	search(w->f, m, ret);
	assert_true(ret->ids_n <= m->limit);
	if (!ret->has_more)
		return false;
	assert_true(ret->cursor.n < sizeof(cursor));
	memcpy(cursor, ret->cursor.p, ret->cursor.n);
	MSG_SET(m, search, cursor, str_of(cursor, ret->cursor.n));
	return true;
}

static void assert_pages(struct world *w, struct m_search *m,
			 struct row *const *want, size_t n)
{
	struct m_search_reply r;
	size_t at = 0;
	bool more;

	do {
		more = next_page(w, m, &r);
		for (size_t i = 0; i < r.ids_n; i++, at++) {
			assert_true(at < n);
			if (!str_is(r.ids[i], want[at]->id))
				fail_msg("place %zu: %.*s instead of %s", at,
					 STR_ARG(r.ids[i]), want[at]->id);
		}
	} while (more);
	assert_int_equal(at, n);
}

static void end_world(struct world *w)
{
	free(w->rows);
}

static void test_pages_are_as_sorted_by_hand(void **state)
{
	struct fixture *f = *state;
	struct row *want[MOST];
	struct world w;

	make_world(&w, f, MOST);
	for (unsigned i = 0; i < ROUNDS; i++) {
		bool small = below(&w, 4) > 0;
		struct m_search m;
		struct order o;
		size_t n;

		ask_for(&w, &m, &o);
		MSG_SET(&m, search, payload_jq, STR(".n == 1"));
		MSG_SET(&m, search, time_budget, small ? 1 : 10 * NS_PER_S);
		if (below(&w, 3) == 0)
			MSG_SET(&m, search, queue, STR("a"));
		n = expect(&w, &m, o, false, small ? STRETCH : MOST, want);
		assert_pages(&w, &m, want, n);
	}
	end_world(&w);
}

/* Those that stay are given once, the others once or never. */
static void test_jobs_may_go_between_pages(void **state)
{
	struct fixture *f = *state;
	struct world w;

	make_world(&w, f, MOST);
	for (unsigned i = 0; i < 12; i++) {
		struct m_search_reply r;
		struct m_search m;
		struct order o;
		bool more;

		ask_for(&w, &m, &o);
		MSG_SET(&m, search, payload_jq, STR(".n == 1"));
		MSG_SET(&m, search, time_budget, 1);
		for (size_t k = 0; k < w.n; k++)
			w.rows[k].given = 0;
		do {
			more = next_page(&w, &m, &r);
			for (size_t k = 0; k < r.ids_n; k++) {
				struct row *row = row_of(&w, r.ids[k]);

				assert_false(row->gone);
				assert_int_equal(row->given++, 0);
			}
			remove_some(&w);
		} while (more);
		for (size_t k = 0; k < w.n; k++)
			if (w.rows[k].matches && !w.rows[k].gone)
				assert_int_equal(w.rows[k].given, 1);
	}
	end_world(&w);
}

/* More have the words than may be sorted: looked at by row numbers. */
static void test_many_with_the_same_words(void **state)
{
	struct row **want = xcalloc(MANY, sizeof(struct row *));
	struct fixture *f = *state;
	struct world w;

	make_world(&w, f, MANY);
	for (size_t i = 0; i < w.n; i++)
		w.rows[i].matches = true;
	for (unsigned i = 0; i < 4; i++) {
		bool small = i % 2 == 0;
		struct m_search m;
		struct order o;
		size_t n;

		ask_for(&w, &m, &o);
		MSG_SET(&m, search, text, STR("n"));
		MSG_SET(&m, search, limit, small ? 500 : LIMIT_BULK_PAGE / 3);
		MSG_SET(&m, search, time_budget, small ? 1 : 10 * NS_PER_S);
		n = expect(&w, &m, o, true, small ? STRETCH : MANY, want);
		assert_pages(&w, &m, want, n);
	}
	end_world(&w);
	free(want);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		TEST(test_pages_are_as_sorted_by_hand),
		TEST(test_jobs_may_go_between_pages),
		TEST(test_many_with_the_same_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
