/*
 * See order/limiter.h. All arithmetic is on numbers of the log and the store:
 * a stored limiter that makes no sense is refused by limiter_read.
 */
#include "fsm/order/limiter.h"

#include "store/key.h"

static uint64_t slot_length(uint64_t period_ns)
{
	return MAX((period_ns + LIMITER_PARTS - 1) / LIMITER_PARTS,
		   (uint64_t)1);
}

static uint32_t *slot_at(struct limiter *l, uint64_t slot)
{
	return &l->counts[slot % LIMITER_SLOTS];
}

static uint32_t slot_count(const struct limiter *l, uint64_t slot)
{
	return l->counts[slot % LIMITER_SLOTS];
}

/* When a slot has left a period that begins at its end. */
static uint64_t slot_end(const struct limiter *l, const struct rate *r,
			 uint64_t slot)
{
	uint64_t end;

	if (__builtin_mul_overflow(slot + 1, l->slot_ns, &end) ||
	    __builtin_add_overflow(end, r->period_ns, &end))
		return UINT64_MAX - 1;
	return end;
}

/* The last slot that counts: later ones were before the clock was set back. */
static uint64_t last_slot(const struct limiter *l, uint64_t now)
{
	return MIN(now / l->slot_ns, l->newest);
}

/* Jobs in all slots that are not later than now. */
static uint64_t limiter_upto(const struct limiter *l, uint64_t now)
{
	uint64_t n = l->total;

	if (n == 0 || now / l->slot_ns < l->oldest)
		return 0;
	for (uint64_t i = l->newest; i > last_slot(l, now); i--)
		n -= slot_count(l, i);
	return n;
}

/* Jobs in slots that lie in the period that ends now, if only in part. */
static uint64_t limiter_held(const struct limiter *l, const struct rate *r,
			     uint64_t now)
{
	uint64_t from, held = limiter_upto(l, now);

	if (held == 0)
		return 0;
	from = now > r->period_ns ? (now - r->period_ns) / l->slot_ns : 0;
	if (from > l->newest)
		return 0;
	for (uint64_t i = l->oldest; i < from; i++)
		held -= slot_count(l, i);
	return held;
}

uint64_t limiter_left(const struct limiter *l, const struct rate *r,
		      uint64_t now)
{
	uint64_t held = l == NULL ? 0 : limiter_held(l, r, now);

	return r->jobs > held ? r->jobs - held : 0;
}

uint64_t limiter_next(const struct limiter *l, const struct rate *r,
		      uint64_t now)
{
	uint64_t held = l == NULL ? 0 : limiter_upto(l, now), moment = 0;

	for (uint64_t i = l == NULL ? 0 : l->oldest; held >= r->jobs; i++) {
		if (l == NULL || i > last_slot(l, now))
			return UINT64_MAX - 1; /* a rate of nothing */
		held -= slot_count(l, i);
		moment = slot_end(l, r, i);
	}
	return moment;
}

uint64_t limiter_end(const struct limiter *l, const struct rate *r)
{
	return slot_end(l, r, l->newest);
}

/* The total is the sum of all slots, and those that are not used are 0. */
static void clear_slot(struct limiter *l, uint64_t slot)
{
	CHECK(l->total >= slot_count(l, slot));
	l->total -= slot_count(l, slot);
	*slot_at(l, slot) = 0;
}

/* Makes `slot` the newest, and forgets what is too old to be counted. */
static void limiter_advance(struct limiter *l, uint64_t slot)
{
	uint64_t oldest = slot >= LIMITER_PARTS ? slot - LIMITER_PARTS : 0;

	if (oldest > l->newest) {
		memset(l->counts, 0, sizeof(l->counts));
		l->total = 0;
		l->oldest = oldest;
	}
	for (; l->oldest < oldest; l->oldest++)
		clear_slot(l, l->oldest);
	l->newest = slot;
}

/* The same counts in slots of another length: never earlier than they were. */
static void limiter_refit(struct limiter *l, uint64_t slot_ns, uint64_t now)
{
	struct limiter old = *l;
	uint64_t newest = now / slot_ns;

	*l = (struct limiter){ .slot_ns = slot_ns };
	limiter_advance(l, newest);
	for (uint64_t i = old.oldest; old.total > 0 && i <= old.newest; i++) {
		uint32_t n = slot_count(&old, i);
		uint64_t slot = ((i + 1) * old.slot_ns - 1) / slot_ns;

		slot = MIN(slot, newest);
		if (n == 0 || slot < l->oldest)
			continue;
		*slot_at(l, slot) += n;
		l->total += n;
	}
}

/* Slots after that one were counted before the clock was set back. */
static void limiter_forget_after(struct limiter *l, uint64_t slot)
{
	if (slot < l->oldest) {
		*l = (struct limiter){ .slot_ns = l->slot_ns,
				       .newest = slot,
				       .oldest = slot };
		return;
	}
	for (; l->newest > slot; l->newest--)
		clear_slot(l, l->newest);
}

void limiter_add(struct limiter *l, const struct rate *r, uint64_t now)
{
	uint64_t slot_ns = slot_length(r->period_ns);
	uint64_t slot = now / slot_ns;

	if (l->slot_ns != slot_ns)
		limiter_refit(l, slot_ns, now);
	limiter_forget_after(l, slot);
	limiter_advance(l, slot);
	*slot_at(l, l->newest) += 1;
	l->total++;
}

void limiter_write(const struct limiter *l, struct arena *a,
		   struct m_limiter *ret)
{
	size_t n = (size_t)(l->newest - l->oldest) + 1;
	char *counts;

	CHECK(l->newest >= l->oldest && n <= LIMITER_SLOTS);
	while (n > 0 && slot_count(l, l->newest - (n - 1)) == 0)
		n--;
	counts = arena_alloc(a, n * 4 + 1);
	for (size_t i = 0; i < n; i++)
		put_be32(counts + i * 4, slot_count(l, l->newest - i));
	*ret = (struct m_limiter){ 0 };
	MSG_SET(ret, limiter, slot, l->newest);
	MSG_SET(ret, limiter, slot_ns, l->slot_ns);
	MSG_SET(ret, limiter, counts, str_of(counts, n * 4));
}

int limiter_read(const struct m_limiter *m, struct limiter *ret)
{
	size_t n = m->counts.n / 4;

	if (m->slot_ns == 0 || n > LIMITER_SLOTS || m->counts.n % 4 != 0 ||
	    n > m->slot + 1)
		return -ERR_INTERNAL_ERROR;
	*ret = (struct limiter){ .slot_ns = m->slot_ns };
	limiter_advance(ret, m->slot);
	for (size_t i = 0; i < n; i++) {
		uint32_t c = get_be32(m->counts.p + i * 4);

		*slot_at(ret, m->slot - i) = c;
		ret->total += c;
	}
	return 0;
}
