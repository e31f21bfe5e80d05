/*
 * Who writes the view. Readers yield to writers: while it keeps step its rows
 * are written by a thread of low priority, and a burst of enqueues goes first.
 * Where processors are short for longer (jobs come without end, or another
 * program is busy) that thread would get next to nothing for minutes; a view
 * that is late is written at the priority of everybody else (yield.h). To raise
 * its own a thread needs a privilege, so there is one for each.
 */
#include "feed_impl.h"
#include "util/clock.h"

#define WRITER_NICE 10
#define ASIDE_NICE  5 /* it has a whole file to do */

bool feed_is_late(struct feed *f)
{
	uint64_t at = f->view->position;

	return !yield_may(&f->yield, clock_mono_ns(), view_lag_ns(f->view),
			  f->head_seq > at ? f->head_seq - at : 0);
}

void feed_write(struct feed *f, loop_fn *work, loop_fn *done, void *ctx)
{
	CHECK(!f->writer_runs);
	f->writer_runs = true;
	service_set_writing(f->service, true);
	worker_run(feed_is_late(f) ? f->threads.prompt : f->threads.writer,
		   work, done, ctx);
}

void feed_write_ended(struct feed *f)
{
	f->writer_runs = false;
	service_set_writing(f->service, false);
}

void feed_threads_start(struct feed *f)
{
	f->threads = (struct feed_threads){
		.writer = worker_new(f->d->loop, "writer", WRITER_NICE),
		.prompt = worker_new(f->d->loop, "writer-prompt", 0),
		.aside = worker_new(f->d->loop, "aside", ASIDE_NICE),
	};
}

void feed_threads_end(struct feed *f)
{
	worker_free(f->threads.writer);
	worker_free(f->threads.prompt);
	worker_free(f->threads.aside);
}
