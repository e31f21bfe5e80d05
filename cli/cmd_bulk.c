/*
 * Many jobs at once: bulk ACTION, and operations in the background. Ids come
 * from standard input, in any of the forms our own lists have; what a server
 * says is shown through the writers of out.h.
 */
#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "answer.h"
#include "api.h"
#include "cmd.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "proto/proto.h"

/* Ids and what stands around them in a list of jobs. */
#define STDIN_BYTES (512u << 20)
#define JSON_DEPTH  (LIMIT_JSON_DEPTH + 8)
#define RECONNECTS  30 /* in a row, without any news */
#define RETRY_MS    1000
#define QUIET_ENDS  3 /* streams in a row that end well and tell nothing */

/* --- ids from standard input --- */

/* The list they go to. */
struct ids {
	struct json_writer *w;
	struct arena mem;
	size_t n;
};

static void put_id(struct ids *ids, struct str id)
{
	jw_str(ids->w, id);
	ids->n++;
}

/* "id", {"id": "id"} or {"job_id": "id"}; others are left out. */
static void put_id_of(struct ids *ids, struct json v)
{
	struct json id = v;

	if (json_type_of(v) == JSON_OBJECT &&
	    !json_member(v, "id", &ids->mem, &id) &&
	    !json_member(v, "job_id", &ids->mem, &id))
		return;
	if (json_type_of(id) == JSON_STRING)
		put_id(ids, json_string(id, &ids->mem));
}

static void put_ids_of(struct ids *ids, struct json v)
{
	static const char *const lists[] = { "jobs", "job_ids", "ids",
					     "results" };
	struct json_iter it;
	struct json item;

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (json_type_of(v) == JSON_OBJECT &&
		    json_member(v, lists[i], &ids->mem, &item) &&
		    json_type_of(item) == JSON_ARRAY) {
			v = item;
			break;
		}
	if (json_type_of(v) != JSON_ARRAY) {
		put_id_of(ids, v);
		return;
	}
	it = json_iter(v);
	while (json_next_item(&it, &item))
		put_id_of(ids, item);
}

static bool is_json(struct str text)
{
	struct json_error e;

	return text.n > 0 && strchr("{[\"", text.p[0]) != NULL &&
	       json_validate(text, JSON_DEPTH, &e);
}

/* A row of a table or a list that was cut off is none. */
static bool is_id(struct str line)
{
	for (size_t i = 0; i < line.n; i++)
		if (!isalnum((unsigned char)line.p[i]) &&
		    strchr("_-.:", line.p[i]) == NULL)
			return false;
	return true;
}

static int put_lines(struct ids *ids, struct str text)
{
	struct str line;
	int r = CLI_OK;

	for (size_t n = 1; text.n > 0 && r == CLI_OK; n++) {
		(void)str_split(text, '\n', &line, &text);
		line = str_trim(line);
		if (is_json(line))
			put_ids_of(ids, json_root(line));
		else if (!is_id(line))
			r = cmd_failed("line %zu of standard input is neither "
				       "an id nor a job as JSON; nothing was "
				       "done",
				       n);
		else if (line.n > 0)
			put_id(ids, line);
	}
	return r;
}

/* One document, or one id or document on each line. */
static int put_ids(struct json_writer *w, struct str text)
{
	struct ids ids = { .w = w };
	int r = CLI_OK;

	text = str_trim(text);
	jw_array(w);
	if (is_json(text))
		put_ids_of(&ids, json_root(text));
	else
		r = put_lines(&ids, text);
	jw_array_end(w);
	arena_done(&ids.mem);
	if (r == CLI_OK && ids.n > LIMIT_BULK_IDS)
		return cmd_failed("%zu ids are more than the %d of one request;"
				  " find them with --filter, or send them in "
				  "parts",
				  ids.n, LIMIT_BULK_IDS);
	return r;
}

/* --- the request --- */

/* The server ignores what it does not know, and would take all jobs then. */
static int put_filter(struct json_writer *w, const struct cmd_args *a)
{
	if (!cmd_put_json(w, a, OPT_FILTER, "filter"))
		return CLI_USAGE;
	return cmd_check_members(
	    "--filter", json_root(str_from(a->opt[OPT_FILTER])), &msg_search);
}

static int put_jobs(struct json_writer *w, const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(STDIN_BYTES);
	int r;

	if (a->opt[OPT_FILTER] != NULL)
		return put_filter(w, a);
	if (isatty(STDIN_FILENO))
		return cmd_usage("give ids on standard input, one on each "
				 "line, or --filter");
	r = cmd_read_stdin(&text);
	if (r != CLI_OK)
		return r;
	jw_key(w, "job_ids");
	return put_ids(w, buf_str(&text));
}

