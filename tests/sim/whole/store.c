/*
 * The disk of a machine but for its log, in the place of RocksDB and of the
 * files of checkpoints and snapshots that come: store/kv.h (kv_rocks_open),
 * serve/keep.h, follow.h and cluster/install.h.
 */
#include <stdlib.h>

#include "cluster/install.h"
#include "follow.h"
#include "serve/keep.h"
#include "store/batch_list.h"
#include "store/record.h"
#include "whole.h"

#define POINTS_MAX   2
#define FETCH_MIN_NS (5 * NS_PER_MS)
#define FETCH_MAX_NS (900 * NS_PER_MS)
/* of crashes: the store has flushed by itself just now */
#define FLUSHED_PERCENT 30

/* --- the store --- */

/* What a process has open; what it writes after its death is lost. */
struct open_kv {
	struct kv kv;
	struct machine *m;
};

static struct machine *owner(struct kv *kv)
{
	return container_of(kv, struct open_kv, kv)->m;
}

static void k_close(struct kv *kv)
{
	free(container_of(kv, struct open_kv, kv));
}

static int k_get(struct kv *kv, struct str key, struct buf *ret)
{
	struct machine *m = owner(kv);

	if (m->read_fails > 0 && m->runs) {
		m->read_fails--;
		return -ERR_STORAGE_ERROR;
	}
	return kv_get(m->kv, key, ret);
}

/* An iterator that met an error at once. */
static bool broken_valid(const struct kv_iter *it)
{
	(void)it;
	return false;
}

static int broken_error(const struct kv_iter *it)
{
	(void)it;
	return -ERR_STORAGE_ERROR;
}

static void broken_free(struct kv_iter *it)
{
	free(it);
}

static const struct kv_ops broken_ops = {
	.iter_valid = broken_valid,
	.iter_error = broken_error,
	.iter_free = broken_free,
};

static struct kv_iter *k_iter_new(struct kv *kv, struct str from,
				  struct str upto, size_t most)
{
	struct machine *m = owner(kv);
	struct kv_iter *it;

	if (m->read_fails == 0 || !m->runs)
		return kv_iter_first(m->kv, from, upto, most);
	m->read_fails--;
	it = xcalloc(1, sizeof(*it));
	it->ops = &broken_ops;
	return it;
}

static const struct kv_ops ops;

static struct kv_batch *k_batch_new(struct kv *kv)
{
	(void)kv;
	return batch_list_new(&ops);
}

static void put_op(struct kv_batch *b, const struct batch_op *op)
{
	switch (op->kind) {
	case BATCH_PUT:
	case BATCH_PUT_NEW:
		kv_batch_put(b, op->key, op->value);
		break;
	case BATCH_DELETE:
		kv_batch_delete(b, op->key);
		break;
	case BATCH_DELETE_RANGE:
		kv_batch_delete_range(b, op->key, op->value);
		break;
	}
}

/* This one does. */
static bool write_fails(struct machine *m)
{
	if (m->write_fails == 0 || m->host.is_crash)
		return false;
	m->write_fails--;
	m->has_failed = true;
	return true;
}

static int k_write(struct kv *kv, struct kv_batch *kb)
{
	struct machine *m = owner(kv);
	struct batch_list *from = batch_list_of(kb);
	struct kv_batch *b = kv_batch_new(m->kv);
	int r = 0;

	host_writes(&m->host);
	for (size_t i = 0; i < from->n; i++)
		put_op(b, &from->ops[i]);
	if (m->runs && write_fails(m)) {
		r = -ERR_STORAGE_ERROR;
	} else if (!m->host.is_crash) {
		r = kv_write(m->kv, b);
	}
	kv_batch_free(b);
	batch_list_clear(from);
	return r;
}

static int k_flush(struct kv *kv, struct buf *why)
{
	struct machine *m = owner(kv);

	host_writes(&m->host);
	if (m->runs && write_fails(m)) {
		buf_puts(why, "the disk says no");
		return -ERR_STORAGE_ERROR;
	}
	return m->host.is_crash ? 0 : kv_flush(m->kv, why);
}

static int k_set_write_buffer(struct kv *kv, uint64_t bytes)
{
	(void)kv;
	(void)bytes;
	return 0;
}

static bool k_rest(struct kv *kv)
{
	(void)kv;
	return true;
}

static const struct kv_ops ops = {
	.close = k_close,
	.get = k_get,
	.iter_new = k_iter_new,
	.batch_new = k_batch_new,
	.batch_free = batch_list_free,
	.batch_put = batch_list_put,
	.batch_put_new = batch_list_put_new,
	.batch_delete = batch_list_delete,
	.batch_delete_range = batch_list_delete_range,
	.write = k_write,
	.flush = k_flush,
	.set_write_buffer = k_set_write_buffer,
	.rest = k_rest,
};

int kv_rocks_open(const char *path, const struct kv_options *o, struct kv **ret,
		  struct buf *why)
{
	struct open_kv *k = xcalloc(1, sizeof(*k));

