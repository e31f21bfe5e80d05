/*
 * See answers.h. What is in memory follows from the records alone, so that a
 * replica that was started again forgets the same ones at the same moment:
 *
 *   an|index:8   now:8 callers:4 [origin:8 done:8]... [caller:4 err:4 id:8
 *                seq:8 n:4 body]...
 *   ao|          [origin:8 upto:8]...: what the bounds took away, oldest first
 */
#include "fsm/core/answers.h"

#include <stdlib.h>

#include "fsm/core/scan.h"
#include "fsm/fsm.h"

#define HEAD_BYTES   12
#define CALLER_BYTES 16
#define RECORD_BYTES 28
#define LOST_BYTES   16
#define TRIM_MAX     64 /* entries that are looked at, to forget them */

/* A caller of a kept entry. */
struct kept_caller {
	uint64_t origin;
	uint64_t done;   /* it has all answers below this */
	uint64_t max_id; /* of the entry's */
};

struct place {
	struct bynum_node node; /* in f->answers.index */
	struct kept *kept;
	size_t at; /* of the record, in kept->bytes */
};

/* The answers of one entry. */
struct kept {
	struct list node; /* in f->answers.kept, oldest first */
	uint64_t index;   /* raft index */
	uint64_t now_ns;
	uint32_t n; /* answers */
	uint32_t callers_n;
	struct kept_caller *callers;
	struct place *places; /* NULL: not in the index */
	bool stored;
	size_t bytes_n;
	char bytes[]; /* as stored */
};

static uint64_t number_of(uint64_t origin, uint64_t id)
{
	return origin ^ id;
}

/* --- callers: those of the kept entries --- */

static struct answers_caller *caller_find(struct fsm *f, uint64_t origin)
{
	struct answers *a = &f->answers;

	for (size_t i = 0; i < a->callers_n; i++)
		if (a->callers[i].origin == origin)
			return &a->callers[i];
	return NULL;
}

static void caller_use(struct fsm *f, const struct kept_caller *k,
		       uint64_t index)
{
	struct answers *a = &f->answers;
	struct answers_caller *c = caller_find(f, k->origin);

	if (c == NULL) {
		if (a->callers_n == a->callers_cap) {
			a->callers_cap = MAX(a->callers_cap * 2, (size_t)8);
			a->callers = xrealloc(
			    a->callers, a->callers_cap * sizeof(*a->callers));
		}
		c = &a->callers[a->callers_n++];
		*c = (struct answers_caller){ .origin = k->origin };
	}
	c->done = MAX(c->done, k->done);
	c->last = index;
	c->uses++;
}

/*
 * Below which number this caller has all answers. It never goes back, though
 * requests may get into the log in another order than they were sent in.
 */
static uint64_t done_of(struct fsm *f, const struct entry_caller *c)
{
	const struct answers_caller *known = caller_find(f, c->origin);

	return known != NULL ? MAX(known->done, c->done) : c->done;
}

static void caller_release(struct fsm *f, uint64_t origin)
{
	struct answers *a = &f->answers;
	struct answers_caller *c = caller_find(f, origin);

	CHECK(c != NULL && c->uses > 0);
	if (--c->uses == 0)
		*c = a->callers[--a->callers_n];
}

/* --- what the bounds took away --- */

static void lost_write(struct fsm *f)
{
	struct answers *a = &f->answers;
	char v[LIMIT_ANSWERS_LOST * LOST_BYTES];
	struct key k;

	for (size_t i = 0; i < a->lost_n; i++) {
		put_be64(v + i * LOST_BYTES, a->lost[i].origin);
		put_be64(v + i * LOST_BYTES + 8, a->lost[i].upto);
	}
	key_prefix(&k, "ao|");
	txn_put(f->txn, key_str(&k), str_of(v, a->lost_n * LOST_BYTES));
}

/* The one touched last stands last; the first goes when there are too many. */
static void lost_note(struct fsm *f, uint64_t origin, uint64_t upto)
{
	struct answers *a = &f->answers;
	size_t at = 0;

	while (at < a->lost_n && a->lost[at].origin != origin)
		at++;
	if (at < a->lost_n)
		upto = MAX(upto, a->lost[at].upto);
	else if (a->lost_n == LIMIT_ANSWERS_LOST)
		at = 0;
	else
		a->lost_n++;
	memmove(&a->lost[at], &a->lost[at + 1],
		(a->lost_n - 1 - at) * sizeof(a->lost[0]));
	a->lost[a->lost_n - 1] = (struct answers_lost){ origin, upto };
	lost_write(f);
}

