/*
 * See rpc/pb/store.h. Values are hostile.
 */
#include "rpc/pb/store.h"

#include "proto/msg_read.h"
#include "util/nano.h"
#include "util/timefmt.h"

#define DURATION_MAX_NS (LIMIT_DURATION_S * NS_PER_S)
#define TIME_MAX_S      UINT64_C(7289654400) /* 2201, as in JSON */

static void print_place(const struct pb_place *at, struct buf *to)
{
	if (at->up != NULL) {
		print_place(at->up, to);
		buf_putc(to, '.');
	}
	buf_puts(to, at->f->name);
	if ((at->f->flags & PB_REPEATED) && at->index != PLACE_NO_INDEX)
		buf_printf(to, "[%zu]", at->index);
}

int pb_refuse(const struct msg_reader *rd, const struct pb_place *at,
	      const char *fmt, ...)
{
	va_list ap;

	print_place(at, rd->why);
	buf_puts(rd->why, ": ");
	va_start(ap, fmt);
	buf_vprintf(rd->why, fmt, ap);
	va_end(ap);
	return -ERR_VALIDATION_ERROR;
}

void pb_print_member(const struct pb_place *up, struct str name, struct buf *to)
{
	if (up != NULL) {
		print_place(up, to);
		buf_putc(to, '.');
	}
	place_print_name(name, to);
}

void pb_ignore(const struct msg_reader *rd, const struct pb_place *up,
	       struct str name)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct ignored *i = rd->ignored;

	if (i == NULL || i->n == LIMIT_IGNORED)
		return;
	if (i->paths == NULL)
		i->paths =
		    arena_alloc(rd->a, LIMIT_IGNORED * sizeof(*i->paths));
	pb_print_member(up, name, &path);
	i->paths[i->n++] = arena_copy(rd->a, buf_str(&path));
}

static const struct field_desc *member_of(const struct pb_place *at)
{
	return pb_member(at->d, at->f);
}

static void *slot(const struct pb_place *at, void *m)
{
	return (char *)m + member_of(at)->offset;
}

/*
 * Whether the value is kept. proto3 does not tell 0 from nothing, except where
 * a field is marked so.
 */
static bool set_bit(const struct pb_place *at, void *m, bool is_zero)
{
	uint64_t *has = m; /* the first member of each message */
	uint64_t bit = 1ULL << at->f->index;

	if (at->f->flags & PB_ONEOF)
		for (size_t i = 0; i < at->d->n; i++)
			if (at->d->fields[i].flags & PB_ONEOF)
				*has &= ~(1ULL << at->d->fields[i].index);
	if (!is_zero || (at->f->flags & (PB_OPTIONAL | PB_ONEOF)) != 0) {
		*has |= bit;
		return true;
	}
	if ((at->f->flags & PB_ALSO) == 0)
		*has &= ~bit;
	return false;
}

/* --- numbers --- */

/* Of an enum, a time or a duration: how many nanoseconds a unit has. */
static uint64_t unit_ns(const struct pb_field *f)
{
	if (f->type == PB_ms)
		return NS_PER_MS;
	return f->type == PB_secs ? NS_PER_S : 1;
}

static int put_span(const struct msg_reader *rd, const struct pb_place *at,
		    void *m, uint64_t v)
{
	uint64_t ns;

	if (__builtin_mul_overflow(v, unit_ns(at->f), &ns) ||
	    ns > DURATION_MAX_NS)
		return pb_refuse(rd, at, "must be at most 100 years");
	if (set_bit(at, m, ns == 0))
		*(uint64_t *)slot(at, m) = ns;
	return 0;
}

