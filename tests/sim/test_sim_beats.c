/*
 * A corvo-raftd that has many entries to apply in one turn of its loop shows
 * that it lives meanwhile, as often as it has to.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/testlib.h"
#include "rt/log.h"
#include "whole/whole.h"
#include "whole/witness.h"

#define EVERY_NS   (2 * NS_PER_S)
#define PART       4 /* so many entries are as long as that */
#define LONG       5 /* a row that is worth looking at, times EVERY_NS */
#define ENTRIES_NS (5 * NS_PER_S)
#define TRIES      50 /* what a crash leaves behind is chance */

static void begin(struct whole *w, struct sim *s, char *verdict)
{
	*w = (struct whole){ .sim = s, .verdict = verdict };
	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/corvo-sim-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	net_init(&w->net, s);
	w->plan.machines = 1;
	w->plan.snapshot_bytes = 64 << 20; /* the log is not cut */
	w->witness = witness_new(w);
	machine_make(w, 0);
	w->machine[0].watchdog_ns = EVERY_NS;
	machine_start(&w->machine[0]);
	clients_begin(&w->clients, w);
}

static void run(struct whole *w, uint64_t ns)
{
	uint64_t end = w->sim->now_ns + ns;

	while (w->sim->now_ns < end)
		assert_true(sim_step(w->sim));
}

/* All it does is fast, but what it has to do again after a crash. */
static void crash(struct whole *w)
{
	struct machine *m = &w->machine[0];

	machine_crash(m);
	m->apply_ns = EVERY_NS / PART;
	machine_start(m);
	while (!m->is_ready)
		assert_true(sim_step(w->sim));
	m->apply_ns = 0;
}

static void test_in_a_long_row_of_entries(void **state _unused_)
{
	struct whole *w = xcalloc(1, sizeof(*w));
	struct sim *s = xcalloc(1, sizeof(*s));
	char verdict[WHOLE_VERDICT_BYTES] = "";
	struct machine *m = &w->machine[0];

	sim_begin(s, 1);
	begin(w, s, verdict);
	for (int i = 0; i < TRIES && m->apply_max_ns < LONG * EVERY_NS; i++) {
		run(w, ENTRIES_NS);
		crash(w);
	}
	assert_true(m->apply_max_ns >= LONG * EVERY_NS);
	assert_true(m->silent_max_ns <= EVERY_NS);
	whole_end(w);
	sim_end(s);
	free(w);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_a_long_row_of_entries),
	};

	log_init("sim", "");
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
