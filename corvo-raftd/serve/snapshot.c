/*
 * Snapshots for followers that are too far behind for the log: the files of a
 * checkpoint, with checksums, and parts of them.
 *
 * Everything is read on the worker: a portion of a checksum or a few parts at
 * a time, so that the view's feed is never behind many of them. The loop only
 * passes on what was read.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rt/log.h"
#include "serve/keep.h"
#include "serve/svc_impl.h"
#include "util/clock.h"
#include "util/crc32.h"

#define ASKED_MAX   64 /* questions at a time; more are refused */
#define RUNNING_MAX 2  /* parts on the worker */
#define SWEEP_NS    (10 * NS_PER_S)

/* A question, and the checkpoint it is about. */
struct snapshot_ask {
	struct list node;
	struct svc_snapshots *o;
	struct rpc_req req;
	struct keep_point *point;
	/* for a part */
	const struct keep_file *file;
	uint64_t at;
	size_t n;
	int err; /* 0 or ERR_* */
	struct buf out;
};

struct svc_snapshots {
	struct svc *s;
	struct list lists;            /* questions for files */
	struct list parts;            /* questions for parts */
	size_t asked;                 /* in both, and on the worker */
	size_t running;               /* parts on the worker */
	struct snapshot_ask *summing; /* NULL: none are */
	int sum_err;                  /* of keep_sum */
	struct buf why;
	bool sweeping;
	struct loop_timer *timer;
};

static struct snapshot_ask *ask_of(struct list *it)
{
	return list_entry(it, struct snapshot_ask, node);
}

static void sweep_work(void *ctx)
{
	struct svc_snapshots *o = ctx;

	keep_sweep(o->s->p->keep, clock_mono_ns());
}

static void sweep_done(void *ctx)
{
	struct svc_snapshots *o = ctx;

	o->sweeping = false;
}

static void on_timer(void *ctx)
{
	struct svc_snapshots *o = ctx;

	loop_timer_arm(o->timer, SWEEP_NS);
	if (o->sweeping || keep_count(o->s->p->keep) < 2)
		return;
	o->sweeping = true;
	worker_run(o->s->p->worker, sweep_work, sweep_done, o);
}

struct svc_snapshots *svc_snapshots_new(struct svc *s)
{
	struct svc_snapshots *o = xcalloc(1, sizeof(*o));

	o->s = s;
	list_init(&o->lists);
	list_init(&o->parts);
	o->timer = loop_timer_add(s->p->d->loop, on_timer, o);
	loop_timer_arm(o->timer, SWEEP_NS);
	return o;
}

static struct snapshot_ask *ask_new(struct svc_snapshots *o, struct rpc_req req,
				    struct keep_point *point)
{
	struct snapshot_ask *a = xcalloc(1, sizeof(*a));

	a->o = o;
	a->req = req;
	a->point = point;
	list_init(&a->node);
	o->asked++;
	return a;
}

static void ask_free(struct snapshot_ask *a)
{
	list_remove(&a->node);
	a->o->asked--;
	keep_close(a->o->s->p->keep, a->point);
	buf_done(&a->out);
	free(a);
}

static void free_all(struct list *l)
{
	LIST_FOREACH_SAFE (it, l)
		ask_free(ask_of(it));
}

void svc_snapshots_free(struct svc_snapshots *o)
{
	free_all(&o->lists);
	free_all(&o->parts);
	CHECK(o->asked == 0);
	loop_timer_remove(o->timer);
	buf_done(&o->why);
	free(o);
}

/* NULL: it was answered. */
static struct keep_point *open_point(struct svc *s, struct rpc_req req,
				     uint64_t index)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct keep_point *p = NULL;

	if (s->snapshots->asked >= ASKED_MAX) {
		rpc_reply(req, ERR_OVERLOADED, 0,
			  STR("too many readers of snapshots"));
		return NULL;
	}
	p = keep_open(s->p->keep, index);
	if (p == NULL) {
		buf_printf(&text, "there is no snapshot of entry %" PRIu64,
			   index);
		rpc_reply(req, ERR_NOT_FOUND, 0, buf_str(&text));
	}
	return p;
}

/* --- the files --- */

/*
 * The log was cut there and the checkpoint is gone: of an older version, or
 * removed by hand. Only a new snapshot helps, of which the follower hears from
 * the library.
 */
static bool has_lost(struct svc *s, uint64_t index)
{
	struct keep_point *p = keep_open(s->p->keep, index);
	struct node_info i;

	node_info(s->p->node, &i);
	if (p != NULL)
		keep_close(s->p->keep, p);
	return p == NULL && index >= i.snapshot_index;
}

void q_snapshot_files(struct svc *s, struct rpc_req req,
		      const struct m_snapshot_ask *m)
{
	struct m_snapshot_list later = { 0 };
	struct keep_point *p;

	if (has_lost(s, m->index)) {
		node_want_snapshot(s->p->node);
		MSG_SET(&later, snapshot_list, later, true);
		svc_reply(s, req, &msg_snapshot_list, &later);
		return;
	}
	p = open_point(s, req, m->index);
	if (p != NULL) /* svc_snapshots_turn_end looks at it */
		list_push_back(&s->snapshots->lists,
			       &ask_new(s->snapshots, req, p)->node);
}

/*
 * Somebody's store is damaged, and its log has the entries after that one. What
 * a damaged store has is no help to it.
 */
