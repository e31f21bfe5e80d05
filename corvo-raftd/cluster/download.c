/*
 * See download.h: lists the files, looks at what is there of them, then asks
 * for the rest, part after part. Whatever goes wrong on the way (an answer
 * that does not come, bytes that are not right), it begins anew with the list
 * after a pause, and loses nothing by it.
 */
#include "cluster/download.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cluster/download_file.h"
#include "rt/log.h"
#include "util/clock.h"
#include "util/list.h"

#define WINDOW      4 /* parts under way */
#define ANSWER_NS   (30 * NS_PER_S)
#define PAUSE_NS    (500 * NS_PER_MS)
#define SAY_NS      (10 * NS_PER_S) /* between lines about what goes wrong */
#define WRONG_MAX   5               /* files that do not match their checksum */
#define PART_MIN    (4u << 10)
#define PARTS_PER_S 8 /* at least, so that a low rate is an even one */

enum state {
	LISTING,   /* waits for the list */
	PREPARING, /* the worker looks at what is there */
	FETCHING,
	ENDING, /* the worker flushes */
	PAUSING,
	OVER, /* and it is yet to be told */
	TOLD,
};

struct part {
	struct list node;
	struct download *d;
	struct rpc_call *call; /* NULL: it has arrived */
	struct incoming_file *file;
	uint64_t at;
	uint32_t n;
	uint32_t crc;
	struct buf bytes;
};

struct download {
	struct download_config c;
	enum state state;
	struct incoming in;
	struct rpc_call *list_call;
	struct list parts; /* asked for, in order */
	size_t parts_n;
	size_t next; /* file to ask of */
	bool begun;
	uint64_t next_at;     /* in it, once it is begun */
	struct part *writing; /* on the worker */
	bool busy;            /* the worker works for us */
	bool gone;            /* nobody waits any more */
	int err;              /* of the worker */
	struct buf why;       /* its sentence */
	int end_err;
	struct buf end_why;
	unsigned wrong;
	uint64_t free_ns; /* not before that: the rate */
	uint64_t said_ns;
	uint64_t done, total, received;
	struct loop_timer *timer;
};

static void pump(struct download *d);
static void ask_list(struct download *d);

/* --- ends --- */

static void part_free(struct part *p)
{
	if (p->call != NULL)
		rpc_cancel(p->d->c.client, p->call);
	list_remove(&p->node);
	buf_done(&p->bytes);
	free(p);
}

static void drop_parts(struct download *d)
{
	LIST_FOREACH_SAFE (it, &d->parts)
		part_free(list_entry(it, struct part, node));
	d->parts_n = 0;
}

static void really_free(struct download *d)
{
	if (d->writing != NULL)
		part_free(d->writing);
	free(d->in.files);
	free(d->in.before);
	buf_done(&d->why);
	buf_done(&d->end_why);
	free(d);
}

void download_free(struct download *d)
{
	if (d == NULL)
		return;
	if (d->list_call != NULL)
		rpc_cancel(d->c.client, d->list_call);
	drop_parts(d);
	loop_timer_remove(d->timer);
	d->gone = true;
	atomic_store(&d->in.stop, true);
	if (!d->busy) /* else when the worker is done */
		really_free(d);
}

/* It is told in a turn of its own: who hears of it may free the client, whose
 * answer this may be. */
static void end(struct download *d, int err, struct str why)
{
	drop_parts(d);
	d->state = OVER;
	d->end_err = err;
	buf_clear(&d->end_why);
	buf_put_str(&d->end_why, why);
	loop_timer_arm(d->timer, 0);
}

/* Begins anew with the list, soon. */
static void again(struct download *d, struct str why)
{
	uint64_t now_ns = clock_mono_ns();

	if (d->said_ns == 0 || now_ns - d->said_ns >= SAY_NS) {
		d->said_ns = now_ns;
		log_warn("snapshot of entry %" PRIu64 ": %.*s; trying again",
			 d->in.index, STR_ARG(why));
	}
	drop_parts(d);
	d->state = PAUSING;
	loop_timer_arm(d->timer, PAUSE_NS);
}

/* `done` on the loop, where the worker's work for us has ended. */
static void work(struct download *d, loop_fn *fn, loop_fn *done)
{
	CHECK(!d->busy);
	d->busy = true;
	buf_clear(&d->why);
	worker_run(d->c.worker, fn, done, d);
}

/* False: nobody waits for it. */
static bool worked(struct download *d)
{
	d->busy = false;
	if (!d->gone)
		return true;
	really_free(d);
	return false;
}

/* --- the list --- */

static int compare_files(const void *a, const void *b)
{
	const struct incoming_file *fa = a, *fb = b;

	return strcmp(fa->name, fb->name);
}

/* What this process has seen to be whole stays so. */
static void carry_over(const struct incoming *old, struct incoming *in)
{
	for (size_t i = 0; i < in->n; i++) {
		struct incoming_file *f = &in->files[i];
		const struct incoming_file *o =
		    incoming_find(old->files, old->n, f->name);

		if (o != NULL && o->done && o->size == f->size &&
		    o->crc == f->crc)
			*f = *o;
	}
}

