/*
 * Upgrades go key by key, in batches, each of which is written whole or not at
 * all; the last one sets the number. There is no write-ahead log, but what is
 * on disk after a crash is always the first so many batches (kv.h). So an
 * upgrade goes on by doing what is left to do, and old and new keys must be
 * told apart by their bytes alone.
 */
#include "store/format.h"

#include "proto/err.h"

#define BATCH_KEYS  10000
#define BATCH_BYTES (4u << 20)

/* --- the number --- */

static bool store_is_empty(struct kv *kv, int *err)
{
	struct kv_iter *it = kv_iter_new(kv, STR_NULL, STR_NULL);
	bool empty = !kv_iter_valid(it);

	*err = kv_iter_error(it);
	kv_iter_free(it);
	return empty;
}

int format_read(struct kv *kv, uint32_t *ret)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct key k;
	int r;

	key_format(&k);
	r = kv_get(kv, key_str(&k), &b);
	if (r < 0)
		return r;
	if (r > 0 && b.n != 4)
		return -ERR_INTERNAL_ERROR;
	if (r > 0) {
		*ret = get_be32(b.p);
		return 0;
	}
	*ret = store_is_empty(kv, &r) ? 0 : 1;
	return r;
}

static void put_format(struct kv_batch *b, uint32_t format)
{
	struct key k;
	char v[4];

	key_format(&k);
	put_be32(v, format);
	kv_batch_put(b, key_str(&k), str_of(v, sizeof(v)));
}

/* --- from 1 to 2: names live in namespaces --- */

/* Keys of a kind get the default namespace, `at` bytes behind the kind. */
struct move {
	const char *from, *to;
	size_t at;
};

/*
 * Where the kind stays the same, what followed it was a name, which has no NUL
 * bytes (or an id of ours); now it is a namespace, whose first byte is one.
 * Workers may call themselves anything, and times have NUL bytes: they get new
 * kinds.
 *
 * Queues come first: 0.4.0 refuses to load one whose name has NUL bytes, and
 * so a store whose upgrade has begun.
 */
static const struct move moves[] = {
	{ "qc|", "qc|", 0 },
	{ "qs|", "qs|", 0 },
	{ "p|", "p|", 0 },
	{ "a|", "a|", 0 },
	{ "s|", "s|", 0 },
	{ "r|", "r|", 0 },
	{ "h|", "h|", 0 },
	{ "bl|", "bl|", 0 },
	{ "t|", "t|", 0 },
	{ "u|", "u|", 0 },
	{ "ik|", "ik|", 0 },
	{ "ix|", "ie|", 8 },
	{ "sc|", "sc|", 0 },
	{ "group-jobs|", "group-jobs|", 0 },
	{ "group-turn|", "group-turn|", 0 },
	{ "rl|", "rl|", 0 },
	{ "w|", "wk|", 0 },
};

static bool move_keeps_kind(const struct move *m)
{
	return strcmp(m->from, m->to) == 0;
}

static bool move_key(const struct move *m, struct str key, struct key *ret)
{
	struct str rest = str_skip(key, strlen(m->from));

	key_prefix(ret, m->to);
	if (rest.n < MAX(m->at, (size_t)1) ||
	    rest.n > KEY_MAX - KEY_SPACE_BYTES - ret->n ||
	    (move_keeps_kind(m) && rest.p[0] == '\0'))
		return false;
	memcpy(ret->p + ret->n, rest.p, m->at);
	ret->n += m->at;
	put_be32(ret->p + ret->n, SPACE_DEFAULT);
	ret->n += KEY_SPACE_BYTES;
	memcpy(ret->p + ret->n, rest.p + m->at, rest.n - m->at);
	ret->n += rest.n - m->at;
	return true;
}

bool format_key_of_1(struct str key, struct key *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(moves); i++)
		if (str_starts(key, str_from(moves[i].from)))
			return move_key(&moves[i], key, ret);
	return false;
}

/* An upgrade under way. */
struct upgrade {
	struct kv *kv;
	const struct format_upgrade *u;
	struct buf *why;
	struct kv_batch *batch;
	uint32_t keys; /* in the batch */
	size_t bytes;
	uint64_t moved; /* keys, in all */
};

