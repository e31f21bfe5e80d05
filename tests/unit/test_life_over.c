/*
 * A frame with many jobs, whose stream ends while they are looked at: whenever
 * that is, there is next to nothing done for it any more. Who ends it waits for
 * that, and with him all others.
 */
#include <stdlib.h>

#include "lib/testlib.h"
#include "rpc/life_parts.h"
#include "util/rng.h"
#include "util/turn.h"

#define JOBS      2000
#define REFS      60 /* of each */
#define ROUNDS    60
#define LOOKS_MAX 8 /* after it is over; all of it are some hundreds */

struct world {
	struct settings set;
	struct httpd h;
	struct lifecycle l;
	struct life_frame f;
	size_t looks, end; /* it is over from that one on */
	bool over;
};

static void look(void *ctx)
{
	struct world *w = ctx;

	w->over = ++w->looks >= w->end;
}

static void fill(struct life_frame *f, bool refuses, bool has_key)
{
	struct m_enqueue *jobs = arena_zalloc(&f->a, JOBS * sizeof(*jobs));

	for (size_t i = 0; i < JOBS; i++) {
		struct str *refs = arena_alloc(&f->a, REFS * sizeof(*refs));

		for (size_t k = 0; k < REFS; k++)
			refs[k] =
			    arena_printf(&f->a, "#%zu", (i + k + 1) % JOBS);
		MSG_SET(&jobs[i], enqueue, queue, STR("q"));
		MSG_SET_LIST(&jobs[i], enqueue, depends_on, refs, REFS);
	}
	if (refuses) /* and all others with it */
		MSG_SET(&jobs[JOBS / 2], enqueue, queue, STR(""));
	MSG_SET_LIST(&f->m, lifecycle, enqueues, jobs, JOBS);
	if (has_key)
		MSG_SET(&f->m, lifecycle, idempotency_key, STR("key"));
}

/* How often somebody looked. */
static size_t prepare(size_t end, bool refuses, bool has_key)
{
	struct world *w = xcalloc(1, sizeof(*w));
	size_t looks;

	w->set.max_payload_size = LIMIT_SMALL_BYTES;
	w->h.set = &w->set;
	w->h.scratch.max = LIMIT_MESSAGE_BYTES;
	w->l.h = &w->h;
	w->f.l = &w->l;
	w->end = end;
	fill(&w->f, refuses, has_key);
	turn_take_by(look, &w->over, w);
	life_prepare_enqueue(&w->f);
	turn_take_by(NULL, NULL, NULL);
	looks = w->looks;
	if (end == SIZE_MAX)
		assert_int_equal(w->f.batch.jobs_n, refuses ? 0 : JOBS);
	arena_done(&w->f.a);
	buf_done(&w->h.scratch);
	free(w);
	return looks;
}

static void test_it_ends_soon_whenever_it_is_over(void **state _unused_)
{
	struct rng r;

	test_rng(&r);
	for (int kind = 0; kind < 4; kind++) {
		bool refuses = kind & 1, has_key = kind & 2;
		size_t all = prepare(SIZE_MAX, refuses, has_key);

		assert_true(all > 5 * LOOKS_MAX);
		for (int i = 0; i < ROUNDS; i++) {
			size_t end = 1 + rng_below(&r, all);
			size_t looks = prepare(end, refuses, has_key);

			if (looks > end + LOOKS_MAX)
				fail_msg("over at look %zu of %zu, and %zu "
					 "after it (kind %d)",
					 end, all, looks - end, kind);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_ends_soon_whenever_it_is_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
