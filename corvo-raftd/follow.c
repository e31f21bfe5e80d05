#include "follow.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cluster/download.h"
#include "cluster/download_file.h"
#include "cluster/install.h"
#include "rt/file.h"
#include "rt/log.h"
#include "store/record.h"
#include "util/clock.h"

#define WORKER_NICE 10
#define QUICK_NS    (3 * NS_PER_S) /* a fetch after which none follows */
#define ROUNDS_MAX  10             /* fetches one after the other */
#define PAUSE_NS    NS_PER_S       /* after one that failed; it grows */
#define PAUSE_MAX   (30 * NS_PER_S)
#define LEFT_NS     (600 * NS_PER_S)  /* what nobody went on with is removed */
#define LOG_LOOK_NS (100 * NS_PER_MS) /* for the entry a store ends with */
#define LOG_WAIT_NS (60 * NS_PER_S)

/* What the leader offers, with memory of its own. */
struct offer {
	struct node_install i; /* index 0: none */
	struct buf members;
};

struct follow {
	struct follow_config c;
	struct worker *worker;
	struct offer next;    /* the last one */
	struct offer current; /* being fetched */
	struct rpc_client *client;
	struct download *download;
	struct download *before; /* the last one, when another follows */
	uint64_t began_ns;
	uint64_t total;    /* of the last one */
	uint64_t received; /* by those before */
	uint64_t failures_total;
	unsigned rounds;
	unsigned failures;
	uint64_t not_before_ns;
	bool checking; /* on the worker */
	bool waits;    /* for the log to have what the store ends with */
	uint64_t waits_since_ns;
	bool ready;
	bool leaving; /* being freed */
	int err;
	struct buf why;
	struct buf problem;
	struct loop_timer *left;
	struct loop_timer *log_look;
};

/* --- offers --- */

static void offer_copy(struct offer *o, const struct node_install *i)
{
	buf_clear(&o->members);
	buf_put_str(&o->members, i->members);
	o->i = *i;
	o->i.members = buf_str(&o->members);
}

static void close_client(struct follow *f)
{
	struct download_progress p = { 0 };

	if (f->download != NULL)
		download_progress(f->download, &p);
	f->received += p.received;
	download_free(f->download);
	f->download = NULL;
	download_free(f->before);
	f->before = NULL;
	if (f->client != NULL)
		f->c.close(f->c.ctx, f->client);
	f->client = NULL;
}

/* --- what is left of a try --- */

static void remove_work(void *ctx)
{
	struct follow *f = ctx;
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	incoming_path(f->c.settings, "", &path);
	(void)dir_remove(path.p);
}

static void remove_done(void *ctx)
{
	struct follow *f = ctx;

	f->checking = false;
	buf_clear(&f->problem);
}

static bool is_idle(const struct follow *f)
{
	return f->download == NULL && !f->checking && !f->waits && !f->ready;
}

/* The log had it in the end, or the leader is another one. */
static void on_left(void *ctx)
{
	struct follow *f = ctx;

	if (!is_idle(f))
		return;
	f->checking = true;
	worker_run(f->worker, remove_work, remove_done, f);
}

static void failed(struct follow *f, int err, struct str why)
{
	uint64_t pause = PAUSE_NS;

	for (unsigned i = 0; i < f->failures && pause < PAUSE_MAX; i++)
		pause *= 2;
	if (err == -ERR_NOT_FOUND) { /* a newer one will be offered */
		pause = 0;
	} else {
		f->failures++;
		f->failures_total++;
		buf_clear(&f->problem);
		buf_put_str(&f->problem, why);
		log_error("the leader's snapshot of entry %" PRIu64
			  " cannot be taken: %.*s; trying again",
			  f->current.i.manifest.index,
			  STR_ARG(buf_str(&f->problem)));
	}
	f->not_before_ns = clock_mono_ns() + MIN(pause, PAUSE_MAX);
	f->rounds = 0;
	loop_timer_arm(f->left, LEFT_NS);
}

/* --- the store that came --- */

/* The leader's file may be damaged too, where nobody has looked for long: it
 * would stop this node again, and again. */
