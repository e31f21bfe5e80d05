/*
 * Replicas compare themselves. Every so often the leader puts a mark into the
 * log. Each node takes the store as it is at that entry, whatever comes after
 * it, makes a digest of it and tells the leader with its next reports. So all
 * of them are of one entry, under any load. What the leader makes of them is in
 * serve/nodes_judge.c.
 *
 * A digest may be of gigabytes: the worker reads a portion, then rests nine
 * times as long. A leader puts no mark before it has rested a hundred times as
 * long as its last digest took, which keeps the cost below a hundredth of one
 * processor. Loop thread, but for portion_work.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rt/log.h"
#include "serve/nodes_impl.h"
#include "store/digest.h"
#include "util/clock.h"

#define PORTION_BYTES (1u << 20) /* a few milliseconds */
#define REST          9          /* times as long as a portion took */
#define REST_ALL      100        /* the same of a whole digest */
#define LEVEL         2          /* before, nodes do not know the mark */

struct compare {
	struct svc *s;
	struct loop_timer *timer;
	struct digest *d;         /* being made; NULL: none */
	int step;                 /* as digest_step */
	uint64_t took_ns, all_ns; /* the last portion, the whole digest */
	struct compare_result last;
	uint64_t made;    /* since start */
	uint64_t mark_ns; /* of a leader: no mark before; 0: it does not lead */
	bool said_level;
};

static void end(struct compare *c)
{
	digest_free(c->d);
	c->d = NULL;
}

/* --- a digest, a portion at a time --- */

static void portion_work(void *ctx)
{
	struct compare *c = ctx;
	uint64_t from = clock_mono_ns();

	c->step = digest_step(c->d, PORTION_BYTES);
	c->took_ns = clock_mono_ns() - from;
}

static void portion_done(void *ctx)
{
	struct compare *c = ctx;
	struct digest_result r;

	c->all_ns += c->took_ns;
	if (c->step > 0 && !c->s->draining) {
		loop_timer_arm(c->timer, REST * c->took_ns);
		return;
	}
	if (c->step == 0) {
		digest_result(c->d, &r);
		c->last.index = r.index;
		memcpy(c->last.text, r.text, sizeof(c->last.text));
		c->made++;
	}
	end(c);
}

static void next_portion(void *ctx)
{
	struct compare *c = ctx;

	if (c->s->draining) {
		end(c);
		return;
	}
	worker_run(c->s->p->worker, portion_work, portion_done, c);
}

/* Before the next entry is applied: the iterator is of this one. A mark that
 * comes while a digest is made is left out. */
void svc_compare(struct svc *s)
{
	struct compare *c = s->compare;

	if (c == NULL || c->d != NULL || s->draining ||
	    fsm_flush(s->p->fsm) < 0)
		return;
	c->d = digest_new(s->p->kv);
	c->all_ns = 0;
	next_portion(c);
}

/* --- marks --- */

static void put_mark(struct compare *c, uint64_t now)
{
	uint64_t interval = c->s->p->d->settings.compare_interval;

	c->mark_ns = now + MAX(interval, REST_ALL * c->all_ns);
	nodes_mark(c->s);
}

void compare_lead(struct svc *s)
{
	struct compare *c = s->compare;
	uint64_t interval = s->p->d->settings.compare_interval;
	uint64_t now = clock_mono_ns();

	if (interval == 0) {
		c->mark_ns = 0;
		return;
	}
	if (c->mark_ns == 0) /* it has just begun to lead */
		c->mark_ns = now + interval;
	c->mark_ns = MIN(c->mark_ns, now + MAX(interval, REST_ALL * c->all_ns));
	if (now < c->mark_ns || c->d != NULL || node_voters(s->p->node) < 2)
		return;
	if (fsm_level(s->p->fsm) < LEVEL) {
		if (!c->said_level)
			log_info("the stores of the nodes are not compared: "
				 "some nodes are of an older version");
		c->said_level = true;
		c->mark_ns = now + interval;
		return;
	}
	put_mark(c, now);
}

void compare_follow(struct svc *s)
{
	s->compare->mark_ns = 0;
}

const struct compare_result *compare_last(const struct svc *s)
{
	return &s->compare->last;
}

uint64_t compare_made(const struct svc *s)
{
	return s->compare->made;
}

/* --- life --- */

struct compare *compare_new(struct svc *s)
{
	struct compare *c = xcalloc(1, sizeof(*c));

	c->s = s;
	c->timer = loop_timer_add(s->p->d->loop, next_portion, c);
	return c;
}

void compare_free(struct compare *c)
{
	if (c == NULL)
		return;
	end(c);
	loop_timer_remove(c->timer);
	free(c);
}
