/*
 * Budgets: what may be spent, and how far that is.
 */
#include "api.h"
#include "cmd.h"
#include "proto/proto.h"

#define BUDGETS_PATH "/api/v1/budgets"

/* "12.5 of 100 usd per day (forecast 40)", for each limit. */
static void put_used(struct buf *b, struct json object, const char *member)
{
	struct arena a = ARENA_INIT;
	struct json list, one, v;
	struct json_iter it;
	bool first = true;

	if (json_member(object, member, &a, &list) &&
	    json_type_of(list) == JSON_ARRAY) {
		it = json_iter(list);
		while (json_next_item(&it, &one)) {
			if (!first)
				buf_puts(b, "; ");
			first = false;
			out_text(b, one, "spent");
			buf_puts(b, " of ");
			out_text(b, one, "amount");
			buf_putc(b, ' ');
			out_text(b, one, "unit");
			buf_puts(b, " per ");
			out_text(b, one, "per");
			if (!json_member(one, "forecast", &a, &v))
				continue;
			buf_puts(b, ", forecast ");
			out_text(b, one, "forecast");
		}
	}
	arena_done(&a);
}

static const struct out_column columns[] = {
	{ "SCOPE", "scope", false, NULL },
	{ "TARGET", "target", false, NULL },
	{ "ON EXCEED", "on_exceed", false, NULL },
	{ "PER JOB USD", "per_job_usd", true, NULL },
	{ "USED", "state", false, put_used },
};

int cmd_budgets(const struct cmd_args *a)
{
	return cmd_list(a, BUDGETS_PATH, columns, ARRAY_SIZE(columns));
}

int cmd_budgets_set(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(LIMIT_BODY_BYTES);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);
	int r = CLI_OK;

	jw_object(&w);
	jw_key(&w, "scope");
	jw_cstr(&w, a->argv[0]);
	jw_key(&w, "target");
	jw_cstr(&w, a->argv[1]);
	for (int i = 2; i < a->argc && r == CLI_OK; i++)
		r = cmd_put_setting(&w, a->argv[i]);
	jw_object_end(&w);
	if (r == CLI_OK)
		r = cmd_check_members("budgets set", json_root(buf_str(&body)),
				      &msg_budget);
	if (r == CLI_OK)
		r = cmd_call(a, "POST", BUDGETS_PATH, buf_str(&body), &reply);
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		out_linef("Budget set for %s:%s", a->argv[0], a->argv[1]);
	return CLI_OK;
}

int cmd_budgets_delete(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r;

	if (a->argv[0][0] == '\0' || a->argv[1][0] == '\0')
		return cmd_usage("the scope or the target is empty");
	buf_puts(&path, BUDGETS_PATH "/");
	api_put_segment(&path, a->argv[0]);
	buf_putc(&path, '/');
	api_put_segment(&path, a->argv[1]);
	buf_putc(&path, '\0');
	r = cmd_call(a, "DELETE", path.p, STR_NULL, &reply);
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		out_linef("Budget deleted for %s:%s", a->argv[0], a->argv[1]);
	return CLI_OK;
}
