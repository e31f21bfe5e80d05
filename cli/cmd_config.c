/*
 * Settings: what they are and where each came from, of the node that runs here
 * or of one that would be started.
 */
#include <stdio.h>

#include "answer.h"
#include "cmd.h"
#include "rt/config.h"
#include "rt/ctl.h"

/* "10s at the next restart" */
static void put_next(struct buf *b, struct json setting, const char *member)
{
	struct arena a = ARENA_INIT;
	struct json next;

	if (json_member(setting, member, &a, &next)) {
		if (json_type_of(next) == JSON_STRING &&
		    json_string(next, &a).n == 0)
			buf_puts(b, "\"\"");
		else
			out_text(b, setting, member);
		buf_puts(b, " at the next ");
		out_text(b, setting, "at");
	}
	arena_done(&a);
}

/* "flag, seeds": the cluster has a setting of its own, which this one seeds */
static void put_source(struct buf *b, struct json setting, const char *member)
{
	struct arena a = ARENA_INIT;
	struct json seeds;
	bool is = false;

	out_text(b, setting, member);
	if (json_member(setting, "seeds", &a, &seeds) &&
	    json_bool(seeds, &is) && is)
		buf_puts(b, ", seeds");
	arena_done(&a);
}

static const struct out_column setting_columns[] = {
	{ "NAME", "name", false, NULL },
	{ "VALUE", "value", false, NULL },
	{ "SOURCE", "source", false, put_source },
	{ "WAITING", "next", false, put_next },
};

/* The last column is for a node that runs. */
static void show(const struct cmd_args *a, struct json list, bool runs)
{
	if (a->json)
		out_json(list.raw);
	else
		out_table(list, setting_columns,
			  ARRAY_SIZE(setting_columns) - !runs);
}

/* Flags that say more than where the node is ask for what one would have. */
static bool is_about_a_node(const struct settings *s)
{
	for (unsigned i = 0; i < SETTING_MAX; i++)
		if (s->source[i] == SRC_FLAG && i != SETTING_config &&
		    i != SETTING_data_dir && i != SETTING_run_dir)
			return false;
	return true;
}

/* False: no node runs there that could be asked, and nothing was shown. */
static bool show_running(const struct cmd_args *a, const struct settings *s)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	_cleanup_(buf_done) struct buf problem = BUF_INIT(0);
	_cleanup_(buf_done) struct buf clean = BUF_INIT(0);
	_cleanup_(buf_done) struct buf dir = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct arena mem = ARENA_INIT;
	struct json list;
	bool runs;

	settings_run_dir(s, &dir);
	buf_putc(&dir, '\0');
	runs = ctl_request(dir.p, "config", &reply, &why) == 0 &&
	       answer_list(buf_str(&reply), "settings", &mem, &list);
	if (runs) {
		show(a, list, true);
		out_text(&problem, json_root(buf_str(&reply)), "problem");
	}
	out_put_clean(&clean, buf_str(&problem));
	if (clean.n > 0)
		(void)fprintf(stderr,
			      "The node runs with these; its sources cannot be "
			      "read any more: %.*s\n",
			      STR_ARG(buf_str(&clean)));
	arena_done(&mem);
	return runs;
}

int cmd_config_list(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	_cleanup_(buf_done) struct buf list = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&list);
	struct settings s;

	if (settings_load(a->argc, a->argv, &s, &why) < 0)
		return cmd_failed("%.*s", STR_ARG(buf_str(&why)));
	if (!is_about_a_node(&s) || !show_running(a, &s)) {
		settings_put_json(&w, &s, NULL);
		show(a, json_root(buf_str(&list)), false);
	}
	settings_done(&s);
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
