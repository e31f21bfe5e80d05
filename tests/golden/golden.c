#include "golden.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/format.h"

#define FILE_BYTES_MAX (1u << 20)
#define PATH_BYTES     512

/* --- the state machine --- */

void golden_init(struct golden *g, struct kv *kv)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct record_meta m;

	*g = (struct golden){ .kv = kv };
	CHECK(format_prepare(kv, NULL, &why) == 0);
	CHECK(record_meta_read(kv, &m) == 0);
	g->index = m.applied_index;
	g->f = fsm_new(kv);
	CHECK(fsm_load(g->f) == 0);
}

void golden_done(struct golden *g)
{
	fsm_free(g->f);
	kv_close(g->kv);
	arena_done(&g->arena);
}

static void on_reply(void *ctx, size_t item, int err, uint64_t seq,
		     struct str body)
{
	struct golden *g = ctx;

	(void)seq;
	CHECK(item < GOLDEN_ITEMS && item == g->n);
	g->replies[g->n++] = (struct golden_reply){
		err, arena_copy(&g->arena, body.n > 0 ? body : STR(""))
	};
}

void golden_apply(struct golden *g, struct str entry)
{
	arena_reset(&g->arena);
	g->n = 0;
	CHECK(fsm_apply(g->f, ++g->index, entry, on_reply, g) == 0);
}

/* --- lines --- */

void golden_lines_done(struct golden_lines *l)
{
	free(l->lines);
	arena_done(&l->arena);
	*l = (struct golden_lines){ 0 };
}

static void add_line(struct golden_lines *l, struct str line)
{
	if (l->n == l->cap) {
		l->cap = MAX(2 * l->cap, (size_t)64);
		l->lines = xrealloc(l->lines, l->cap * sizeof(*l->lines));
	}
	l->lines[l->n++] = arena_copy(&l->arena, line.n > 0 ? line : STR(""));
}

static void escape(struct buf *b, struct str raw)
{
	for (size_t i = 0; i < raw.n; i++) {
		unsigned char c = (unsigned char)raw.p[i];

		if (c < ' ' || c > '~' || c == '\\')
			buf_printf(b, "\\x%02x", c);
		else
			buf_putc(b, (char)c);
	}
}

void golden_add(struct golden_lines *l, struct str raw)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	escape(&b, raw);
	add_line(l, buf_str(&b));
}

