/*
 * Periods of budgets. See ties/purse.h.
 */
#include "fsm/core/state.h"
#include "fsm/ties/purse.h"
#include "fsm/ties/usage.h"
#include "util/civil.h"

#define MONTHS 12

/* One slot is the present one, which has only begun: the others are as long as
 * the window, so that nothing falls out too early. */
static uint64_t slot_ns(const struct m_budget_limit *l)
{
	return l->window / (LIMIT_BUDGET_SLOTS - 1) + 1;
}

static uint64_t month_of(uint64_t day)
{
	unsigned year, month, dom;

	civil_date(day, &year, &month, &dom);
	return (uint64_t)year * MONTHS + (month - 1);
}

static uint64_t number(const struct fsm *f, const struct m_budget_limit *l,
		       uint64_t now)
{
	if (l->per == BUDGET_PER_WINDOW)
		return now / slot_ns(l);
	if (l->per == BUDGET_PER_MONTH)
		return month_of(usage_local_day(f, now));
	return usage_local_day(f, now);
}

/* The first day of a month, by its number. */
static uint64_t first_day(uint64_t month)
{
	return civil_days((unsigned)(month / MONTHS),
			  (unsigned)(month % MONTHS) + 1, 1);
}

uint64_t purse_from(const struct fsm *f, const struct m_budget_limit *l,
		    uint64_t now)
{
	uint64_t n = number(f, l, now);

	if (l->per == BUDGET_PER_WINDOW)
		return now - MIN(now, l->window);
	return usage_day_ns(f, l->per == BUDGET_PER_MONTH ? first_day(n) : n,
			    0);
}

uint64_t purse_until(const struct fsm *f, const struct m_budget_limit *l,
		     uint64_t now)
{
	uint64_t n = number(f, l, now);

	if (l->per == BUDGET_PER_WINDOW)
		return (n + 1) * slot_ns(l);
	return usage_day_ns(
	    f, l->per == BUDGET_PER_MONTH ? first_day(n + 1) : n + 1, now);
}

/* How many slots have fallen out of the window, at most all. */
static uint64_t slots_gone(const struct purse_count *c, uint64_t n)
{
	return n > c->period ? MIN(n - c->period, (uint64_t)LIMIT_BUDGET_SLOTS)
			     : 0;
}

uint64_t purse_spent(const struct fsm *f, const struct m_budget_limit *l,
		     const struct purse_count *c, uint64_t now)
{
	uint64_t n = number(f, l, now), spent = c->spent;

	if (c->slots == NULL)
		return n > c->period ? 0 : spent;
	for (uint64_t i = 1, gone = slots_gone(c, n); i <= gone; i++)
		spent -= c->slots[(c->period + i) % LIMIT_BUDGET_SLOTS];
	return spent;
}

void purse_roll(const struct fsm *f, const struct m_budget_limit *l,
		struct purse_count *c, uint64_t now)
{
	uint64_t n = number(f, l, now);

	if (n <= c->period)
		return;
	c->spent = purse_spent(f, l, c, now);
	if (c->slots == NULL) {
		c->reports = 0;
		c->next_ns = 0; /* of a window it goes on */
	}
	for (uint64_t i = 1, gone = slots_gone(c, n);
	     c->slots != NULL && i <= gone; i++) {
		uint64_t *slot =
		    &c->slots[(c->period + i) % LIMIT_BUDGET_SLOTS];

		c->reports -= slot[LIMIT_BUDGET_SLOTS];
		slot[0] = slot[LIMIT_BUDGET_SLOTS] = 0;
	}
	c->period = n;
	if (c->spent < l->amount)
		c->told = false;
}

void purse_add(struct purse_count *c, uint64_t amount)
{
	/* what is in the slots must be taken off again, to the last unit */
	amount = MIN(amount, UINT64_MAX - c->spent);
	c->spent += amount;
	c->reports++;
	if (c->slots == NULL)
		return;
	c->slots[c->period % LIMIT_BUDGET_SLOTS] += amount;
	c->slots[LIMIT_BUDGET_SLOTS + c->period % LIMIT_BUDGET_SLOTS]++;
}
