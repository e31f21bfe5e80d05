/*
 * Queues, workers and the state of the server.
 */
#include <stdio.h>
#include <unistd.h>

#include "answer.h"
#include "api.h"
#include "cmd.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "proto/proto.h"

static const struct out_column queue_columns[] = {
	{ "QUEUE", "name", false, NULL },
	{ "PENDING", "pending", true, NULL },
	{ "ACTIVE", "active", true, NULL },
	{ "SCHEDULED", "scheduled", true, NULL },
	{ "RETRYING", "retrying", true, NULL },
	{ "HELD", "held", true, NULL },
	{ "COMPLETED", "completed", true, NULL },
	{ "DEAD", "dead", true, NULL },
	{ "CANCELLED", "cancelled", true, NULL },
	{ "PAUSED", "paused", false, NULL },
};

static const struct out_column worker_columns[] = {
	{ "ID", "id", false, NULL },
	{ "HOSTNAME", "hostname", false, NULL },
	{ "STATE", "state", false, NULL },
	{ "JOBS", "jobs_held", true, NULL },
	{ "QUEUES", "queues", false, NULL },
	{ "LAST HEARTBEAT", "last_heartbeat", false, out_time },
};

/* A GET whose answer is an array. */
static int call_list(const struct cmd_args *a, const char *path,
		     struct buf *reply)
{
	int r = cmd_call(a, "GET", path, STR_NULL, reply);

	if (r != CLI_OK)
		return r;
	if (json_type_of(json_root(buf_str(reply))) != JSON_ARRAY)
		return cmd_failed("the server's answer is no list");
	return CLI_OK;
}

/*
 * Appends the queues of a page, and says the name of the last one. True: there
 * may be others after it. Any server may be at the other end.
 */
static bool add_page(struct json page, struct buf *to, struct buf *last)
{
	struct json_iter it = json_iter(page);
	struct arena a = ARENA_INIT;
	struct str after = STR_NULL;
	struct json item, name;
	bool goes_on;
	size_t n = 0;

	for (; json_next_item(&it, &item); n++) {
		if (to->n > 1)
			buf_putc(to, ',');
		buf_put_str(to, item.raw);
		if (json_type_of(item) == JSON_OBJECT &&
		    json_member(item, "name", &a, &name) &&
		    json_type_of(name) == JSON_STRING)
			after = json_string(name, &a);
	}
	goes_on = n == LIMIT_QUEUE_PAGE && str_cmp(after, buf_str(last)) > 0;
	buf_clear(last);
	buf_put_str(last, after);
	arena_done(&a);
	return goes_on;
}

/* All queues as one list, page by page. */
static int call_queues(const struct cmd_args *a, struct buf *ret)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf page = BUF_INIT(0);
	_cleanup_(buf_done) struct buf last = BUF_INIT(0);
	int r;

	buf_putc(ret, '[');
	do {
		buf_clear(&path);
		buf_puts(&path, "/api/v1/queues");
		if (last.n > 0) {
			buf_puts(&path, "?after=");
			buf_put_percent(&path, buf_str(&last));
		}
		buf_putc(&path, '\0');
		buf_clear(&page);
		r = call_list(a, path.p, &page);
		if (r != CLI_OK)
			return r;
	} while (add_page(json_root(buf_str(&page)), ret, &last));
	buf_putc(ret, ']');
	return CLI_OK;
}

static void print_list(struct json list, const struct out_column *columns,
		       size_t n, const char *nothing)
{
	if (json_count(list) == 0)
		(void)puts(nothing);
	else
		out_table(list, columns, n);
}

int cmd_queues(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = call_queues(a, &reply);

	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		print_list(json_root(buf_str(&reply)), queue_columns,
			   ARRAY_SIZE(queue_columns), "No queues");
	return CLI_OK;
}

int cmd_workers(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = call_list(a, "/api/v1/workers", &reply);

	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		print_list(json_root(buf_str(&reply)), worker_columns,
			   ARRAY_SIZE(worker_columns), "No workers connected");
	return CLI_OK;
}

/* --- names that no queue has --- */

/* Whether the server says so: what else is wrong, the request itself finds. */
static bool is_unknown(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct api api;

	cmd_api(a, &api);
	buf_puts(&path, "/api/v1/queues/");
	api_put_segment(&path, a->argv[0]);
	buf_putc(&path, '\0');
	return a->argv[0][0] != '\0' &&
	       api_call(&api, "GET", path.p, STR_NULL, &reply, &why) ==
		   -ERR_NOT_FOUND;
}

/* A name that is misspelt would make a queue: people are asked first. */
static int may_create(const struct cmd_args *a, const char *what)
{
	_cleanup_(buf_done) struct buf name = BUF_INIT(0);

	if (a->opt[OPT_YES] != NULL || !is_unknown(a))
		return CLI_OK;
	out_put_clean(&name, str_from(a->argv[0]));
	if (!cmd_may_ask())
		return cmd_failed("queue \"%.*s\" does not exist; add --yes "
				  "to create it and %s it",
				  STR_ARG(buf_str(&name)), what);
	return cmd_ask("Queue \"%.*s\" does not exist; create it and %s it?",
		       STR_ARG(buf_str(&name)), what);
}

