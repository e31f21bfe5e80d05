/*
 * Iterators over a store in front of another, see kv_behind.c. Bytes of a table
 * stay where they are as long as somebody holds it, so an iterator is a list of
 * slices and need not lock after it was made.
 */
#include <stdlib.h>

#include "store/kv_behind_impl.h"

struct slot {
	struct str key, value; /* value.p NULL: gone */
};

struct behind_iter {
	struct kv_iter it;
	struct behind *owner;
	struct kv_iter *below;
	struct held *held[2];
	struct slot *own;
	size_t own_n, i;
	struct table_range *hidden; /* ranges of keys below that are gone */
	size_t hidden_n;
	bool at_own; /* else at `below` */
};

/*
 * Entries of the younger table stand for those of the older one, and hide
 * what lies in its deleted ranges. What came and went in the younger one hides
 * nothing, as it was nowhere else; unless the older one has it, which then says
 * that it is gone and may not have told below yet.
 *
 * After `most` keys that are there nobody comes to those that follow.
 */
static void gather(struct behind_iter *it, const struct table *young,
		   const struct table *old, struct str from, struct str upto,
		   size_t most)
{
	uint32_t *a = NULL, *b = NULL;
	size_t an = table_range(young, from, upto, &a);
	size_t bn = old ? table_range(old, from, upto, &b) : 0;
	size_t i = 0, k = 0;

	it->own = xmalloc(MAX(an + bn, (size_t)1) * sizeof(*it->own));
	while ((i < an || k < bn) && most > 0) {
		const struct table_entry *x =
		    i < an ? &young->entries[a[i]] : NULL;
		const struct table_entry *y =
		    old != NULL && k < bn ? &old->entries[b[k]] : NULL;
		int c = x == NULL   ? 1
			: y == NULL ? -1
				    : str_cmp(x->key, y->key);
		struct slot s;

		i += c <= 0;
		k += c >= 0;
		if (c < 0 && table_came_and_went(x))
			continue;
		if (c <= 0) {
			CHECK(x != NULL);
			s = (struct slot){ x->key, x->value };
		} else {
			CHECK(y != NULL); /* one of both is there */
			s = (struct slot){ y->key, y->value };
			if (table_in_deleted_range(young, y->key))
				s.value = STR_NULL;
		}
		it->own[it->own_n++] = s;
		most -= s.value.p != NULL;
	}
	free(a);
	free(b);
}

static void hide(struct behind_iter *it, const struct table *t)
{
	if (t->ranges_n == 0)
		return;
	it->hidden = xrealloc(it->hidden, (it->hidden_n + t->ranges_n) *
					      sizeof(*it->hidden));
	memcpy(it->hidden + it->hidden_n, t->ranges,
	       t->ranges_n * sizeof(*t->ranges));
	it->hidden_n += t->ranges_n;
}

/* To the first key from here on that is there. */
static void settle(struct behind_iter *it)
{
	for (;;) {
		bool below = kv_iter_valid(it->below);
		int c;

		it->at_own = it->i < it->own_n;
		if (!it->at_own && !below)
			return;
		c = !it->at_own ? 1
		    : !below
			? -1
			: str_cmp(it->own[it->i].key, kv_iter_key(it->below));
		if (c == 0) /* ours stands for it */
			kv_iter_next(it->below);
		if (c <= 0) {
			if (it->own[it->i].value.p != NULL)
				return;
			it->i++;
			continue;
		}
		it->at_own = false;
		if (!ranges_have(it->hidden, it->hidden_n,
				 kv_iter_key(it->below)))
			return;
		kv_iter_next(it->below);
	}
}

struct kv_iter *behind_iter_new(struct kv *kv, struct str from, struct str upto,
				size_t most)
{
	struct behind *s = behind_of(kv);
	struct behind_iter *it = xcalloc(1, sizeof(*it));

	it->it.ops = &behind_ops;
	it->owner = s;
	behind_lock(s);
	if (from.n > 0)
		table_sort_kind(&s->now->t, from);
	gather(it, &s->now->t, s->past ? &s->past->t : NULL, from, upto, most);
	hide(it, &s->now->t);
	it->held[0] = s->now;
	s->now->refs++;
	if (s->past != NULL) {
		hide(it, &s->past->t);
		it->held[1] = s->past;
		s->past->refs++;
	}
	behind_note_read(s);
	/* with the lock: it may not see what was turned over since */
	it->below = kv_iter_new(s->below, from, upto);
	behind_unlock(s);
	settle(it);
	return &it->it;
}

static const struct behind_iter *iter_of(const struct kv_iter *it)
{
	return container_of(it, const struct behind_iter, it);
}

bool behind_iter_valid(const struct kv_iter *kit)
{
	const struct behind_iter *it = iter_of(kit);

	return it->at_own || kv_iter_valid(it->below);
}

struct str behind_iter_key(const struct kv_iter *kit)
{
	const struct behind_iter *it = iter_of(kit);

	return it->at_own ? it->own[it->i].key : kv_iter_key(it->below);
}

struct str behind_iter_value(const struct kv_iter *kit)
{
	const struct behind_iter *it = iter_of(kit);

	return it->at_own ? it->own[it->i].value : kv_iter_value(it->below);
}

void behind_iter_next(struct kv_iter *kit)
{
	struct behind_iter *it = container_of(kit, struct behind_iter, it);

	if (it->at_own)
		it->i++;
	else
		kv_iter_next(it->below);
	settle(it);
}

int behind_iter_error(const struct kv_iter *kit)
{
	return kv_iter_error(iter_of(kit)->below);
}

void behind_iter_free(struct kv_iter *kit)
{
	struct behind_iter *it = container_of(kit, struct behind_iter, it);
	struct behind *s = it->owner;

	kv_iter_free(it->below);
	behind_lock(s);
	held_unref(s, it->held[0]);
	held_unref(s, it->held[1]);
	behind_unlock(s);
	free(it->own);
	free(it->hidden);
	free(it);
}