static bool is_lost(const struct fsm *f, uint64_t origin, uint64_t id)
{
	const struct answers *a = &f->answers;

	for (size_t i = 0; i < a->lost_n; i++)
		if (a->lost[i].origin == origin)
			return id <= a->lost[i].upto;
	return false;
}

/* --- kept entries --- */

/* Reads the record at *at and goes on to the next; false: it is none. */
static bool record_read(const struct kept *k, size_t *at, uint32_t *caller,
			uint64_t *id, struct answer *ret)
{
	const char *p = k->bytes + *at;
	uint32_t n;

	if (k->bytes_n - *at < RECORD_BYTES)
		return false;
	*caller = get_be32(p);
	ret->err = (int)get_be32(p + 4);
	*id = get_be64(p + 8);
	ret->seq = get_be64(p + 16);
	n = get_be32(p + 24);
	if (k->bytes_n - *at - RECORD_BYTES < n || *caller >= k->callers_n)
		return false;
	ret->body = str_of(p + RECORD_BYTES, n);
	*at += RECORD_BYTES + n;
	return true;
}

static size_t records_at(const struct kept *k)
{
	return HEAD_BYTES + k->callers_n * (size_t)CALLER_BYTES;
}

/* From its bytes; NULL: they are none. */
static struct kept *kept_new(uint64_t index, struct str bytes)
{
	struct kept *k = xmalloc(sizeof(*k) + bytes.n);
	struct answer a;
	uint32_t caller;
	uint64_t id;
	size_t at;

	*k = (struct kept){ .index = index, .bytes_n = bytes.n };
	list_init(&k->node);
	memcpy(k->bytes, bytes.p, bytes.n);
	if (bytes.n >= HEAD_BYTES) {
		k->now_ns = get_be64(k->bytes);
		k->callers_n = get_be32(k->bytes + 8);
	}
	at = records_at(k);
	if (bytes.n < HEAD_BYTES || at > bytes.n) {
		free(k);
		return NULL;
	}
	k->callers = xcalloc(k->callers_n, sizeof(*k->callers));
	for (uint32_t i = 0; i < k->callers_n; i++) {
		const char *p = k->bytes + HEAD_BYTES + i * CALLER_BYTES;

		k->callers[i].origin = get_be64(p);
		k->callers[i].done = get_be64(p + 8);
	}
	while (record_read(k, &at, &caller, &id, &a)) {
		k->callers[caller].max_id = MAX(k->callers[caller].max_id, id);
		k->n++;
	}
	if (at == bytes.n)
		return k;
	free(k->callers);
	free(k);
	return NULL;
}

static void kept_free(struct kept *k)
{
	free(k->callers);
	free(k->places);
	free(k);
}

static void kept_add(struct fsm *f, struct kept *k)
{
	struct answers *a = &f->answers;

	list_push_back(&a->kept, &k->node);
	a->n += k->n;
	a->bytes += k->bytes_n;
	for (uint32_t i = 0; i < k->callers_n; i++)
		caller_use(f, &k->callers[i], k->index);
}

/* The caller may ask for an answer of this entry. */
static bool may_ask(struct fsm *f, const struct kept_caller *c)
{
	const struct answers_caller *known = caller_find(f, c->origin);

	CHECK(known != NULL); /* as long as an answer is kept: caller_use */
	return c->max_id != 0 && known->done <= c->max_id;
}

/* What it says of this caller is needed for answers that stay. */
static bool is_needed(struct fsm *f, const struct kept *k, uint64_t origin)
{
	const struct answers_caller *c = caller_find(f, origin);

	CHECK(c != NULL && c->uses > 0);
	return c->last == k->index && c->uses > 1;
}

static bool is_done(struct fsm *f, const struct kept *k)
{
	for (uint32_t i = 0; i < k->callers_n; i++)
		if (may_ask(f, &k->callers[i]) ||
		    is_needed(f, k, k->callers[i].origin))
			return false;
	return true;
}

