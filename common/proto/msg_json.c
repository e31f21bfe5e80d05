/*
 * Requests from JSON. The text is well-formed (json_validate) and otherwise
 * hostile; every refusal names the member. Texts without escapes and raw
 * members are slices of the request, all else is in the caller's arena.
 *
 * Functions that follow nested messages call themselves along descriptors,
 * never along data.
 */
#include <stdlib.h>

#include "proto/msg_near.h"
#include "proto/msg_read.h"
#include "util/turn.h"
#include "util/unique.h"

/* --- members given twice --- */

#define UNKNOWN_FIRST 16 /* so few are compared pair by pair */

/* The members of one object so far. */
struct seen {
	uint64_t known;    /* bit per field */
	uint64_t known_ms; /* the same for <name>_ms */
	struct str *unknown;
	size_t n, cap;
	struct str first[UNKNOWN_FIRST];
};

static int refuse_twice(const struct msg_reader *rd, const struct place *at,
			struct str key)
{
	if (at != NULL) {
		place_print(at, rd->why);
		buf_puts(rd->why, ": ");
	}
	buf_puts(rd->why, "member \"");
	place_print_name(key, rd->why);
	buf_puts(rd->why, "\" is given twice");
	return -ERR_PARSE_ERROR;
}

/* Not in the arena: there may be a million, and it would keep each list that
 * became too short. */
static void seen_add_unknown(struct seen *s, struct str key)
{
	if (s->n == s->cap) {
		bool is_first = s->unknown == s->first;

		s->cap *= 2;
		s->unknown = xrealloc(is_first ? NULL : s->unknown,
				      s->cap * sizeof(*s->unknown));
		if (is_first)
			memcpy(s->unknown, s->first, sizeof(s->first));
	}
	s->unknown[s->n++] = key;
}

static void seen_done(struct seen *s)
{
	if (s->unknown != s->first)
		free(s->unknown);
}

/* NULL when all are different. */
static const struct str *find_twin(const struct str *keys, size_t n)
{
	if (n > UNKNOWN_FIRST)
		return unique_twin(keys, n);
	for (size_t i = 1; i < n; i++)
		for (size_t j = 0; j < i; j++)
			if (str_eq(keys[i], keys[j]))
				return &keys[i];
	return NULL;
}

/* --- members nothing is done with --- */

/* In a filter each member must say something. */
static bool is_filter(const struct place *up)
{
	return up != NULL && (up->field->flags & F_FILTER) != 0;
}

static void print_member(const struct place *up, struct str key, struct buf *to)
{
	if (up != NULL) {
		place_print(up, to);
		buf_putc(to, '.');
	}
	place_print_name(key, to);
}

static void note(const struct msg_reader *rd, struct ignored *i,
		 const struct place *up, struct str key, struct str hint)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	if (i == NULL || i->n == LIMIT_IGNORED)
		return;
	if (i->paths == NULL)
		i->paths =
		    arena_alloc(rd->a, LIMIT_IGNORED * sizeof(*i->paths));
	buf_put_str(&path, rd->under);
	print_member(up, key, &path);
	if (hint.n > 0)
		buf_printf(&path, " (perhaps %.*s)", STR_ARG(hint));
	i->paths[i->n++] = arena_copy(rd->a, buf_str(&path));
}

/* A member that probably is meant. Who sends thousands of names made no slip,
 * and pays for the first ones only. */
static bool find_near(const struct msg_reader *rd, const struct msg_desc *d,
		      struct str key, struct buf *ret)
{
	struct ignored *i = rd->ignored;

	if (rd->compat_03 || i == NULL || i->looked == LIMIT_NEAR_NAMES)
		return false;
	i->looked++;
	return msg_near(d, key, ret);
}

/* A member of a message that has none of that name. */
static int meet_unknown(const struct msg_reader *rd, const struct msg_desc *d,
			const struct place *up, struct str key)
{
	_cleanup_(buf_done) struct buf hint = BUF_INIT(0);
	bool is_near;

	if (up == NULL && rd->beside != NULL && msg_has_member(rd->beside, key))
		return 0;
	is_near = find_near(rd, d, key, &hint) ||
		  (up == NULL && rd->beside != NULL &&
		   find_near(rd, rd->beside, key, &hint));
	if (!is_filter(up) && rd->unknown != NULL && !rd->compat_03) {
		if (!is_near && rd->unknown->n < LIMIT_IGNORED)
			(void)msg_longer(d, key, &hint);
		note(rd, rd->unknown, up, key, buf_str(&hint));
		return 0;
	}
	if (!is_filter(up) && !is_near) {
		note(rd, rd->ignored, up, key, STR_NULL);
		return 0;
	}
	print_member(up, key, rd->why);
	buf_puts(rd->why, is_filter(up) ? ": a filter has no such member"
					: ": there is no such member");
	if (is_near)
		buf_printf(rd->why, "; perhaps \"%.*s\" is meant",
			   STR_ARG(buf_str(&hint)));
	return -ERR_VALIDATION_ERROR;
}

