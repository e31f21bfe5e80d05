/*
 * See answer.h. What a server answers is hostile; here it has been checked to
 * be JSON and nothing else.
 */
#include "answer.h"

#include "out.h"

uint64_t answer_number(struct json v, const char *member)
{
	struct arena a = ARENA_INIT;
	struct json found;
	uint64_t n = 0;

	if (json_type_of(v) == JSON_OBJECT &&
	    json_member(v, member, &a, &found))
		(void)json_u64(found, &n);
	arena_done(&a);
	return n;
}

bool answer_is(struct json v, const char *member, const char *text)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	out_text(&b, v, member);
	return str_is(buf_str(&b), text);
}

bool answer_list(struct str reply, const char *member, struct arena *a,
		 struct json *ret)
{
	struct json root = json_root(reply);

	return json_type_of(root) == JSON_OBJECT &&
	       json_member(root, member, a, ret) &&
	       json_type_of(*ret) == JSON_ARRAY;
}
