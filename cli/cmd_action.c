/*
 * What people do to one job, and what they ask about it: cancel, move,
 * priority, requeue, hold, approve, reject, replay, why, logs.
 */
#include <stdio.h>

#include "answer.h"
#include "api.h"
#include "cmd.h"

/* --- actions --- */

/* {"member": text}, or {} when there is no text. */
static void put_body(struct buf *body, const char *member, const char *text)
{
	struct json_writer w = JSON_WRITER(body);

	jw_object(&w);
	if (text != NULL) {
		jw_key(&w, member);
		jw_cstr(&w, text);
	}
	jw_object_end(&w);
}

static int act_with(const struct cmd_args *a, const char *action,
		    struct str body)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	_cleanup_(buf_done) struct buf status = BUF_INIT(0);
	int r = cmd_call_job(a, "POST", action, body, &reply);

	if (r != CLI_OK)
		return r;
	out_text(&status, json_root(buf_str(&reply)), "status");
	if (a->json)
		out_json(buf_str(&reply));
	else
		out_linef("Job %s: %.*s", a->argv[0],
			  STR_ARG(buf_str(&status)));
	return CLI_OK;
}

static int act(const struct cmd_args *a, const char *action, const char *member,
	       const char *text)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);

	put_body(&body, member, text);
	return act_with(a, action, buf_str(&body));
}

int cmd_cancel(const struct cmd_args *a)
{
	return act(a, "/cancel", NULL, NULL);
}

int cmd_move(const struct cmd_args *a)
{
	return act(a, "/move", "queue", a->argv[1]);
}

int cmd_priority(const struct cmd_args *a)
{
	int r = cmd_check_name("PRIORITY", a->argv[1], CMD_PRIORITIES);

	return r == CLI_OK ? act(a, "/priority", "priority", a->argv[1]) : r;
}

int cmd_requeue(const struct cmd_args *a)
{
	return act(a, "/requeue", NULL, NULL);
}

static int act_for_reason(const struct cmd_args *a, const char *action)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);

	jw_object(&w);
	cmd_put_text(&w, a, OPT_REASON, "reason");
	cmd_put_text(&w, a, OPT_DECIDED_BY, "by");
	cmd_put_text(&w, a, OPT_DECIDED_COMMENT, "comment");
	jw_object_end(&w);
	return act_with(a, action, buf_str(&body));
}

int cmd_hold(const struct cmd_args *a)
{
	return act_for_reason(a, "/hold");
}

int cmd_approve(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);
	int r;

	jw_object(&w);
	r = cmd_put_number(&w, a, OPT_MAX_ITERATIONS, "max_iterations");
	if (r != CLI_OK)
		return r;
	if (!cmd_put_json(&w, a, OPT_MAX_COST, "max_cost_usd"))
		return CLI_USAGE;
	cmd_put_text(&w, a, OPT_ITERATION_TIMEOUT, "iteration_timeout");
	cmd_put_text(&w, a, OPT_DECIDED_BY, "by");
	cmd_put_text(&w, a, OPT_DECIDED_COMMENT, "comment");
	jw_object_end(&w);
	return act_with(a, "/approve", buf_str(&body));
}

int cmd_reject(const struct cmd_args *a)
{
	return act_for_reason(a, "/reject");
}

/* --- replay --- */

int cmd_replay(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);
	int r;

	if (a->opt[OPT_REPLAY_FROM] == NULL)
		return cmd_usage("replay needs --from N, an iteration");
	jw_object(&w);
	r = cmd_put_number(&w, a, OPT_REPLAY_FROM, "from");
	jw_object_end(&w);
	if (r == CLI_OK)
		r = cmd_call_job(a, "POST", "/replay", buf_str(&body), &reply);
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		out_new_job("Replay enqueued", json_root(buf_str(&reply)));
	return CLI_OK;
}

/* --- why --- */

static void print_member(const char *before, struct json object,
			 const char *member)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	buf_puts(&text, before);
	out_brief(&text, object, member);
	out_line(buf_str(&text));
}

/* The summary has the decisive reason in it. */
static bool is_said(struct json reply, struct json reason)
{
	_cleanup_(buf_done) struct buf summary = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	out_brief(&summary, reply, "summary");
	out_brief(&text, reason, "text");
	return text.n == 0 ||
	       memmem(summary.p, summary.n, text.p, text.n) != NULL;
}

int cmd_why(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct arena mem = ARENA_INIT;
	struct json reasons, one;
	struct json_iter it;
	int r = cmd_call_job(a, "GET", "/why", STR_NULL, &reply);

	if (r != CLI_OK)
		return r;
	if (a->json) {
		out_json(buf_str(&reply));
		return CLI_OK;
	}
	print_member("", json_root(buf_str(&reply)), "summary");
	if (answer_list(buf_str(&reply), "reasons", &mem, &reasons)) {
		it = json_iter(reasons);
		while (json_next_item(&it, &one))
			if (!is_said(json_root(buf_str(&reply)), one))
				print_member("- ", one, "text");
	}
	arena_done(&mem);
	return CLI_OK;
}

/* --- logs --- */

static void print_lines(struct json lines)
{
	struct json_iter it = json_iter(lines);
	struct json one;

	while (json_next_item(&it, &one)) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);

		out_time(&b, one, "at");
		buf_puts(&b, "  ");
		out_text(&b, one, "line");
		out_line(buf_str(&b));
	}
	(void)fflush(stdout);
}

/* One page of lines after *next; *ret_n: how many there were. */
static int show_page(const struct cmd_args *a, uint64_t *next, size_t *ret_n)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct arena mem = ARENA_INIT;
	struct json lines, last;
	int r;

	buf_printf(&path, "/logs?after=%llu", (unsigned long long)*next);
	buf_putc(&path, '\0');
	r = cmd_call_job(a, "GET", path.p, STR_NULL, &reply);
	if (r != CLI_OK)
		return r;
	if (!answer_list(buf_str(&reply), "logs", &mem, &lines) ||
	    !json_member(json_root(buf_str(&reply)), "next", &mem, &last) ||
	    !json_u64(last, next)) {
		r = cmd_failed("the server's answer has no lines");
	} else {
		*ret_n = json_count(lines);
		if (!a->json)
			print_lines(lines);
		else if (*ret_n > 0 || a->opt[OPT_FOLLOW] == NULL)
			out_json(lines.raw);
	}
	arena_done(&mem);
	return r;
}

/* Waits a moment for the job's end: *ret says whether it has. */
static int has_ended(const struct cmd_args *a, bool *ret)
{
	static const char *const ends[] = { "completed", "dead", "cancelled" };
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_job(a, "GET", "?wait=1s", STR_NULL, &reply);

	*ret = false;
	if (r != CLI_OK)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		*ret = *ret ||
		       answer_is(json_root(buf_str(&reply)), "state", ends[i]);
	return CLI_OK;
}

/* With --follow: until the job has ended and all its lines are shown. */
int cmd_logs(const struct cmd_args *a)
{
	bool ended = a->opt[OPT_FOLLOW] == NULL;
	uint64_t next = 0;
	size_t n = 0;
	int r;

	for (;;) {
		r = show_page(a, &next, &n);
		if (r != CLI_OK || (ended && n == 0))
			return r;
		if (a->opt[OPT_FOLLOW] == NULL)
			return r; /* a page holds all lines that are kept */
		if (n == 0)
			r = has_ended(a, &ended);
		if (r != CLI_OK)
			return r;
	}
}