static int put_unsigned(const struct msg_reader *rd, const struct pb_place *at,
			void *m, uint64_t v)
{
	const struct field_desc *f = member_of(at);
	bool is_small = f->kind == K_u32 || f->kind == K_enum;
	uint64_t max = is_small ? UINT32_MAX : UINT64_MAX;

	if (f->max != 0)
		max = f->max;
	if (v > max)
		return pb_refuse(rd, at,
				 "must be a whole number from 0 to %llu",
				 (unsigned long long)max);
	if (!set_bit(at, m, v == 0))
		return 0;
	if (is_small)
		*(uint32_t *)slot(at, m) = (uint32_t)v;
	else
		*(uint64_t *)slot(at, m) = v;
	return 0;
}

int pb_put_int(const struct msg_reader *rd, const struct pb_place *at, void *m,
	       bool is_negative, uint64_t magnitude)
{
	const struct field_desc *f = member_of(at);

	if (f->kind == K_i64) {
		if (set_bit(at, m, magnitude == 0))
			*(int64_t *)slot(at, m) =
			    (int64_t)(is_negative ? 0 - magnitude : magnitude);
		return 0;
	}
	/* What 0.3 took for nothing. */
	if (is_negative && rd->compat_03)
		return 0;
	if (is_negative)
		return pb_refuse(rd, at, "must not be negative");
	if (f->kind == K_dur || f->kind == K_secs)
		return put_span(rd, at, m, magnitude);
	return put_unsigned(rd, at, m, magnitude);
}

int pb_put_bool(const struct pb_place *at, void *m, bool v)
{
	if (set_bit(at, m, !v))
		*(bool *)slot(at, m) = v;
	return 0;
}

static int put_nano(const struct msg_reader *rd, const struct pb_place *at,
		    void *m, double v)
{
	uint64_t max = UINT64_MAX / NANO_PER_UNIT, nano;

	if (member_of(at)->max != 0)
		max = member_of(at)->max;
	if (!nano_from_double(v, &nano) || nano > max * NANO_PER_UNIT)
		return pb_refuse(rd, at, "must be a number from 0 to %llu",
				 (unsigned long long)max);
	if (set_bit(at, m, nano == 0))
		*(uint64_t *)slot(at, m) = nano;
	return 0;
}

int pb_put_double(const struct msg_reader *rd, const struct pb_place *at,
		  void *m, double v)
{
	uint32_t max = member_of(at)->max;

	if (member_of(at)->kind == K_nano)
		return put_nano(rd, at, m, v);
	/* not a number compares with nothing */
	if (max != 0 && !(v >= 0 && v <= max))
		return pb_refuse(rd, at, "must be a number from 0 to %u", max);
	if (!(v - v == 0))
		return pb_refuse(rd, at, "must be a finite number");
	if (set_bit(at, m, v == 0))
		*(double *)slot(at, m) = v;
	return 0;
}

int pb_put_time(const struct msg_reader *rd, const struct pb_place *at, void *m,
		int64_t seconds, int64_t nanos)
{
	if (seconds < 0 || (uint64_t)seconds >= TIME_MAX_S || nanos < 0 ||
	    nanos >= (int64_t)NS_PER_S)
		return pb_refuse(rd, at,
				 "must be a time of the years 1970 to 2200");
	(void)set_bit(at, m, false);
	*(uint64_t *)slot(at, m) =
	    (uint64_t)seconds * NS_PER_S + (uint64_t)nanos;
	return 0;
}

/* --- lists --- */

/* Room for one more in the list of a member; the list grows by doubling. */
static void *list_add(struct arena *a, const struct field_desc *f, void *m,
		      size_t size)
{
	char **items = (char **)((char *)m + f->offset);
	size_t *n = (size_t *)((char *)m + f->count_offset);

	if ((*n & (*n - 1)) == 0) { /* 0, or a power of two: it is full */
		char *more = arena_alloc(a, MAX(2 * *n, (size_t)1) * size);

		if (*n > 0)
			memcpy(more, *items, *n * size);
		*items = more;
	}
	return *items + (*n)++ * size;
}

static int too_many(const struct msg_reader *rd, const struct pb_place *at,
		    size_t max)
{
	print_place(at, rd->why);
	buf_printf(rd->why, ": there may be at most %zu", max);
	return -ERR_VALIDATION_ERROR;
}