static void put_switch(struct json_writer *w, const struct cmd_args *a,
		       enum cmd_opt opt, const char *member)
{
	if (a->opt[opt] == NULL)
		return;
	jw_key(w, member);
	jw_bool(w, true);
}

/* What the action acts towards; the server knows which need it. */
static int put_target(struct json_writer *w, const char *action,
		      const char *target)
{
	int r = CLI_OK;

	if (target == NULL)
		return CLI_OK;
	if (strcmp(action, "move") == 0) {
		jw_key(w, "move_to_queue");
	} else if (strcmp(action, "change_priority") == 0) {
		r = cmd_check_name("PRIORITY", target, CMD_PRIORITIES);
		jw_key(w, "priority");
	} else {
		return cmd_usage("only move and change_priority take a second "
				 "argument");
	}
	jw_cstr(w, target);
	return r;
}

static int put_request(struct buf *body, const struct cmd_args *a,
		       const char *action, const char *target)
{
	struct json_writer w = JSON_WRITER(body);
	int r;

	jw_object(&w);
	jw_key(&w, "action");
	jw_cstr(&w, action);
	r = put_target(&w, action, target);
	if (r == CLI_OK)
		r = cmd_put_number(&w, a, OPT_BULK_RATE, "rate");
	if (r == CLI_OK)
		r = cmd_put_number(&w, a, OPT_CANARY, "canary");
	if (r == CLI_OK)
		r = put_jobs(&w, a);
	cmd_put_text(&w, a, OPT_REASON, "reason");
	put_switch(&w, a, OPT_DRY_RUN, "dry_run");
	put_switch(&w, a, OPT_ASYNC, "async");
	jw_object_end(&w);
	return r;
}

/* --- progress --- */

struct follow {
	const struct cmd_args *a;
	uint64_t percent; /* shown last */
	bool news;        /* since the last connection */
	bool ended, failed;
};

static void print_end(const struct follow *f, struct json v)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(0);

	if (f->a->json) {
		out_json(v.raw);
		return;
	}
	out_text(&line, v, "status");
	buf_printf(&line, ": %llu affected, %llu skipped, of %llu",
		   (unsigned long long)answer_number(v, "affected"),
		   (unsigned long long)answer_number(v, "skipped"),
		   (unsigned long long)answer_number(v, "total"));
	if (f->failed && !answer_is(v, "error", "")) {
		buf_puts(&line, "; ");
		out_text(&line, v, "error");
	}
	out_line(buf_str(&line));
}

static void show_frame(struct follow *f, struct json v)
{
	uint64_t percent = answer_number(v, "percent");

	f->news = true;
	f->failed = answer_is(v, "status", "failed") ||
		    answer_is(v, "status", "cancelled");
	f->ended = f->failed || answer_is(v, "status", "completed");
	if (f->ended) {
		print_end(f, v);
	} else if (percent != f->percent && !f->a->json) {
		f->percent = percent;
		(void)printf("%llu%%: %llu of %llu\n",
			     (unsigned long long)percent,
			     (unsigned long long)answer_number(v, "processed"),
			     (unsigned long long)answer_number(v, "total"));
		(void)fflush(stdout);
	}
}

static bool on_event(void *ctx, const struct api_event *e)
{
	struct follow *f = ctx;

	if (is_json(e->data))
		show_frame(f, json_root(e->data));
	return !f->ended && !ferror(stdout);
}

/* The node may start again meanwhile; the operation goes on then. */
static int follow(const struct cmd_args *a, const char *path)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct follow f = { .a = a };
	struct api api;
	int r = 0;

	cmd_api(a, &api);
	for (int tries = 0, quiet = 0;
	     !f.ended && tries < RECONNECTS && quiet < QUIET_ENDS; tries++) {
		if (tries > 0)
			(void)poll(NULL, 0, RETRY_MS);
		f.news = false;
		buf_clear(&why);
		r = api_stream(&api, path, on_event, &f, &why);
		if (r == -ERR_VALIDATION_ERROR || ferror(stdout))
			break;
		if (f.news)
			tries = quiet = 0;
		else if (r == 0)
			quiet++;
	}
	if (f.ended)
		return f.failed ? CLI_FAILED : CLI_OK;
	if (ferror(stdout))
		return CLI_OK; /* main says so */
	if (r == 0)
		buf_puts(&why, "the server tells no progress");
	return cmd_failed("%.*s; the operation may go on, `corvo bulk list` "
			  "shows it",
			  STR_ARG(buf_str(&why)));
}

/* --- bulk ACTION --- */

