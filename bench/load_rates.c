/*
 * Modes that count: enqueue, fill, fetch, ack, lifecycle, lifecycle-batch.
 * Figures of a run that failed are not printed.
 */
#include <stdio.h>

#include "load_modes.h"
#include "proto/limits.h"

static struct figures got; /* large, and one at a time */

struct job_kind kind_of(const struct options *o)
{
	return (struct job_kind){
		.queue = o->queue,
		.worker = "load",
		.payload = o->payload,
		.groups = o->groups,
		.words = o->words > 0,
		.usage = o->usage > 0,
		.delay_s = o->delay,
		.lease_ns = o->lease_ns,
	};
}

static void print_at(const struct times *t, const char *name, const char *what,
		     double share)
{
	printf("%s_%s_us %.1f\n", name, what, times_at(t, share) / 1e3);
}

void print_times(const struct times *t, const char *name)
{
	if (t->n == 0)
		return;
	printf("%s_count %llu\n", name, (unsigned long long)t->n);
	print_at(t, name, "min", 0);
	print_at(t, name, "p50", 0.5);
	print_at(t, name, "p90", 0.9);
	print_at(t, name, "p99", 0.99);
	print_at(t, name, "max", 1);
	printf("%s_max_at_s %.3f\n", name, (double)t->max_at_ns / 1e9);
}

static void print_rate(const char *name)
{
	printf("%s %.0f\n", name,
	       (double)got.done * 1e9 / (double)MAX(got.took_ns, 1));
}

static void end(struct load *l, const char *rate)
{
	if (!client_has_failed(l->cl)) {
		print_rate(rate);
		print_times(&got.enqueue, "enqueue");
		print_times(&got.fetch, "fetch");
		print_times(&got.ack, "ack");
		if (l->cl->refused > 0)
			printf("refused_429_503 %llu\n",
			       (unsigned long long)l->cl->refused);
	}
	rates_clear(&got.rates);
	load_done(l);
}

void mode_enqueue(struct client *cl, const struct options *o)
{
	struct job_kind kind = kind_of(o);
	struct load l = { .cl = cl, .kind = &kind };

	load_enqueue(&l, &(struct load_step){ .connections = o->connections,
					      .time_ns = o->time_ns,
					      .ret = &got });
	end(&l, "enqueue_per_s");
}

void mode_fill(struct client *cl, const struct options *o)
{
	struct job_kind kind = kind_of(o);
	struct load l = { .cl = cl, .kind = &kind };

	load_enqueue(&l, &(struct load_step){ .connections = o->connections,
					      .batch = o->batch,
					      .count = o->count,
					      .ret = &got });
	end(&l, "fill_jobs_per_s");
}

static void take_all(struct load *l, const struct options *o, unsigned batch)
{
	load_fetch(l, &(struct load_step){ .connections = o->connections,
					   .batch = batch,
					   .count = o->count,
					   .ret = &got });
	if (!client_has_failed(l->cl) && got.done < o->count)
		client_fail(l->cl, "the queue has only %llu jobs",
			    (unsigned long long)got.done);
}

/* Single fetches, timed; acks afterwards, untimed. */
void mode_fetch(struct client *cl, const struct options *o)
{
	struct job_kind kind = kind_of(o);
	struct load l = { .cl = cl, .kind = &kind };

	take_all(&l, o, 0);
	load_ack(&l, &(struct load_step){
			 .connections = 1,
			 .batch = MIN(o->batch, (unsigned)LIMIT_ACK_BATCH) });
	end(&l, "fetch_per_s");
}

/* Jobs are taken first; whoever measures says when the acks begin. */
void mode_ack(struct client *cl, const struct options *o)
{
	struct job_kind kind = kind_of(o);
	struct load l = { .cl = cl, .kind = &kind };

	take_all(&l, o, MIN(o->batch, (unsigned)LIMIT_FETCH_COUNT));
	if (!client_has_failed(cl)) {
		printf("taken %llu\n", (unsigned long long)got.done);
		(void)fflush(stdout);
		(void)getchar();
		rates_clear(&got.rates);
		got = (struct figures){ 0 };
		load_ack(&l, &(struct load_step){ .connections = o->connections,
						  .ret = &got });
	}
	end(&l, "ack_per_s");
}

static void lifecycles(struct client *cl, const struct options *o,
		       unsigned batch, const char *rate)
{
	struct job_kind kind = kind_of(o);
	struct load l = { .cl = cl, .kind = &kind };

	load_lives(
	    &l, &(struct load_lives){ .producers = o->producers,
				      .workers = o->workers,
				      .batch = batch,
				      .wait_s = WAIT_S,
				      .backlog = o->backlog,
				      .rate = o->rate,
				      .count = o->total,
				      .time_ns = o->total > 0 ? 0 : o->time_ns,
				      .ret = &got });
	end(&l, rate);
}

void mode_lifecycle(struct client *cl, const struct options *o)
{
	lifecycles(cl, o, 0, "lifecycles_per_s");
}

void mode_lifecycle_batch(struct client *cl, const struct options *o)
{
	lifecycles(cl, o, o->batch, "batch_lifecycles_per_s");
}
