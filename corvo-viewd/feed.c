/*
 * Everything that happens only changes the members of struct feed and calls
 * feed_drive(), which looks at them and starts what can be started:
 *
 *   open     the file, when it is not open
 *   check    is raftd's history the one in the file? (once per link)
 *   tail     ask for events after the last ones received
 *   write    the batch that waits, one at a time
 *   rebuild  checkpoint, load, swap, checkpoint_done
 *
 * Asking and writing each have a pause that doubles while they fail.
 */
#include "feed.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "feed_impl.h"
#include "rt/log.h"
#include "util/clock.h"

#define ASK_PAUSE_FIRST_NS   (10 * NS_PER_MS)
#define ASK_PAUSE_MAX_NS     (200 * NS_PER_MS)
#define WRITE_PAUSE_FIRST_NS (100 * NS_PER_MS)
#define WRITE_PAUSE_MAX_NS   (5 * NS_PER_S)
#define BUILD_PAUSE_FIRST_NS (1 * NS_PER_S)
#define BUILD_PAUSE_MAX_NS   (60 * NS_PER_S)
#define LOG_EVERY_NS         (60 * NS_PER_S) /* a failure that goes on */
#define STATUS_EVERY_NS      (1 * NS_PER_S)
#define PLACE_EVERY_NS       (1 * NS_PER_S)
#define BATCH_BLOCK_BYTES    (256u << 10)
#define FOLLOWED_EVENTS      8 /* a new node's own: sooner told than loaded */

/* --- pauses --- */

static void on_pause_over(void *ctx)
{
	struct feed_pause *p = ctx;

	p->on = false;
	feed_drive(p->f);
}

static void pause_init(struct feed_pause *p, struct feed *f, uint64_t first_ns,
		       uint64_t max_ns)
{
	*p = (struct feed_pause){ .f = f,
				  .first_ns = first_ns,
				  .max_ns = max_ns };
	p->timer = loop_timer_add(f->d->loop, on_pause_over, p);
}

void feed_pause_begin(struct feed_pause *p)
{
	p->ns = p->ns == 0 ? p->first_ns : MIN(p->ns * 2, p->max_ns);
	p->on = true;
	loop_timer_arm(p->timer, p->ns);
}

void feed_pause_reset(struct feed_pause *p)
{
	p->ns = 0;
	p->logged_ns = 0;
	p->on = false;
	loop_timer_disarm(p->timer);
}

bool feed_pause_may_log(struct feed_pause *p)
{
	uint64_t now = clock_mono_ns();

	if (p->logged_ns != 0 && now - p->logged_ns < LOG_EVERY_NS)
		return false;
	p->logged_ns = now;
	return true;
}

/* --- status --- */

static void on_status_timer(void *ctx)
{
	struct feed *f = ctx;
	uint64_t at = f->view->position;

	f->status_armed = false;
	notify_status(
	    &f->d->notify, "position %llu, %llu events behind%s",
	    (unsigned long long)at,
	    (unsigned long long)(f->head_seq > at ? f->head_seq - at : 0),
	    f->build != BUILD_NONE ? ", rebuilding" : "");
}

/* Soon, not now: a busy view changes thousands of times a second. */
void feed_status_changed(struct feed *f)
{
	service_advance(f->service, f->head_seq, f->rebuilds);
	if (!f->status_armed) {
		f->status_armed = true;
		loop_timer_arm(f->status_timer, STATUS_EVERY_NS);
	}
}

/* --- batches --- */

/* A view that is good is kept up while another one is loaded. */
static bool takes_events(const struct feed *f)
{
	return f->build == BUILD_NONE ||
	       (f->build == BUILD_LOADING && f->build_is_optional);
}

/*
 * For the lag: the time of the first event that is known and not written. Of
 * one that was not received only the order is known: it came after the last
 * one written, or after the rebuild began.
 */
static void note_behind(struct feed *f)
{
	const struct batch *b = f->writing != NULL ? f->writing : f->next;
	struct view *v = f->view;

	if (b != NULL && b->reply.events_n > 0)
		v->behind_ns = b->reply.events[0].at;
	else if (!takes_events(f))
		v->behind_ns =
		    v->behind_ns != 0 ? v->behind_ns : clock_wall_ns();
	else
		v->behind_ns = f->head_seq > v->position ? v->position_ns : 0;
}

static void batch_free(struct batch *b)
{
	if (b == NULL)
		return;
	buf_done(&b->body);
	arena_done(&b->arena);
	free(b);
}

static struct batch *batch_new(struct feed *f, struct str body)
{
	struct batch *b = xcalloc(1, sizeof(*b));

