/*
 * See tap_kv.h. A change is written down as its kind, key and value, each with
 * its length before it. Iterators are those of the store below.
 */
#include "tap_kv.h"

#include <ctype.h>
#include <stdlib.h>

#include "store/batch_list.h"
#include "store/key.h"

#define SHOWN 400 /* bytes of a value in a report */

struct tap {
	struct kv kv;
	struct kv *below;
	bool passes;
	struct buf said;
	const char *kind; /* NULL: looks are not counted */
	uint64_t looks;
};

static struct tap *tap_of(struct kv *kv)
{
	return container_of(kv, struct tap, kv);
}

static void tap_close(struct kv *kv)
{
	struct tap *t = tap_of(kv);

	buf_done(&t->said);
	free(t);
}

static int tap_get(struct kv *kv, struct str key, struct buf *ret)
{
	return kv_get(tap_of(kv)->below, key, ret);
}

static struct kv_iter *tap_iter_new(struct kv *kv, struct str from,
				    struct str upto, size_t most)
{
	struct tap *t = tap_of(kv);

	if (t->kind != NULL && str_starts(from, str_from(t->kind)))
		t->looks++;
	return kv_iter_first(t->below, from, upto, most);
}

uint64_t tap_looks(struct kv *kv, const char *kind)
{
	tap_of(kv)->kind = kind;
	return tap_of(kv)->looks;
}

static void put_text(struct buf *b, struct str s)
{
	char n[8];

	put_be64(n, s.n);
	buf_append(b, n, sizeof(n));
	if (s.n > 0)
		buf_put_str(b, s);
}

static void note(struct buf *b, const struct batch_op *op)
{
	/* whether a key is new is a hint, not a part of the state */
	char kind = op->kind == BATCH_PUT_NEW ? BATCH_PUT : (char)op->kind;

	buf_append(b, &kind, 1);
	put_text(b, op->key);
	put_text(b, op->value);
}

static void pass(struct kv_batch *b, const struct batch_op *op)
{
	switch (op->kind) {
	case BATCH_PUT:
		kv_batch_put(b, op->key, op->value);
		break;
	case BATCH_PUT_NEW:
		kv_batch_put_new(b, op->key, op->value);
		break;
	case BATCH_DELETE:
		kv_batch_delete(b, op->key);
		break;
	case BATCH_DELETE_RANGE:
		kv_batch_delete_range(b, op->key, op->value);
		break;
	}
}

static int tap_write(struct kv *kv, struct kv_batch *kb)
{
	struct tap *t = tap_of(kv);
	struct batch_list *l = batch_list_of(kb);
	struct kv_batch *b = kv_batch_new(t->below);
	int r = 0;

	for (size_t i = 0; i < l->n; i++) {
		note(&t->said, &l->ops[i]);
		pass(b, &l->ops[i]);
	}
	batch_list_clear(l);
	if (t->passes)
		r = kv_write(t->below, b);
	kv_batch_free(b);
	return r;
}

static const struct kv_ops tap_ops;

static struct kv_batch *tap_batch_new(struct kv *kv _unused_)
{
	return batch_list_new(&tap_ops);
}

static const struct kv_ops tap_ops = {
	.close = tap_close,
	.get = tap_get,
	.iter_new = tap_iter_new,
	.batch_new = tap_batch_new,
	.batch_free = batch_list_free,
	.batch_put = batch_list_put,
	.batch_put_new = batch_list_put_new,
	.batch_delete = batch_list_delete,
	.batch_delete_range = batch_list_delete_range,
	.write = tap_write,
};

struct kv *tap_new(struct kv *below, bool passes)
{
	struct tap *t = xcalloc(1, sizeof(*t));

	t->kv.ops = &tap_ops;
	t->below = below;
	t->passes = passes;
	return &t->kv;
}

struct str tap_said(struct kv *kv)
{
	return buf_str(&tap_of(kv)->said);
}

void tap_clear(struct kv *kv)
{
	buf_clear(&tap_of(kv)->said);
}

/* --- comparing --- */

struct change {
	int kind; /* enum batch_kind; -1: there is none */
	struct str key, value;
};

static struct str take_text(struct str *s)
{
	size_t n = get_be64(s->p);
	struct str ret = str_of(s->p + 8, n);

	*s = str_skip(*s, 8 + n);
	return ret;
}

static struct change take(struct str *s)
{
	struct change c = { .kind = -1 };

	if (s->n == 0)
		return c;
	c.kind = s->p[0];
	*s = str_skip(*s, 1);
	c.key = take_text(s);
	c.value = take_text(s);
	return c;
}

static void show_text(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n && i < SHOWN; i++) {
		unsigned char c = (unsigned char)s.p[i];

		buf_printf(b, isprint(c) && c != '\\' ? "%c" : "\\x%02x", c);
	}
	if (s.n > SHOWN)
		buf_printf(b, "... (%zu bytes)", s.n);
}

static void show(struct buf *b, const struct change *c)
{
	static const char *const kinds[] = {
		[BATCH_PUT] = "put",
		[BATCH_DELETE] = "delete",
		[BATCH_DELETE_RANGE] = "delete range",
	};

	if (c->kind < 0) {
		buf_puts(b, "nothing more");
		return;
	}
	buf_printf(b, "%s ", kinds[c->kind]);
	show_text(b, c->key);
	buf_puts(b, " = ");
	show_text(b, c->value);
}

void tap_compare(struct str a, struct str b, struct buf *ret)
{
	while (a.n > 0 || b.n > 0) {
		struct change x = take(&a), y = take(&b);

		if (x.kind == y.kind && str_eq(x.key, y.key) &&
		    str_eq(x.value, y.value))
			continue;
		show(ret, &x);
		buf_puts(ret, "\n  and not\n  ");
		show(ret, &y);
		return;
	}
}
