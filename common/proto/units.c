#include "proto/units.h"

#include <stdlib.h>

#include "proto/err.h"
#include "util/json.h"
#include "util/nano.h"

size_t units_list(struct str object, struct arena *a,
		  struct unit ret[LIMIT_UNITS])
{
	struct json_iter it;
	struct json v;
	struct str name;
	size_t n = 0;

	if (object.n == 0)
		return 0;
	it = json_iter(json_root(object));
	while (n < LIMIT_UNITS && json_next_member(&it, a, &name, &v)) {
		REQUIRE(nano_parse(v.raw, &ret[n].amount));
		ret[n++].name = name;
	}
	return n;
}

static struct unit *find(struct unit *list, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(list[i].name, name))
			return &list[i];
	return NULL;
}

uint64_t units_get(struct str object, struct str name, struct arena *a)
{
	struct unit list[LIMIT_UNITS];
	const struct unit *u = find(list, units_list(object, a, list), name);

	return u != NULL ? u->amount : 0;
}

static int by_name(const void *a, const void *b)
{
	return str_cmp(((const struct unit *)a)->name,
		       ((const struct unit *)b)->name);
}

/* By name, so that the same sums are the same text. */
static struct str print(struct unit *list, size_t n, struct arena *a)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);

	qsort(list, n, sizeof(*list), by_name);
	jw_object(&w);
	for (size_t i = 0; i < n; i++) {
		jw_key_str(&w, list[i].name);
		jw_nano(&w, list[i].amount);
	}
	jw_object_end(&w);
	return arena_copy(a, buf_str(&b));
}

struct str units_add(struct str x, struct str y, struct arena *a)
{
	struct unit sum[LIMIT_UNITS], more[LIMIT_UNITS];
	size_t n = units_list(x, a, sum), m = units_list(y, a, more);

	for (size_t i = 0; i < m; i++) {
		struct unit *u = find(sum, n, more[i].name);

		if (u != NULL)
			u->amount = nano_add(u->amount, more[i].amount);
		else if (n < LIMIT_UNITS)
			sum[n++] = more[i];
	}
	return print(sum, n, a);
}

/* What is being checked. */
struct checking {
	const char *member;
	uint64_t max;
	bool any_name;
	struct buf *why;
};

static int refuse(const struct checking *c, struct str name, const char *text)
{
	buf_printf(c->why, "%s.%.*s: %s", c->member,
		   (int)MIN(name.n, (size_t)LIMIT_UNIT_NAME_BYTES), name.p,
		   text);
	return -ERR_VALIDATION_ERROR;
}

static int check_one(const struct checking *c, struct str name, struct json v)
{
	uint64_t amount;

	if (name.n == 0 || name.n > LIMIT_UNIT_NAME_BYTES)
		return refuse(c, name, "a name must have 1 to 64 bytes");
	if (str_is(name, UNIT_USD) && !c->any_name)
		return refuse(c, name, "is told by cost_usd");
	if (str_is(name, UNIT_TOKENS) && !c->any_name)
		return refuse(c, name, "are told by input_tokens and so on");
	if (json_type_of(v) == JSON_NUMBER && nano_parse(v.raw, &amount) &&
	    amount <= c->max * NANO_PER_UNIT)
		return 0;
	buf_printf(c->why, "%s.%.*s: must be a number from 0 to %llu",
		   c->member, STR_ARG(name), (unsigned long long)c->max);
	return -ERR_VALIDATION_ERROR;
}

static int check(const struct checking *c, struct str object, struct arena *a)
{
	struct unit seen[LIMIT_UNITS];
	struct json root, v;
	struct json_iter it;
	struct str name;
	size_t n = 0;
	int r = 0;

	if (object.n == 0)
		return 0;
	root = json_root(object);
	if (json_count(root) > LIMIT_UNITS) {
		buf_printf(c->why, "%s: there may be at most %d", c->member,
			   LIMIT_UNITS);
		return -ERR_VALIDATION_ERROR;
	}
	it = json_iter(root);
	while (r == 0 && json_next_member(&it, a, &name, &v)) {
		if (find(seen, n, name) != NULL)
			return refuse(c, name, "is given twice");
		seen[n++].name = name;
		r = check_one(c, name, v);
	}
	return r;
}

int units_check(struct str object, uint64_t max, const char *member,
		struct arena *a, struct buf *why)
{
	struct checking c = { member, max, false, why };

	return check(&c, object, a);
}

int units_check_any(struct str object, uint64_t max, const char *member,
		    struct arena *a, struct buf *why)
{
	struct checking c = { member, max, true, why };

	return check(&c, object, a);
}
