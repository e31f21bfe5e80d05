/*
 * See push/host.h.
 */
#include "push/host.h"

#include <string.h>

#include "util/str.h"

#define BURST_SHARE 10 /* of a second's calls */

/* --- rates --- */

static double burst_of(uint32_t rate)
{
	return rate > BURST_SHARE ? (double)rate / BURST_SHARE : 1;
}

static void refill(struct bucket *b, uint32_t rate, uint64_t now_ns)
{
	double max = burst_of(rate);

	if (b->at_ns == 0)
		b->tokens = max;
	else if (now_ns > b->at_ns)
		b->tokens += (double)(now_ns - b->at_ns) * rate / NS_PER_S;
	if (b->tokens > max)
		b->tokens = max;
	b->at_ns = now_ns;
}

bool bucket_has(struct bucket *b, uint32_t rate, uint64_t now_ns,
		uint64_t *ret_ns)
{
	if (rate == 0)
		return true;
	refill(b, rate, now_ns);
	if (b->tokens >= 1)
		return true;
	*ret_ns =
	    now_ns + 1 + (uint64_t)((1 - b->tokens) * (double)NS_PER_S / rate);
	return false;
}

void bucket_take(struct bucket *b, uint32_t rate, uint64_t now_ns)
{
	if (rate == 0)
		return;
	refill(b, rate, now_ns);
	b->tokens -= 1;
}

uint32_t bucket_left(struct bucket *b, uint32_t rate, uint64_t now_ns)
{
	if (rate == 0)
		return UINT32_MAX;
	refill(b, rate, now_ns);
	return b->tokens >= 1 ? (uint32_t)b->tokens : 0;
}

/* --- the breaker --- */

bool host_look(struct host *h, uint64_t now_ns)
{
	if (h->breaker != BREAKER_OPEN || now_ns < h->until_ns)
		return false;
	h->breaker = BREAKER_HALF_OPEN;
	return true;
}

bool host_may_call(struct host *h, const struct host_limits *l, uint64_t now_ns,
		   uint64_t *ret_ns)
{
	*ret_ns = 0;
	host_look(h, now_ns);
	if (h->breaker == BREAKER_OPEN) {
		*ret_ns = h->until_ns;
		return false;
	}
	if (h->breaker == BREAKER_HALF_OPEN && h->probing)
		return false;
	if (h->open >= l->concurrency)
		return false;
	return bucket_has(&h->bucket, l->rate, now_ns, ret_ns);
}

void host_called(struct host *h, const struct host_limits *l, uint64_t now_ns)
{
	h->open++;
	h->probing = h->breaker == BREAKER_HALF_OPEN;
	bucket_take(&h->bucket, l->rate, now_ns);
}

static void trip(struct host *h, const struct host_limits *l, uint64_t now_ns)
{
	h->pause_ns =
	    h->pause_ns == 0
		? l->pause_ns
		: MIN(h->pause_ns * 2, MAX(l->pause_ns, HOST_PAUSE_MAX_NS));
	h->until_ns = now_ns + h->pause_ns;
	h->breaker = BREAKER_OPEN;
	h->probing = false;
}

/* It is shown: half a character would make the answer no JSON. */
static void note_error(struct host *h, struct str error)
{
	struct str text = str_cut(error, sizeof(h->error) - 1);

	memcpy(h->error, text.p, text.n);
	h->error[text.n] = '\0';
}

bool host_ended(struct host *h, const struct host_limits *l, uint64_t now_ns,
		const char *error)
{
	enum breaker before = h->breaker;

	CHECK(h->open > 0);
	h->open--;
	if (error == NULL) {
		/* one that was begun before it opened closes it as well */
		h->breaker = BREAKER_CLOSED;
		h->probing = false;
		h->failures = 0;
		h->pause_ns = 0;
		return before != BREAKER_CLOSED;
	}
	note_error(h, str_from(error));
	h->failures++;
	if (before == BREAKER_HALF_OPEN && h->probing)
		trip(h, l, now_ns);
	else if (before == BREAKER_CLOSED && h->failures >= l->failures)
		trip(h, l, now_ns);
	return h->breaker != before;
}

void host_dropped(struct host *h)
{
	CHECK(h->open > 0);
	h->open--;
	h->probing = false;
}