	(void)path;
	(void)o;
	(void)why;
	k->kv.ops = &ops;
	k->m = machine_of_loop(sim_here());
	*ret = &k->kv;
	return 0;
}

static struct kv *copy(struct kv *from)
{
	struct kv *kv = kv_mem_new();
	struct kv_batch *b = kv_batch_new(kv);
	struct kv_iter *it = kv_iter_new(from, STR_NULL, STR_NULL);

	for (; kv_iter_valid(it); kv_iter_next(it))
		kv_batch_put(b, kv_iter_key(it), kv_iter_value(it));
	kv_iter_free(it);
	CHECK(kv_write(kv, b) == 0 && kv_flush(kv, NULL) == 0);
	kv_batch_free(b);
	return kv;
}

/* --- checkpoints --- */

struct keep {
	struct machine *m;
};

static void point_free(struct point *p)
{
	list_remove(&p->node);
	kv_close(p->kv);
	free(p);
}

static struct point *newest(struct machine *m)
{
	return list_empty(&m->points)
		   ? NULL
		   : list_entry(m->points.prev, struct point, node);
}

struct keep *keep_new(const char *data_dir)
{
	struct keep *k = xcalloc(1, sizeof(*k));

	(void)data_dir;
	k->m = machine_of_loop(sim_here());
	return k;
}

void keep_free(struct keep *k)
{
	free(k);
}

int keep_make(struct keep *k, struct kv *kv, uint64_t index, struct buf *why)
{
	struct machine *m = k->m;
	struct point *p;
	int e = kv_flush(kv, why);

	if (e < 0 || m->host.is_crash)
		return e;
	host_writes(&m->host);
	if (write_fails(m)) {
		buf_puts(why, "the disk says no");
		return -ERR_STORAGE_ERROR;
	}
	p = xcalloc(1, sizeof(*p));
	p->index = index;
	p->kv = copy(m->kv);
	list_push_back(&m->points, &p->node);
	while (keep_count(k) > POINTS_MAX)
		point_free(list_entry(m->points.next, struct point, node));
	return 0;
}

void keep_sweep(struct keep *k, uint64_t now_ns)
{
	(void)k;
	(void)now_ns;
}

size_t keep_count(struct keep *k)
{
	size_t n = 0;

	LIST_FOREACH (it, &k->m->points)
		n++;
	return n;
}

uint64_t keep_bytes(struct keep *k, uint64_t index)
{
	(void)k;
	(void)index;
	return 0;
}

uint64_t keep_read_from(struct keep *k, uint64_t now_ns)
{
	(void)k;
	(void)now_ns;
	return 0;
}

/* Files are not asked for here: who follows takes the store as it is. */
struct keep_point *keep_open(struct keep *k, uint64_t index)
{
	LIST_FOREACH (it, &k->m->points) {
		struct point *p = list_entry(it, struct point, node);

		if (p->index == index)
			return (struct keep_point *)p;
	}
	return NULL;
}

void keep_close(struct keep *k, struct keep_point *p)
{
	(void)k;
	(void)p;
}

int keep_sum(struct keep *k, struct keep_point *p, struct buf *why)
{
	(void)k;
	(void)p;
	buf_puts(why, "there are no files here");
	return -ERR_INTERNAL_ERROR;
}

const struct keep_file *keep_files(struct keep *k, const struct keep_point *p,
				   size_t *ret_n)
{
	(void)k;
	(void)p;
	*ret_n = 0;
	return NULL;
}

int keep_read(const struct keep_point *p, const struct keep_file *f,
	      uint64_t at, size_t n, char *ret)
{
	(void)p;
	(void)f;
	(void)at;
	(void)n;
	(void)ret;
	return -1;
}

bool keep_find(const char *data_dir, struct buf *ret_path)
{
	(void)data_dir;
	(void)ret_path;
	return false;
}

/* --- a snapshot of the leader --- */

struct follow {
	struct follow_config c;
	struct machine *m;
	struct sim_event fetched;
	struct node_install i; /* being fetched; index 0: none */
	struct buf members;
	bool is_ready;
};

struct follow *follow_new(const struct follow_config *c)
{
	struct follow *f = xcalloc(1, sizeof(*f));

	f->c = *c;
	f->m = machine_of_loop(c->loop);
	return f;
}

void follow_free(struct follow *f)
{
	sim_forget(f->c.loop->sim, &f->fetched);
	buf_done(&f->members);
	free(f);
}

static void incoming_done(struct incoming *in)
{
	if (in->kv != NULL)
		kv_close(in->kv);
	buf_done(&in->members);
	*in = (struct incoming){ 0 };
}

