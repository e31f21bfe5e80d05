/*
 * Runs a condition on one document. The document is what a client once sent,
 * read back from a file anybody may have written to. It is only validated when
 * it seems to match, or has escapes, which are not decoded unseen: what is not
 * JSON never matches. Memory of unescaped texts lasts for one document.
 */
#include "jq/jq_impl.h"

#include "proto/limits.h"

bool jq_number(struct json v, long double *ret)
{
	uint64_t u;
	int64_t i;
	double d;

	if (json_i64(v, &i))
		*ret = (long double)i;
	else if (json_u64(v, &u))
		*ret = (long double)u;
	else if (json_double(v, &d))
		*ret = (long double)d;
	else
		return false;
	return true;
}

/* --- following a path --- */

static bool is_key(struct jq *jq, struct json key, struct str name)
{
	if (jq->has_escapes)
		return str_eq(json_string(key, &jq->arena), name);
	return key.raw.n == name.n + 2 &&
	       (name.n == 0 || memcmp(key.raw.p + 1, name.p, name.n) == 0);
}

/* Of members with the same name the last one counts, as in jq. */
static bool find_member(struct jq *jq, struct json v, struct str name,
			struct json *ret)
{
	struct jq_iter it = jq_iter(v);
	struct json key, item;
	bool found = false;

	while (jq_next_member(&it, &key, &item)) {
		if (!is_key(jq, key, name))
			continue;
		*ret = item;
		found = true;
	}
	return found;
}

static int64_t count(struct json v)
{
	bool object = json_type_of(v) == JSON_OBJECT;
	struct jq_iter it = jq_iter(v);
	struct json key, item;
	int64_t n = 0;

	while (object ? jq_next_member(&it, &key, &item)
		      : jq_next_item(&it, &item))
		n++;
	return n;
}

static bool find_item(struct json v, int64_t index, struct json *ret)
{
	struct jq_iter it = jq_iter(v);
	int64_t left = index < 0 ? count(v) + index : index;

	if (left < 0)
		return false;
	while (jq_next_item(&it, ret))
		if (left-- == 0)
			return true;
	return false;
}

/* False when the path leads nowhere. */
static bool follow(struct jq *jq, const struct jq_path *path, struct json v,
		   struct json *ret)
{
	for (size_t i = 0; i < path->n; i++) {
		const struct jq_key *k = &path->keys[i];
		enum json_type want = k->is_index ? JSON_ARRAY : JSON_OBJECT;

		if (json_type_of(v) != want)
			return false;
		if (!(k->is_index ? find_item(v, k->index, &v)
				  : find_member(jq, v, k->name, &v)))
			return false;
	}
	*ret = v;
	return true;
}

/* --- tests --- */

/* order: < 0, 0, > 0, as the value is to the literal. */
static bool holds(enum jq_cmp cmp, int order)
{
	switch (cmp) {
	case JQ_EQ:
		return order == 0;
	case JQ_NE:
		return order != 0;
	case JQ_LT:
		return order < 0;
	case JQ_LE:
		return order <= 0;
	case JQ_GT:
		return order > 0;
	case JQ_GE:
		return order >= 0;
	}
	return false;
}

static bool compare(struct jq *jq, const struct jq_step *s, struct json v)
{
	long double number;
	bool flag;

	if (s->type == JSON_BOOL && json_bool(v, &flag))
		return holds(s->cmp, flag - s->flag);
	if (json_type_of(v) == s->type && s->type == JSON_STRING)
		return holds(s->cmp,
			     str_cmp(json_string(v, &jq->arena), s->text));
	if (json_type_of(v) == s->type && s->type == JSON_NUMBER &&
	    jq_number(v, &number))
		return holds(s->cmp,
			     (number > s->number) - (number < s->number));
	return s->cmp == JQ_NE; /* of different types */
}

