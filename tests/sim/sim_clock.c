/*
 * util/clock.h and the system's randomness, as the world that is running has
 * them. Their functions know of no world, so this file has to.
 */
#include "host.h"
#include "sim.h"
#include "util/clock.h"

/* Moments of 0 mean "never" to many. */
#define BEGIN_NS (1000 * NS_PER_S)
#define WALL_NS  (UINT64_C(1700000000) * NS_PER_S)

static _Thread_local struct sim *world;

void sim_begin(struct sim *s, uint64_t seed)
{
	CHECK(world == NULL);
	*s = (struct sim){ .seed = seed, .now_ns = BEGIN_NS };
	rng_seed(&s->rng, seed);
	world = s;
}

void sim_end(struct sim *s)
{
	CHECK(world == s && heap_min(&s->events) == NULL);
	heap_done(&s->events);
	world = NULL;
}

struct loop *sim_here(void)
{
	return world != NULL ? world->here : NULL;
}

struct loop *sim_enter(struct loop *l)
{
	struct loop *before = world->here;

	world->here = l;
	return before;
}

uint64_t clock_mono_ns(void)
{
	return world != NULL ? world->now_ns : BEGIN_NS;
}

uint64_t clock_wall_ns(void)
{
	const struct loop *l = sim_here();
	uint64_t now = clock_mono_ns();
	int64_t off = 0;

	if (l != NULL)
		off = l->host->wall_off_ns +
		      (int64_t)(now - BEGIN_NS) / 1000000 * l->host->wall_ppm;
	return WALL_NS + now + (uint64_t)off;
}

/* Work takes no time here. */
uint64_t clock_thread_ns(void)
{
	return 0;
}

void clock_both_ns(uint64_t *wall, uint64_t *mono)
{
	*mono = clock_mono_ns();
	*wall = clock_wall_ns();
}

void rng_system(void *p, size_t n)
{
	char *at = p;

	/* before main tables ask for the secret of their hashes */
	for (size_t i = 0; i < n; i++)
		at[i] = world != NULL ? (char)rng_u64(&world->rng) : 0;
}
