/*
 * Reads a condition into a list of steps for a machine with one register, the
 * truth of what was looked at last: a test sets it, `not` turns it around,
 * `and` and `or` jump over their right side. Jumps only go forward, so running
 * it needs no stack and always ends.
 *
 * The text of the condition is hostile; it only ever becomes steps. Everything
 * is in the arena of the caller.
 */
#include "jq/jq_impl.h"

struct parser {
	const char *start, *p, *end;
	struct arena *a;
	struct jq *jq;
	size_t cap; /* of jq->steps */
	unsigned depth;
	struct jq_error *err;
	bool failed;
};

static bool fail_at(struct parser *ps, const char *at, const char *text)
{
	if (!ps->failed) {
		ps->failed = true;
		ps->err->pos = (size_t)(at - ps->start);
		ps->err->text = text;
	}
	return false;
}

static bool fail(struct parser *ps, const char *text)
{
	return fail_at(ps, ps->p, text);
}

/* --- words --- */

static void skip_space(struct parser *ps)
{
	while (ps->p < ps->end && strchr(" \t\r\n", *ps->p) != NULL &&
	       *ps->p != '\0')
		ps->p++;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* The name at p: [A-Za-z_][A-Za-z0-9_]*; empty when there is none. */
static struct str peek_name(const struct parser *ps)
{
	const char *p = ps->p;

	if (p == ps->end || !is_name_start(*p))
		return str_of(p, 0);
	while (p < ps->end && (is_name_start(*p) || is_digit(*p)))
		p++;
	return str_of(ps->p, (size_t)(p - ps->p));
}

static bool take_word(struct parser *ps, const char *word)
{
	struct str name;

	skip_space(ps);
	name = peek_name(ps);
	if (!str_is(name, word))
		return false;
	ps->p += name.n;
	return true;
}

static bool take_char(struct parser *ps, char c)
{
	skip_space(ps);
	if (ps->p == ps->end || *ps->p != c)
		return false;
	ps->p++;
	return true;
}

/* A text in quotes, as in JSON. */
static bool take_text(struct parser *ps, struct str *ret)
{
	const char *q = ps->p + 1;
	struct json_error err;
	struct str raw;

	while (q < ps->end && *q != '"')
		q += *q == '\\' && q + 1 < ps->end ? 2 : 1;
	if (q == ps->end)
		return fail(ps, "this text has no closing quote");
	raw = str_of(ps->p, (size_t)(q + 1 - ps->p));
	if (!json_validate(raw, 1, &err))
		return fail_at(ps, ps->p + err.pos, err.text);
	*ret = json_string((struct json){ raw }, ps->a);
	ps->p = q + 1;
	return true;
}

/* The JSON number at p, as text. */
static bool take_number(struct parser *ps, struct json *ret)
{
	const char *q = ps->p;
	struct json_error err;

	while (q < ps->end && (is_digit(*q) || *q == '-' || *q == '+' ||
			       *q == '.' || *q == 'e' || *q == 'E'))
		q++;
	ret->raw = str_of(ps->p, (size_t)(q - ps->p));
	if (!json_validate(ret->raw, 1, &err))
		return fail_at(ps, ps->p + err.pos, err.text);
	ps->p = q;
	return true;
}

/* --- paths --- */

static bool take_index(struct parser *ps, struct jq_key *ret)
{
	struct json number;

	if (!take_number(ps, &number))
		return false;
	ret->is_index = true;
	if (!json_i64(number, &ret->index))
		return fail_at(ps, number.raw.p, "expected a whole number");
	return true;
}

/* After '[': a key in quotes or an index, and the closing bracket. */
static bool take_bracket(struct parser *ps, struct jq_key *ret)
{
	skip_space(ps);
	if (ps->p < ps->end && *ps->p == '"') {
		if (!take_text(ps, &ret->name))
			return false;
	} else if (ps->p < ps->end && (is_digit(*ps->p) || *ps->p == '-')) {
		if (!take_index(ps, ret))
			return false;
	} else {
		return fail(ps, "expected a key in quotes or an index");
	}
	return take_char(ps, ']') || fail(ps, "expected ]");
}

/* The next key of a path; *ret_more false when the path ends here. first:
 * right after the path's own dot. */
static bool take_key(struct parser *ps, bool first, struct jq_key *ret,
		     bool *ret_more)
{
	bool dot = first;

	*ret = (struct jq_key){ 0 };
	*ret_more = true;
	if (!first && ps->p < ps->end && *ps->p == '.') {
		ps->p++;
		dot = true;
	}
	if (ps->p < ps->end && *ps->p == '[') {
		ps->p++;
		return take_bracket(ps, ret);
	}
	if (dot && ps->p < ps->end && *ps->p == '"')
		return take_text(ps, &ret->name);
	if (dot) {
		ret->name = peek_name(ps);
		ps->p += ret->name.n;
		if (ret->name.n > 0)
			return true;
	}
	*ret_more = false;
	return !dot || first ||
	       fail(ps, "expected a key; others than names go in quotes");
}

static bool take_path(struct parser *ps, struct jq_path *ret)
{
	struct jq_key key;
	size_t cap = 0;
	bool more;

	*ret = (struct jq_path){ 0 };
	if (!take_char(ps, '.'))
		return fail(ps, "expected a path, such as .a.b");
	for (;;) {
		if (!take_key(ps, ret->n == 0, &key, &more))
			return false;
		if (!more)
			return true;
		ret->keys =
		    arena_grow(ps->a, ret->keys, sizeof(key), ret->n, &cap);
		ret->keys[ret->n++] = key;
	}
}

/* --- tests --- */

static struct jq_step *add_step(struct parser *ps, enum jq_code code)
{
	struct jq *jq = ps->jq;
	struct jq_step *s;

	jq->steps = arena_grow(ps->a, jq->steps, sizeof(*s), jq->n, &ps->cap);
	s = &jq->steps[jq->n++];
	*s = (struct jq_step){ .code = code };
	return s;
}

static bool take_cmp(struct parser *ps, enum jq_cmp *ret)
{
	/* The longer ones first. */
	static const struct {
		const char *text;
		enum jq_cmp cmp;
	} all[] = {
		{ "==", JQ_EQ }, { "!=", JQ_NE }, { "<=", JQ_LE },
		{ ">=", JQ_GE }, { "<", JQ_LT },  { ">", JQ_GT },
	};

	skip_space(ps);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct str t = str_from(all[i].text);

		if (!str_starts(str_of(ps->p, (size_t)(ps->end - ps->p)), t))
			continue;
		ps->p += t.n;
		*ret = all[i].cmp;
		return true;
	}
	return fail(ps, "expected ==, !=, <, <=, >, >= or |");
}

