/*
 * Settings as JSON, for whoever wants to know what a node runs with.
 */
#include "rt/config.h"

static void put_member(struct json_writer *w, const char *key, const char *text)
{
	jw_key(w, key);
	/* Of a file, and so any bytes: they need not be UTF-8. */
	jw_cstr(w, str_is_utf8(str_from(text)) ? text : "?");
}

static void put_setting(struct json_writer *w, const struct settings *s,
			const struct settings *next, enum setting_id id)
{
	const struct setting_info *info = setting_info(id);
	bool reload = (info->flags & S_RELOAD) != 0;

	jw_object(w);
	put_member(w, "name", info->name);
	put_member(w, "value", s->text[id]);
	put_member(w, "source", setting_source_name(s->source[id]));
	if (next != NULL && setting_differs(s, next, id)) {
		put_member(w, "next", next->text[id]);
		put_member(w, "at", reload ? "reload" : "restart");
	}
	put_member(w, "default", info->def);
	put_member(w, "flag", info->flag);
	put_member(w, "environment", info->env);
	put_member(w, "help", info->doc);
	jw_key(w, "reload");
	jw_bool(w, reload);
	jw_key(w, "seeds");
	jw_bool(w, (info->flags & S_SEED) != 0);
	jw_object_end(w);
}

void settings_put_json(struct json_writer *w, const struct settings *s,
		       const struct settings *next)
{
	jw_array(w);
	for (unsigned i = 0; i < SETTING_MAX; i++)
		put_setting(w, s, next, (enum setting_id)i);
	jw_array_end(w);
}

static void put_changes(struct json_writer *w, const struct settings *s,
			const struct settings *next, bool reload,
			const char *old, const char *new)
{
	jw_array(w);
	for (unsigned i = 0; i < SETTING_MAX; i++) {
		const struct setting_info *info =
		    setting_info((enum setting_id)i);

		if (((info->flags & S_RELOAD) != 0) != reload ||
		    !setting_differs(s, next, (enum setting_id)i))
			continue;
		jw_object(w);
		put_member(w, "name", info->name);
		put_member(w, old, s->text[i]);
		put_member(w, new, next->text[i]);
		jw_object_end(w);
	}
	jw_array_end(w);
}

void settings_put_changes(struct json_writer *w, const struct settings *s,
			  const struct settings *next)
{
	jw_key(w, "changed");
	put_changes(w, s, next, true, "before", "value");
	jw_key(w, "waiting");
	put_changes(w, s, next, false, "value", "next");
}
