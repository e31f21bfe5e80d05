/*
 * Lists of jobs: search, dead, held; and the iterations of one. Answers come
 * from a server, a page at a time, and are shown as they come: nothing grows
 * with the number of jobs.
 */
#include <stdio.h>
#include <unistd.h>

#include "answer.h"
#include "api.h"
#include "cmd.h"
#include "proto/limits.h"

#define TABLE_ROWS 50 /* of a table, unless more are asked for */
#define DATE_LEN   10 /* 2026-02-10 */

enum form { FORM_TABLE, FORM_JSON, FORM_IDS };

/* What a list looks like. */
struct list {
	const char *state; /* the only one; NULL: as --state says */
	const struct out_column *columns;
	size_t columns_n;
	const char *nothing; /* instead of an empty table */
};

/* A list on its way. */
struct walk {
	const struct cmd_args *a;
	const struct list *list;
	enum form form;
	uint64_t left; /* jobs to show yet */
	uint64_t shown;
	struct buf cursor; /* of the next page; empty: the first */
	bool more;
	struct arena mem; /* of one page */
};

static const struct out_column job_columns[] = {
	{ "ID", "id", false, NULL },
	{ "QUEUE", "queue", false, NULL },
	{ "STATE", "state", false, NULL },
	{ "PRIORITY", "priority", false, NULL },
	{ "ATTEMPT", "attempt", true, NULL },
	{ "CREATED", "created_at", false, out_time },
};

static const struct out_column dead_columns[] = {
	{ "ID", "id", false, NULL },
	{ "QUEUE", "queue", false, NULL },
	{ "ATTEMPT", "attempt", true, NULL },
	{ "FAILED", "failed_at", false, out_time },
	{ "ERROR", "last_error", false, out_brief },
};

/* "policy big-spend", "worker w1": what `held` says. */
static void put_holder(struct buf *b, struct json object, const char *member)
{
	struct arena a = ARENA_INIT;
	struct json held, by;

	if (json_member(object, member, &a, &held) &&
	    json_type_of(held) == JSON_OBJECT) {
		out_text(b, held, "kind");
		if (json_member(held, "by", &a, &by)) {
			buf_putc(b, ' ');
			out_brief(b, held, "by");
		}
	}
	arena_done(&a);
}

static void put_since(struct buf *b, struct json object, const char *member)
{
	struct arena a = ARENA_INIT;
	struct json held;

	if (json_member(object, member, &a, &held) &&
	    json_type_of(held) == JSON_OBJECT)
		out_time(b, held, "since");
	arena_done(&a);
}

static const struct out_column held_columns[] = {
	{ "ID", "id", false, NULL },
	{ "QUEUE", "queue", false, NULL },
	{ "STATE", "state", false, NULL },
	{ "HELD BY", "held", false, put_holder },
	{ "SINCE", "held", false, put_since },
	{ "REASON", "hold_reason", false, out_brief },
};

/* --- the question --- */

