#include "fsm/job/tag.h"

#include "util/json.h"

struct str tag_find(struct fsm *f, struct str tags, struct str name)
{
	struct json_iter it;
	struct json v;
	struct str key;

	if (tags.n == 0 || name.n == 0)
		return STR_NULL;
	v = json_root(tags);
	if (json_type_of(v) != JSON_OBJECT)
		return STR_NULL;
	it = json_iter(v);
	while (json_next_member(&it, &f->item_arena, &key, &v)) {
		if (!str_eq(key, name))
			continue;
		if (json_type_of(v) == JSON_STRING)
			return json_string(v, &f->item_arena);
		return json_type_of(v) == JSON_NUMBER ? v.raw : STR_NULL;
	}
	return STR_NULL;
}
