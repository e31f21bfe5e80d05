/*
 * Settings: what they are and where each came from, without a server.
 */
#include <stdio.h>

#include "cmd.h"
#include "rt/config.h"

static const struct out_column setting_columns[] = {
	{ "NAME", "name", false, NULL },
	{ "VALUE", "value", false, NULL },
	{ "SOURCE", "source", false, NULL },
};

static void put_member(struct json_writer *w, const char *key, const char *text)
{
	jw_key(w, key);
	jw_cstr(w, text);
}

static void put_settings(struct buf *b, const struct settings *s)
{
	struct json_writer w = JSON_WRITER(b);

	jw_array(&w);
	for (unsigned i = 0; i < SETTING_MAX; i++) {
		const struct setting_info *info =
		    setting_info((enum setting_id)i);

		jw_object(&w);
		put_member(&w, "name", info->name);
		put_member(&w, "value", s->text[i]);
		put_member(&w, "source", setting_source_name(s->source[i]));
		put_member(&w, "default", info->def);
		put_member(&w, "flag", info->flag);
		put_member(&w, "environment", info->env);
		put_member(&w, "help", info->doc);
		jw_key(&w, "reload");
		jw_bool(&w, (info->flags & S_RELOAD) != 0);
		jw_object_end(&w);
	}
	jw_array_end(&w);
}

int cmd_config_list(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	_cleanup_(buf_done) struct buf list = BUF_INIT(0);
	struct settings s;

	if (settings_load(a->argc, a->argv, &s, &why) < 0)
		return cmd_failed("%.*s", STR_ARG(buf_str(&why)));
	put_settings(&list, &s);
	settings_done(&s);
	if (a->json)
		out_json(buf_str(&list));
	else
		out_table(json_root(buf_str(&list)), setting_columns,
			  ARRAY_SIZE(setting_columns));
	return CLI_OK;
}

int cmd_config_check(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf flag = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct settings s;
	char *flags[1];
	int r;

	buf_printf(&flag, "--config=%s", a->argv[0]);
	buf_putc(&flag, '\0');
	flags[0] = flag.p;
	if (settings_load(1, flags, &s, &why) < 0)
		return cmd_failed("%.*s", STR_ARG(buf_str(&why)));
	r = settings_check_bind(&s, &why);
	settings_done(&s);
	if (r < 0)
		return cmd_failed("%.*s", STR_ARG(buf_str(&why)));
	if (a->json)
		out_json(STR("{\"ok\":true}"));
	else
		(void)printf("%s: ok\n", a->argv[0]);
	return CLI_OK;
}