int pb_put_message(const struct msg_reader *rd, struct pb_place *at, void *m,
		   void **ret)
{
	const struct field_desc *f = member_of(at);
	bool is_there = *(uint64_t *)m >> at->f->index & 1;
	void **one = slot(at, m);

	(void)set_bit(at, m, false);
	if (f->kind == K_msg) {
		if (!is_there)
			*one = arena_zalloc(rd->a, f->sub->size);
		*ret = *one;
		return 0;
	}
	at->index = *(size_t *)((char *)m + f->count_offset);
	if (f->max != 0 && at->index >= f->max)
		return too_many(rd, at, f->max);
	*ret = list_add(rd->a, f, m, f->sub->size);
	memset(*ret, 0, f->sub->size);
	return 0;
}

static bool is_own_item(const struct pb_place *at)
{
	return at->up == NULL &&
	       (at->f->flags & (PB_REPEATED | PB_MAP)) == PB_REPEATED;
}

int pb_end_message(const struct msg_reader *rd, const struct pb_place *at,
		   void *item, int r)
{
	if (r == 0 || rd->refused == NULL || !is_own_item(at))
		return r;
	memset(item, 0, at->f->sub->msg->size);
	rd->refused(rd->refused_ctx, at->f->index, at->index, -r,
		    buf_str(rd->why));
	buf_clear(rd->why);
	return 0;
}

/* --- texts --- */

/* As the reader of JSON names its places: by the field's own name. */
static struct field_desc renamed(const struct pb_place *at)
{
	struct field_desc f = *member_of(at);

	f.name = at->f->name;
	return f;
}

/* Where it stands, before what was said of it. */
static int refused_inside(const struct msg_reader *rd,
			  const struct pb_place *at, int err)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	if (at->up == NULL)
		return err;
	buf_put_str(&text, buf_str(rd->why));
	buf_clear(rd->why);
	print_place(at->up, rd->why);
	buf_putc(rd->why, '.');
	buf_put_str(rd->why, buf_str(&text));
	return err;
}

static int put_nested_json(const struct msg_reader *rd,
			   const struct pb_place *at, void *m, struct json v)
{
	const struct field_desc *f = member_of(at);
	struct msg_reader inner = *rd;
	void *sub = arena_zalloc(rd->a, f->sub->size);
	int r;

	if (json_type_of(v) != JSON_OBJECT)
		return pb_refuse(rd, at, "must be an object, not %s",
				 json_type_name(json_type_of(v)));
	inner.ignored = NULL;
	r = msg_from_json(&inner, f->sub, v, sub);
	if (r < 0) {
		_cleanup_(buf_done) struct buf text = BUF_INIT(0);

		buf_put_str(&text, buf_str(rd->why));
		buf_clear(rd->why);
		(void)pb_refuse(rd, at, "%.*s", STR_ARG(buf_str(&text)));
		return r;
	}
	(void)set_bit(at, m, false);
	*(void **)slot(at, m) = sub;
	return 0;
}

static int put_json(const struct msg_reader *rd, const struct pb_place *at,
		    void *m, struct str text)
{
	struct field_desc f;
	struct place place = { NULL, &f, PLACE_NO_INDEX, false };
	struct json_error e;
	struct json v;
	int r;

	if (text.n == 0) {
		(void)set_bit(at, m, true);
		return 0;
	}
	if (!json_validate(text, LIMIT_JSON_DEPTH, &e))
		return pb_refuse(rd, at, "must be JSON; at byte %zu: %s", e.pos,
				 e.text);
	v = json_root(text);
	if (member_of(at)->kind == K_msg)
		return put_nested_json(rd, at, m, v);
	f = renamed(at);
	r = msg_read_scalar(rd, &place, v, slot(at, m));
	if (r < 0)
		return refused_inside(rd, at, r);
	(void)set_bit(at, m, false);
	return 0;
}

