/*
 * The log's flushes, caught: held up, counted, or made to fail. For one .c file
 * of a program.
 */
#ifndef CORVO_SEGLOG_FLUSH_H
#define CORVO_SEGLOG_FLUSH_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t flush_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t flush_change = PTHREAD_COND_INITIALIZER;
static bool flush_held;
static unsigned flushes; /* begun */
static atomic_int flush_error;

/* Found before libc's. */
int fdatasync(int fd)
{
	pthread_mutex_lock(&flush_lock);
	flushes++;
	pthread_cond_broadcast(&flush_change);
	while (flush_held)
		pthread_cond_wait(&flush_change, &flush_lock);
	pthread_mutex_unlock(&flush_lock);
	if (flush_error != 0) {
		errno = flush_error;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

static inline void hold_flushes(bool hold)
{
	pthread_mutex_lock(&flush_lock);
	flush_held = hold;
	pthread_cond_broadcast(&flush_change);
	pthread_mutex_unlock(&flush_lock);
}

static inline void wait_for_flush(unsigned before)
{
	pthread_mutex_lock(&flush_lock);
	while (flushes == before)
		pthread_cond_wait(&flush_change, &flush_lock);
	pthread_mutex_unlock(&flush_lock);
}

#endif