static bool take_literal(struct parser *ps, struct jq_step *s)
{
	const char *at;
	struct json v;

	skip_space(ps);
	at = ps->p;
	s->type = JSON_NULL;
	if (ps->p < ps->end && *ps->p == '"') {
		s->type = JSON_STRING;
		return take_text(ps, &s->text);
	}
	if (take_word(ps, "null"))
		return s->cmp == JQ_EQ || s->cmp == JQ_NE ||
		       fail_at(ps, at, "null has no order; use == or !=");
	s->type = JSON_BOOL;
	s->flag = take_word(ps, "true");
	if (s->flag || take_word(ps, "false"))
		return true;
	s->type = JSON_NUMBER;
	if (ps->p == ps->end || (!is_digit(*ps->p) && *ps->p != '-'))
		return fail(ps, "expected a text in quotes, a number, true, "
				"false or null");
	return take_number(ps, &v) &&
	       (jq_number(v, &s->number) ||
		fail_at(ps, at, "this number is too large"));
}

/* ("text") */
static bool take_argument(struct parser *ps, struct str *ret)
{
	if (!take_char(ps, '('))
		return fail(ps, "expected (");
	skip_space(ps);
	if (ps->p == ps->end || *ps->p != '"')
		return fail(ps, "expected a text in quotes");
	return take_text(ps, ret) &&
	       (take_char(ps, ')') || fail(ps, "expected )"));
}

static bool take_length(struct parser *ps, struct jq_step *s)
{
	struct json v;

	if (!take_cmp(ps, &s->cmp))
		return false;
	skip_space(ps);
	if (ps->p == ps->end || (!is_digit(*ps->p) && *ps->p != '-'))
		return fail(ps, "expected a whole number");
	if (!take_number(ps, &v))
		return false;
	return json_i64(v, &s->length) ||
	       fail_at(ps, v.raw.p, "expected a whole number");
}

/* What follows `PATH |`. */
static bool take_function(struct parser *ps, struct jq_step *s)
{
	if (take_word(ps, "startswith")) {
		s->code = JQ_STARTS;
		return take_argument(ps, &s->text);
	}
	if (take_word(ps, "contains")) {
		s->code = JQ_CONTAINS;
		return take_argument(ps, &s->text);
	}
	if (take_word(ps, "length")) {
		s->code = JQ_LENGTH;
		return take_length(ps, s);
	}
	return fail(ps, "expected startswith, contains or length");
}

