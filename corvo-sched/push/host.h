/*
 * One host that push queues call: how many calls it may have at a time and per
 * second, and whether it is left alone because calls failed. Knows no clock and
 * no network: moments come with the calls, monotonic.
 *
 * The breaker is closed while calls work. After so many that failed in a row it
 * opens: nothing is called for a pause, which doubles from one time to the
 * next. Then it is half open: one call is made, and what becomes of it closes
 * or opens it.
 */
#ifndef CORVO_PUSH_HOST_H
#define CORVO_PUSH_HOST_H

#include "util/base.h"
#include "util/clock.h"

#define HOST_ERROR_BYTES  160
#define HOST_PAUSE_MAX_NS (60 * NS_PER_S)

struct host_limits {
	uint32_t concurrency;
	uint32_t rate; /* calls per second; 0: any number */
	uint32_t failures;
	uint64_t pause_ns;
};

enum breaker { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

/* Tokens of a rate; a tenth of a second's calls may come at once. */
struct bucket {
	double tokens;
	uint64_t at_ns; /* as of then; 0: full */
};

/* Whether there is one; else when there is. rate 0: always. */
bool bucket_has(struct bucket *b, uint32_t rate, uint64_t now_ns,
		uint64_t *ret_ns);
void bucket_take(struct bucket *b, uint32_t rate, uint64_t now_ns);
/* How many calls could be made now. */
uint32_t bucket_left(struct bucket *b, uint32_t rate, uint64_t now_ns);

struct host {
	enum breaker breaker;
	uint32_t open;     /* calls under way */
	uint32_t failures; /* in a row */
	uint64_t until_ns; /* of an open breaker */
	uint64_t pause_ns; /* the last one */
	bool probing;      /* half open, and the call is under way */
	struct bucket bucket;
	char error[HOST_ERROR_BYTES]; /* of the last that failed */
};

/* A pause that is over makes the breaker half open. True: it has. */
bool host_look(struct host *h, uint64_t now_ns);
/* A call may be made now; else when, 0: after one that is under way. */
bool host_may_call(struct host *h, const struct host_limits *l, uint64_t now_ns,
		   uint64_t *ret_ns);
void host_called(struct host *h, const struct host_limits *l, uint64_t now_ns);
/* error: NULL, the host has answered. True: the breaker is another now. */
bool host_ended(struct host *h, const struct host_limits *l, uint64_t now_ns,
		const char *error);
/* A call that was given up tells nothing of the host. */
void host_dropped(struct host *h);

#endif
