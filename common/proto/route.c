/*
 * The path of a request against the rows of routes.def, segment by segment.
 * The path is hostile; it is only compared and sliced here. The segments of
 * the table are cut once, before main, so that any thread may look up.
 */
#include "proto/route.h"

#include "util/turn.h"

#define SEGMENTS_MAX  8 /* of a path in the table; longer ones match nothing */
#define ALIAS_SEGMENT 2 /* the one after /api/v1 */

static struct route routes[] = {
#define ROUTE(m, route_path, h, route_target, http_status, text) \
	{                                                        \
		.method = HTTP_##m,                              \
		.path = route_path,                              \
		.handler = #h,                                   \
		.target = route_target,                          \
		.status = http_status,                           \
		.doc = text,                                     \
	},
#include "proto/defs/routes.def"
};

struct segments {
	size_t n;
	struct str s[SEGMENTS_MAX];
};

/* A row's path in pieces. */
struct pattern {
	struct segments seg;
	unsigned params; /* bit per segment that is a {parameter} */
	unsigned rank;   /* higher: literal where the other has a parameter */
};

static struct pattern patterns[ARRAY_SIZE(routes)];

/* Rows by number of segments, so that a lookup tries only its own kind. */
static struct {
	size_t n;
	uint8_t row[ARRAY_SIZE(routes)];
} by_len[SEGMENTS_MAX + 1];

_Static_assert(ARRAY_SIZE(routes) <= UINT8_MAX, "rows are kept in a byte");

/* False when the path does not start with / or has too many segments. */
static bool cut(struct str path, struct segments *ret)
{
	const char *p = path.p, *end = path.p + path.n;

	ret->n = 0;
	if (path.n == 0 || *p != '/')
		return false;
	while (p < end) {
		const char *start = p + 1; /* after the slash */
		size_t left = (size_t)(end - start);

		if (ret->n == SEGMENTS_MAX)
			return false;
		p = left > 0 ? memchr(start, '/', left) : NULL;
		p = p != NULL ? p : end;
		ret->s[ret->n++] = str_of(start, (size_t)(p - start));
	}
	return true;
}

static void pattern_init(struct pattern *p, const char *path)
{
	size_t params = 0;

	CHECK(cut(str_from(path), &p->seg));
	for (size_t i = 0; i < p->seg.n; i++) {
		struct str *s = &p->seg.s[i];

		if (s->n > 0 && s->p[0] == '{') {
			CHECK(s->n > 2 && s->p[s->n - 1] == '}');
			*s = str_of(s->p + 1, s->n - 2);
			p->params |= 1u << i;
			params++;
		} else {
			p->rank |= 1u << (SEGMENTS_MAX - 1 - i);
		}
	}
	CHECK(params <= ROUTE_PARAMS_MAX);
}

__attribute__((constructor)) static void routes_init(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		size_t len;

		routes[i].index = (unsigned)i;
		pattern_init(&patterns[i], routes[i].path);
		len = patterns[i].seg.n;
		by_len[len].row[by_len[len].n++] = (uint8_t)i;
	}
}

/* Same number of segments is given. A parameter is never empty. */
static bool matches(const struct pattern *p, const struct segments *path)
{
	/* From the end: the front is the same for nearly all rows. */
	for (size_t i = path->n; i-- > 0;) {
		if ((p->params >> i & 1) != 0) {
			if (path->s[i].n == 0)
				return false;
		} else if (!str_eq(p->seg.s[i], path->s[i])) {
			return false;
		}
	}
	return true;
}

static void fill_params(const struct pattern *p, const struct segments *path,
			struct route_match *ret)
{
	for (size_t i = 0; i < path->n; i++) {
		if ((p->params >> i & 1) == 0)
			continue;
		ret->name[ret->n] = p->seg.s[i];
		ret->value[ret->n] = path->s[i];
		ret->n++;
	}
}

/* /api/v1/batch... is another way to write /api/v1/batches... */
static void resolve_alias(struct segments *path)
{
	if (path->n > ALIAS_SEGMENT && str_is(path->s[ALIAS_SEGMENT], "batch"))
		path->s[ALIAS_SEGMENT] = STR("batches");
}

void route_find(enum http_method method, struct str path,
		struct route_match *ret)
{
	const struct pattern *best = NULL;
	struct segments seg;

	ret->route = NULL;
	ret->allowed = 0;
	ret->n = 0;
	if (!cut(path, &seg))
		return;
	resolve_alias(&seg);
	for (size_t i = 0; i < by_len[seg.n].n; i++) {
		size_t row = by_len[seg.n].row[i];
		const struct pattern *p = &patterns[row];

		if (!matches(p, &seg))
			continue;
		ret->allowed |= 1u << routes[row].method;
		if (routes[row].method == method &&
		    (best == NULL || p->rank > best->rank)) {
			best = p;
			ret->route = &routes[row];
		}
	}
	if (best != NULL)
		fill_params(best, &seg, ret);
}

const struct route *route_at(size_t i)
{
	return i < ARRAY_SIZE(routes) ? &routes[i] : NULL;
}

size_t route_count(void)
{
	return ARRAY_SIZE(routes);
}

static const char *const method_names[HTTP_METHOD_MAX] = {
	[HTTP_GET] = "GET",     [HTTP_POST] = "POST",     [HTTP_PUT] = "PUT",
	[HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE",
};

bool http_method_parse(struct str s, enum http_method *ret)
{
	for (size_t i = 0; i < HTTP_METHOD_MAX; i++) {
		if (str_is(s, method_names[i])) {
			*ret = (enum http_method)i;
			return true;
		}
	}
	return false;
}

const char *http_method_name(enum http_method m)
{
	CHECK(m < HTTP_METHOD_MAX);
	return method_names[m];
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool url_decode(struct str s, struct arena *a, struct str *ret)
{
	char *out, *to;

	if (s.n == 0 ||
	    (memchr(s.p, '%', s.n) == NULL && memchr(s.p, '\0', s.n) == NULL)) {
		*ret = s;
		return true;
	}
	out = to = arena_alloc(a, s.n);
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		(void)turn_step();
		if (c == '%') {
			int high, low;

			if (s.n - i < 3)
				return false;
			high = hex_digit(s.p[i + 1]);
			low = hex_digit(s.p[i + 2]);
			if (high < 0 || low < 0)
				return false;
			c = (char)(high << 4 | low);
			i += 2;
		}
		if (c == '\0')
			return false;
		*to++ = c;
	}
	*ret = str_of(out, (size_t)(to - out));
	return true;
}

bool route_is_exact(const struct route *r)
{
	if (r->method == HTTP_PUT || r->method == HTTP_PATCH)
		return true;
	switch (r->target) {
	case OP_SET_QUEUE:
	case OP_SET_BUDGET:
	case OP_SET_POLICY:
	case OP_SET_WEBHOOK:
	case OP_BULK_ACT:
	case OP_BULK_CONTROL:
	case QUERY_TRY_POLICY:
		return true;
	default:
		return str_starts(str_from(r->path), STR("/api/v1/cluster/"));
	}
}
