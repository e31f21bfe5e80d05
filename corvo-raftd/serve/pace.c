/*
 * See serve/pace.h.
 *
 * Whether writers wait shows in the share of crowded entries: those that were
 * proposed while many operations were under way. With half of the clients the
 * node can serve it is one of ten, in bad moments of the disk one of two; when
 * all clients wait for the node it is four of five. The mean number of
 * operations in an entry says less: one slow flush makes one very deep entry.
 *
 * A slow disk crowds entries, too, but leaves processors idle; then the view is
 * in nobody's way.
 */
#include "serve/pace.h"

#include "util/base.h"

#define SHARE_ONE  1000u
#define SHARE_HIGH 700u /* saturated from here */
#define SHARE_LOW  500u /* no longer below this */
#define SMOOTH     12u  /* looks: bad moments of 0.3 s are forgiven */

void pace_look(struct pace *p, uint64_t now_ns, uint64_t entries,
	       uint64_t crowded, bool processors_busy)
{
	uint64_t n = entries - p->entries;
	uint64_t since = now_ns - p->looked_ns;
	uint64_t share = 0;

	if (since < PACE_NS)
		return;
	if (since > PACE_SATURATED_NS) /* there was nothing new */
		p->share = 0;
	if (n > 0)
		share = (crowded - p->crowded) * SHARE_ONE / n;
	p->share = ((SMOOTH - 1) * p->share + share) / SMOOTH;
	p->looked_ns = now_ns;
	p->entries = entries;
	p->crowded = crowded;
	if (p->share >= SHARE_HIGH)
		p->saturated = processors_busy;
	else if (p->share < SHARE_LOW)
		p->saturated = false;
}

uint64_t pace_wait(const struct pace *p, uint64_t now_ns)
{
	uint64_t pace = p->saturated ? PACE_SATURATED_NS : PACE_NS;
	uint64_t since = now_ns - p->answered_ns;

	if (since >= pace || p->is_owing)
		return 0;
	/* the log may be another one after the shorter pause */
	return MIN(pace - since, PACE_NS);
}

void pace_answer(struct pace *p, uint64_t now_ns)
{
	p->answered_ns = now_ns;
}

void pace_answered(struct pace *p, bool all)
{
	p->is_owing = !all;
}