static int read_all(struct kv *kv)
{
	struct kv_iter *it = kv_iter_new(kv, STR_NULL, STR_NULL);
	int e;

	while (kv_iter_valid(it))
		kv_iter_next(it);
	e = kv_iter_error(it);
	kv_iter_free(it);
	return e;
}

static int read_store(struct follow *f, struct record_meta *ret)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct kv_options o = { .read_only = true };
	struct kv *kv;
	int e;

	incoming_folder(f->c.settings, f->current.i.manifest.index, &path);
	e = kv_rocks_open(path.p, &o, &kv, &f->why);
	if (e < 0)
		return e;
	e = record_meta_read(kv, ret);
	if (e == 0 && f->current.i.store_only)
		e = read_all(kv);
	if (e < 0)
		buf_puts(&f->why, kv_error_text());
	kv_close(kv);
	return e;
}

static int check_store(struct follow *f)
{
	struct manifest *m = &f->current.i.manifest;
	struct record_meta meta;
	int e = read_store(f, &meta);

	if (e < 0)
		return e;
	if (meta.applied_index < m->applied ||
	    !history_eq(&meta.origin.history, &m->origin.history)) {
		buf_printf(&f->why,
			   "its store has applied entry %" PRIu64
			   ", of another history or fewer than the snapshot",
			   meta.applied_index);
		return -ERR_CONFLICT;
	}
	if (meta.applied_index > m->applied || f->current.i.store_only) {
		m->store = meta.applied_index;
		m->store_origin = meta.origin;
	}
	if (f->current.i.store_only)
		return 0; /* when the log has it, too */
	return install_ready(f->c.settings, &f->current.i, &f->why);
}

static void check_work(void *ctx)
{
	struct follow *f = ctx;

	f->err = check_store(f);
	if (f->err < 0)
		remove_work(f);
}

static void ready(struct follow *f)
{
	f->ready = true;
	log_info("the leader's snapshot of entry %" PRIu64
		 " is there; restarting to put it in place",
		 f->current.i.manifest.index);
	f->c.on_ready(f->c.ctx);
}

static void ready_work(void *ctx)
{
	struct follow *f = ctx;

	f->err = install_ready(f->c.settings, &f->current.i, &f->why);
}

static void ready_done(void *ctx)
{
	struct follow *f = ctx;

	f->checking = false;
	if (f->leaving)
		return;
	if (f->err < 0)
		failed(f, f->err, buf_str(&f->why));
	else
		ready(f);
}

/* Entries come all the time; this one is committed, so it will. */
static void on_log_look(void *ctx)
{
	struct follow *f = ctx;
	const struct manifest *m = &f->current.i.manifest;

	if (!f->waits)
		return;
	if (f->c.has_entry(f->c.ctx, m->store, &m->store_origin)) {
		f->waits = false;
		f->checking = true;
		worker_run(f->worker, ready_work, ready_done, f);
	} else if (clock_mono_ns() >= f->waits_since_ns + LOG_WAIT_NS) {
		f->waits = false;
		failed(f, -ERR_REQUEST_TIMEOUT,
		       STR("the log did not get the entry its store ends "
			   "with"));
	} else {
		loop_timer_arm(f->log_look, LOG_LOOK_NS);
	}
}

static void check_done(void *ctx)
{
	struct follow *f = ctx;

	f->checking = false;
	if (f->leaving)
		return;
	if (f->err < 0) {
		failed(f, f->err, buf_str(&f->why));
		return;
	}
	if (!f->current.i.store_only) {
		ready(f);
		return;
	}
	f->waits = true;
	f->waits_since_ns = clock_mono_ns();
	on_log_look(f);
}

/* --- fetching --- */

/* Another leader had the entries still, or this node leads by now. */
static void leave_it(struct follow *f)
{
	log_info("the leader's snapshot of entry %" PRIu64
		 " is not needed any more",
		 f->current.i.manifest.index);
	f->checking = true;
	worker_run(f->worker, remove_work, remove_done, f);
}

static void begin(struct follow *f);