void q_snapshot_newest(struct svc *s, struct rpc_req req,
		       const struct m_snapshot_ask *m)
{
	struct m_snapshot_found found = { 0 };
	struct keep_point *p = NULL;
	struct node_info i;

	if (node_is_frozen(s->p->node)) {
		svc_reply_error(req, ERR_STORAGE_ERROR);
		return;
	}
	node_info(s->p->node, &i);
	if (i.snapshot_index >= m->index)
		p = keep_open(s->p->keep, i.snapshot_index);
	if (p != NULL) {
		keep_close(s->p->keep, p); /* it is read from now on */
		MSG_SET(&found, snapshot_found, index, i.snapshot_index);
	} else {
		node_want_snapshot(s->p->node);
	}
	svc_reply(s, req, &msg_snapshot_found, &found);
}

static void reply_files(struct svc_snapshots *o, struct snapshot_ask *a)
{
	struct m_snapshot_list m = { 0 };
	struct m_snapshot_file *files;
	const struct keep_file *f;
	size_t n;

	f = keep_files(o->s->p->keep, a->point, &n);
	arena_reset(&o->s->scratch);
	files = arena_zalloc(&o->s->scratch, (n + 1) * sizeof(*files));
	for (size_t i = 0; i < n; i++) {
		MSG_SET(&files[i], snapshot_file, name, str_from(f[i].name));
		MSG_SET(&files[i], snapshot_file, size, f[i].size);
		MSG_SET(&files[i], snapshot_file, crc, f[i].crc);
	}
	MSG_SET_LIST(&m, snapshot_list, files, files, n);
	svc_reply(o->s, a->req, &msg_snapshot_list, &m);
}

static void sum_work(void *ctx)
{
	struct svc_snapshots *o = ctx;

	o->sum_err = keep_sum(o->s->p->keep, o->summing->point, &o->why);
}

/* The rest is done when the turn ends. */
static void sum_done(void *ctx)
{
	struct svc_snapshots *o = ctx;
	struct snapshot_ask *a = o->summing;

	o->summing = NULL;
	if (o->sum_err < 0) {
		log_error("snapshot for a follower: %.*s",
			  STR_ARG(buf_str(&o->why)));
		rpc_reply(a->req, -o->sum_err, 0, buf_str(&o->why));
		ask_free(a);
	}
	buf_clear(&o->why);
}

static void look_at_lists(struct svc_snapshots *o)
{
	size_t n;

	LIST_FOREACH_SAFE (it, &o->lists) {
		struct snapshot_ask *a = ask_of(it);

		if (o->summing != NULL)
			return;
		if (!rpc_req_is_live(a->req)) {
			ask_free(a);
		} else if (keep_files(o->s->p->keep, a->point, &n) != NULL) {
			reply_files(o, a);
			ask_free(a);
		} else {
			o->summing = a;
			worker_run(o->s->p->worker, sum_work, sum_done, o);
		}
	}
}

/* --- parts of them --- */

/* Only names of the list: none leads out of the folder. */
static const struct keep_file *
find_file(struct svc *s, const struct keep_point *p, struct str name)
{
	size_t n;
	const struct keep_file *f = keep_files(s->p->keep, p, &n);

	for (size_t i = 0; i < n; i++)
		if (str_is(name, f[i].name))
			return &f[i];
	return NULL;
}

void q_snapshot_chunk(struct svc *s, struct rpc_req req,
		      const struct m_snapshot_part *m)
{
	struct keep_point *p = open_point(s, req, m->index);
	const struct keep_file *f;
	struct snapshot_ask *a;

	if (p == NULL)
		return;
	f = find_file(s, p, m->name);
	if (f == NULL || m->n > LIMIT_SNAPSHOT_PART || m->at > f->size ||
	    m->n > f->size - m->at) {
		keep_close(s->p->keep, p);
		rpc_reply(req, ERR_VALIDATION_ERROR, 0,
			  f == NULL ? STR("no such file is listed; ask for the "
					  "files first")
				    : STR("the file has no such part"));
		return;
	}
	a = ask_new(s->snapshots, req, p);
	a->file = f;
	a->at = m->at;
	a->n = m->n;
	list_push_back(&s->snapshots->parts, &a->node);
}

static void part_work(void *ctx)
{
	struct snapshot_ask *a = ctx;
	struct m_snapshot_bytes m = { 0 };
	char *bytes = xmalloc(a->n + 1);
	int e = keep_read(a->point, a->file, a->at, a->n, bytes);
	struct str s = str_of(bytes, a->n);

	if (e < 0) {
		log_error("cannot read %s of a snapshot: %s", a->file->name,
			  strerror(-e));
		a->err = ERR_STORAGE_ERROR;
	} else {
		MSG_SET(&m, snapshot_bytes, bytes, s);
		MSG_SET(&m, snapshot_bytes, crc, crc32_add(0, s));
		msg_encode(&msg_snapshot_bytes, &m, &a->out);
	}
	free(bytes);
}

static void part_done(void *ctx)
{
	struct snapshot_ask *a = ctx;

	a->o->running--; /* the next one is begun when the turn ends */
	if (a->err != 0)
		svc_reply_error(a->req, a->err);
	else
		rpc_reply(a->req, 0, 0, buf_str(&a->out));
	a->o->s->snapshot_sent += a->err == 0 ? a->n : 0;
	ask_free(a);
}

static void look_at_parts(struct svc_snapshots *o)
{
	LIST_FOREACH_SAFE (it, &o->parts) {
		struct snapshot_ask *a = ask_of(it);

		if (o->running >= RUNNING_MAX)
			return;
		if (!rpc_req_is_live(a->req)) {
			ask_free(a);
			continue;
		}
		list_remove(it);
		o->running++;
		worker_run(o->s->p->worker, part_work, part_done, a);
	}
}

void svc_snapshots_turn_end(struct svc_snapshots *o)
{
	if (o->asked == 0)
		return;
	look_at_lists(o);
	look_at_parts(o);
}
