/*
 * Schedules: list, create, get, delete, pause, resume, run, next, preview.
 */
#include <stdio.h>

#include "answer.h"
#include "api.h"
#include "cmd.h"

static const struct out_column columns[] = {
	{ "NAME", "name", false, NULL },
	{ "CRON", "cron", false, NULL },
	{ "TIMEZONE", "timezone", false, NULL },
	{ "QUEUE", "queue", false, NULL },
	{ "NEXT RUN", "next_run", false, out_time },
	{ "LAST RUN", "last_run", false, out_time },
	{ "RUNS", "runs", true, NULL },
	{ "PAUSED", "paused", false, NULL },
};

/* --- the list --- */

/* All pages as one array; *ret_n: how many there are. */
static int get_all(const struct cmd_args *a, struct buf *ret, size_t *ret_n)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(ret);
	struct arena arena = ARENA_INIT;
	bool more = true;
	int r = CLI_OK;

	*ret_n = 0;
	buf_puts(&path, "/api/v1/schedules");
	jw_array(&w);
	while (more && r == CLI_OK) {
		_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
		struct json list, item, next;
		struct json_iter it;

		buf_putc(&path, '\0');
		r = cmd_call(a, "GET", path.p, STR_NULL, &reply);
		if (r != CLI_OK)
			break;
		if (!answer_list(buf_str(&reply), "schedules", &arena, &list)) {
			r = cmd_failed("the server's answer is no list");
			break;
		}
		for (it = json_iter(list); json_next_item(&it, &item);
		     (*ret_n)++)
			jw_raw(&w, item.raw);
		more = json_member(json_root(buf_str(&reply)), "next", &arena,
				   &next) &&
		       json_type_of(next) == JSON_STRING;
		buf_clear(&path);
		buf_puts(&path, "/api/v1/schedules?after=");
		if (more)
			api_put_segment(
			    &path,
			    arena_cstr(&arena, json_string(next, &arena)));
	}
	jw_array_end(&w);
	arena_done(&arena);
	return r;
}

int cmd_schedules(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf all = BUF_INIT(0);
	size_t n;
	int r = get_all(a, &all, &n);

	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&all));
	else if (n == 0)
		(void)puts("No schedules");
	else
		out_table(json_root(buf_str(&all)), columns,
			  ARRAY_SIZE(columns));
	return CLI_OK;
}

/* --- create --- */

static void put_options(struct json_writer *w, const struct cmd_args *a)
{
	static const struct {
		enum cmd_opt opt;
		const char *member;
	} texts[] = {
		{ OPT_TIMEZONE, "timezone" }, { OPT_DST, "dst" },
		{ OPT_CATCH_UP, "catch_up" }, { OPT_WINDOW, "catch_up_window" },
		{ OPT_OVERLAP, "overlap" },   { OPT_JITTER, "jitter" },
		{ OPT_START_AT, "start_at" }, { OPT_END_AT, "end_at" },
		{ OPT_PRIORITY, "priority" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		cmd_put_text(w, a, texts[i].opt, texts[i].member);
}

static int put_schedule(struct buf *body, const struct cmd_args *a)
{
	static const char *const members[] = { "name", "queue", "cron" };
	struct json_writer w = JSON_WRITER(body);
	int r;

	jw_object(&w);
	for (int i = 0; i < 3; i++) {
		jw_key(&w, members[i]);
		jw_cstr(&w, a->argv[i]);
	}
	if (a->argc > 3) {
		if (!cmd_is_json("the payload", str_from(a->argv[3])))
			return CLI_USAGE;
		jw_key(&w, "payload");
		jw_raw(&w, str_trim(str_from(a->argv[3])));
	}
	put_options(&w, a);
	r = cmd_put_number(&w, a, OPT_MAX_RUNS, "max_runs");
	if (r == CLI_OK)
		r = cmd_put_number(&w, a, OPT_MAX_RETRIES, "max_retries");
	if (r == CLI_OK && !cmd_put_json(&w, a, OPT_TAGS, "tags"))
		r = CLI_USAGE;
	jw_object_end(&w);
	return r;
}

int cmd_schedules_create(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = put_schedule(&body, a);

	if (r == CLI_OK)
		r = cmd_call(a, "POST", "/api/v1/schedules", buf_str(&body),
			     &reply);
	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), "Schedule created, next run",
			  "next_run");
	return r;
}

/* --- one --- */

int cmd_schedules_get(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, "GET", "schedules", "", STR_NULL, &reply);

	if (r == CLI_OK)
		out_json(buf_str(&reply));
	return r;
}

static int act(const struct cmd_args *a, const char *method, const char *action,
	       const char *words, const char *member)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, method, "schedules", action, STR_NULL, &reply);

	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), words, member);
	return r;
}

int cmd_schedules_delete(const struct cmd_args *a)
{
	return act(a, "DELETE", "", "Schedule", "status");
}

int cmd_schedules_pause(const struct cmd_args *a)
{
	return act(a, "POST", "/pause", "Schedule paused", "name");
}

int cmd_schedules_resume(const struct cmd_args *a)
{
	return act(a, "POST", "/resume", "Schedule resumed, next run",
		   "next_run");
}

int cmd_schedules_run(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	_cleanup_(buf_done) struct buf id = BUF_INIT(0);
	int r = cmd_call_on(a, "POST", "schedules", "/run", STR_NULL, &reply);

	if (r != CLI_OK)
		return r;
	out_text(&id, json_root(buf_str(&reply)), "job_id");
	if (id.n > 0)
		cmd_print(a, buf_str(&reply), "Job created", "job_id");
	else
		cmd_print(a, buf_str(&reply), "No job", "reason");
	return CLI_OK;
}

/* --- times --- */

static int print_times(const struct cmd_args *a, struct str reply)
{
	struct json list, item;
	struct arena arena = ARENA_INIT;
	struct json_iter it;
	int r = CLI_OK;

	if (a->json) {
		out_json(reply);
	} else if (!answer_list(reply, "times", &arena, &list)) {
		r = cmd_failed("the server's answer has no times");
	} else {
		for (it = json_iter(list); json_next_item(&it, &item);)
			if (json_type_of(item) == JSON_STRING)
				out_line(json_string(item, &arena));
	}
	arena_done(&arena);
	return r;
}

int cmd_schedules_next(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf action = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r;

	buf_puts(&action, "/next");
	if (a->opt[OPT_COUNT] != NULL) {
		buf_puts(&action, "?count=");
		api_put_segment(&action, a->opt[OPT_COUNT]);
	}
	buf_putc(&action, '\0');
	r = cmd_call_on(a, "GET", "schedules", action.p, STR_NULL, &reply);
	return r == CLI_OK ? print_times(a, buf_str(&reply)) : r;
}

int cmd_schedules_preview(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);
	int r;

	jw_object(&w);
	jw_key(&w, "cron");
	jw_cstr(&w, a->argv[0]);
	cmd_put_text(&w, a, OPT_TIMEZONE, "timezone");
	cmd_put_text(&w, a, OPT_DST, "dst");
	r = cmd_put_number(&w, a, OPT_COUNT, "count");
	jw_object_end(&w);
	if (r == CLI_OK)
		r = cmd_call(a, "POST", "/api/v1/schedules/preview",
			     buf_str(&body), &reply);
	return r == CLI_OK ? print_times(a, buf_str(&reply)) : r;
}