/*
 * A member that only the server sets. What the path says already may be said
 * again, and null says nothing.
 */
static int skip_member(const struct msg_reader *rd, const struct place *at,
		       struct str key, struct json v, const char *m)
{
	const struct field_desc *f = at->field;

	if ((f->flags & F_ROUTE) != 0 ||
	    (json_type_of(v) == JSON_NULL && !is_filter(at->up)))
		return 0;
	if ((f->flags & F_PATH) != 0 && json_type_of(v) == JSON_STRING &&
	    str_eq(json_string(v, rd->a), *(const struct str *)(m + f->offset)))
		return 0;
	if (is_filter(at->up)) {
		print_member(at->up, key, rd->why);
		buf_puts(rd->why, ": a filter has no such member");
		return -ERR_VALIDATION_ERROR;
	}
	note(rd, rd->ignored, at->up, key, STR_NULL);
	return 0;
}

static bool says_nothing(struct json v)
{
	enum json_type t = json_type_of(v);

	return t == JSON_NULL || (t == JSON_STRING && v.raw.n == 2) ||
	       ((t == JSON_ARRAY || t == JSON_OBJECT) && json_count(v) == 0);
}

/* --- lists --- */

/* An array of at most `max` items (0: any number). */
static int read_list_head(const struct msg_reader *rd, const struct place *at,
			  struct json v, size_t max, size_t *ret_n)
{
	if (json_type_of(v) != JSON_ARRAY)
		return msg_refuse_type(rd, at, "an array", v);
	*ret_n = json_count(v);
	if (max != 0 && *ret_n > max)
		return place_refuse(at, rd->why, "must have at most %zu items",
				    max);
	return 0;
}

static int read_strs(const struct msg_reader *rd, struct place *at,
		     struct json v, struct str **ret, size_t *ret_n)
{
	struct json_iter it;
	struct json item;
	int r = read_list_head(rd, at, v, field_texts_max(at->field), ret_n);

	if (r < 0)
		return r;
	*ret = arena_alloc(rd->a, *ret_n * sizeof(**ret));
	it = json_iter(v);
	for (at->index = 0; json_next_item(&it, &item); at->index++) {
		if (json_type_of(item) != JSON_STRING)
			return msg_refuse_type(rd, at, "a string", item);
		(*ret)[at->index] = json_string(item, rd->a);
	}
	return 0;
}

static int read_object(const struct msg_reader *rd, const struct msg_desc *d,
		       struct json v, char *m, const struct place *at);

static int read_msg(const struct msg_reader *rd, const struct place *at,
		    struct json v, void *ret)
{
	if (json_type_of(v) != JSON_OBJECT)
		return msg_refuse_type(rd, at, "an object", v);
	return read_object(rd, at->field->sub, v, ret, at);
}

static int read_msgs(const struct msg_reader *rd, struct place *at,
		     struct json v, void **ret, size_t *ret_n)
{
	size_t size = at->field->sub->size;
	struct json_iter it;
	struct json item;
	int r = read_list_head(rd, at, v, at->field->max, ret_n);

	if (r < 0)
		return r;
	*ret = arena_zalloc(rd->a, *ret_n * size);
	it = json_iter(v);
	for (at->index = 0; json_next_item(&it, &item); at->index++) {
		r = read_msg(rd, at, item, (char *)*ret + at->index * size);
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- objects --- */

/* p: the member of the struct; n: of a list, its count. */
static int read_value(const struct msg_reader *rd, struct place *at,
		      struct json v, void *p, size_t *n)
{
	unsigned kind = at->field->kind;

	if (kind == K_strs)
		return read_strs(rd, at, v, p, n);
	if (kind == K_msgs)
		return read_msgs(rd, at, v, p, n);
	if (kind != K_msg)
		return msg_read_scalar(rd, at, v, p);
	*(void **)p = arena_zalloc(rd->a, at->field->sub->size);
	return read_msg(rd, at, v, *(void **)p);
}

/*
 * The second form of a duration. Job JSON carries both, so a client may send
 * both back, but not two different ones.
 */
static int read_twin(const struct msg_reader *rd, struct place *at,
		     struct json v, uint64_t *ns)
{
	uint64_t other;
	int r = msg_read_duration(rd, at, v, &other);

	if (r != 0)
		return MIN(r, 0);
	if (other / NS_PER_MS != *ns / NS_PER_MS) {
		at->in_ms = false;
		return place_refuse(at, rd->why, "differs from %s_ms",
				    at->field->name);
	}
	if (!at->in_ms) /* the text may be finer */
		*ns = other;
	return 0;
}

static const struct field_desc *find_name(const struct msg_desc *d,
					  struct str name)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct field_desc *f = &d->fields[i];

		if (f->name_len == name.n &&
		    memcmp(f->name, name.p, name.n) == 0)
			return f;
	}
	return NULL;
}

static const struct field_desc *find_field(const struct msg_desc *d,
					   struct str key, bool *ret_in_ms)
{
	const struct field_desc *f = find_name(d, key);

