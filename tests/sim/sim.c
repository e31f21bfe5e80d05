#include "sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define FAIL_BYTES 256

#define HASH_PRIME UINT64_C(0x100000001b3)

void sim_after(struct sim *s, struct sim_event *e, struct loop *l,
	       uint64_t after_ns, loop_fn *fn, void *ctx)
{
	CHECK(e->at.pos == 0);
	e->loop = l;
	e->fn = fn;
	e->ctx = ctx;
	e->at.key = s->now_ns + after_ns;
	e->at.tie = s->made++;
	heap_insert(&s->events, &e->at);
}

void sim_forget(struct sim *s, struct sim_event *e)
{
	heap_remove(&s->events, &e->at);
}

bool sim_is_due(const struct sim_event *e)
{
	return e->at.pos != 0;
}

void sim_forget_all(struct sim *s, struct loop *l)
{
	for (size_t i = 0; i < s->events.n;) {
		struct heap_node *n = s->events.nodes[i];

		if (container_of(n, struct sim_event, at)->loop != l) {
			i++;
			continue;
		}
		heap_remove(&s->events, n);
		i = 0; /* others have other places now */
	}
}

void sim_die(struct sim *s)
{
	if (s->death != NULL)
		longjmp(*s->death, 1);
}

static void turn(struct loop *l, loop_fn *fn, void *ctx)
{
	fn(ctx); /* its event may be gone now */
	if (l != NULL && l->turn_end != NULL)
		l->turn_end(l->turn_ctx);
	if (l != NULL)
		l->turn++;
}

static void happen(struct sim *s, struct sim_event *e)
{
	struct loop *l = e->loop, *before = s->here;
	jmp_buf death;

	heap_remove(&s->events, &e->at);
	s->here = l;
	if (l == NULL || l->death == NULL || s->death != NULL) {
		turn(l, e->fn, e->ctx);
		s->here = before;
		return;
	}
	s->death = &death;
	if (setjmp(death) == 0) {
		turn(l, e->fn, e->ctx);
		s->death = NULL;
	} else {
		s->death = NULL;
		l->death(l->death_ctx);
	}
	s->here = before;
}

bool sim_step(struct sim *s)
{
	struct heap_node *n = heap_min(&s->events);
	struct sim_event *e;

	if (n == NULL)
		return false;
	e = container_of(n, struct sim_event, at);
	s->now_ns = MAX(s->now_ns, n->key);
	if (e->loop != NULL && e->loop->still_ns > s->now_ns) {
		heap_remove(&s->events, n);
		n->key = e->loop->still_ns;
		n->tie = s->made++;
		heap_insert(&s->events, n);
		return true;
	}
	happen(s, e);
	return true;
}

static bool is_before(const struct heap_node *a, const struct heap_node *b)
{
	return a->key != b->key ? a->key < b->key : a->tie < b->tie;
}

bool sim_step_of(struct sim *s, struct loop *l)
{
	struct heap_node *first = NULL;

	for (size_t i = 0; i < s->events.n; i++) {
		struct heap_node *n = s->events.nodes[i];
		struct sim_event *e = container_of(n, struct sim_event, at);

		if (e->loop == l && (first == NULL || is_before(n, first)))
			first = n;
	}
	if (first == NULL)
		return false;
	happen(s, container_of(first, struct sim_event, at));
	return true;
}

void sim_fail(struct sim *s, const char *fmt, ...)
{
	char what[FAIL_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (s->fail != NULL)
		s->fail(s->fail_ctx, what);
	(void)fprintf(stderr, "error: %s\n", what);
	_Exit(EXIT_FAILURE);
}

/* --- chance --- */

uint64_t sim_below(struct sim *s, uint64_t n)
{
	return rng_below(&s->rng, n);
}

uint64_t sim_between(struct sim *s, uint64_t min, uint64_t max)
{
	return min + rng_below(&s->rng, max - min + 1);
}

bool sim_chance(struct sim *s, unsigned percent)
{
	return rng_below(&s->rng, 100) < percent;
}

uint64_t sim_skewed(struct sim *s, uint64_t min, uint64_t max)
{
	double u = rng_unit(&s->rng);

	return min + (uint64_t)((double)(max - min) * u * u * u * u);
}

/* --- what happened --- */

static void mix(struct sim *s, uint64_t v)
{
	s->hash = (s->hash ^ v) * HASH_PRIME;
	s->hash ^= s->hash >> 32;
}

void sim_note(struct sim *s, const char *what, uint64_t a, uint64_t b,
	      uint64_t c, uint64_t d, uint64_t e)
{
	struct sim_line *l = &s->trace[s->lines++ % SIM_TRACE];

	*l = (struct sim_line){ s->now_ns, what, { a, b, c, d, e } };
	mix(s, s->now_ns);
	for (size_t i = 0; i < ARRAY_SIZE(l->v); i++)
		mix(s, l->v[i]);
	while (*what != '\0')
		mix(s, (unsigned char)*what++);
}

void sim_show(const struct sim *s)
{
	uint64_t n = MIN(s->lines, (uint64_t)SIM_TRACE);

	for (uint64_t i = s->lines - n; i < s->lines; i++) {
		const struct sim_line *l = &s->trace[i % SIM_TRACE];

		(void)fprintf(stderr,
			      "%10.3f %-22s %" PRIu64 " %" PRIu64 " %" PRIu64
			      " %" PRIu64 " %" PRIu64 "\n",
			      (double)l->ns / (double)NS_PER_MS, l->what,
			      l->v[0], l->v[1], l->v[2], l->v[3], l->v[4]);
	}
}
