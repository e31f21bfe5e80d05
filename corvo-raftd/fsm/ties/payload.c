/*
 * Payloads the server makes of others: what a chain hands to its next step,
 * what a batch hands to its callback. The parts were validated when they came
 * in; their values are passed on byte for byte. Keys that have escapes are
 * decoded into the item's arena.
 */
#include "fsm/ties/payload.h"

#include "fsm/core/state.h"

static bool is_object(struct str raw)
{
	return raw.n > 0 && json_type_of(json_root(raw)) == JSON_OBJECT;
}

bool payload_has(struct fsm *f, struct str raw, const char *name)
{
	struct json v;

	return is_object(raw) &&
	       json_member(json_root(raw), name, &f->item_arena, &v);
}

bool payload_put_members(struct fsm *f, struct json_writer *w, struct str raw,
			 const char *except)
{
	struct json_iter it;
	struct json v;
	struct str key;

	if (!is_object(raw))
		return false;
	it = json_iter(json_root(raw));
	while (json_next_member(&it, &f->item_arena, &key, &v)) {
		if (except != NULL && str_is(key, except))
			continue;
		jw_key_str(w, key);
		jw_raw(w, v.raw);
	}
	return true;
}
