/*
 * Arguments behind the question mark of a request's path. See req/req.h.
 */
#include "front/head.h"
#include "req/req.h"
#include "util/timefmt.h"

static bool is_ignored_argument(const struct req *r, const char *name)
{
	for (size_t i = 0; i < r->ignored_arguments; i++)
		if (str_is(str_skip(r->ignored.paths[i], 1), name))
			return true;
	return false;
}

const char *req_raw_argument(struct req *r, const char *name)
{
	/* The client was told that nobody looks at it. */
	REQUIRE(!is_ignored_argument(r, name));
	return head_argument(&r->x, name);
}

/* 1 given, decoded; 0 absent; -1: an error has been answered. */
static int read_argument(struct req *r, const char *name, struct str *ret)
{
	const char *raw = req_raw_argument(r, name);

	if (raw == NULL)
		return 0;
	if (url_decode(str_from(raw), &r->arena, ret) && str_is_utf8(*ret))
		return 1;
	req_fail(r, ERR_VALIDATION_ERROR, "%s is not percent-encoded UTF-8",
		 name);
	return -1;
}

bool req_text_argument(struct req *r, const char *name, struct str *ret)
{
	struct str text;
	int given = read_argument(r, name, &text);

	/* a stream outlives the memory the server library read it into */
	if (given > 0)
		*ret = arena_copy(&r->arena, text);
	return given >= 0;
}

bool req_duration_argument(struct req *r, const char *name, uint64_t *ret)
{
	struct str text;
	int given = read_argument(r, name, &text);

	if (given <= 0 || text.n == 0)
		return given >= 0;
	if (duration_read(text, ret))
		return true;
	req_fail(r, ERR_VALIDATION_ERROR,
		 "%s: must be a duration such as 30s, or a number of seconds",
		 name);
	return false;
}

bool req_number_argument(struct req *r, const char *name, uint64_t min,
			 uint64_t max, uint64_t *ret)
{
	struct str text;
	int given = read_argument(r, name, &text);
	uint64_t v;

	if (given <= 0)
		return given == 0;
	if (str_parse_u64(text, &v) && v >= min && v <= max) {
		*ret = v;
		return true;
	}
	req_fail(r, ERR_VALIDATION_ERROR,
		 "%s: must be a whole number from %llu to %llu", name,
		 (unsigned long long)min, (unsigned long long)max);
	return false;
}
