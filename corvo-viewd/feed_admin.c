/*
 * What administrators ask for: a rebuild, and a comparison with the store.
 *
 * A comparison takes these steps. No further events are taken; raftd makes a
 * checkpoint, which holds every event the view has; the writer takes the
 * events between the two from the checkpoint itself, so that both have the
 * same last event and the same records; a snapshot of the view is opened.
 * Then the feed goes on, and a thread compares. At last the writer looks
 * at the full text, which only a writer can.
 *
 * Loop thread but for the run_ functions.
 */
#include <stdlib.h>

#include "feed_impl.h"
#include "rt/log.h"
#include "util/clock.h"

static uint64_t ms_since(uint64_t ns)
{
	return (clock_mono_ns() - ns) / NS_PER_MS;
}

static void reply_message(struct rpc_req req, const struct msg_desc *d,
			  const void *m)
{
	struct buf b = BUF_INIT(0);

	msg_encode(d, m, &b);
	rpc_reply(req, 0, 0, buf_str(&b));
	buf_done(&b);
}

static void refuse(struct rpc_req req, int err, const char *text)
{
	rpc_reply(req, err, 0, str_from(text != NULL ? text : err_text(err)));
}

/* --- rebuild --- */

void feed_answer_rebuild(struct feed *f, int err, const char *why)
{
	struct m_rebuild_reply m = { 0 };

	if (err == 0 && f->view->position < f->rebuild_goal)
		return; /* feed.c comes again with the next events */
	MSG_SET(&m, rebuild_reply, status, STR("ok"));
	MSG_SET(&m, rebuild_reply, rebuilt, true);
	MSG_SET(&m, rebuild_reply, jobs, f->task.jobs);
	MSG_SET(&m, rebuild_reply, duration_ms, ms_since(f->build_start_ns));
	for (size_t i = 0; i < f->rebuild_waiters_n; i++) {
		if (err < 0)
			refuse(f->rebuild_waiters[i], -err,
			       err == -ERR_STORAGE_FULL ? NULL : why);
		else
			reply_message(f->rebuild_waiters[i], &msg_rebuild_reply,
				      &m);
	}
	f->rebuild_waiters_n = 0;
}

static void ask_rebuild(struct feed *f, struct rpc_req req)
{
	bool was_none = f->build == BUILD_NONE;

	if (f->rebuild_waiters_n == FEED_REBUILD_WAITERS) {
		refuse(req, ERR_OVERLOADED, NULL);
		return;
	}
	f->rebuild_waiters[f->rebuild_waiters_n++] = req;
	if (!was_none)
		return; /* the one that is under way serves */
	feed_want_rebuild(f, true, "it was asked for");
	f->build_is_optional = f->view->writer != NULL && !f->view->fresh;
}

/* --- verify: the answer --- */

static void answer_verify(struct feed *f)
{
	struct verify *t = &f->verify_task;

	buf_putc(&t->why, '\0');
	if (f->verify_err < 0)
		log_warn("the view could not be compared: %s: %s",
			 err_code(-f->verify_err), t->why.p);
	if (!f->verify_is_wanted)
		return;
	if (f->verify_err < 0) {
		refuse(f->verify_req, -f->verify_err,
		       t->why.n > 1 ? t->why.p : NULL);
		return;
	}
	MSG_SET(&t->reply, verify_reply, status,
		t->reply.differences > 0 ? STR("differs") : STR("ok"));
	MSG_SET(&t->reply, verify_reply, duration_ms,
		ms_since(f->verify_start_ns));
	reply_message(f->verify_req, &msg_verify_reply, &t->reply);
}

static void end_verify(struct feed *f)
{
	struct verify *t = &f->verify_task;

	answer_verify(f);
	if (t->checkpoint != NULL)
		feed_release_checkpoint(f, t->checkpoint, t->seq);
	verify_end(t);
	f->verify = VERIFY_NONE;
	f->verify_is_wanted = false;
}

/* True: it has failed, or is to be given up. */
static bool is_over(struct feed *f)
{
	if (f->verify_err == 0 && atomic_load(&f->verify_task.stop))
		f->verify_err =
		    f->stopping ? -ERR_SHUTTING_DOWN : -ERR_VIEW_UNAVAILABLE;
	return f->verify_err < 0;
}

/*
 * Before the writer works for it: what somebody else has left there is not
 * taken for our own. The feed finds it too, and has the file made anew.
 */
static void check_place(struct feed *f)
{
	if (f->verify_err < 0 || view_place(f->view) == VIEW_IN_PLACE)
		return;
	f->verify_err = -ERR_VIEW_UNAVAILABLE;
	buf_puts(&f->verify_task.why,
		 "the view's file was moved or changed and "
		 "is made anew; try again");
}

void feed_verify_stop(struct feed *f)
{
	atomic_store(&f->verify_task.stop, true);
	if (f->verify == VERIFY_TEXT)
		db_interrupt(f->view->writer);
}

/* --- verify: the steps, the last one first --- */

static void run_text(void *ctx) /* the writer's thread */
{
	struct feed *f = ctx;

	f->verify_err = 0;
	while (f->verify_err == 0 && !mirror_text_is_whole(f->view->mirror))
		f->verify_err = mirror_text_step(f->view->mirror);
	if (f->verify_err == 0)
		f->verify_err = verify_text(&f->verify_task, f->view->writer);
	view_note_write(f->view);
}

static void on_text(void *ctx)
{
	struct feed *f = ctx;

	feed_write_ended(f);
	view_note_text(f->view);
	end_verify(f);
	feed_drive(f);
}

