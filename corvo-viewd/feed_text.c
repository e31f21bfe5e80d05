/*
 * Rows are always current; the full text, which costs more than they do, is
 * when there is room. While more comes than the view can take in with all its
 * words, rows are written without; later the writer adds them, a portion at a
 * time, so that no rows have to wait for long. Whoever finds jobs by their
 * words waits for it, or is told how old the answer is.
 *
 * Loop thread but for run_step and feed_text_apply.
 */
#include "feed_impl.h"
#include "util/clock.h"

#define PRESSED_EVENTS 2000              /* known and not received */
#define ROOM_NS        (100 * NS_PER_MS) /* between looks whether there is */

/* More comes than the view can take in with all its words. */
void feed_text_choose(const struct feed *f, struct batch *b)
{
	b->rows_only =
	    b->reply.busy || f->head_seq > b->reply.last_seq + PRESSED_EVENTS;
}

int feed_text_apply(const struct batch *b) /* the writer's thread */
{
	struct mirror *m = b->f->view->mirror;

	return b->rows_only ? mirror_apply_rows(m, &b->reply)
			    : mirror_apply(m, &b->reply);
}

static void run_step(void *ctx) /* the writer's thread */
{
	struct feed *f = ctx;

	f->text_err = mirror_text_step(f->view->mirror);
	view_note_write(f->view);
}

static void on_step(void *ctx)
{
	struct feed *f = ctx;

	feed_write_ended(f);
	if (f->text_err < 0)
		feed_write_failed(f, f->text_err);
	else
		view_note_text(f->view);
	feed_status_changed(f);
	feed_drive(f);
}

void feed_text_drive(struct feed *f)
{
	if (f->stopping || mirror_text_is_whole(f->view->mirror))
		return;
	if (service_is_busy(f->service)) {
		loop_timer_arm(f->text_timer, ROOM_NS);
		return;
	}
	if (view_place(f->view) != VIEW_IN_PLACE)
		return; /* the feed finds it, too */
	feed_write(f, run_step, on_step, f);
}

static void on_room(void *ctx)
{
	feed_drive(ctx);
}

void feed_text_init(struct feed *f)
{
	f->text_timer = loop_timer_add(f->d->loop, on_room, f);
}
