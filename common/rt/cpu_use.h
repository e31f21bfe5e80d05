/*
 * How busy the processors of this machine are, by whomever.
 */
#ifndef CORVO_CPU_USE_H
#define CORVO_CPU_USE_H

#include <stdbool.h>
#include <stdint.h>

struct cpu_use {
	uint64_t at_ns; /* when last looked; 0: never */
	uint64_t idle, total;
	bool busy;
};

/*
 * Whether less than half of their time since the last look was idle. Looks at
 * most a few times a second; in between, and at first, what it said before
 * (busy). True where the kernel does not tell.
 */
bool cpu_use_is_busy(struct cpu_use *u, uint64_t now_ns);

#endif
