/*
 * What must hold of a request once its members are read, whether they came
 * from JSON or from the path. Values are hostile, their kinds are right.
 */
#include "proto/msg_json.h"
#include "proto/msg_place.h"
#include "util/turn.h"

#define NAME_SHOWN_MAX 64 /* bytes of a strange member's name */

/* Called along descriptors, a few levels at most. */
void place_print(const struct place *at, struct buf *why)
{
	if (at == NULL)
		return;
	if (at->up != NULL) {
		place_print(at->up, why);
		buf_putc(why, '.');
	}
	buf_puts(why, at->field->name);
	if (at->in_ms)
		buf_puts(why, "_ms");
	if (at->index != PLACE_NO_INDEX)
		buf_printf(why, "[%zu]", at->index);
}

int place_refuse(const struct place *at, struct buf *why, const char *fmt, ...)
{
	va_list ap;

	if (at != NULL) {
		place_print(at, why);
		buf_puts(why, ": ");
	}
	va_start(ap, fmt);
	buf_vprintf(why, fmt, ap);
	va_end(ap);
	return -ERR_VALIDATION_ERROR;
}

void place_print_name(struct str name, struct buf *why)
{
	size_t n = name.n;

	if (n > NAME_SHOWN_MAX) {
		n = NAME_SHOWN_MAX;
		while (n > 0 && (name.p[n] & 0xc0) == 0x80)
			n--; /* not in the middle of a character */
	}
	buf_append(why, name.p, n);
	if (n < name.n)
		buf_puts(why, "...");
}

int place_refuse_word(const struct place *at, struct buf *why)
{
	const struct enum_desc *e = at->field->values;

	(void)place_refuse(at, why, "must be one of");
	for (size_t i = 0; i < e->n; i++)
		buf_printf(why, "%s %s", i > 0 ? "," : "", e->values[i].text);
	return -ERR_VALIDATION_ERROR;
}

/* C0, DEL, and C1 in its two bytes of UTF-8. */
static bool has_control(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c < 0x20 || c == 0x7f)
			return true;
		if (c == 0xc2 && i + 1 < s.n &&
		    (unsigned char)s.p[i + 1] < 0xa0)
			return true;
	}
	return false;
}

#define TEXT(x)    #x
#define TEXT_OF(x) TEXT(x)

/* What is wrong with a queue name, or NULL. */
static const char *queue_name_fault(struct str name)
{
	if (name.n == 0 || name.n > LIMIT_QUEUE_NAME_BYTES)
		return "a queue name must be 1 to " TEXT_OF(
		    LIMIT_QUEUE_NAME_BYTES) " bytes long";
	if (!str_is_utf8(name))
		return "a queue name must be UTF-8";
	if (has_control(name))
		return "a queue name must not have control characters";
	if (name.p[0] == ' ' || name.p[name.n - 1] == ' ')
		return "a queue name must not start or end with a space";
	return NULL;
}

int queue_name_check(struct str name, struct buf *why)
{
	const char *fault = queue_name_fault(name);

	if (fault == NULL)
		return 0;
	buf_puts(why, fault);
	return -ERR_VALIDATION_ERROR;
}

static uint32_t checkpoint_max = LIMIT_CHECKPOINT_BYTES;

void msg_limit_checkpoints(uint32_t bytes)
{
	checkpoint_max = bytes;
}

static uint32_t most_bytes(const struct field_desc *f)
{
	return f->flags & F_CHECKPOINT ? checkpoint_max : f->max;
}

static int check_text(const struct place *at, struct str s, struct buf *why)
{
	const struct field_desc *f = at->field;
	const char *fault;
	uint32_t number;

	if (f->values != NULL && !enum_parse(f->values, s, &number))
		return place_refuse_word(at, why);
	if (f->max != 0 && s.n > most_bytes(f))
		return place_refuse(at, why, "must be at most %u bytes",
				    most_bytes(f));
	/* Text from JSON is UTF-8 already, a path is any bytes. */
	if ((f->flags & F_PATH) != 0 && !str_is_utf8(s))
		return place_refuse(at, why, "must be UTF-8");
	fault = (f->flags & F_QUEUE) != 0 ? queue_name_fault(s) : NULL;
	return fault != NULL ? place_refuse(at, why, "%s", fault) : 0;
}

static int check_texts(struct place *at, const struct str *items, size_t n,
		       struct buf *why)
{
	for (size_t i = 0; i < n; i++) {
		int r;

		turn_step();
		at->index = i;
		r = check_text(at, items[i], why);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_msg(const struct msg_desc *d, const char *m,
		     const struct place *up, struct buf *why);

static int check_msgs(struct place *at, const char *items, size_t n,
		      struct buf *why)
{
	const struct msg_desc *d = at->field->sub;

	for (size_t i = 0; i < n; i++) {
		int r;

		turn_step();
		at->index = i;
		r = check_msg(d, items + i * d->size, at, why);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool is_list(const struct field_desc *f)
{
	return f->kind == K_strs || f->kind == K_msgs;
}

static int check_field(struct place *at, const char *m, struct buf *why)
{
	const struct field_desc *f = at->field;
	const void *p = m + f->offset;
	size_t n = is_list(f) ? *(const size_t *)(m + f->count_offset) : 0;

	if (f->kind == K_str || f->kind == K_raw)
		return check_text(at, *(const struct str *)p, why);
	if (f->kind == K_strs)
		return check_texts(at, *(struct str *const *)p, n, why);
	if (f->kind == K_msg)
		return check_msg(f->sub, *(const char *const *)p, at, why);
	if (f->kind == K_msgs)
		return check_msgs(at, *(const char *const *)p, n, why);
	return 0;
}

/* Absent, or present and as good as absent. */
static bool is_missing(const struct field_desc *f, const char *m, bool has)
{
	if (!has)
		return true;
	if (f->kind == K_str || f->kind == K_raw)
		return ((const struct str *)(m + f->offset))->n == 0;
	return is_list(f) && *(const size_t *)(m + f->count_offset) == 0;
}

static int check_msg(const struct msg_desc *d, const char *m,
		     const struct place *up, struct buf *why)
{
	uint64_t has = *(const uint64_t *)m;

	for (size_t i = 0; i < d->n; i++) {
		const struct field_desc *f = &d->fields[i];
		struct place at = { up, f, PLACE_NO_INDEX, false };
		int r = 0;

		if ((f->flags & F_INTERNAL) != 0)
			continue;
		if (!is_missing(f, m, has >> i & 1)) {
			r = check_field(&at, m, why);
		} else if ((f->flags & F_REQUIRED) != 0) {
			place_print(&at, why);
			buf_puts(why, " is required");
			r = -ERR_VALIDATION_ERROR;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int msg_check(const struct msg_desc *d, const void *m, struct buf *why)
{
	return check_msg(d, m, NULL, why);
}

bool msg_has_member(const struct msg_desc *d, struct str name)
{
	struct str ms = STR("_ms"), bare = name;

	if (name.n > ms.n && memcmp(name.p + name.n - ms.n, ms.p, ms.n) == 0)
		bare.n -= ms.n;
	for (size_t i = 0; i < d->n; i++) {
		const struct field_desc *f = &d->fields[i];

		if ((f->flags & (F_INTERNAL | F_PATH | F_ANSWER)) == 0 &&
		    (str_is(name, f->name) ||
		     ((f->kind == K_dur || f->kind == K_secs) &&
		      str_is(bare, f->name))))
			return true;
	}
	return false;
}
