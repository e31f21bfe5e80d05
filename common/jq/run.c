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

/* In an array that begins there: which item it is, counted from 0; < 0: there
 * are not so many. */
static int64_t place_of(int64_t index, struct jq_iter it)
{
	struct json item;

	if (index >= 0)
		return index;
	while (index < 0 && jq_next_item(&it, &item))
		index++;
	if (index < 0)
		return -1;
	for (index = 0; jq_next_item(&it, &item);)
		index++;
	return index;
}

/*
 * Follows the path from its key i on into the value at it->p, and goes on to
 * where that ends: a document is walked once, however deep the path leads. Of
 * members with the same name the last one counts, as in jq.
 */
static bool seek(struct jq *jq, const struct jq_path *path, size_t i,
		 struct jq_iter *it, struct json *ret)
{
	const struct jq_key *k = &path->keys[i];
	struct json key = { STR_NULL }, other;
	bool found = false;
	int64_t left = 0;

	if (i == path->n)
		return jq_iter_skip(it, ret);
	if (it->p == it->end || *it->p != (k->is_index ? '[' : '{')) {
		(void)jq_iter_skip(it, &other);
		return false;
	}
	it->p++;
	if (k->is_index)
		left = place_of(k->index, *it);
	while (k->is_index ? jq_iter_item(it) : jq_iter_member(it, &key)) {
		if (k->is_index ? left-- == 0 : is_key(jq, key, k->name))
			found = seek(jq, path, i + 1, it, ret);
		else
			(void)jq_iter_skip(it, &other);
		if (found && k->is_index && i == 0)
			return true; /* nobody asks for the rest */
	}
	it->p += it->p < it->end;
	return found;
}

/* False when the path leads nowhere. */
static bool follow(struct jq *jq, const struct jq_path *path, struct json v,
		   struct json *ret)
{
	struct jq_iter it = { .p = v.raw.p, .end = v.raw.p + v.raw.n };

	*ret = v;
	if (path->n == 0)
		return true;
	/* nothing is so deep in a document that counts */
	return path->n <= LIMIT_JSON_DEPTH && seek(jq, path, 0, &it, ret);
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

/* The end is walked to before anything can be counted from there. */
static size_t from_the_end(const struct jq_path *path)
{
	size_t n = 0;

	for (size_t i = 0; i < path->n; i++)
		n += path->keys[i].is_index && path->keys[i].index < 0;
	return n;
}

size_t jq_tests(const struct jq *jq)
{
	size_t n = 0;

	for (size_t i = 0; i < jq->n; i++)
		if (jq->steps[i].code < JQ_NOT)
			n += 1 + from_the_end(&jq->steps[i].path);
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
