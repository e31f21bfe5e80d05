/*
 * The thread of kv_behind.c, and what it and those who write share: a lock, and
 * a way to wake each other. It passes on what is heavy at once, and the rest
 * when little happens.
 */
#include <errno.h>
#include <malloc.h>
#include <time.h>

#include "store/kv_behind_impl.h"
#include "util/clock.h"

#define REST_NS (5 * NS_PER_S) /* without a write */

void behind_lock(struct behind *s)
{
	pthread_mutex_lock(&s->lock);
}

void behind_unlock(struct behind *s)
{
	pthread_mutex_unlock(&s->lock);
}

void behind_wake(struct behind *s)
{
	pthread_cond_broadcast(&s->changed);
}

void behind_wait(struct behind *s)
{
	pthread_cond_wait(&s->changed, &s->lock);
}

bool behind_wait_until(struct behind *s, uint64_t mono_ns)
{
	struct timespec t = { .tv_sec = (time_t)(mono_ns / NS_PER_S),
			      .tv_nsec = (long)(mono_ns % NS_PER_S) };

	return pthread_cond_timedwait(&s->changed, &s->lock, &t) != ETIMEDOUT;
}

/* False: there is work. */
static bool is_quiet_for_a_while(struct behind *s)
{
	uint64_t until_ns = clock_mono_ns() + REST_NS;

	while (!s->writing && !s->stop && behind_wait_until(s, until_ns))
		;
	return !s->writing && !s->stop;
}

static void rest(struct behind *s)
{
	bool all;

	if (s->err == 0 && behind_is_worth_writing(s)) {
		if (!s->was_written) /* else it is at work */
			behind_turn_over(s);
		return;
	}
	behind_release(s);
	behind_unlock(s);
	all = kv_rest(s->below);
	/* what is free lies between what is in use */
	malloc_trim(0);
	behind_lock(s);
	s->rested = all && !s->writing;
	s->reads = 0;
}

/* Whoever follows what was written may read for some time after it. */
static void wait_for_work(struct behind *s)
{
	while (!s->writing && !s->stop) {
		if (s->rested) {
			behind_wait(s);
			continue;
		}
		s->was_read = s->was_written = false;
		if (is_quiet_for_a_while(s) && !s->was_read)
			rest(s);
	}
}

static void *writer_main(void *ctx)
{
	struct behind *s = ctx;

	behind_lock(s);
	for (;;) {
		wait_for_work(s);
		if (!s->writing)
			break;
		behind_pass_on(s);
	}
	behind_unlock(s);
	return NULL;
}

void behind_writer_begin(struct behind *s)
{
	pthread_condattr_t steady;

	CHECK(pthread_mutex_init(&s->lock, NULL) == 0);
	CHECK(pthread_condattr_init(&steady) == 0);
	CHECK(pthread_condattr_setclock(&steady, CLOCK_MONOTONIC) == 0);
	CHECK(pthread_cond_init(&s->changed, &steady) == 0);
	CHECK(pthread_condattr_destroy(&steady) == 0);
	CHECK(pthread_create(&s->writer, NULL, writer_main, s) == 0);
}

void behind_writer_end(struct behind *s)
{
	behind_lock(s);
	s->stop = true;
	behind_wake(s);
	behind_unlock(s);
	CHECK(pthread_join(s->writer, NULL) == 0);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
}