static bool is_old(const struct fsm *f, const struct kept *k)
{
	return f->now_ns > k->now_ns &&
	       f->now_ns - k->now_ns > LIMIT_ANSWERS_S * NS_PER_S;
}

static bool are_too_many(const struct answers *a)
{
	return a->n > LIMIT_ANSWERS || a->bytes > LIMIT_ANSWERS_BYTES;
}

static void kept_drop(struct fsm *f, struct kept *k)
{
	struct answers *a = &f->answers;
	struct key key;

	for (uint32_t i = 0; i < k->callers_n; i++) {
		const struct kept_caller *c = &k->callers[i];

		if (may_ask(f, c))
			lost_note(f, c->origin, c->max_id);
		caller_release(f, c->origin);
	}
	for (uint32_t i = 0; k->places != NULL && i < k->n; i++)
		bynum_remove(&a->index, &k->places[i].node);
	if (k->stored) {
		key_answers(&key, k->index);
		txn_delete(f->txn, key_str(&key));
	}
	CHECK(a->n >= k->n && a->bytes >= k->bytes_n);
	a->n -= k->n;
	a->bytes -= k->bytes_n;
	list_remove(&k->node);
	kept_free(k);
}

/*
 * The bounds hold after every entry, which costs no more than the entry brought
 * in; for what else may go only so many are looked at. A caller that is idle
 * does not say that its last answer arrived, and holds up no others.
 */
static void trim(struct fsm *f)
{
	struct answers *a = &f->answers;
	int n = 0;

	while (are_too_many(a))
		kept_drop(f, list_entry(a->kept.next, struct kept, node));
	LIST_FOREACH_SAFE (it, &a->kept) {
		struct kept *k = list_entry(it, struct kept, node);

		if (n++ == TRIM_MAX)
			return;
		if (is_done(f, k) || (it == a->kept.next && is_old(f, k)))
			kept_drop(f, k);
	}
}

/* --- keeping --- */

static void put_u32(struct buf *b, uint32_t v)
{
	char p[4];

	put_be32(p, v);
	buf_append(b, p, sizeof(p));
}

static void put_u64(struct buf *b, uint64_t v)
{
	char p[8];

	put_be64(p, v);
	buf_append(b, p, sizeof(p));
}

static void put_record(struct buf *b, const struct entry_item *item,
		       const struct answer *a)
{
	bool fits = a->body.n <= LIMIT_ANSWER_BYTES;
	struct str body = fits ? a->body : STR_NULL;
	char head[RECORD_BYTES];

	if (!fits && a->err == FSM_AGAIN)
		return; /* it comes again with what is left */

	put_be32(head, item->caller - 1);
	put_be32(head + 4, (uint32_t)(fits ? a->err : ERR_OUTCOME_UNKNOWN));
	put_be64(head + 8, item->id);
	put_be64(head + 16, a->seq);
	put_be32(head + 24, (uint32_t)body.n);
	buf_append(b, head, sizeof(head));
	if (body.n > 0)
		buf_put_str(b, body);
}

static void put_head(struct fsm *f, const struct entry *e, uint64_t *done,
		     struct buf *b)
{
	put_u64(b, f->now_ns);
	put_u32(b, (uint32_t)e->callers_n);
	for (size_t i = 0; i < e->callers_n; i++) {
		done[i] = done_of(f, &e->callers[i]);
		put_u64(b, e->callers[i].origin);
		put_u64(b, done[i]);
	}
}

void answers_keep(struct fsm *f, const struct entry *e,
		  const struct answer *all)
{
	struct buf *b = &f->scratch;
	uint64_t *done;
	struct kept *k;
	size_t head;

	if (e->callers_n == 0)
		return;
	done = arena_alloc(&f->entry_arena, e->callers_n * sizeof(*done));
	buf_clear(b);
	put_head(f, e, done, b);
	head = b->n;
	for (size_t i = 0; i < e->n; i++) {
		const struct entry_item *item = &e->items[i];

		/* below done nobody waits for the answer any more */
		if (item->caller != 0 && !all[i].is_none &&
		    item->id >= done[item->caller - 1])
			put_record(b, item, &all[i]);
	}
	if (b->n > head) {
		k = kept_new(f->entry_index, buf_str(b));
		CHECK(k != NULL);
		kept_add(f, k);
	}
	trim(f);
}