static unsigned digit(char c)
{
	CHECK((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'));
	return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

struct str golden_unescape(struct str line, struct arena *a)
{
	char *p = arena_alloc(a, line.n + 1);
	size_t n = 0;

	for (size_t i = 0; i < line.n; i++) {
		if (line.p[i] != '\\') {
			p[n++] = line.p[i];
			continue;
		}
		CHECK(line.n - i >= 4 && line.p[i + 1] == 'x');
		p[n++] =
		    (char)(digit(line.p[i + 2]) << 4 | digit(line.p[i + 3]));
		i += 3;
	}
	return str_of(p, n);
}

/* --- stores --- */

void golden_dump(struct kv *kv, struct golden_lines *ret)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct kv_iter *it = kv_iter_new(kv, STR_NULL, STR_NULL);

	for (; kv_iter_valid(it); kv_iter_next(it)) {
		buf_clear(&b);
		escape(&b, kv_iter_key(it));
		buf_putc(&b, '\t');
		escape(&b, kv_iter_value(it));
		add_line(ret, buf_str(&b));
	}
	CHECK(kv_iter_error(it) == 0);
	kv_iter_free(it);
}

struct kv *golden_store(const struct golden_lines *dump)
{
	struct kv *kv = kv_mem_new();
	struct kv_batch *b = kv_batch_new(kv);
	struct arena a = ARENA_INIT;

	for (size_t i = 0; i < dump->n; i++) {
		struct str key, value;

		CHECK(str_split(dump->lines[i], '\t', &key, &value));
		kv_batch_put(b, golden_unescape(key, &a),
			     golden_unescape(value, &a));
	}
	CHECK(kv_write(kv, b) == 0);
	kv_batch_free(b);
	arena_done(&a);
	return kv;
}

static void add_change(struct golden_lines *l, const char *sign, struct str s)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	buf_puts(&b, sign);
	buf_put_str(&b, s);
	add_line(l, buf_str(&b));
}

/* Both are in the order of their keys as they are written. */
static int key_cmp(struct str a, struct str b)
{
	struct arena arena = ARENA_INIT;
	struct str ka, kb, rest;
	int c;

	(void)str_split(a, '\t', &ka, &rest);
	(void)str_split(b, '\t', &kb, &rest);
	c = str_cmp(golden_unescape(ka, &arena), golden_unescape(kb, &arena));
	arena_done(&arena);
	return c;
}

void golden_diff(const struct golden_lines *from, const struct golden_lines *to,
		 struct golden_lines *ret)
{
	size_t i = 0, k = 0;

	while (i < from->n || k < to->n) {
		int c = i == from->n ? 1
			: k == to->n ? -1
				     : key_cmp(from->lines[i], to->lines[k]);

		if (c == 0 && str_eq(from->lines[i], to->lines[k])) {
			i++;
			k++;
			continue;
		}
		if (c <= 0)
			add_change(ret, "- ", from->lines[i++]);
		if (c >= 0)
			add_change(ret, "+ ", to->lines[k++]);
	}
}

void golden_replay(struct golden *g, const struct golden_lines *log,
		   size_t from, size_t upto)
{
	struct arena a = ARENA_INIT;

	for (size_t i = from; i < upto; i++)
		golden_apply(g, golden_unescape(log->lines[i], &a));
	arena_done(&a);
}

/* --- files --- */

static FILE *open_file(const char *dir, const char *name, const char *mode)
{
	char path[PATH_BYTES];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return fopen(path, mode);
}

bool golden_read(const char *dir, const char *name, struct golden_lines *ret)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(FILE_BYTES_MAX);
	FILE *f = open_file(dir, name, "re");
	struct str line, rest;
	char part[4096];
	size_t n;

	if (f == NULL)
		return false;
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		buf_append(&b, part, n);
	CHECK(!ferror(f) && !b.full);
	(void)fclose(f);
	for (rest = buf_str(&b); rest.n > 0;) {
		(void)str_split(rest, '\n', &line, &rest);
		if (line.n > 0 && line.p[0] != '#')
			add_line(ret, line);
	}
	return true;
}

bool golden_write(const char *dir, const char *name,
		  const struct golden_lines *l)
{
	FILE *f = open_file(dir, name, "we");
	bool ok = f != NULL;

	for (size_t i = 0; ok && i < l->n; i++)
		ok = fprintf(f, "%.*s\n", STR_ARG(l->lines[i])) > 0;
	if (f != NULL && fclose(f) != 0)
		ok = false;
	return ok;
}

/* --- released ones --- */

/* The store made of `dump`, upgraded, and the rest of the log applied. */
static void bring_up(const struct golden_lines *dump,
		     const struct golden_lines *log, struct golden_lines *ret)
{
	struct golden g;

	golden_init(&g, golden_store(dump));
	CHECK(g.index <= log->n);
	golden_replay(&g, log, g.index, log->n);
	golden_dump(g.kv, ret);
	golden_done(&g);
}

bool golden_from(const char *dir, struct golden_lines *ret)
{
	struct golden_lines log = { 0 }, store = { 0 }, half = { 0 };
	struct golden_lines none = { 0 }, then = { 0 }, now = { 0 };
	bool ok = golden_read(dir, "log", &log) &&
		  golden_read(dir, "store", &store) &&
		  golden_read(dir, "half", &half);

	if (ok) {
		bring_up(&store, &log, &then);
		bring_up(&none, &log, &now);
		add_line(ret, STR("the whole log, applied:"));
		golden_diff(&then, &now, ret);
		golden_lines_done(&now);
		bring_up(&half, &log, &now);
		add_line(ret, STR("half of it upgraded, the rest applied:"));
		golden_diff(&then, &now, ret);
	}
	golden_lines_done(&log);
	golden_lines_done(&store);
	golden_lines_done(&half);
	golden_lines_done(&then);
	golden_lines_done(&now);
	return ok;
}