/* As check_store of follow.c does. */
static bool take(struct follow *f, const struct point *p)
{
	struct incoming *in = &f->m->incoming;
	struct manifest *x = &f->i.manifest;
	struct record_meta meta;

	CHECK(record_meta_read(p->kv, &meta) == 0);
	if (meta.applied_index < x->applied ||
	    !history_eq(&meta.origin.history, &x->origin.history))
		return false;
	if (meta.applied_index > x->applied) {
		x->store = meta.applied_index;
		x->store_origin = meta.origin;
	}
	incoming_done(in);
	in->kv = copy(p->kv);
	in->i = f->i;
	buf_put_str(&in->members, buf_str(&f->members));
	in->i.members = buf_str(&in->members);
	return true;
}

/* As q_snapshot_files does, when what it offers is not there any more. */
static void want_newer(struct machine *from, const struct point *p,
		       const struct node_install *i)
{
	struct loop *before;

	if (from->host.node == NULL ||
	    (p != NULL && p->index >= i->manifest.index))
		return;
	before = sim_enter(&from->host.loop);
	node_want_snapshot(from->host.node);
	(void)sim_enter(before);
}

static void on_fetched(void *ctx)
{
	struct follow *f = ctx;
	struct machine *from = whole_of_id(f->m->w, f->i.leader);
	struct point *p = from != NULL && from->runs ? newest(from) : NULL;
	bool is_open = from != NULL && whole_is_open(f->m, from);

	if (is_open)
		want_newer(from, p, &f->i);
	if (p == NULL || p->index < f->i.manifest.index || !is_open ||
	    !f->c.is_needed(f->c.ctx, &f->i) || !take(f, p)) {
		f->i.manifest.index = 0;
		return;
	}
	f->is_ready = true;
	sim_note(f->m->w->sim, "fetched", f->m->host.number,
		 f->i.manifest.index, f->i.manifest.store, 0, 0);
	f->c.on_ready(f->c.ctx);
}

void follow_offer(struct follow *f, const struct node_install *i)
{
	struct sim *s = f->c.loop->sim;

	if (f->i.manifest.index != 0 || i->store_only ||
	    whole_of_id(f->m->w, i->leader) == NULL)
		return;
	f->i = *i;
	buf_clear(&f->members);
	buf_put_str(&f->members, i->members);
	f->c.on_begin(f->c.ctx);
	sim_after(s, &f->fetched, f->c.loop,
		  sim_between(s, FETCH_MIN_NS, FETCH_MAX_NS), on_fetched, f);
}

void follow_status(const struct follow *f, struct follow_status *ret)
{
	*ret = (struct follow_status){
		.active = f->i.manifest.index != 0,
		.index = f->i.manifest.index,
	};
}

/* --- and its place --- */

uint64_t install_index(const struct settings *s, bool *ret_heals)
{
	const struct incoming *in = &machine_of_settings(s)->incoming;

	*ret_heals = false;
	return in->kv != NULL ? in->i.manifest.index : 0;
}

/* As judge_log of install.c does. */
static bool is_beyond(const struct machine *m)
{
	const struct sim_disk *d = &m->host.disk;
	const struct node_install *i = &m->incoming.i;
	const struct logdir_rec *e = logdir_at(&d->log, i->manifest.index);

	return (e != NULL && e->term == i->term) ||
	       d->snapshot.index >= i->manifest.index;
}

static void put_in_place(struct machine *m)
{
	struct incoming *in = &m->incoming;
	struct disk_snapshot s = { .index = in->i.manifest.index,
				   .term = in->i.term,
				   .members_index = in->i.members_index };

	buf_put_str(&s.members, buf_str(&in->members));
	manifest_put(&s.data, &in->i.manifest);
	disk_install(&m->host.disk, &s);
	buf_done(&s.members);
	buf_done(&s.data);
	kv_close(m->kv);
	m->kv = in->kv;
	in->kv = NULL;
	while (newest(m) != NULL)
		point_free(newest(m));
	sim_note(m->w->sim, "install", m->host.number, in->i.manifest.index,
		 in->i.manifest.store, 0, 0);
	m->w->tally.installs++;
}

int install_finish(const struct settings *s, struct buf *why)
{
	struct machine *m = machine_of_settings(s);

	if (m->incoming.kv == NULL)
		return 0;
	if (write_fails(m)) {
		buf_puts(why, "the disk says no");
		return -ERR_STORAGE_ERROR;
	}
	host_writes(&m->host);
	if (!is_beyond(m))
		put_in_place(m);
	host_writes(&m->host); /* it may be done, and be done again */
	incoming_done(&m->incoming);
	return 0;
}

/* --- ends --- */

void machine_store_crash(struct machine *m)
{
	if (sim_chance(m->w->sim, FLUSHED_PERCENT))
		CHECK(kv_flush(m->kv, NULL) == 0);
	kv_mem_crash(m->kv);
}

void machine_store_wipe(struct machine *m)
{
	machine_store_done(m);
	m->kv = kv_mem_new();
}

void machine_store_done(struct machine *m)
{
	incoming_done(&m->incoming);
	while (newest(m) != NULL)
		point_free(newest(m));
	kv_close(m->kv);
}