static void print_result(struct json v, bool dry_run)
{
	unsigned long long affected = answer_number(v, "affected");
	unsigned long long skipped = answer_number(v, "skipped");

	(void)printf("%s%llu affected, %llu skipped\n",
		     dry_run ? "Dry run: " : "", affected, skipped);
}

/* The answer of one that goes on in the background. */
static int accepted(const struct cmd_args *a, struct str reply)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf line = BUF_INIT(0);
	struct json v = json_root(reply);

	buf_puts(&line, "Bulk operation: ");
	out_text(&line, v, "bulk_operation_id");
	buf_printf(&line, " (%llu jobs)",
		   (unsigned long long)answer_number(v, "estimated_total"));
	out_text(&path, v, "progress_url");
	buf_putc(&path, '\0');
	if (a->opt[OPT_BULK_WAIT] == NULL && a->json) {
		out_json(reply);
		return CLI_OK;
	}
	if (!a->json)
		out_line(buf_str(&line));
	return a->opt[OPT_BULK_WAIT] != NULL ? follow(a, path.p) : CLI_OK;
}

/* What is deleted is gone, and a filter of everything is quickly typed. */
static int may_do(const struct cmd_args *a, const char *action)
{
	struct arena mem = ARENA_INIT;
	struct json filter, all;
	bool is_all = false, said = false;

	if (a->opt[OPT_FILTER] != NULL) {
		filter = json_root(str_from(a->opt[OPT_FILTER]));
		is_all = json_type_of(filter) == JSON_OBJECT &&
			 json_member(filter, "all", &mem, &all) &&
			 json_bool(all, &said) && said;
	}
	arena_done(&mem);
	if (!is_all || strcmp(action, "delete") != 0 ||
	    a->opt[OPT_YES] != NULL || a->opt[OPT_DRY_RUN] != NULL)
		return CLI_OK;
	if (!cmd_may_ask())
		return cmd_usage("this deletes all jobs of all queues; add "
				 "--yes to do it");
	return cmd_ask("Delete all jobs of all queues?");
}

static int run(const struct cmd_args *a, const char *action, const char *target)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = put_request(&body, a, action, target);

	if (r == CLI_OK)
		r = may_do(a, action);
	if (r == CLI_OK)
		r = cmd_call(a, "POST", "/api/v1/jobs/bulk", buf_str(&body),
			     &reply);
	if (r != CLI_OK)
		return r;
	if (!answer_is(json_root(buf_str(&reply)), "bulk_operation_id", ""))
		return accepted(a, buf_str(&reply));
	if (a->json)
		out_json(buf_str(&reply));
	else
		print_result(json_root(buf_str(&reply)),
			     a->opt[OPT_DRY_RUN] != NULL);
	return CLI_OK;
}

int cmd_bulk(const struct cmd_args *a)
{
	return run(a, a->argv[0], a->argc > 1 ? a->argv[1] : NULL);
}

/* --- operations in the background --- */

static int control(const struct cmd_args *a, const char *what)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, "POST", "bulk", what, STR_NULL, &reply);

	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), "Bulk operation", "status");
	return r;
}

int cmd_bulk_cancel(const struct cmd_args *a)
{
	return a->argc > 0 ? control(a, "/cancel") : run(a, "cancel", NULL);
}

int cmd_bulk_pause(const struct cmd_args *a)
{
	return control(a, "/pause");
}

int cmd_bulk_resume(const struct cmd_args *a)
{
	return control(a, "/resume");
}

int cmd_bulk_status(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, "GET", "bulk", "", STR_NULL, &reply);

	if (r == CLI_OK)
		out_json(buf_str(&reply));
	return r;
}

int cmd_bulk_list(const struct cmd_args *a)
{
	static const struct out_column columns[] = {
		{ "ID", "id", false, NULL },
		{ "ACTION", "action", false, NULL },
		{ "STATUS", "status", false, NULL },
		{ "PROCESSED", "processed", true, NULL },
		{ "AFFECTED", "affected", true, NULL },
		{ "SKIPPED", "skipped", true, NULL },
		{ "TOTAL", "total", true, NULL },
		{ "CREATED", "created_at", false, out_time },
	};
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct arena mem = ARENA_INIT;
	struct json list;
	int r = cmd_call(a, "GET", "/api/v1/bulk", STR_NULL, &reply);

	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else if (!answer_list(buf_str(&reply), "operations", &mem, &list))
		r = cmd_failed("the server's answer is no list");
	else if (json_count(list) == 0)
		(void)puts("No bulk operations");
	else
		out_table(list, columns, ARRAY_SIZE(columns));
	arena_done(&mem);
	return r;
}
