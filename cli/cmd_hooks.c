/*
 * Inbound webhooks: what deliveries from outside become.
 */
#include "answer.h"
#include "cmd.h"
#include "proto/proto.h"

static const struct out_column columns[] = {
	{ "NAME", "name", false, NULL },
	{ "QUEUE", "queue", false, NULL },
	{ "VERIFY", "verify", false, NULL },
	{ "SECRETS", "secrets", true, NULL },
	{ "UPDATED", "updated_at", false, NULL },
};

int cmd_hooks(const struct cmd_args *a)
{
	struct arena arena = ARENA_INIT;
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json hooks;
	int r = cmd_call(a, "GET", "/api/v1/hooks", STR_NULL, &reply);

	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else if (answer_list(buf_str(&reply), "hooks", &arena, &hooks))
		out_table(hooks, columns, ARRAY_SIZE(columns));
	arena_done(&arena);
	return CLI_OK;
}

int cmd_hooks_get(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, "GET", "hooks", "", STR_NULL, &reply);

	if (r == CLI_OK)
		out_json(buf_str(&reply));
	return r;
}

/* Without the newline an editor leaves. */
int cmd_put_secret_setting(struct json_writer *w, const char *arg)
{
	_cleanup_(buf_done) struct buf secret =
	    BUF_INIT(LIMIT_HOOK_SECRET_BYTES + 2);
	int r;

	if (!str_is(str_from(arg), "secret=-"))
		return cmd_put_setting(w, arg);
	r = cmd_read_stdin(&secret);
	if (r != CLI_OK)
		return r;
	jw_key(w, "secret");
	jw_str(w, str_trim(buf_str(&secret)));
	return CLI_OK;
}

int cmd_hooks_set(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(LIMIT_BODY_BYTES);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);
	int r = CLI_OK;

	jw_object(&w);
	jw_key(&w, "queue");
	jw_cstr(&w, a->argv[1]);
	for (int i = 2; i < a->argc && r == CLI_OK; i++)
		r = cmd_put_secret_setting(&w, a->argv[i]);
	jw_object_end(&w);
	if (r == CLI_OK)
		r = cmd_check_members("hooks set", json_root(buf_str(&body)),
				      &msg_set_hook);
	if (r == CLI_OK)
		r = cmd_call_on(a, "PUT", "hooks", "", buf_str(&body), &reply);
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		out_linef("Deliveries go to POST /api/v1/hooks/%s", a->argv[0]);
	return CLI_OK;
}

int cmd_hooks_delete(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, "DELETE", "hooks", "", STR_NULL, &reply);

	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), "webhook", "status");
	return r;
}
