/*
 * Approval policies, and links to decide about held jobs.
 */
#include "api.h"
#include "cmd.h"
#include "proto/proto.h"

#define POLICIES "approval-policies"

/* What it asks of a job, in short. */
static void put_conditions(struct buf *b, struct json object,
			   const char *member)
{
	static const struct {
		const char *name, *before;
	} all[] = {
		{ "queue", "queue " },
		{ "tag_key", "tag " },
		{ "tag_value", "= " },
		{ "cost_min", "cost >= " },
		{ "iteration_min", "iteration >= " },
		{ "payload_jq", "payload " },
		{ "provider_state", "provider " },
	};
	struct arena a = ARENA_INIT;
	struct json v;
	bool first = true;

	(void)member;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if (!json_member(object, all[i].name, &a, &v))
			continue;
		if (!first)
			buf_puts(b, all[i].before[0] == '=' ? " " : ", ");
		first = false;
		buf_puts(b, all[i].before);
		out_brief(b, object, all[i].name);
	}
	arena_done(&a);
}

static void put_points(struct buf *b, struct json object, const char *member)
{
	struct arena a = ARENA_INIT;
	struct json list, one;
	struct json_iter it;
	size_t n = 0;

	if (json_member(object, member, &a, &list) &&
	    json_type_of(list) == JSON_ARRAY) {
		it = json_iter(list);
		while (json_next_item(&it, &one)) {
			buf_puts(b, n++ > 0 ? ", " : "");
			if (json_type_of(one) == JSON_STRING)
				out_put_clean(b, json_string(one, &a));
		}
	}
	arena_done(&a);
}

static const struct out_column columns[] = {
	{ "NAME", "name", false, NULL },
	{ "PRIORITY", "priority", true, NULL },
	{ "ENABLED", "enabled", false, NULL },
	{ "AT", "at", false, put_points },
	{ "MODE", "mode", false, NULL },
	{ "CONDITIONS", "queue", false, put_conditions },
	{ "DEADLINE", "deadline", false, NULL },
	{ "THEN", "on_deadline", false, NULL },
};

int cmd_policies(const struct cmd_args *a)
{
	return cmd_list(a, "/api/v1/" POLICIES, columns, ARRAY_SIZE(columns));
}

int cmd_policies_get(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, "GET", POLICIES, "", STR_NULL, &reply);

	if (r == CLI_OK)
		out_json(buf_str(&reply));
	return r;
}

/* {settings}, those from the argument `first` on, with a name if there is one.
 */
static int put_settings(const struct cmd_args *a, int first, const char *verb,
			const char *name, const struct msg_desc *d,
			struct buf *body)
{
	struct json_writer w = JSON_WRITER(body);
	int r = CLI_OK;

	jw_object(&w);
	if (name != NULL) {
		jw_key(&w, "name");
		jw_cstr(&w, name);
	}
	for (int i = first; i < a->argc && r == CLI_OK; i++)
		r = cmd_put_setting(&w, a->argv[i]);
	jw_object_end(&w);
	return r != CLI_OK
		   ? r
		   : cmd_check_members(verb, json_root(buf_str(body)), d);
}

int cmd_policies_set(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(LIMIT_BODY_BYTES);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r =
	    put_settings(a, 1, "policies set", a->argv[0], &msg_policy, &body);

	if (r == CLI_OK)
		r = cmd_call(a, "POST", "/api/v1/" POLICIES, buf_str(&body),
			     &reply);
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		out_linef("Approval policy set: %s", a->argv[0]);
	return CLI_OK;
}

static const struct out_column trial_columns[] = {
	{ "ID", "id", false, NULL },
	{ "QUEUE", "queue", false, NULL },
	{ "AT", "at", false, NULL },
	{ "STATE", "state", false, NULL },
	{ "CREATED", "created_at", false, out_time },
};

/* {"policy": {"name": "trial", settings}} */
static int put_trial(const struct cmd_args *a, struct buf *body)
{
	_cleanup_(buf_done) struct buf policy = BUF_INIT(LIMIT_BODY_BYTES);
	struct json_writer w = JSON_WRITER(body);
	int r =
	    put_settings(a, 0, "policies try", "trial", &msg_policy, &policy);

	if (r != CLI_OK)
		return r;
	jw_object(&w);
	jw_key(&w, "policy");
	jw_raw(&w, buf_str(&policy));
	jw_object_end(&w);
	return CLI_OK;
}

static void print_trial(struct json reply)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(0);
	struct arena a = ARENA_INIT;
	struct json jobs;

	buf_puts(&line, "Would have held ");
	out_text(&line, reply, "held");
	buf_puts(&line, " of ");
	out_text(&line, reply, "looked_at");
	buf_puts(&line, " jobs created since ");
	out_text(&line, reply, "since");
	out_line(buf_str(&line));
	if (json_member(reply, "jobs", &a, &jobs))
		out_table(jobs, trial_columns, ARRAY_SIZE(trial_columns));
	arena_done(&a);
}

int cmd_policies_try(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(LIMIT_BODY_BYTES);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = put_trial(a, &body);

	if (r == CLI_OK)
		r = cmd_call(a, "POST", "/api/v1/" POLICIES "/dry-run",
			     buf_str(&body), &reply);
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		print_trial(json_root(buf_str(&reply)));
	return CLI_OK;
}

int cmd_policies_delete(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, "DELETE", POLICIES, "", STR_NULL, &reply);

	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), "Approval policy", "status");
	return r;
}

int cmd_approval_links(const struct cmd_args *a)
{
	static const char *const shown[] = { "approve", "reject",
					     "expires_at" };
	_cleanup_(buf_done) struct buf body = BUF_INIT(LIMIT_BODY_BYTES);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r =
	    put_settings(a, 1, "approval-links", NULL, &msg_make_links, &body);

	if (r == CLI_OK)
		r = cmd_call_job(a, "POST", "/approval-links", buf_str(&body),
				 &reply);
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	for (size_t i = 0; !a->json && i < ARRAY_SIZE(shown); i++) {
		_cleanup_(buf_done) struct buf line = BUF_INIT(0);

		buf_printf(&line, "%s: ", shown[i]);
		out_text(&line, json_root(buf_str(&reply)), shown[i]);
		out_line(buf_str(&line));
	}
	return CLI_OK;
}