	*ret_in_ms = false;
	if (f != NULL || key.n < 4 || memcmp(key.p + key.n - 3, "_ms", 3) != 0)
		return f;
	f = find_name(d, str_of(key.p, key.n - 3));
	if (f == NULL || (f->kind != K_dur && f->kind != K_secs))
		return NULL;
	*ret_in_ms = true;
	return f;
}

/* A text in the place of an object: it goes into the enum after it. */
static int read_word(const struct msg_reader *rd, struct place *at,
		     struct json v, uint64_t bit, char *m)
{
	struct field_desc word = at->field[1];
	int r;

	word.name = at->field->name; /* as the client calls it */
	at->field = &word;
	r = msg_read_scalar(rd, at, v, m + word.offset);
	if (r == 0)
		*(uint64_t *)m |= bit << 1;
	return MIN(r, 0);
}

/* Whether it is shown as a number, which is what it was given as. */
static void note_number(const struct msg_desc *d, const struct place *at,
			struct json v, char *m)
{
	const struct field_desc *numbers;

	if (at->field->kind != K_dur || at->field->max == 0 || at->in_ms ||
	    json_type_of(v) != JSON_NUMBER)
		return;
	numbers = msg_numbers(d);
	*(uint32_t *)(m + numbers->offset) |= at->field->max;
	*(uint64_t *)m |= 1ULL << (numbers - d->fields);
}

static int read_member(const struct msg_reader *rd, const struct msg_desc *d,
		       struct place *at, struct json v, char *m)
{
	const struct field_desc *f = at->field;
	uint64_t bit = 1ULL << (f - d->fields), *has = (uint64_t *)m;
	void *p = m + f->offset;
	int r;

	if (is_filter(at->up) && says_nothing(v))
		return place_refuse(at, rd->why,
				    "says nothing; leave it out, or say "
				    "{\"all\": true} alone for every job");
	if (json_type_of(v) == JSON_NULL)
		return 0;
	if ((f->flags & F_OR_WORD) != 0 && json_type_of(v) == JSON_STRING)
		return read_word(rd, at, v, bit, m);
	if ((f->kind == K_dur || f->kind == K_secs) && (*has & bit) != 0)
		r = read_twin(rd, at, v, p);
	else
		r = read_value(rd, at, v, p, (size_t *)(m + f->count_offset));
	if (r != 0)
		return MIN(r, 0);
	*has |= bit;
	note_number(d, at, v, m);
	return 0;
}

/* One member that the message has. */
static int read_known(const struct msg_reader *rd, const struct msg_desc *d,
		      struct place *at, struct str key, struct json v,
		      struct seen *seen, char *m)
{
	uint64_t *known = at->in_ms ? &seen->known_ms : &seen->known;
	uint64_t bit = 1ULL << (at->field - d->fields);

	if ((*known & bit) != 0)
		return refuse_twice(rd, at->up, key);
	*known |= bit;
	if ((at->field->flags & (F_INTERNAL | F_PATH | F_ANSWER)) != 0)
		return skip_member(rd, at, key, v, m);
	return read_member(rd, d, at, v, m);
}

/* Nobody wants the result: how it is refused does not matter. */
static int refuse_unread(const struct msg_reader *rd, const struct place *up)
{
	return place_refuse(up, rd->why, "was not read to its end");
}

static int read_object(const struct msg_reader *rd, const struct msg_desc *d,
		       struct json v, char *m, const struct place *up)
{
	struct json_iter it = json_iter(v);
	_cleanup_(seen_done) struct seen seen;
	const struct str *twin;
	struct json value;
	struct str key;
	int r = 0;

	seen.known = seen.known_ms = 0;
	seen.n = 0;
	seen.cap = UNKNOWN_FIRST;
	seen.unknown = seen.first;
	if (turn_step())
		return refuse_unread(rd, up);
	while (r == 0 && json_next_member(&it, rd->a, &key, &value)) {
		struct place at = { up, NULL, PLACE_NO_INDEX, false };

		at.field = find_field(d, key, &at.in_ms);
		if (at.field != NULL) {
			r = read_known(rd, d, &at, key, value, &seen, m);
			continue;
		}
		seen_add_unknown(&seen, key);
		r = turn_is_over() ? refuse_unread(rd, up)
				   : meet_unknown(rd, d, up, key);
	}
	if (r < 0)
		return r;
	if (is_filter(up) && seen.known == 0 && seen.known_ms == 0)
		return place_refuse(up, rd->why,
				    "has no member; {\"all\": true} stands for "
				    "every job");
	twin = find_twin(seen.unknown, seen.n);
	return twin != NULL ? refuse_twice(rd, up, *twin) : 0;
}

int msg_from_json(const struct msg_reader *rd, const struct msg_desc *d,
		  struct json v, void *m)
{
	int r;

	if (json_type_of(v) != JSON_OBJECT)
		return place_refuse(NULL, rd->why,
				    "the body must be an object, not %s",
				    json_type_name(json_type_of(v)));
	r = read_object(rd, d, v, m, NULL);
	return r < 0 ? r : msg_check(d, m, rd->why);
}