static bool take_files(struct incoming *in, const struct m_snapshot_list *m)
{
	if (m->files_n == 0 || m->files_n > INCOMING_FILES_MAX)
		return false;
	in->files = xcalloc(m->files_n, sizeof(*in->files));
	in->n = m->files_n;
	for (size_t i = 0; i < in->n; i++) {
		struct incoming_file *f = &in->files[i];

		if (!incoming_name_ok(m->files[i].name) ||
		    m->files[i].size > INT64_MAX)
			return false;
		memcpy(f->name, m->files[i].name.p, m->files[i].name.n);
		f->size = m->files[i].size;
		f->crc = m->files[i].crc;
	}
	qsort(in->files, in->n, sizeof(*in->files), compare_files);
	for (size_t i = 1; i < in->n; i++)
		if (compare_files(&in->files[i - 1], &in->files[i]) == 0)
			return false;
	return true;
}

/* After the worker had the files. */
static void count(struct download *d)
{
	d->done = d->total = 0;
	for (size_t i = 0; i < d->in.n; i++) {
		d->done += d->in.files[i].have;
		d->total += d->in.files[i].size;
	}
}

static void prepare_work(void *ctx)
{
	struct download *d = ctx;

	d->err = incoming_prepare(&d->in, &d->why);
}

static void prepare_done(void *ctx)
{
	struct download *d = ctx;

	if (!worked(d))
		return;
	if (d->err < 0) {
		end(d, d->err, buf_str(&d->why));
		return;
	}
	count(d);
	d->next = 0;
	d->begun = false;
	d->state = FETCHING;
	pump(d);
}

static void use_list(struct download *d, const struct m_snapshot_list *m)
{
	struct incoming in = { .settings = d->in.settings,
			       .index = d->in.index };

	if (m->later) {
		again(d, STR("the leader has none yet"));
		return;
	}
	if (!take_files(&in, m)) {
		free(in.files);
		end(d, -ERR_BAD_MESSAGE,
		    STR("the leader's list of files makes no sense"));
		return;
	}
	carry_over(&d->in, &in);
	free(d->in.files);
	d->in.files = in.files;
	d->in.n = in.n;
	count(d);
	d->state = PREPARING;
	work(d, prepare_work, prepare_done);
}

static void on_list(void *ctx, const struct rpc_reply *r)
{
	struct download *d = ctx;
	struct arena a = ARENA_INIT;
	struct m_snapshot_list m;

	d->list_call = NULL;
	if (r->err == ERR_NOT_FOUND)
		end(d, -ERR_NOT_FOUND, r->body);
	else if (r->err != 0)
		again(d, str_from(err_text(r->err)));
	else if (msg_decode(&msg_snapshot_list, r->body, &a, &m) < 0)
		end(d, -ERR_BAD_MESSAGE,
		    STR("the leader's list of files "
			"cannot be read"));
	else
		use_list(d, &m);
	arena_done(&a);
}

static void ask_list(struct download *d)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct m_snapshot_ask m = { 0 };

	d->state = LISTING;
	MSG_SET(&m, snapshot_ask, index, d->in.index);
	msg_encode(&msg_snapshot_ask, &m, &b);
	d->list_call = rpc_call(d->c.client, QUERY_SNAPSHOT_FILES, STR_NULL,
				buf_str(&b), clock_mono_ns() + ANSWER_NS,
				ERR_LEADER_UNAVAILABLE, 0, on_list, d);
}

/* --- writing --- */

static void write_work(void *ctx)
{
	struct download *d = ctx;
	struct part *p = d->writing;

	d->err = incoming_write(&d->in, p->file, buf_str(&p->bytes), p->crc,
				&d->why);
}

static void write_done(void *ctx)
{
	struct download *d = ctx;
	struct part *p = d->writing;

	if (!worked(d))
		return;
	d->writing = NULL;
	part_free(p);
	count(d);
	if (d->err == -ERR_BAD_MESSAGE && ++d->wrong < WRONG_MAX)
		again(d, buf_str(&d->why));
	else if (d->err < 0)
		end(d, d->err, buf_str(&d->why));
	else if (d->state == FETCHING)
		pump(d);
}

/* In the order they were asked for, so that a file is always a begin. */
static void write_next(struct download *d)
{
	struct part *p;

	if (d->busy || list_empty(&d->parts))
		return;
	p = list_entry(d->parts.next, struct part, node);
	if (p->call != NULL)
		return;
	list_remove(&p->node);
	d->parts_n--;
	d->writing = p;
	work(d, write_work, write_done);
}

static void end_work(void *ctx)
{
	struct download *d = ctx;

	d->err = incoming_end(&d->in, &d->why);
}

static void end_done(void *ctx)
{
	struct download *d = ctx;

	if (worked(d))
		end(d, d->err, buf_str(&d->why));
}

/* --- asking --- */