static bool take_test(struct parser *ps)
{
	struct jq_step s = { .code = JQ_COMPARE };

	skip_space(ps);
	if (!take_path(ps, &s.path))
		return false;
	if (take_char(ps, '|')) {
		if (!take_function(ps, &s))
			return false;
	} else if (!take_cmp(ps, &s.cmp) || !take_literal(ps, &s)) {
		return false;
	}
	*add_step(ps, s.code) = s;
	return true;
}

/* --- and, or, not --- */

static bool take_any(struct parser *ps);

static bool take_one(struct parser *ps)
{
	bool turned = false;

	while (take_word(ps, "not"))
		turned = !turned;
	if (take_char(ps, '(')) {
		if (++ps->depth > JQ_DEPTH)
			return fail(ps, "too many parentheses in each other");
		if (!take_any(ps))
			return false;
		if (!take_char(ps, ')'))
			return fail(ps, "expected and, or, | not or )");
		ps->depth--;
	} else if (!take_test(ps)) {
		return false;
	}
	if (turned)
		add_step(ps, JQ_NOT);
	return true;
}

/* Operands joined by a word; each jumps over the next when that is moot. */
static bool take_joined(struct parser *ps, const char *word, enum jq_code jump,
			bool (*take)(struct parser *ps))
{
	size_t at;

	if (!take(ps))
		return false;
	while (take_word(ps, word)) {
		at = ps->jq->n;
		add_step(ps, jump);
		if (!take(ps))
			return false;
		ps->jq->steps[at].target = ps->jq->n;
	}
	return true;
}

static bool take_all(struct parser *ps)
{
	return take_joined(ps, "and", JQ_JUMP_FALSE, take_one);
}

/* Calls itself through parentheses only, JQ_DEPTH deep at most. */
static bool take_any(struct parser *ps)
{
	if (!take_joined(ps, "or", JQ_JUMP_TRUE, take_all))
		return false;
	while (take_char(ps, '|')) {
		if (!take_word(ps, "not"))
			return fail(ps, "expected not");
		add_step(ps, JQ_NOT);
	}
	return true;
}

static struct jq *parse(struct str text, struct arena *a,
			bool (*take)(struct parser *ps), const char *rest,
			struct jq_error *ret_err)
{
	struct parser ps = { .start = text.p,
			     .p = text.p,
			     .end = text.p + text.n,
			     .a = a,
			     .err = ret_err };

	ps.jq = arena_zalloc(a, sizeof(*ps.jq));
	if (!take(&ps))
		return NULL;
	skip_space(&ps);
	if (ps.p != ps.end) {
		fail(&ps, rest);
		return NULL;
	}
	return ps.jq;
}

struct jq *jq_parse(struct str text, struct arena *a, struct jq_error *ret_err)
{
	return parse(text, a, take_any, "expected and, or, | not or the end",
		     ret_err);
}

static bool take_place(struct parser *ps)
{
	struct jq_path path;

	if (!take_path(ps, &path))
		return false;
	add_step(ps, JQ_COMPARE)->path = path;
	return true;
}

struct jq *jq_parse_path(struct str text, struct arena *a,
			 struct jq_error *ret_err)
{
	return parse(text, a, take_place, "expected the end of the path",
		     ret_err);
}

bool jq_path_first(const struct jq *path, struct str *ret)
{
	const struct jq_path *p = &path->steps[0].path;

	*ret = p->n > 0 ? p->keys[0].name : STR_NULL;
	return p->n == 0 || !p->keys[0].is_index;
}

bool jq_from_texts(struct json object, struct arena *a, struct jq **ret,
		   struct str *ret_name)
{
	struct json_iter it = json_iter(object);
	struct parser ps = { .a = a };
	struct jq_step *s;
	struct json v;

	ps.jq = arena_zalloc(a, sizeof(*ps.jq));
	while (json_next_member(&it, a, ret_name, &v)) {
		if (json_type_of(v) != JSON_STRING)
			return false;
		if (ps.jq->n > 0)
			add_step(&ps, JQ_JUMP_FALSE)->target = SIZE_MAX;
		s = add_step(&ps, JQ_COMPARE);
		s->cmp = JQ_EQ;
		s->type = JSON_STRING;
		s->text = json_string(v, a);
		s->path.keys = arena_zalloc(a, sizeof(*s->path.keys));
		s->path.keys[0].name = *ret_name;
		s->path.n = 1;
	}
	*ret = ps.jq->n > 0 ? ps.jq : NULL;
	return true;
}