	b->f = f;
	b->arena.block_size =
	    body.n > BATCH_BLOCK_BYTES ? BATCH_BLOCK_BYTES : 0;
	buf_append(&b->body, body.p, body.n);
	if (msg_decode(&msg_tail_reply, buf_str(&b->body), &b->arena,
		       &b->reply) < 0) {
		batch_free(b);
		return NULL;
	}
	return b;
}

void feed_drop_batches(struct feed *f)
{
	CHECK(!f->writer_runs);
	batch_free(f->next);
	batch_free(f->writing);
	f->next = f->writing = NULL;
	f->received_seq = f->view->position;
}

/* --- rebuild: when --- */

void feed_want_rebuild(struct feed *f, bool usable, const char *reason)
{
	f->build_is_optional = false;
	if (!usable)
		service_set_usable(f->service, false);
	if (f->build != BUILD_NONE)
		return;
	f->build_start_ns = clock_mono_ns();
	f->build_start_wall_ns = clock_wall_ns();
	/* It compares what is about to go, and holds the one checkpoint. */
	feed_verify_stop(f);
	log_warn("rebuilding the view: %s", reason);
	if (f->call != NULL && f->verify != VERIFY_ASKED) {
		rpc_cancel(f->raftd,
			   f->call); /* it may wait in raftd for long */
		f->call = NULL;
	}
	f->build = BUILD_WANTED;
	f->rebuilds++;
	feed_status_changed(f);
}

void feed_damaged(struct feed *f)
{
	feed_want_rebuild(f, false, "the file is damaged");
	feed_drive(f);
}

void feed_displaced(struct feed *f, enum view_place place)
{
	if (place == VIEW_CHANGED)
		feed_want_rebuild(f, false, "somebody else wrote to the file");
	else
		feed_want_rebuild(f, true, "the file was removed or replaced");
	feed_drive(f);
}

/* Once a second, also when nothing happens. */
static void on_place_timer(void *ctx)
{
	struct feed *f = ctx;

	loop_timer_arm(f->place_timer, PLACE_EVERY_NS);
	if (f->view->writer != NULL && !f->writer_runs && !f->stopping &&
	    f->build == BUILD_NONE && view_place(f->view) != VIEW_IN_PLACE)
		feed_displaced(f, view_place(f->view));
}

/* --- write --- */

static void run_write(void *ctx) /* the writer's thread */
{
	struct batch *b = ctx;

	b->err = feed_text_apply(b);
	view_note_write(b->f->view);
}

static void written(struct feed *f, struct batch *b)
{
	size_t n = b->reply.events_n;

	feed_pause_reset(&f->write_pause);
	f->view->took_lag_ns = view_lag_ns(f->view);
	f->view->took_ns = clock_mono_ns();
	f->view->position = b->reply.last_seq;
	(void)history_parse(b->reply.history, &f->view->history);
	if (n > 0)
		f->view->position_ns = b->reply.events[n - 1].at;
	f->view->fresh = false;
	view_note_text(f->view);
	f->writing = NULL;
	batch_free(b);
	note_behind(f);
	feed_status_changed(f);
	if (f->rebuild_waiters_n > 0 && f->build == BUILD_NONE)
		feed_answer_rebuild(f, 0, NULL);
}

void feed_write_failed(struct feed *f, int err)
{
	if (err == -ERR_NOT_FOUND) {
		feed_want_rebuild(f, true, "a job that changed is not in it");
	} else if (err == -ERR_VIEW_UNAVAILABLE) {
		feed_want_rebuild(f, false, "the file is damaged");
	} else {
		feed_pause_begin(&f->write_pause);
		if (feed_pause_may_log(&f->write_pause))
			log_error("cannot write the view: %s; trying again",
				  mirror_why(f->view->mirror));
	}
}

static void on_written(void *ctx)
{
	struct batch *b = ctx;
	struct feed *f = b->f;

	feed_write_ended(f);
	if (b->err == 0)
		written(f, b);
	else
		feed_write_failed(f, b->err);
	feed_drive(f);
}

static void start_write(struct feed *f)
{
	if (f->writing == NULL) {
		f->writing = f->next;
		f->next = NULL;
	}
	feed_text_choose(f, f->writing);
	feed_write(f, run_write, on_written, f->writing);
}

/* Events are not written over what somebody else has left there. */
static void check_and_write(struct feed *f)
{
	enum view_place place = view_place(f->view);

	if (place != VIEW_IN_PLACE)
		feed_displaced(f, place);
	else
		start_write(f);
}

/* --- asking raftd --- */

/* A fresh start on the next link; questions of the last one have ended. */
static void on_link(void *ctx, bool up)
{
	struct feed *f = ctx;

	f->checked = false;
	if (up && !f->was_up) {
		f->was_up = true;
		/* of a process before this one, if there is any */
		feed_release_checkpoint(f, "", 0);
	}
	feed_pause_reset(&f->ask_pause);
	feed_drive(f);
}