static int upgrade_write(struct upgrade *w)
{
	int r = kv_write(w->kv, w->batch);

	w->moved += w->keys;
	w->keys = 0;
	w->bytes = 0;
	if (r == 0 && w->u->on_batch != NULL)
		w->u->on_batch(w->u->ctx, w->moved);
	return r;
}

static int upgrade_key(struct upgrade *w, const struct move *m, struct str key,
		       struct str value)
{
	uint32_t max = w->u->batch_keys > 0 ? w->u->batch_keys : BATCH_KEYS;
	struct key k;

	if (!move_key(m, key, &k)) {
		buf_printf(w->why, "a key of kind %s is not one of format 1",
			   m->from);
		return -ERR_INTERNAL_ERROR;
	}
	kv_batch_put(w->batch, key_str(&k), value);
	kv_batch_delete(w->batch, key);
	w->keys++;
	w->bytes += 2 * key.n + value.n;
	return w->keys >= max || w->bytes >= BATCH_BYTES ? upgrade_write(w) : 0;
}

static int upgrade_kind(struct upgrade *w, const struct move *m)
{
	struct key from, upto;
	struct kv_iter *it;
	int r = 0;

	key_prefix(&from, m->from);
	key_prefix_end(&from, &upto);
	if (move_keeps_kind(m))
		from.p[from.n++] = '\1'; /* behind the keys of format 2 */
	it = kv_iter_new(w->kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it) && r == 0; kv_iter_next(it))
		r = upgrade_key(w, m, kv_iter_key(it), kv_iter_value(it));
	if (r == 0)
		r = kv_iter_error(it);
	kv_iter_free(it);
	return r;
}

static int upgrade_from_1(struct upgrade *w)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(moves); i++)
		r = upgrade_kind(w, &moves[i]);
	return r;
}

/* --- any to the present one --- */

/* upgrades[n] changes all of format n but the number; it is set after it. */
static int (*const upgrades[STORED_FORMAT])(struct upgrade *w) = {
	[1] = upgrade_from_1,
};

static int upgrade_run(struct upgrade *w, uint32_t format)
{
	int r = 0;

	if (format == 0) {
		put_format(w->batch, STORED_FORMAT);
		return upgrade_write(w);
	}
	for (; r == 0 && format < STORED_FORMAT; format++) {
		r = upgrades[format](w);
		if (r < 0)
			break;
		put_format(w->batch, format + 1);
		r = upgrade_write(w);
	}
	return r;
}

static int refuse_newer(uint32_t format, struct buf *why)
{
	buf_printf(why,
		   "the store has format %u and this version of Corvo knows "
		   "formats up to %u; start the version that wrote it, or "
		   "use another --data-dir",
		   format, STORED_FORMAT);
	return -ERR_CONFLICT;
}

static int say_failed(int r, const char *what, struct buf *why)
{
	if (why->n == 0)
		buf_printf(why, "the store cannot be %s: %s", what,
			   kv_error_text());
	return r;
}

int format_prepare(struct kv *kv, const struct format_upgrade *u,
		   struct buf *why)
{
	static const struct format_upgrade plain;
	struct upgrade w = { .kv = kv, .u = u ? u : &plain, .why = why };
	uint32_t format;
	int r = format_read(kv, &format);

	if (r < 0)
		return say_failed(r, "read", why);
	if (format > STORED_FORMAT)
		return refuse_newer(format, why);
	if (format == STORED_FORMAT)
		return 0;
	w.batch = kv_batch_new(kv);
	r = upgrade_run(&w, format);
	kv_batch_free(w.batch);
	if (r < 0)
		return say_failed(r, "upgraded", why);
	/* So that who does not know the format hears of it from the store. */
	return kv_flush(kv, why);
}

int format_check(struct kv *kv, struct buf *why)
{
	uint32_t format;
	int r = format_read(kv, &format);

	if (r < 0)
		return say_failed(r, "read", why);
	if (format == 0 || format == STORED_FORMAT)
		return 0;
	if (format > STORED_FORMAT)
		return refuse_newer(format, why);
	buf_printf(why, "the store has format %u and this reads only %u",
		   format, STORED_FORMAT);
	return -ERR_CONFLICT;
}
