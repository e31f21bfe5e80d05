/*
 * How busy the processors are that this process may use.
 *
 * Two things can keep it waiting: all processors of the machine at work, by
 * whomever, and the quota of its control group (containers, CPUQuota= of a
 * unit; version 2 only) used up.
 */
#ifndef CORVO_CPU_USE_H
#define CORVO_CPU_USE_H

#include "util/buf.h"

/* What the kernel has counted until a moment; zeros: it does not tell. */
struct cpu_sample {
	uint64_t at_ns;
	uint64_t idle, total; /* of all processors, in ticks */
	uint64_t used_us;     /* by the control group, and what it may use: */
	uint64_t quota_us, period_us;
};

struct cpu_use {
	struct cpu_sample last; /* at_ns 0: never looked */
	struct buf group;       /* directory of our control group */
	bool busy;
};

/*
 * Whether at least half of what may be used was used since the last look.
 * Looks at most a few times a second; in between, what it said before. True at
 * first and where the kernel does not tell.
 */
bool cpu_use_is_busy(struct cpu_use *u, uint64_t now_ns);
void cpu_use_done(struct cpu_use *u);

/* The parts of it that need no kernel. The texts are /proc/stat, cpu.max and
 * cpu.stat; one that cannot be read leaves zeros. */
void cpu_sample_take_stat(struct cpu_sample *s, struct str stat);
void cpu_sample_take_quota(struct cpu_sample *s, struct str cpu_max,
			   struct str cpu_stat);
bool cpu_was_busy(const struct cpu_sample *a, const struct cpu_sample *b);

#endif