static bool contains(struct jq *jq, struct json v, struct str text)
{
	struct jq_iter it;
	struct json item;
	struct str s;

	if (json_type_of(v) == JSON_STRING) {
		s = json_string(v, &jq->arena);
		return text.n == 0 ||
		       (s.n > 0 && memmem(s.p, s.n, text.p, text.n) != NULL);
	}
	if (json_type_of(v) != JSON_ARRAY)
		return false;
	it = jq_iter(v);
	while (jq_next_item(&it, &item))
		if (json_type_of(item) == JSON_STRING &&
		    str_eq(json_string(item, &jq->arena), text))
			return true;
	return false;
}

/* Items, members, or code points; false for anything else. */
static bool length_of(struct jq *jq, struct json v, int64_t *ret)
{
	enum json_type type = json_type_of(v);
	struct str s;

	*ret = 0;
	if (type == JSON_ARRAY || type == JSON_OBJECT) {
		*ret = count(v);
		return true;
	}
	if (type != JSON_STRING)
		return false;
	s = json_string(v, &jq->arena);
	for (size_t i = 0; i < s.n; i++)
		*ret += ((unsigned char)s.p[i] & 0xc0) != 0x80;
	return true;
}

static bool test(struct jq *jq, const struct jq_step *s, struct json root)
{
	struct json v;
	int64_t n;

	if (!follow(jq, &s->path, root, &v) || json_type_of(v) == JSON_NULL)
		return s->code == JQ_COMPARE && s->type == JSON_NULL &&
		       s->cmp == JQ_EQ;
	if (s->code == JQ_COMPARE)
		return compare(jq, s, v);
	if (s->code == JQ_STARTS)
		return json_type_of(v) == JSON_STRING &&
		       str_starts(json_string(v, &jq->arena), s->text);
	if (s->code == JQ_CONTAINS)
		return contains(jq, v, s->text);
	return length_of(jq, v, &n) &&
	       holds(s->cmp, (n > s->length) - (n < s->length));
}

static bool run(struct jq *jq, struct json root)
{
	bool truth = false;

	for (size_t i = 0; i < jq->n; i++) {
		const struct jq_step *s = &jq->steps[i];

		if (s->code == JQ_NOT)
			truth = !truth;
		else if (s->code != JQ_JUMP_FALSE && s->code != JQ_JUMP_TRUE)
			truth = test(jq, s, root);
		else if (truth == (s->code == JQ_JUMP_TRUE))
			i = MIN(s->target, jq->n) - 1; /* and i++ */
	}
	return truth;
}

static bool is_json(struct str text)
{
	struct json_error err;

	return json_validate(text, LIMIT_JSON_DEPTH, &err);
}

bool jq_matches(struct jq *jq, struct str text)
{
	struct json root = { str_trim(text) };
	bool checked, truth;

	if (root.raw.n == 0)
		return false;
	jq->has_escapes = memchr(text.p, '\\', text.n) != NULL;
	/* What is inside an object or array comes from the walk. */
	checked =
	    jq->has_escapes || (root.raw.p[0] != '{' && root.raw.p[0] != '[');
	if (checked && !is_json(text))
		return false;
	truth = run(jq, root);
	arena_reset(&jq->arena);
	return truth && (checked || is_json(text));
}

size_t jq_tests(const struct jq *jq)
{
	size_t n = 0;

	for (size_t i = 0; i < jq->n; i++)
		n += jq->steps[i].code < JQ_NOT;
	return n;
}

bool jq_find(struct jq *path, struct str document, struct json *ret)
{
	bool found;

	CHECK(path->n == 1);
	path->has_escapes = memchr(document.p, '\\', document.n) != NULL;
	found = follow(path, &path->steps[0].path,
		       (struct json){ str_trim(document) }, ret);
	arena_reset(&path->arena);
	return found;
}

void jq_done(struct jq *jq)
{
	if (jq != NULL)
		arena_done(&jq->arena);
}