/* The server says what each takes; it knows more than this program. */
static void put_texts(struct json_writer *w, const struct cmd_args *a)
{
	static const struct {
		enum cmd_opt opt;
		const char *member;
	} texts[] = {
		{ OPT_QUEUE, "queue" },
		{ OPT_FIND_PRIORITY, "priority" },
		{ OPT_TEXT, "text" },
		{ OPT_PAYLOAD_CONTAINS, "payload_contains" },
		{ OPT_PAYLOAD_JQ, "payload_jq" },
		{ OPT_ERROR_CONTAINS, "error_contains" },
		{ OPT_FIND_UNIQUE_KEY, "unique_key" },
		{ OPT_FIND_BATCH_ID, "batch_id" },
		{ OPT_FIND_CHAIN_ID, "chain_id" },
		{ OPT_FIND_PARENT_ID, "parent_id" },
		{ OPT_FIND_SCHEDULE_ID, "schedule_id" },
		{ OPT_FIND_WORKER_ID, "worker_id" },
		{ OPT_FIND_GROUP, "group" },
		{ OPT_FIND_MODEL, "model" },
		{ OPT_FIND_HOLD_REASON, "hold_reason" },
		{ OPT_FIND_HELD_BY, "held_by" },
		{ OPT_FIND_POLICY, "policy" },
		{ OPT_JOB_ID_PREFIX, "job_id_prefix" },
		{ OPT_SORT, "sort" },
		{ OPT_ORDER, "order" },
		{ OPT_TIME_BUDGET, "time_budget" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		cmd_put_text(w, a, texts[i].opt, texts[i].member);
}

/* A date alone is its beginning in UTC. */
static void put_times(struct json_writer *w, const struct cmd_args *a)
{
	static const struct {
		enum cmd_opt opt;
		const char *member;
	} times[] = {
		{ OPT_CREATED_AFTER, "created_after" },
		{ OPT_CREATED_BEFORE, "created_before" },
		{ OPT_SCHEDULED_AFTER, "scheduled_after" },
		{ OPT_SCHEDULED_BEFORE, "scheduled_before" },
		{ OPT_STARTED_AFTER, "started_after" },
		{ OPT_STARTED_BEFORE, "started_before" },
		{ OPT_COMPLETED_AFTER, "completed_after" },
		{ OPT_COMPLETED_BEFORE, "completed_before" },
		{ OPT_EXPIRES_AFTER, "expire_after" },
		{ OPT_EXPIRES_BEFORE, "expire_before" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		_cleanup_(buf_done) struct buf text = BUF_INIT(0);
		const char *given = a->opt[times[i].opt];

		if (given == NULL)
			continue;
		buf_puts(&text, given);
		if (text.n == DATE_LEN && strchr(given, 'T') == NULL)
			buf_puts(&text, "T00:00:00Z");
		jw_key(w, times[i].member);
		jw_str(w, buf_str(&text));
	}
}

static int put_tags(struct json_writer *w, const struct cmd_args *a)
{
	if (a->tags_n == 0)
		return CLI_OK;
	jw_key(w, "tags");
	jw_object(w);
	for (int i = a->tags_n; i-- > 0;) {
		struct str name, value;

		if (!str_split(str_from(a->tags[i]), '=', &name, &value))
			return cmd_usage("\"%s\" is not NAME=TEXT", a->tags[i]);
		jw_key_str(w, name);
		jw_str(w, value);
	}
	jw_object_end(w);
	return CLI_OK;
}

static int put_errors(struct json_writer *w, const struct cmd_args *a)
{
	bool has = a->opt[OPT_HAS_ERRORS] != NULL;

	if (!has && a->opt[OPT_NO_ERRORS] == NULL)
		return CLI_OK;
	if (has && a->opt[OPT_NO_ERRORS] != NULL)
		return cmd_usage("give either --has-errors or --no-errors");
	jw_key(w, "has_errors");
	jw_bool(w, has);
	return CLI_OK;
}

static int put_numbers(struct json_writer *w, const struct cmd_args *a)
{
	static const struct {
		enum cmd_opt opt;
		const char *member;
	} numbers[] = {
		{ OPT_ATTEMPT_MIN, "attempt_min" },
		{ OPT_ATTEMPT_MAX, "attempt_max" },
		{ OPT_ITERATION_MIN, "iteration_min" },
		{ OPT_ITERATION_MAX, "iteration_max" },
	};
	int r = CLI_OK;

	for (size_t i = 0; i < ARRAY_SIZE(numbers) && r == CLI_OK; i++)
		r = cmd_put_number(w, a, numbers[i].opt, numbers[i].member);
	return r;
}

static int put_page(const struct walk *k, struct buf *body)
{
	const struct cmd_args *a = k->a;
	struct json_writer w = JSON_WRITER(body);
	int r;

	jw_object(&w);
	if (k->list->state != NULL) {
		jw_key(&w, "state");
		jw_array(&w);
		jw_cstr(&w, k->list->state);
		jw_array_end(&w);
	}
	cmd_put_list(&w, a, OPT_STATE, "state");
	put_texts(&w, a);
	put_times(&w, a);
	if ((r = put_tags(&w, a)) != CLI_OK ||
	    (r = put_errors(&w, a)) != CLI_OK ||
	    (r = put_numbers(&w, a)) != CLI_OK)
		return r;
	if (!cmd_put_json(&w, a, OPT_COST_MIN, "cost_min") ||
	    !cmd_put_json(&w, a, OPT_COST_MAX, "cost_max"))
		return CLI_USAGE;
	if (k->cursor.n > 0) {
		jw_key(&w, "cursor");
		jw_str(&w, buf_str(&k->cursor));
	}
	jw_key(&w, "limit");
	jw_u64(&w, MIN(k->left, (uint64_t)LIMIT_SEARCH_ROWS));
	jw_object_end(&w);
	return CLI_OK;
}

/* --- the answer --- */

static void show_ids(struct json jobs)
{
	struct json_iter it = json_iter(jobs);
	struct json job;

	while (json_next_item(&it, &job)) {
		_cleanup_(buf_done) struct buf id = BUF_INIT(0);

		out_text(&id, job, "id");
		if (id.n > 0)
			out_line(buf_str(&id));
	}
}

/* One job a line, all of them in one array. */
static void show_json(const struct walk *k, struct json jobs)
{
	struct json_iter it = json_iter(jobs);
	uint64_t n = k->shown;
	struct json job;

	while (json_next_item(&it, &job)) {
		(void)puts(n++ == 0 ? "[" : ",");
		out_raw_json(job.raw);
	}
}

static void show_page(struct walk *k, struct json jobs)
{
	size_t n = json_count(jobs);

	if (k->form == FORM_IDS)
		show_ids(jobs);
	else if (k->form == FORM_JSON)
		show_json(k, jobs);
	else if (n > 0)
		out_table(jobs, k->list->columns, k->list->columns_n);
	(void)fflush(stdout); /* whoever reads may have had enough */
	k->shown += n;
	k->left -= MIN(k->left, (uint64_t)n);
}

/* Keeps where the next page begins. */
static int read_next(struct walk *k, struct json reply)
{
	struct json v;
	struct str cursor;

	k->more = json_member(reply, "has_more", &k->mem, &v) &&
		  json_bool(v, &k->more) && k->more;
	if (!k->more)
		return CLI_OK;
	if (!json_member(reply, "cursor", &k->mem, &v) ||
	    json_type_of(v) != JSON_STRING)
		return cmd_failed("the server's answer has no cursor");
	cursor = json_string(v, &k->mem);
	if (str_eq(cursor, buf_str(&k->cursor)))
		return cmd_failed("the server's answer leads nowhere");
	buf_clear(&k->cursor);
	buf_put_str(&k->cursor, cursor);
	return CLI_OK;
}

static int next_page(struct walk *k)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json jobs;
	int r = put_page(k, &body);

	if (r == CLI_OK)
		r = cmd_call(k->a, "POST", "/api/v1/jobs/search",
			     buf_str(&body), &reply);
	if (r != CLI_OK)
		return r;
	arena_reset(&k->mem);
	if (!answer_list(buf_str(&reply), "jobs", &k->mem, &jobs))
		return cmd_failed("the server's answer has no list of jobs");
	show_page(k, jobs);
	return read_next(k, json_root(buf_str(&reply)));
}

/* What is after the last job. */
static void show_end(const struct walk *k)
{
	_cleanup_(buf_done) struct buf cursor = BUF_INIT(0);

	if (k->form == FORM_JSON)
		(void)puts(k->shown == 0 ? "[]" : "\n]");
	if (k->form == FORM_TABLE && k->shown == 0)
		(void)puts(k->list->nothing);
	if (k->more && !ferror(stdout)) {
		out_put_clean(&cursor, buf_str(&k->cursor));
		(void)fprintf(stderr,
			      "There are more: add --all, or --cursor %.*s\n",
			      STR_ARG(buf_str(&cursor)));
	}
}

/* Ids into a pipe, so that another corvo can take them from there. */
static enum form form_of(const struct cmd_args *a)
{
	const char *output = a->opt[OPT_OUTPUT];

	if (a->ids || (a->json && output == NULL))
		return FORM_IDS;
	if (a->json)
		return FORM_JSON;
	return output != NULL || isatty(STDOUT_FILENO) ? FORM_TABLE : FORM_IDS;
}

static int read_limit(struct walk *k)
{
	const char *limit = k->a->opt[OPT_LIMIT];
	bool all = k->a->opt[OPT_ALL] != NULL;

	k->left = k->form == FORM_TABLE && !all ? TABLE_ROWS : UINT64_MAX;
	if (limit == NULL)
		return CLI_OK;
	if (all)
		return cmd_usage("give either --limit or --all");
	if (!str_parse_u64(str_from(limit), &k->left) || k->left == 0)
		return cmd_usage("--limit takes a whole number from 1 on");
	return CLI_OK;
}

static int list_jobs(const struct cmd_args *a, const struct list *list)
{
	struct walk k = { .a = a, .list = list, .form = form_of(a) };
	int r = read_limit(&k);

	if (a->opt[OPT_CURSOR] != NULL)
		buf_puts(&k.cursor, a->opt[OPT_CURSOR]);
	k.more = true;
	while (r == CLI_OK && k.more && k.left > 0 && !ferror(stdout))
		r = next_page(&k);
	if (r == CLI_OK)
		show_end(&k);
	buf_done(&k.cursor);
	arena_done(&k.mem);
	return r;
}

int cmd_search(const struct cmd_args *a)
{
	static const struct list list = { NULL, job_columns,
					  ARRAY_SIZE(job_columns), "No jobs" };

	return list_jobs(a, &list);
}

int cmd_dead(const struct cmd_args *a)
{
	static const struct list list = { "dead", dead_columns,
					  ARRAY_SIZE(dead_columns),
					  "No dead jobs" };

	return list_jobs(a, &list);
}

int cmd_held(const struct cmd_args *a)
{
	static const struct list list = { "held", held_columns,
					  ARRAY_SIZE(held_columns),
					  "No held jobs" };

	return list_jobs(a, &list);
}

/* --- iterations --- */

static void out_cost(struct buf *b, struct json object, const char *member)
{
	struct arena a = ARENA_INIT;
	struct json v;
	double cost = 0;

	if (json_member(object, member, &a, &v))
		(void)json_double(v, &cost);
	buf_printf(b, "%.6f", cost);
	arena_done(&a);
}

static void put_argument(struct buf *path, char before, const char *name,
			 const char *value)
{
	if (value == NULL)
		return;
	buf_printf(path, "%c%s=", before, name);
	api_put_segment(path, value);
}

int cmd_iterations(const struct cmd_args *a)
{
	static const struct out_column columns[] = {
		{ "ITERATION", "iteration", true, NULL },
		{ "STATUS", "status", false, NULL },
		{ "COST", "cost_usd", true, out_cost },
		{ "HELD FOR", "hold_reason", false, NULL },
	};
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct arena mem = ARENA_INIT;
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct json list;
	int r;

	buf_puts(&path, "/iterations");
	put_argument(&path, '?', "after", a->opt[OPT_ITERATIONS_AFTER]);
	put_argument(&path, a->opt[OPT_ITERATIONS_AFTER] != NULL ? '&' : '?',
		     "limit", a->opt[OPT_ITERATIONS_LIMIT]);
	buf_putc(&path, '\0');
	r = cmd_call_job(a, "GET", path.p, STR_NULL, &reply);
	if (r != CLI_OK)
		return r;
	if (!answer_list(buf_str(&reply), "iterations", &mem, &list))
		r = cmd_failed("the server's answer has no iterations");
	else if (a->json)
		out_json(buf_str(&reply));
	else if (json_count(list) == 0)
		(void)puts("No iterations");
	else
		out_table(list, columns, ARRAY_SIZE(columns));
	arena_done(&mem);
	return r;
}
