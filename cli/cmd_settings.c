/*
 * The settings that all nodes of a cluster share.
 */
#include <stdio.h>

#include "cmd.h"
#include "proto/proto.h"

#define SETTINGS_PATH "/api/v1/settings"

static const struct out_column columns[] = {
	{ "NAME", "name", false, NULL },
	{ "VALUE", "value", false, NULL },
};

/* A row for each, which no message between here and there knows. */
static void print(struct str reply)
{
	_cleanup_(buf_done) struct buf rows = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&rows);
	const struct msg_desc *d = &msg_cluster_settings;

	jw_array(&w);
	for (size_t i = 0; i < d->n; i++) {
		_cleanup_(buf_done) struct buf value = BUF_INIT(0);

		if (d->fields[i].flags & F_INTERNAL)
			continue;
		out_text(&value, json_root(reply), d->fields[i].name);
		jw_object(&w);
		jw_key(&w, "name");
		jw_cstr(&w, d->fields[i].name);
		jw_key(&w, "value");
		jw_str(&w, buf_str(&value));
		jw_object_end(&w);
	}
	jw_array_end(&w);
	out_table(json_root(buf_str(&rows)), columns, ARRAY_SIZE(columns));
}

static int show(const struct cmd_args *a, int r, const struct buf *reply)
{
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(reply));
	else
		print(buf_str(reply));
	return CLI_OK;
}

int cmd_settings(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);

	return show(a, cmd_call(a, "GET", SETTINGS_PATH, STR_NULL, &reply),
		    &reply);
}

int cmd_settings_set(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(LIMIT_BODY_BYTES);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);
	int r = CLI_OK;

	if (a->argc < 1)
		return cmd_usage("name at least one setting, as name=value");
	jw_object(&w);
	for (int i = 0; i < a->argc && r == CLI_OK; i++)
		r = cmd_put_setting(&w, a->argv[i]);
	jw_object_end(&w);
	if (r == CLI_OK)
		r = cmd_check_members("settings set", json_root(buf_str(&body)),
				      &msg_cluster_settings);
	if (r != CLI_OK)
		return r;
	return show(a,
		    cmd_call(a, "PATCH", SETTINGS_PATH, buf_str(&body), &reply),
		    &reply);
}