static void run_compare(void *ctx) /* the thread beside */
{
	struct feed *f = ctx;

	f->verify_err = verify_compare(&f->verify_task);
}

static void on_compared(void *ctx)
{
	struct feed *f = ctx;
	bool damaged = f->verify_err == -ERR_VIEW_UNAVAILABLE;

	if (is_over(f))
		end_verify(f);
	else
		f->verify = VERIFY_TEXT_WANTED;
	if (damaged)
		feed_damaged(f);
	else
		feed_drive(f);
}

static void run_align(void *ctx) /* the writer's thread */
{
	struct feed *f = ctx;

	f->verify_err = verify_align(&f->verify_task, &f->verify_view);
	view_note_write(f->view);
}

static void on_aligned(void *ctx)
{
	struct feed *f = ctx;

	feed_write_ended(f);
	f->view->position = f->verify_view.position;
	f->view->position_ns = f->verify_view.position_ns;
	f->view->fresh = f->view->position == 0;
	view_note_text(f->view);
	f->received_seq = f->view->position;
	feed_status_changed(f);
	if (is_over(f)) {
		end_verify(f);
	} else {
		f->verify = VERIFY_COMPARING;
		worker_run(f->threads.aside, run_compare, on_compared, f);
	}
	feed_drive(f);
}

static void on_checkpoint(void *ctx, const struct rpc_reply *r)
{
	struct arena a = ARENA_INIT;
	struct m_checkpoint_ref m = { 0 };
	struct feed *f = ctx;

	f->call = NULL;
	f->verify_err = -r->err;
	if (f->verify_err == 0)
		f->verify_err =
		    msg_decode(&msg_checkpoint_ref, r->body, &a, &m);
	if (f->verify_err == 0) {
		f->verify_task.checkpoint = xstrndup(m.path.p, m.path.n);
		f->verify_task.seq = m.seq;
	}
	arena_done(&a);
	check_place(f);
	if (is_over(f)) {
		end_verify(f);
	} else {
		f->verify = VERIFY_ALIGNING;
		f->verify_view = (struct verify_view){
			.mirror = f->view->mirror,
			.path = f->view->path,
			.position = f->view->position,
			.position_ns = f->view->position_ns,
		};
		feed_write(f, run_align, on_aligned, f);
	}
	feed_drive(f);
}

static void ask_checkpoint(struct feed *f)
{
	struct m_nothing m = { 0 };

	feed_drop_batches(f);
	f->verify = VERIFY_ASKED;
	feed_ask(f, QUERY_CHECKPOINT, &msg_nothing, &m, on_checkpoint);
}

bool feed_verify_holds(const struct feed *f)
{
	return f->verify == VERIFY_WANTED || f->verify == VERIFY_ASKED ||
	       f->verify == VERIFY_ALIGNING;
}

void feed_verify_drive(struct feed *f, bool can_ask)
{
	bool waits =
	    f->verify == VERIFY_WANTED || f->verify == VERIFY_TEXT_WANTED;

	if (!waits || f->writer_runs)
		return;
	check_place(f);
	if (is_over(f) || !rpc_client_is_up(f->raftd)) {
		if (f->verify_err == 0)
			f->verify_err = -ERR_LEADER_UNAVAILABLE;
		end_verify(f);
	} else if (f->verify == VERIFY_TEXT_WANTED) {
		f->verify = VERIFY_TEXT;
		feed_write(f, run_text, on_text, f);
	} else if (can_ask) {
		ask_checkpoint(f);
	}
}

static void ask_verify(struct feed *f, struct rpc_req req)
{
	if (f->verify != VERIFY_NONE) {
		refuse(req, ERR_CONFLICT,
		       "a comparison is under way; wait for its end");
		return;
	}
	if (f->build != BUILD_NONE || f->view->writer == NULL || !f->checked) {
		refuse(req, ERR_VIEW_UNAVAILABLE, NULL);
		return;
	}
	if (f->call != NULL) /* it may wait in raftd for long */
		rpc_cancel(f->raftd, f->call);
	f->call = NULL;
	f->verify = VERIFY_WANTED;
	f->verify_err = 0;
	f->verify_req = req;
	f->verify_is_wanted = true;
	f->verify_start_ns = clock_mono_ns();
	atomic_store(&f->verify_task.stop, false);
}

/* --- requests --- */

void feed_admin(struct feed *f, unsigned query, struct rpc_req req)
{
	if (f->stopping)
		refuse(req, ERR_SHUTTING_DOWN, NULL);
	else if (query == QUERY_REBUILD_VIEW)
		ask_rebuild(f, req);
	else
		ask_verify(f, req);
	feed_drive(f);
}

static bool is_meant(const struct rpc_req *r, const struct rpc_peer *peer,
		     const struct rpc_req *req)
{
	return r->peer == peer &&
	       (req == NULL || (r->id == req->id && r->epoch == req->epoch));
}

/* A rebuild goes on: half of one would be of no use. */
void feed_admin_gone(struct feed *f, const struct rpc_peer *peer,
		     const struct rpc_req *req)
{
	size_t n = 0;

	for (size_t i = 0; i < f->rebuild_waiters_n; i++)
		if (!is_meant(&f->rebuild_waiters[i], peer, req))
			f->rebuild_waiters[n++] = f->rebuild_waiters[i];
	f->rebuild_waiters_n = n;
	if (!f->verify_is_wanted || !is_meant(&f->verify_req, peer, req))
		return;
	f->verify_is_wanted = false;
	feed_verify_stop(f);
	feed_drive(f);
}