void feed_ask(struct feed *f, unsigned id, const struct msg_desc *d,
	      const void *m, rpc_reply_fn *fn)
{
	struct buf b = BUF_INIT(0);

	msg_encode(d, m, &b);
	f->call = rpc_call(f->raftd, id, STR_NULL, buf_str(&b), 0,
			   ERR_LEADER_UNAVAILABLE, RPC_ONCE, fn, f);
	buf_done(&b);
}

void feed_ask_failed(struct feed *f, const char *what, int err)
{
	feed_pause_begin(&f->ask_pause);
	if (rpc_client_is_up(f->raftd) && feed_pause_may_log(&f->ask_pause))
		log_warn("raftd's answer to %s: %s; trying again", what,
			 err_code(-err));
}

/* What raftd says; a text that is none is of no view. */
static bool is_history_of(const struct view *v, struct str text)
{
	struct history h;

	return history_parse(text, &h) && history_eq(&h, &v->history);
}

static void compare_history(struct feed *f, const struct m_node_status *m)
{
	bool other = !f->view->fresh && !is_history_of(f->view, m->history);

	f->head_seq = m->last_seq;
	if ((m->last_seq < f->received_seq || other) && !m->ready) {
		feed_pause_begin(&f->ask_pause); /* it still reads its log */
		return;
	}
	f->checked = true;
	feed_pause_reset(&f->ask_pause);
	if (other)
		feed_want_rebuild(f, false, "it is of another history");
	else if (m->last_seq < f->received_seq)
		feed_want_rebuild(f, false,
				  "it is ahead of raftd: its data were "
				  "replaced");
	else if (f->view->fresh && m->last_seq > FOLLOWED_EVENTS)
		feed_want_rebuild(f, false, "it is empty");
	else if (f->build == BUILD_NONE)
		service_set_usable(f->service, true);
	feed_status_changed(f);
}

static void on_node_status(void *ctx, const struct rpc_reply *r)
{
	struct arena a = ARENA_INIT;
	struct feed *f = ctx;
	struct m_node_status m;
	int err = -r->err;

	f->call = NULL;
	if (err == 0)
		err = msg_decode(&msg_node_status, r->body, &a, &m);
	if (err < 0)
		feed_ask_failed(f, "node_status", err);
	else
		compare_history(f, &m);
	arena_done(&a);
	feed_drive(f);
}

static void take_batch(struct feed *f, struct batch *b)
{
	const struct m_tail_reply *m = &b->reply;

	f->head_seq = m->head_seq;
	service_set_busy(f->service, m->busy);
	if (m->lost) {
		feed_want_rebuild(f, !f->view->fresh,
				  "raftd no longer has the events it needs");
	} else if (m->head_seq < f->received_seq) {
		f->checked = false;
	} else if (m->last_seq <= f->received_seq) {
		feed_pause_begin(&f->ask_pause); /* nothing new: do not spin */
	} else {
		feed_pause_reset(&f->ask_pause);
		f->received_seq = m->last_seq;
		f->next = b;
		return;
	}
	batch_free(b);
}

static void on_tail(void *ctx, const struct rpc_reply *r)
{
	struct feed *f = ctx;
	struct batch *b = NULL;

	f->call = NULL;
	if (r->err == 0)
		b = batch_new(f, r->body);
	if (b == NULL)
		feed_ask_failed(f, "tail",
				r->err != 0 ? -r->err : -ERR_BAD_MESSAGE);
	else if (!takes_events(f) || f->stopping)
		batch_free(b);
	else
		take_batch(f, b);
	feed_drive(f);
}

static void ask_status(struct feed *f)
{
	struct m_nothing m = { 0 };

	feed_ask(f, QUERY_NODE_STATUS, &msg_nothing, &m, on_node_status);
}

static void ask_tail(struct feed *f)
{
	struct m_tail m = { 0 };

	MSG_SET(&m, tail, after_seq, f->received_seq);
	MSG_SET(&m, tail, limit, LIMIT_TAIL_EVENTS);
	MSG_SET(&m, tail, pid, (uint32_t)getpid());
	MSG_SET(&m, tail, late, feed_is_late(f));
	if (f->rebuilt.ran)
		MSG_SET(&m, tail, rebuild, &f->rebuilt);
	feed_ask(f, QUERY_TAIL, &msg_tail, &m, on_tail);
}

/* --- what can be started --- */

/* A file that cannot even be made is tried again, as a failed write is. */
static void try_open(struct feed *f)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (view_open(f->view, &why) == 0) {
		feed_pause_reset(&f->write_pause);
		f->received_seq = f->view->position;
		f->checked = false;
		if (!f->view->fresh)
			service_set_usable(f->service, true);
		return;
	}
	feed_pause_begin(&f->write_pause);
	if (feed_pause_may_log(&f->write_pause))
		log_error("the view is not available: %.*s; trying again",
			  STR_ARG(buf_str(&why)));
}