static int put_duration(const struct msg_reader *rd, const struct pb_place *at,
			void *m, struct str text)
{
	uint64_t ns = 0;

	if (text.n > 0 && (!duration_read(text, &ns) || ns > DURATION_MAX_NS))
		return pb_refuse(rd, at,
				 "must be a duration such as \"90s\", at "
				 "most 100 years");
	if (set_bit(at, m, text.n == 0))
		*(uint64_t *)slot(at, m) = ns;
	return 0;
}

static int put_word(const struct msg_reader *rd, const struct pb_place *at,
		    void *m, struct str text)
{
	struct field_desc f = renamed(at);
	struct place place = { NULL, &f, PLACE_NO_INDEX, false };
	uint32_t number;
	int r;

	if (text.n == 0) {
		(void)set_bit(at, m, true);
		return 0;
	}
	r = msg_read_word(rd, &place, text, &number);
	if (r < 0)
		return refused_inside(rd, at, r);
	if (r == MSG_READ_ABSENT)
		return 0;
	(void)set_bit(at, m, false);
	*(uint32_t *)slot(at, m) = number;
	return 0;
}

static int put_listed(const struct msg_reader *rd, const struct pb_place *at,
		      void *m, struct str v)
{
	const struct field_desc *f = member_of(at);
	size_t n = *(size_t *)((char *)m + f->count_offset);

	if (n >= field_texts_max(f))
		return too_many(rd, at, field_texts_max(f));
	(void)set_bit(at, m, false);
	*(struct str *)list_add(rd->a, f, m, sizeof(v)) = v;
	return 0;
}

int pb_put_text(const struct msg_reader *rd, const struct pb_place *at, void *m,
		struct str v)
{
	if (at->f->type != PB_bytes && !str_is_utf8(v))
		return pb_refuse(rd, at, "must be UTF-8");
	if (at->f->type == PB_json)
		return put_json(rd, at, m, v);
	if (at->f->type == PB_dur)
		return put_duration(rd, at, m, v);
	if (at->f->type == PB_word)
		return put_word(rd, at, m, v);
	if (at->f->flags & PB_REPEATED)
		return put_listed(rd, at, m, v);
	if (set_bit(at, m, v.n == 0))
		*(struct str *)slot(at, m) = v;
	return 0;
}

/* --- the whole --- */

/* One name of a path, as the field that shows the member is called. */
static const struct pb_field *find_shown(const struct pb_desc *d,
					 struct str name)
{
	for (size_t i = 0; d != NULL && i < d->n; i++)
		if ((d->fields[i].flags & (PB_UNUSED | PB_FOUND)) == 0 &&
		    str_is(name, pb_member(d, &d->fields[i])->name))
			return &d->fields[i];
	return NULL;
}

static size_t name_length(struct str s)
{
	size_t n = 0;

	while (n < s.n && ((s.p[n] >= 'a' && s.p[n] <= 'z') || s.p[n] == '_'))
		n++;
	return n;
}

/*
 * "acks[3].payload: text" with the names of fields in the place of those of
 * members, as far as it is a path.
 */
static void rename_path(const struct pb_desc *d, struct str text,
			struct buf *out)
{
	while (d != NULL) {
		size_t n = name_length(text);
		const struct pb_field *f = find_shown(d, str_of(text.p, n));

		if (f == NULL)
			break;
		buf_puts(out, f->name);
		text = str_skip(text, n);
		while (text.n > 0 && text.p[0] != '.' && text.p[0] != ':' &&
		       text.p[0] != ' ') {
			buf_putc(out, text.p[0]);
			text = str_skip(text, 1);
		}
		if (text.n == 0 || text.p[0] != '.')
			break;
		buf_putc(out, '.');
		text = str_skip(text, 1);
		d = f->sub;
	}
	buf_put_str(out, text);
}

int pb_finish(const struct msg_reader *rd, const struct pb_desc *d,
	      const void *m)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	int r = msg_check(d->msg, m, &text);

	if (r < 0)
		rename_path(d, buf_str(&text), rd->why);
	return r;
}