/* --- pause, resume --- */

/* What was asked for is shown by the verb itself, or as JSON. */
static int show(const struct cmd_args *a, int r, const struct buf *reply,
		const char *done)
{
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(reply));
	else
		out_linef("Queue %s %s", a->argv[0], done);
	return CLI_OK;
}

static int act(const struct cmd_args *a, const char *what, const char *action,
	       const char *done)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = may_create(a, what);

	if (r != CLI_OK)
		return r;
	return show(a,
		    cmd_call_on(a, "POST", "queues", action, STR_NULL, &reply),
		    &reply, done);
}

int cmd_pause(const struct cmd_args *a)
{
	return act(a, "pause", "/pause", "paused");
}

int cmd_resume(const struct cmd_args *a)
{
	return act(a, "resume", "/resume", "resumed");
}

/* --- settings --- */

int cmd_queue(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, "GET", "queues", "", STR_NULL, &reply);

	if (r == CLI_OK)
		out_json(buf_str(&reply));
	return r;
}

int cmd_queue_set(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(LIMIT_BODY_BYTES);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);

	int r = CLI_OK;

	if (a->argc < 2)
		return cmd_usage("name at least one setting, as name=value");
	jw_object(&w);
	for (int i = 1; i < a->argc && r == CLI_OK; i++)
		r = cmd_put_setting(&w, a->argv[i]);
	jw_object_end(&w);
	if (r == CLI_OK)
		r = cmd_check_members("queue set", json_root(buf_str(&body)),
				      &msg_set_queue);
	if (r == CLI_OK)
		r = may_create(a, "change");
	if (r != CLI_OK)
		return r;
	return show(
	    a, cmd_call_on(a, "PATCH", "queues", "", buf_str(&body), &reply),
	    &reply, "changed");
}

static int is_number(const char *what, const char *text)
{
	uint64_t v;

	if (str_parse_u64(str_from(text), &v))
		return CLI_OK;
	return cmd_usage("%s must be a whole number", what);
}

int cmd_concurrency(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = is_number("MAX", a->argv[1]);

	if (r == CLI_OK)
		r = may_create(a, "limit");
	if (r != CLI_OK)
		return r;
	buf_printf(&body, "{\"max\":%s}", a->argv[1]);
	return show(a,
		    cmd_call_on(a, "POST", "queues", "/concurrency",
				buf_str(&body), &reply),
		    &reply, "changed");
}

int cmd_throttle(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);
	int r = is_number("RATE", a->argv[1]);

	if (r == CLI_OK)
		r = may_create(a, "throttle");
	if (r != CLI_OK)
		return r;
	jw_object(&w);
	jw_key(&w, "rate");
	jw_raw(&w, str_from(a->argv[1]));
	jw_key(&w, "period");
	jw_cstr(&w, a->argv[2]);
	jw_object_end(&w);
	return show(a,
		    cmd_call_on(a, "POST", "queues", "/throttle",
				buf_str(&body), &reply),
		    &reply, "throttled");
}

int cmd_unthrottle(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = may_create(a, "unthrottle");

	if (r != CLI_OK)
		return r;
	return show(
	    a,
	    cmd_call_on(a, "DELETE", "queues", "/throttle", STR_NULL, &reply),
	    &reply, "no longer throttled");
}

/* --- drain, clear, destroy --- */

int cmd_drain(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf action = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	_cleanup_(buf_done) struct buf status = BUF_INIT(0);
	_cleanup_(buf_done) struct buf active = BUF_INIT(0);
	struct json v;
	int r = may_create(a, "drain");

	if (r != CLI_OK)
		return r;
	buf_puts(&action, "/drain?wait=");
	api_put_segment(&action,
			a->opt[OPT_WAIT] != NULL ? a->opt[OPT_WAIT] : "60s");
	buf_putc(&action, '\0');
	r = cmd_call_on(a, "POST", "queues", action.p, STR_NULL, &reply);
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	v = json_root(buf_str(&reply));
	out_text(&status, v, "status");
	out_text(&active, v, "active");
	if (!a->json)
		out_linef("Queue %s %.*s, %.*s active", a->argv[0],
			  STR_ARG(buf_str(&status)), STR_ARG(buf_str(&active)));
	/* whoever deploys next wants to know */
	return str_is(buf_str(&status), "drained") ? CLI_OK : CLI_FAILED;
}

static int show_count(const struct cmd_args *a, int r, const struct buf *reply,
		      const char *done)
{
	_cleanup_(buf_done) struct buf count = BUF_INIT(0);

	if (r != CLI_OK || a->json)
		return show(a, r, reply, done);
	out_text(&count, json_root(buf_str(reply)), "count");
	out_linef("Queue %s %s (%.*s jobs)", a->argv[0], done,
		  STR_ARG(buf_str(&count)));
	return CLI_OK;
}

