/*
 * A world with a time of its own: events in the order of their moments, one
 * source of chance, and a trace. One thread; a seed gives the same world again,
 * step by step.
 */
#ifndef CORVO_SIM_H
#define CORVO_SIM_H

#include <setjmp.h>

#include "rt/loop.h"
#include "util/heap.h"
#include "util/rng.h"

#define SIM_TRACE 65536 /* lines kept for a failure */

struct sim_host;

/* Something that is to happen; embedded in what it is about. */
struct sim_event {
	struct heap_node at;
	struct loop *loop; /* of the node it happens to; NULL: to the world */
	loop_fn *fn;
	void *ctx;
};

struct sim_line {
	uint64_t ns;
	const char *what;
	uint64_t v[5];
};

struct sim {
	uint64_t seed;
	/* Says that something is not as it has to be, and ends the process. */
	void (*fail)(void *ctx, const char *what);
	void *fail_ctx;
	uint64_t now_ns;
	struct heap events;
	uint64_t made;     /* events so far: equal moments are in their order */
	struct loop *here; /* whose turn it is; NULL: the world's */
	jmp_buf *death; /* of the process whose turn it is; NULL: it cannot */
	struct rng rng;
	uint64_t hash; /* of the trace so far */
	uint64_t lines;
	struct sim_line trace[SIM_TRACE];
};

/* rt/loop.h, of one node. */
struct loop {
	struct sim *sim;
	struct sim_host *host;
	uint64_t still_ns; /* the process stands still until then */
	uint64_t turn;
	loop_fn *turn_end;
	void *turn_ctx;
	/* runs when the process died in the middle of a turn; NULL: it cannot
	 */
	loop_fn *death;
	void *death_ctx;
};

/* The world whose time clock.h tells, and whose chance rng_system gives. */
void sim_begin(struct sim *s, uint64_t seed);
void sim_end(struct sim *s);

/* The loop whose turn it is; NULL: the world's. */
struct loop *sim_here(void);
/* It is that one's turn from now on; returns whose it was. */
struct loop *sim_enter(struct loop *l);

/* Once per event; it can be given again when it has happened. */
void sim_after(struct sim *s, struct sim_event *e, struct loop *l,
	       uint64_t after_ns, loop_fn *fn, void *ctx);
void sim_forget(struct sim *s, struct sim_event *e);
bool sim_is_due(const struct sim_event *e); /* and has not happened yet */
/* All that is to happen to that loop. */
void sim_forget_all(struct sim *s, struct loop *l);
/* Its process ends: the work that is under way is done first, as loop_free
 * waits for it, and in a crash it is not; who gave it is told in any case. */
void sim_work_end(struct loop *l, bool is_crash);
/* The process whose turn it is dies this moment: its turn does not go on, and
 * what it has in memory stays there. Nothing happens if it cannot. */
void sim_die(struct sim *s);
/* Whether, and how often, nodes stop in the middle of what is committed: time
 * does not pass while they apply. */
void sim_pieces(const struct sim *s);
/* What is not as it has to be; the process ends. */
_noreturn_ _printf_(2, 3) void sim_fail(struct sim *s, const char *fmt, ...);
/* The next event; false: there is none. */
bool sim_step(struct sim *s);
/* The next event of that node, at once: time does not pass. */
bool sim_step_of(struct sim *s, struct loop *l);

/* --- chance --- */

uint64_t sim_below(struct sim *s, uint64_t n);
/* From min to max, both included. */
uint64_t sim_between(struct sim *s, uint64_t min, uint64_t max);
bool sim_chance(struct sim *s, unsigned percent);
/* Mostly near min, at times up to max. */
uint64_t sim_skewed(struct sim *s, uint64_t min, uint64_t max);

/* --- what happened --- */

/* what: a literal. */
void sim_note(struct sim *s, const char *what, uint64_t a, uint64_t b,
	      uint64_t c, uint64_t d, uint64_t e);
void sim_show(const struct sim *s); /* the last lines, to stderr */

#endif
