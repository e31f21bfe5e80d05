/*
 * The steps of a rebuild: raftd makes a checkpoint, a thread loads it into a
 * new file, the readers pause for the moment of the swap, raftd removes the
 * checkpoint. A step that fails goes back to the first one.
 *
 * Loop thread but for run_load.
 */
#include <stdlib.h>

#include "feed_impl.h"
#include "rt/log.h"
#include "util/clock.h"

static void on_checkpoint_done(void *ctx, const struct rpc_reply *r)
{
	struct feed *f = ctx;

	if (r->err != 0 && rpc_client_is_up(f->raftd))
		log_warn("raftd could not remove the checkpoint: %s",
			 err_code(r->err));
}

void feed_release_checkpoint(struct feed *f, const char *path, uint64_t seq)
{
	struct m_checkpoint_ref m = { 0 };
	struct buf b = BUF_INIT(0);

	MSG_SET(&m, checkpoint_ref, path, str_from(path));
	MSG_SET(&m, checkpoint_ref, seq, seq);
	msg_encode(&msg_checkpoint_ref, &m, &b);
	if (rpc_client_is_up(f->raftd))
		(void)rpc_call(f->raftd, QUERY_CHECKPOINT_DONE, STR_NULL,
			       buf_str(&b), 0, ERR_LEADER_UNAVAILABLE, RPC_ONCE,
			       on_checkpoint_done, f);
	buf_done(&b);
}

static void release_checkpoint(struct feed *f)
{
	if (f->task.checkpoint == NULL)
		return;
	feed_release_checkpoint(f, f->task.checkpoint, f->task.seq);
	free(f->task.checkpoint);
	f->task.checkpoint = NULL;
}

/* For raftd, which hears of it with the next question. why: of one that failed;
 * NULL: it is good. */
static void note_rebuilt(struct feed *f, const char *why)
{
	struct m_rebuild_status *m = &f->rebuilt;
	struct str text;

	*m = (struct m_rebuild_status){ 0 };
	MSG_SET(m, rebuild_status, ran, true);
	MSG_SET(m, rebuild_status, last_started_at, f->build_start_wall_ns);
	MSG_SET(m, rebuild_status, last_duration_ms,
		(clock_mono_ns() - f->build_start_ns) / NS_PER_MS);
	MSG_SET(m, rebuild_status, last_success, why == NULL);
	if (why == NULL)
		return;
	text = str_cut(str_from(why), sizeof(f->rebuilt_error));
	memcpy(f->rebuilt_error, text.p, text.n);
	MSG_SET(m, rebuild_status, last_error,
		str_of(f->rebuilt_error, text.n));
}

/* One that was only asked for leaves the view as it is. */
static void build_failed(struct feed *f, int err, const char *why)
{
	bool again = !f->build_is_optional;

	f->build = again ? BUILD_WANTED : BUILD_NONE;
	if (again)
		feed_pause_begin(&f->build_pause);
	if (feed_pause_may_log(&f->build_pause))
		log_error("the rebuild failed: %s%s", why,
			  again ? "; trying again" : "");
	release_checkpoint(f);
	note_rebuilt(f, why);
	feed_answer_rebuild(f, err, why);
}

/* The readers are idle: the new file takes the place of the old one. */
static void on_readers_idle(void *ctx)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct feed *f = ctx;
	uint64_t before = f->view->position;
	int r = view_replace(f->view, &why);

	if (r < 0) {
		service_set_usable(f->service, false);
		f->build_is_optional = false; /* the old one is gone */
		buf_putc(&why, '\0');
		build_failed(f, r, why.p);
	} else {
		log_info("the view is rebuilt: %llu jobs, position %llu",
			 (unsigned long long)f->task.jobs,
			 (unsigned long long)f->view->position);
		f->build = BUILD_NONE;
		feed_pause_reset(&f->build_pause);
		feed_drop_batches(f);
		release_checkpoint(f);
		service_set_usable(f->service, true);
		f->rebuild_goal = f->build_is_optional ? before : 0;
		feed_status_changed(f);
		note_rebuilt(f, NULL);
		feed_answer_rebuild(f, 0, NULL);
	}
	service_resume(f->service);
	feed_drive(f);
}

static void run_load(void *ctx) /* the thread beside */
{
	struct feed *f = ctx;

	f->task_err = rebuild_run(&f->task);
}

static void on_loaded(void *ctx)
{
	struct feed *f = ctx;

	if (f->stopping) {
		f->build = BUILD_NONE;
	} else {
		/* What it asks for now does not go on from the new file, or
		 * has nothing of this failure. */
		if (f->call != NULL)
			rpc_cancel(f->raftd, f->call);
		f->call = NULL;
		if (f->task_err == 0) {
			f->build = BUILD_LOADED;
		} else {
			buf_putc(&f->task.why, '\0');
			build_failed(f, f->task_err, f->task.why.p);
		}
	}
	feed_drive(f);
}

void feed_build_swap(struct feed *f)
{
	f->build = BUILD_SWAPPING;
	service_yield(f->service);
	service_pause(f->service, on_readers_idle, f);
}

static void on_checkpoint(void *ctx, const struct rpc_reply *r)
{
	struct arena a = ARENA_INIT;
	struct m_checkpoint_ref m = { 0 };
	struct feed *f = ctx;
	int err = -r->err;

	f->call = NULL;
	f->build = BUILD_WANTED;
	if (err == 0)
		err = msg_decode(&msg_checkpoint_ref, r->body, &a, &m);
	if (err < 0 && f->build_is_optional) {
		build_failed(f, err, "corvo-raftd made no checkpoint");
	} else if (err < 0) {
		feed_ask_failed(f, "checkpoint", err);
	} else if (!f->stopping) {
		feed_pause_reset(&f->ask_pause);
		f->build = BUILD_LOADING;
		f->task.checkpoint = xstrndup(m.path.p, m.path.n);
		f->task.seq = m.seq;
		worker_run(f->threads.aside, run_load, on_loaded, f);
	}
	arena_done(&a);
	feed_drive(f);
}

void feed_build_start(struct feed *f)
{
	struct m_nothing m = { 0 };

	f->build = BUILD_ASKED;
	feed_ask(f, QUERY_CHECKPOINT, &msg_nothing, &m, on_checkpoint);
}