static void finish_stop(struct feed *f)
{
	loop_fn *stopped = f->stopped;

	if (f->writer_runs || f->build == BUILD_LOADING ||
	    f->verify == VERIFY_COMPARING || stopped == NULL)
		return;
	feed_drop_batches(f);
	f->stopped = NULL;
	stopped(f->stopped_ctx);
}

void feed_drive(struct feed *f)
{
	bool can_ask =
	    rpc_client_is_up(f->raftd) && f->call == NULL && !f->ask_pause.on;

	note_behind(f);
	if (f->stopping) {
		finish_stop(f);
		return;
	}
	if (f->view->writer == NULL && f->build == BUILD_NONE &&
	    !f->write_pause.on)
		try_open(f);
	feed_verify_drive(f, can_ask);
	can_ask = can_ask && f->call == NULL;
	if (f->build == BUILD_WANTED && !f->writer_runs &&
	    f->verify == VERIFY_NONE) {
		feed_drop_batches(f);
		if (can_ask && !f->build_pause.on)
			feed_build_start(f);
	}
	if (f->build == BUILD_LOADED && !f->writer_runs) {
		feed_build_swap(f); /* drives again when it is done */
		return;
	}
	if (!takes_events(f) || f->view->writer == NULL || feed_verify_holds(f))
		return;
	if (!f->writer_runs && !f->write_pause.on &&
	    (f->writing != NULL || f->next != NULL)) {
		check_and_write(f);
		if (!takes_events(f))
			return; /* it has been driven */
	}
	if (can_ask && !f->checked)
		ask_status(f);
	else if (can_ask && f->next == NULL)
		ask_tail(f);
	if (!f->writer_runs && !f->write_pause.on)
		feed_text_drive(f);
}

/* --- life --- */

struct feed *feed_new(struct daemon *d, struct view *v, struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct feed *f = xcalloc(1, sizeof(*f));

	f->d = d;
	f->view = v;
	f->received_seq = v->position;
	f->task.path = v->new_path;
	pause_init(&f->ask_pause, f, ASK_PAUSE_FIRST_NS, ASK_PAUSE_MAX_NS);
	pause_init(&f->write_pause, f, WRITE_PAUSE_FIRST_NS,
		   WRITE_PAUSE_MAX_NS);
	pause_init(&f->build_pause, f, BUILD_PAUSE_FIRST_NS,
		   BUILD_PAUSE_MAX_NS);
	f->status_timer = loop_timer_add(d->loop, on_status_timer, f);
	feed_text_init(f);
	feed_threads_start(f);
	f->place_timer = loop_timer_add(d->loop, on_place_timer, f);
	daemon_link_path(d, PROC_RAFTD, PROC_VIEWD, 0, &path);
	buf_putc(&path, '\0');
	f->raftd = rpc_client_new(d->ipc, path.p, PROC_VIEWD, why);
	if (f->raftd == NULL) {
		feed_free(f);
		return NULL;
	}
	return f;
}

void feed_free(struct feed *f)
{
	if (f == NULL)
		return;
	feed_threads_end(f);
	if (f->raftd != NULL)
		rpc_client_free(f->raftd);
	batch_free(f->next);
	batch_free(f->writing);
	loop_timer_remove(f->ask_pause.timer);
	loop_timer_remove(f->write_pause.timer);
	loop_timer_remove(f->build_pause.timer);
	loop_timer_remove(f->status_timer);
	loop_timer_remove(f->text_timer);
	loop_timer_remove(f->place_timer);
	verify_end(&f->verify_task);
	free(f->task.checkpoint);
	buf_done(&f->task.why);
	free(f);
}

void feed_flush(struct feed *f)
{
	rpc_client_flush(f->raftd);
}

void feed_start(struct feed *f, struct service *s)
{
	f->service = s;
	if (f->view->writer != NULL && !f->view->fresh)
		service_set_usable(s, true);
	rpc_client_on_state(f->raftd, on_link, f);
	loop_timer_arm(f->place_timer, PLACE_EVERY_NS);
	feed_status_changed(f);
	feed_drive(f);
}

void feed_stop(struct feed *f, loop_fn *done, void *ctx)
{
	f->stopping = true;
	f->stopped = done;
	f->stopped_ctx = ctx;
	atomic_store(&f->task.stop, true);
	feed_verify_stop(f);
	if (f->call != NULL)
		rpc_cancel(f->raftd, f->call);
	f->call = NULL;
	feed_drive(f);
}