void answers_store(struct fsm *f)
{
	struct list *all = &f->answers.kept;

	/* those that are not in the store are the last ones */
	for (struct list *it = all->prev; it != all; it = it->prev) {
		struct kept *k = list_entry(it, struct kept, node);
		struct key key;

		if (k->stored)
			return;
		key_answers(&key, k->index);
		txn_put_new(f->txn, key_str(&key),
			    str_of(k->bytes, k->bytes_n));
		k->stored = true;
	}
}

/* --- finding --- */

static void index_entry(struct fsm *f, struct kept *k)
{
	size_t at = records_at(k);

	k->places = xcalloc(k->n, sizeof(*k->places));
	for (uint32_t i = 0; i < k->n; i++) {
		struct place *p = &k->places[i];
		struct answer a;
		uint32_t caller;
		uint64_t id;

		p->kept = k;
		p->at = at;
		CHECK(record_read(k, &at, &caller, &id, &a));
		p->node.num = number_of(k->callers[caller].origin, id);
		bynum_add(&f->answers.index, &p->node);
	}
}

/* Most entries are forgotten before anybody asks. */
static void index_all(struct fsm *f)
{
	struct list *all = &f->answers.kept;

	for (struct list *it = all->prev; it != all; it = it->prev) {
		struct kept *k = list_entry(it, struct kept, node);

		if (k->places != NULL)
			return;
		index_entry(f, k);
	}
}

int answers_find(struct fsm *f, const struct entry_caller *c, uint64_t id,
		 struct answer *ret)
{
	uint64_t origin = c->origin;
	struct bynum_node *n;
	struct answer a = { 0 };
	uint64_t last = 0; /* of several parts the last one speaks */

	index_all(f);
	n = bynum_first(&f->answers.index, number_of(origin, id));
	for (; n != NULL; n = bynum_next(n)) {
		const struct place *p = container_of(n, struct place, node);
		size_t at = p->at;
		uint32_t caller;
		uint64_t its_id;

		CHECK(record_read(p->kept, &at, &caller, &its_id, &a));
		if (its_id != id || p->kept->callers[caller].origin != origin ||
		    p->kept->index < last)
			continue;
		last = p->kept->index;
		*ret = a;
	}
	if (last > 0)
		return 1;
	/* below done nobody waits for it: a try that was overtaken */
	if (is_lost(f, origin, id) || id < done_of(f, c))
		return -ERR_OUTCOME_UNKNOWN;
	return 0;
}

/* --- start and end --- */

static int load_kept(struct fsm *f, struct str key, struct str value)
{
	struct kept *k;

	if (key.n != 8)
		return -ERR_INTERNAL_ERROR;
	k = kept_new(get_be64(key.p), value);
	if (k == NULL)
		return -ERR_INTERNAL_ERROR;
	k->stored = true;
	kept_add(f, k);
	return 0;
}

static int load_lost(struct fsm *f, struct str key, struct str value)
{
	struct answers *a = &f->answers;

	if (key.n != 0 || value.n % LOST_BYTES != 0 ||
	    value.n > sizeof(a->lost) / sizeof(a->lost[0]) * LOST_BYTES)
		return -ERR_INTERNAL_ERROR;
	a->lost_n = value.n / LOST_BYTES;
	for (size_t i = 0; i < a->lost_n; i++) {
		a->lost[i].origin = get_be64(value.p + i * LOST_BYTES);
		a->lost[i].upto = get_be64(value.p + i * LOST_BYTES + 8);
	}
	return 0;
}

int answers_load(struct fsm *f)
{
	int r = load_all(f, "an|", load_kept);

	return r < 0 ? r : load_all(f, "ao|", load_lost);
}

void answers_free(struct fsm *f)
{
	struct answers *a = &f->answers;

	LIST_FOREACH_SAFE (it, &a->kept) {
		list_remove(it);
		kept_free(list_entry(it, struct kept, node));
	}
	bynum_done(&a->index);
	free(a->callers);
}
