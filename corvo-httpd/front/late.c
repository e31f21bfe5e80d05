/*
 * See front/late.h. All wait equally long, so the oldest is the next.
 */
#include "front/late.h"

#include <stdlib.h>
#include <unistd.h>

#include "front/intake.h"
#include "front/server.h"
#include "util/clock.h"

#define LATE_NS   (100 * NS_PER_MS)
#define CLOSE_MAX 256

struct closing {
	int fd;
	uint64_t since_ns;
};

struct late {
	struct list waiting; /* oldest first */
	struct loop_timer *timer;
	struct closing closing[CLOSE_MAX]; /* a ring */
	size_t first, closing_n;
	struct loop_timer *close_timer;
};

/* True: it has waited long enough. Else the timer is armed for it. */
static bool is_time(struct loop_timer *timer, uint64_t since_ns)
{
	uint64_t age_ns = clock_mono_ns() - since_ns;

	if (age_ns < LATE_NS)
		loop_timer_arm(timer, LATE_NS - age_ns);
	return age_ns >= LATE_NS;
}

static void on_timer(void *ctx)
{
	struct late *l = ctx;

	while (!list_empty(&l->waiting)) {
		struct exchange *x =
		    list_entry(l->waiting.next, struct exchange, node);

		if (!is_time(l->timer, x->late_ns))
			return;
		late_remove(x);
		if (!x->reads_on) {
			x->answered = true;
			exchange_resume(x);
		} else if (intake_must_wait(x)) {
			late_read(x); /* others have used up what there was */
		} else {
			exchange_wake(x);
		}
	}
}

static void close_first(struct late *l)
{
	(void)close(l->closing[l->first].fd);
	l->first = (l->first + 1) % CLOSE_MAX;
	l->closing_n--;
}

static void on_close_timer(void *ctx)
{
	struct late *l = ctx;

	while (l->closing_n > 0 &&
	       is_time(l->close_timer, l->closing[l->first].since_ns))
		close_first(l);
}

struct late *late_new(struct loop *loop)
{
	struct late *l = xcalloc(1, sizeof(*l));

	list_init(&l->waiting);
	l->timer = loop_timer_add(loop, on_timer, l);
	l->close_timer = loop_timer_add(loop, on_close_timer, l);
	return l;
}

void late_free(struct late *l)
{
	if (l == NULL)
		return;
	CHECK(list_empty(&l->waiting));
	while (l->closing_n > 0)
		close_first(l);
	loop_timer_remove(l->timer);
	loop_timer_remove(l->close_timer);
	free(l);
}

static void add(struct exchange *x)
{
	struct late *l = server_late(x->server);

	CHECK(x->late_ns == 0 && x->parked_ns == 0 && !x->answered);
	if (list_empty(&l->waiting))
		loop_timer_arm(l->timer, LATE_NS);
	x->late_ns = clock_mono_ns();
	list_push_back(&l->waiting, &x->node);
}

void late_add(struct exchange *x)
{
	add(x);
	x->reads_on = false;
	x->outlives = true; /* nothing of it has to be withdrawn */
}

void late_read(struct exchange *x)
{
	add(x);
	x->reads_on = true;
}

void late_remove(struct exchange *x)
{
	if (x->late_ns == 0)
		return;
	x->late_ns = 0;
	list_remove(&x->node);
}

void late_close(struct late *l, int fd)
{
	size_t at = (l->first + l->closing_n) % CLOSE_MAX;

	if (l->closing_n == CLOSE_MAX) {
		(void)close(fd);
		return;
	}
	if (l->closing_n == 0)
		loop_timer_arm(l->close_timer, LATE_NS);
	l->closing[at] = (struct closing){ fd, clock_mono_ns() };
	l->closing_n++;
}