static void on_part(void *ctx, const struct rpc_reply *r)
{
	struct part *p = ctx;
	struct download *d = p->d;
	struct arena a = ARENA_INIT;
	struct m_snapshot_bytes m;

	p->call = NULL;
	if (r->err == ERR_NOT_FOUND) {
		end(d, -ERR_NOT_FOUND, r->body);
	} else if (r->err != 0) {
		again(d, str_from(err_text(r->err)));
	} else if (msg_decode(&msg_snapshot_bytes, r->body, &a, &m) < 0 ||
		   m.bytes.n != p->n) {
		end(d, -ERR_BAD_MESSAGE,
		    STR("a part of a file came in another size"));
	} else {
		d->received += m.bytes.n;
		buf_put_str(&p->bytes, m.bytes);
		p->crc = m.crc;
		pump(d);
	}
	arena_done(&a);
}

static uint32_t part_bytes(const struct download *d)
{
	uint64_t rate = d->c.settings->snapshot_rate;
	uint64_t n = rate == 0 ? LIMIT_SNAPSHOT_PART : rate / PARTS_PER_S;

	n = MIN(MAX(n, (uint64_t)PART_MIN), (uint64_t)LIMIT_SNAPSHOT_PART);
	return (uint32_t)n;
}

static void ask_part(struct download *d, struct incoming_file *f)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct part *p = xcalloc(1, sizeof(*p));
	struct m_snapshot_part m = { 0 };

	p->d = d;
	p->file = f;
	p->at = d->next_at;
	p->n = (uint32_t)MIN((uint64_t)part_bytes(d), f->size - p->at);
	d->next_at += p->n;
	list_push_back(&d->parts, &p->node);
	d->parts_n++;
	MSG_SET(&m, snapshot_part, index, d->in.index);
	MSG_SET(&m, snapshot_part, name, str_from(f->name));
	MSG_SET(&m, snapshot_part, at, p->at);
	MSG_SET(&m, snapshot_part, n, p->n);
	msg_encode(&msg_snapshot_part, &m, &b);
	p->call = rpc_call(d->c.client, QUERY_SNAPSHOT_CHUNK, STR_NULL,
			   buf_str(&b), clock_mono_ns() + ANSWER_NS,
			   ERR_LEADER_UNAVAILABLE, 0, on_part, p);
}

/* The file the next part is of; NULL: all is asked for. */
static struct incoming_file *next_file(struct download *d)
{
	for (; d->next < d->in.n; d->next++, d->begun = false) {
		struct incoming_file *f = &d->in.files[d->next];

		/* when a part of it is asked for, `have` is the worker's */
		if (!d->begun)
			d->next_at = f->have;
		d->begun = true;
		if (d->next_at < f->size)
			return f;
	}
	return NULL;
}

/* True: one more part may be asked for. False: not before the timer. */
static bool may_ask(struct download *d)
{
	uint64_t rate = d->c.settings->snapshot_rate;
	uint64_t now_ns = clock_mono_ns();

	if (rate == 0)
		return true;
	if (now_ns < d->free_ns) {
		loop_timer_arm(d->timer, d->free_ns - now_ns);
		return false;
	}
	d->free_ns = MAX(d->free_ns, now_ns - MIN(now_ns, NS_PER_S / 100)) +
		     part_bytes(d) * NS_PER_S / rate;
	return true;
}

static void pump(struct download *d)
{
	struct incoming_file *f;

	while (d->parts_n < WINDOW && (f = next_file(d)) != NULL && may_ask(d))
		ask_part(d, f);
	write_next(d);
	if (d->busy || d->parts_n > 0 || next_file(d) != NULL)
		return;
	d->state = ENDING;
	work(d, end_work, end_done);
}

static void on_timer(void *ctx)
{
	struct download *d = ctx;

	if (d->state == OVER) {
		d->state = TOLD;
		d->c.done(d->c.ctx, d->end_err, buf_str(&d->end_why));
	} else if (d->state == PAUSING && !d->busy) {
		ask_list(d);
	} else if (d->state == PAUSING) {
		loop_timer_arm(d->timer, PAUSE_NS);
	} else if (d->state == FETCHING) {
		pump(d);
	}
}

struct download *download_new(const struct download_config *c)
{
	struct download *d = xcalloc(1, sizeof(*d));

	d->c = *c;
	d->in.settings = c->settings;
	d->in.index = c->index;
	if (c->before != NULL) {
		CHECK(c->before->state == TOLD && !c->before->busy);
		d->in.before_index = c->before->in.index;
		d->in.before = c->before->in.files;
		d->in.before_n = c->before->in.n;
		c->before->in.files = NULL;
		c->before->in.n = 0;
	}
	list_init(&d->parts);
	d->timer = loop_timer_add(c->loop, on_timer, d);
	ask_list(d);
	return d;
}

void download_progress(const struct download *d, struct download_progress *ret)
{
	*ret = (struct download_progress){ d->in.index, d->done, d->total,
					   d->received };
}
