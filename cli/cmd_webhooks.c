/*
 * Webhooks: URLs that are called on events.
 */
#include "answer.h"
#include "api.h"
#include "cmd.h"
#include "proto/proto.h"
#include "util/timefmt.h"

static const struct out_column columns[] = {
	{ "ID", "id", false, NULL },
	{ "URL", "url", false, NULL },
	{ "ENABLED", "enabled", false, NULL },
	{ "LAG", "lag", true, NULL },
	{ "PENDING", "pending", true, NULL },
	{ "DELIVERED", "delivered", true, NULL },
	{ "FAILED", "failed", true, NULL },
	{ "LAST", "last_status_code", true, NULL },
};

static const struct out_column delivery_columns[] = {
	{ "EVENT", "seq", true, NULL },
	{ "TYPE", "type", false, NULL },
	{ "JOB", "job_id", false, NULL },
	{ "TRY", "attempt", true, NULL },
	{ "STATE", "state", false, NULL },
	{ "STATUS", "status_code", true, NULL },
	{ "AT", "at", false, NULL },
	{ "ERROR", "error", false, NULL },
};

int cmd_webhooks(const struct cmd_args *a)
{
	return cmd_list(a, "/api/v1/webhooks", columns, ARRAY_SIZE(columns));
}

int cmd_webhooks_get(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, "GET", "webhooks", "", STR_NULL, &reply);

	if (r == CLI_OK)
		out_json(buf_str(&reply));
	return r;
}

/* events=completed,dead: words with commas between them are a list. */
static int put_setting(struct json_writer *w, const char *arg)
{
	struct str name, rest, word;

	if (!str_split(str_from(arg), '=', &name, &rest) || rest.n == 0 ||
	    rest.p[0] == '[' ||
	    (!str_is(name, "events") && !str_is(name, "queues")))
		return cmd_put_secret_setting(w, arg);
	jw_key_str(w, name);
	jw_array(w);
	while (rest.n > 0) {
		(void)str_split(rest, ',', &word, &rest);
		jw_str(w, word);
	}
	jw_array_end(w);
	return CLI_OK;
}

/* Members as settings, from the argument of that number on. */
static int put_settings(const struct cmd_args *a, int from,
			struct json_writer *w)
{
	int r = CLI_OK;

	for (int i = from; i < a->argc && r == CLI_OK; i++)
		r = put_setting(w, a->argv[i]);
	return r;
}

static int check(const char *name, const struct buf *body)
{
	return cmd_check_members(name, json_root(buf_str(body)),
				 &msg_set_webhook);
}

int cmd_webhooks_set(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(LIMIT_BODY_BYTES);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);
	int r;

	jw_object(&w);
	jw_key(&w, "id");
	jw_cstr(&w, a->argv[0]);
	jw_key(&w, "url");
	jw_cstr(&w, a->argv[1]);
	r = put_settings(a, 2, &w);
	jw_object_end(&w);
	if (r == CLI_OK)
		r = check("webhooks set", &body);
	if (r == CLI_OK)
		r = cmd_call(a, "POST", "/api/v1/webhooks", buf_str(&body),
			     &reply);
	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), "webhook", "id");
	return r;
}

int cmd_webhooks_change(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(LIMIT_BODY_BYTES);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);
	int r;

	jw_object(&w);
	r = put_settings(a, 1, &w);
	jw_object_end(&w);
	if (r == CLI_OK)
		r = check("webhooks change", &body);
	if (r == CLI_OK)
		r = cmd_call_on(a, "PATCH", "webhooks", "", buf_str(&body),
				&reply);
	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), "webhook", "id");
	return r;
}

int cmd_webhooks_delete(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, "DELETE", "webhooks", "", STR_NULL, &reply);

	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), "webhook", "status");
	return r;
}

int cmd_webhooks_test(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, "POST", "webhooks", "/test", STR("{}"), &reply);

	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), "delivery", "delivery_id");
	return r;
}

int cmd_webhooks_deliveries(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf action = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct arena arena = ARENA_INIT;
	struct json list;
	int r;

	buf_puts(&action, "/deliveries");
	if (a->argc > 1) {
		buf_puts(&action, "?state=");
		api_put_segment(&action, a->argv[1]);
	}
	buf_putc(&action, '\0');
	r = cmd_call_on(a, "GET", "webhooks", action.p, STR_NULL, &reply);
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else if (answer_list(buf_str(&reply), "deliveries", &arena, &list))
		out_table(list, delivery_columns, ARRAY_SIZE(delivery_columns));
	arena_done(&arena);
	return CLI_OK;
}

/* One event by its number or delivery_id, or those of a time. */
int cmd_webhooks_replay(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf action = BUF_INIT(0);
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);
	uint64_t ns;
	int r;

	jw_object(&w);
	if (a->argc > 2 || time_parse(str_from(a->argv[1]), &ns)) {
		jw_key(&w, "from");
		jw_cstr(&w, a->argv[1]);
		if (a->argc > 2) {
			jw_key(&w, "to");
			jw_cstr(&w, a->argv[2]);
		}
	} else {
		buf_puts(&action, "/deliveries/");
		api_put_segment(&action, a->argv[1]);
	}
	jw_object_end(&w);
	buf_puts(&action, "/replay");
	buf_putc(&action, '\0');
	r = cmd_call_on(a, "POST", "webhooks", action.p, buf_str(&body),
			&reply);
	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), "webhook", "status");
	return r;
}