static void on_done(void *ctx, int err, struct str why)
{
	struct follow *f = ctx;
	uint64_t took_ns = clock_mono_ns() - f->began_ns;
	struct download_progress p;

	download_progress(f->download, &p);
	f->total = p.total;
	if (err < 0) {
		failed(f, err, why);
		close_client(f);
		return;
	}
	log_info("fetched the snapshot of entry %" PRIu64 " bytes=%" PRIu64
		 " ms=%" PRIu64,
		 p.index, p.total, took_ns / NS_PER_MS);
	f->failures = 0;
	buf_clear(&f->problem);
	if (f->next.i.manifest.index > p.index && took_ns > QUICK_NS &&
	    ++f->rounds < ROUNDS_MAX) {
		f->before = f->download;
		f->received += p.received;
		f->download = NULL;
		f->c.close(f->c.ctx, f->client);
		begin(f);
		return;
	}
	close_client(f);
	if (!f->c.is_needed(f->c.ctx, &f->current.i)) {
		leave_it(f);
		return;
	}
	f->checking = true;
	buf_clear(&f->why);
	worker_run(f->worker, check_work, check_done, f);
}

static void begin(struct follow *f)
{
	struct download_config c = {
		.loop = f->c.loop,
		.worker = f->worker,
		.settings = f->c.settings,
		.done = on_done,
		.ctx = f,
	};

	offer_copy(&f->current, &f->next.i);
	f->client = f->c.open(f->c.ctx, f->current.i.leader);
	if (f->client == NULL) {
		f->not_before_ns = clock_mono_ns() + PAUSE_NS;
		return;
	}
	loop_timer_disarm(f->left);
	f->began_ns = clock_mono_ns();
	c.client = f->client;
	c.before = f->before;
	c.index = f->current.i.manifest.index;
	log_info("%s: fetching the leader's snapshot of entry %" PRIu64,
		 f->current.i.store_only ? "the store of this node is damaged"
					 : "too far behind for the log",
		 c.index);
	f->download = download_new(&c);
	if (f->c.on_begin != NULL && f->rounds == 0)
		f->c.on_begin(f->c.ctx);
	download_free(f->before);
	f->before = NULL;
}

void follow_offer(struct follow *f, const struct node_install *i)
{
	bool is_alike = f->current.i.leader == i->leader &&
			f->current.i.store_only == i->store_only;

	/* when the log has to begin anew, too, the store by itself is no use */
	if (f->checking || f->ready || (i->store_only && !is_idle(f)))
		return;
	offer_copy(&f->next, i);
	if (f->download != NULL && is_alike)
		return;
	/* another leader has other files */
	close_client(f);
	f->waits = false;
	if (clock_mono_ns() >= f->not_before_ns)
		begin(f);
}

/* --- the rest --- */

struct follow *follow_new(const struct follow_config *c)
{
	struct follow *f = xcalloc(1, sizeof(*f));

	f->c = *c;
	f->worker = worker_new(c->loop, "download", WORKER_NICE);
	f->left = loop_timer_add(c->loop, on_left, f);
	loop_timer_arm(f->left, LEFT_NS);
	f->log_look = loop_timer_add(c->loop, on_log_look, f);
	return f;
}

void follow_free(struct follow *f)
{
	if (f == NULL)
		return;
	f->leaving = true;
	close_client(f);
	worker_free(f->worker);
	loop_timer_remove(f->left);
	loop_timer_remove(f->log_look);
	buf_done(&f->next.members);
	buf_done(&f->current.members);
	buf_done(&f->why);
	buf_done(&f->problem);
	free(f);
}

void follow_status(const struct follow *f, struct follow_status *ret)
{
	struct download_progress p = { 0 };

	*ret = (struct follow_status){
		.active = !is_idle(f),
		.index = f->current.i.manifest.index,
		.done = f->total, /* while the store is checked */
		.total = f->total,
		.received = f->received,
		.failures = f->failures_total,
		.problem = buf_str(&f->problem),
	};
	if (f->download == NULL)
		return;
	download_progress(f->download, &p);
	ret->done = p.done;
	ret->total = p.total;
	ret->received += p.received;
}
