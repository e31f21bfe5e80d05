/*
 * See front/late.h. All wait equally long, so the oldest is the next.
 */
#include "front/late.h"

#include <stdlib.h>

#include "front/server.h"
#include "util/clock.h"

#define LATE_NS (100 * NS_PER_MS)

struct late {
	struct list waiting; /* oldest first */
	struct loop_timer *timer;
};

static void on_timer(void *ctx)
{
	struct late *l = ctx;
	uint64_t now_ns = clock_mono_ns();

	while (!list_empty(&l->waiting)) {
		struct exchange *x =
		    list_entry(l->waiting.next, struct exchange, node);
		uint64_t age_ns = now_ns - x->late_ns;

		if (age_ns < LATE_NS) {
			loop_timer_arm(l->timer, LATE_NS - age_ns);
			return;
		}
		late_remove(x);
		x->answered = true;
		server_resume(x);
	}
}

struct late *late_new(struct loop *loop)
{
	struct late *l = xcalloc(1, sizeof(*l));

	list_init(&l->waiting);
	l->timer = loop_timer_add(loop, on_timer, l);
	return l;
}

void late_free(struct late *l)
{
	if (l == NULL)
		return;
	CHECK(list_empty(&l->waiting));
	loop_timer_remove(l->timer);
	free(l);
}

void late_add(struct exchange *x)
{
	struct late *l = server_late(x->server);

	CHECK(x->late_ns == 0 && x->parked_ns == 0 && !x->answered);
	if (list_empty(&l->waiting))
		loop_timer_arm(l->timer, LATE_NS);
	x->late_ns = clock_mono_ns();
	x->outlives = true; /* nothing of it has to be withdrawn */
	list_push_back(&l->waiting, &x->node);
}

void late_remove(struct exchange *x)
{
	if (x->late_ns == 0)
		return;
	x->late_ns = 0;
	list_remove(&x->node);
}
