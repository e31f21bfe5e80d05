/*
 * See front/h2_limits.h.
 */
#include "front/h2_limits.h"

#include "util/clock.h"

/* Clients measure the way to the server by pings: about one and two windows
 * for each frame with bytes. */
#define FRAMES_MAX       1000
#define FRAMES_PER_S     100
#define FRAMES_PER_MOVED 4

/* A worker that stops takes back what it waits for, all at once. */
#define RESETS_MAX       256
#define RESETS_PER_S     32
#define RESETS_PER_REPLY 1

void h2_limits_init(struct h2_limits *l, uint64_t now_ns)
{
	l->frames = (struct h2_account){ FRAMES_MAX, now_ns };
	l->resets = (struct h2_account){ RESETS_MAX, now_ns };
}

static void fill(struct h2_account *a, uint32_t n, uint32_t max)
{
	a->have = MIN(a->have + n, max);
}

static bool pay(struct h2_account *a, uint32_t per_s, uint32_t max,
		uint64_t now_ns)
{
	uint64_t each_ns = NS_PER_S / per_s;
	uint64_t n = (now_ns - a->since_ns) / each_ns;

	if (n > 0) {
		fill(a, (uint32_t)MIN(n, (uint64_t)max), max);
		a->since_ns += n * each_ns;
	}
	if (a->have == 0)
		return false;
	a->have--;
	return true;
}

bool h2_limits_frame(struct h2_limits *l, uint64_t now_ns)
{
	return pay(&l->frames, FRAMES_PER_S, FRAMES_MAX, now_ns);
}

bool h2_limits_reset(struct h2_limits *l, uint64_t now_ns)
{
	return pay(&l->resets, RESETS_PER_S, RESETS_MAX, now_ns);
}

void h2_limits_moved(struct h2_limits *l)
{
	fill(&l->frames, FRAMES_PER_MOVED, FRAMES_MAX);
}

void h2_limits_answered(struct h2_limits *l)
{
	fill(&l->resets, RESETS_PER_REPLY, RESETS_MAX);
}