int cmd_clear(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	_cleanup_(buf_done) struct buf name = BUF_INIT(0);
	int r = CLI_OK;

	if (is_unknown(a)) {
		out_put_clean(&name, str_from(a->argv[0]));
		return cmd_failed("queue \"%.*s\" does not exist",
				  STR_ARG(buf_str(&name)));
	}
	if (a->opt[OPT_YES] == NULL && !cmd_may_ask())
		return cmd_usage("this deletes the waiting jobs of the queue; "
				 "add --yes to do it");
	if (a->opt[OPT_YES] == NULL) {
		out_put_clean(&name, str_from(a->argv[0]));
		r = cmd_ask("Delete the waiting jobs of queue \"%.*s\"?",
			    STR_ARG(buf_str(&name)));
	}
	if (r == CLI_OK)
		r = cmd_call_on(a, "POST", "queues", "/clear", STR_NULL,
				&reply);
	return show_count(a, r, &reply, "cleared");
}

int cmd_destroy(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);

	if (a->opt[OPT_CONFIRM] == NULL)
		return cmd_usage("this deletes the queue with all its jobs; "
				 "add --confirm to do it");
	return show_count(a,
			  cmd_call_on(a, "DELETE", "queues", "?confirm=true",
				      STR_NULL, &reply),
			  &reply, "destroyed");
}

/* --- status --- */

/* What is wrong with the node, worst first, in one word. */
static const char *health(struct json node)
{
	if (answer_is(node, "disk_ok", "false"))
		return "disk full";
	if (!answer_is(node, "membership", ""))
		return "in no cluster";
	if (answer_is(node, "leader_id", ""))
		return "no leader";
	if (answer_is(node, "ready", "false"))
		return "catching up";
	return "healthy";
}

/* Of a node whose store is not what the others have. */
static void print_differing(struct json node)
{
	_cleanup_(buf_done) struct buf id = BUF_INIT(0);
	uint64_t index = answer_number(node, "differs");

	if (index == 0)
		return;
	out_text(&id, node, "id");
	out_linef("Node %.*s: its store is not what the others have at "
		  "entry %llu",
		  STR_ARG(buf_str(&id)), (unsigned long long)index);
}

static void print_all_differing(struct json status)
{
	struct arena a = ARENA_INIT;
	struct json nodes, one;
	struct json_iter it;

	if (json_member(status, "nodes", &a, &nodes) &&
	    json_type_of(nodes) == JSON_ARRAY) {
		it = json_iter(nodes);
		while (json_next_item(&it, &one))
			print_differing(one);
	}
	arena_done(&a);
}

static void print_node(struct json node)
{
	_cleanup_(buf_done) struct buf mode = BUF_INIT(0);
	_cleanup_(buf_done) struct buf id = BUF_INIT(0);
	_cleanup_(buf_done) struct buf state = BUF_INIT(0);
	_cleanup_(buf_done) struct buf skipped = BUF_INIT(0);
	_cleanup_(buf_done) struct buf unled = BUF_INIT(0);
	_cleanup_(buf_done) struct buf line = BUF_INIT(0);

	out_text(&mode, node, "mode");
	out_text(&id, node, "node_id");
	out_text(&state, node, "state");
	buf_printf(&line, "Mode: %.*s  Status: %s  Node: %.*s",
		   STR_ARG(buf_str(&mode)), health(node),
		   STR_ARG(buf_str(&id)));
	if (answer_is(node, "membership", "")) /* else raft has nothing to do */
		buf_printf(&line, " (%.*s)", STR_ARG(buf_str(&state)));
	out_line(buf_str(&line));
	if (answer_is_unled(node, &unled))
		out_linef("Note: %.*s", STR_ARG(buf_str(&unled)));
	out_text(&skipped, node, "entries_skipped");
	if (skipped.n > 0)
		out_linef("Entries of the log that this node leaves out: %.*s; "
			  "every node must leave out the same",
			  STR_ARG(buf_str(&skipped)));
	print_all_differing(node);
}

int cmd_status(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf node = BUF_INIT(0);
	_cleanup_(buf_done) struct buf queues = BUF_INIT(0);
	_cleanup_(buf_done) struct buf both = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&both);
	int r = cmd_call(a, "GET", "/api/v1/cluster/status", STR_NULL, &node);

	if (r != CLI_OK)
		return r;
	/* without its lists a node still has a state worth knowing */
	r = call_queues(a, &queues);
	if (a->json) {
		jw_object(&w);
		jw_key(&w, "cluster");
		jw_raw(&w, buf_str(&node));
		if (r == CLI_OK) {
			jw_key(&w, "queues");
			jw_raw(&w, buf_str(&queues));
		}
		jw_object_end(&w);
		out_json(buf_str(&both));
		return r;
	}
	print_node(json_root(buf_str(&node)));
	if (r == CLI_OK)
		print_list(json_root(buf_str(&queues)), queue_columns,
			   ARRAY_SIZE(queue_columns), "No queues");
	return r;
}
