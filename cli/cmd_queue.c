/*
 * Queues, workers and the state of the server.
 */
#include <stdio.h>

#include "cmd.h"

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
	int r = call_list(a, "/api/v1/queues", &reply);

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

static int act(const struct cmd_args *a, const char *action, const char *done)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, "POST", "queues", action, STR_NULL, &reply);

	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		(void)printf("Queue %s %s\n", a->argv[0], done);
	return CLI_OK;
}

int cmd_pause(const struct cmd_args *a)
{
	return act(a, "/pause", "paused");
}

int cmd_resume(const struct cmd_args *a)
{
	return act(a, "/resume", "resumed");
}

/* --- status --- */

static bool member_is(struct json object, const char *name, const char *text)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	out_text(&b, object, name);
	return str_is(buf_str(&b), text);
}

/* What is wrong with the node, worst first, in one word. */
static const char *health(struct json node)
{
	_cleanup_(buf_done) struct buf leader = BUF_INIT(0);

	out_text(&leader, node, "leader_id");
	if (member_is(node, "disk_ok", "false"))
		return "disk full";
	if (leader.n == 0)
		return "no leader";
	if (member_is(node, "ready", "false"))
		return "catching up";
	return "healthy";
}

static void print_node(struct json node)
{
	_cleanup_(buf_done) struct buf mode = BUF_INIT(0);
	_cleanup_(buf_done) struct buf id = BUF_INIT(0);
	_cleanup_(buf_done) struct buf state = BUF_INIT(0);

	out_text(&mode, node, "mode");
	out_text(&id, node, "node_id");
	out_text(&state, node, "state");
	(void)printf("Mode: %.*s  Status: %s  Node: %.*s (%.*s)\n",
		     STR_ARG(buf_str(&mode)), health(node),
		     STR_ARG(buf_str(&id)), STR_ARG(buf_str(&state)));
}

int cmd_status(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf node = BUF_INIT(0);
	_cleanup_(buf_done) struct buf queues = BUF_INIT(0);
	_cleanup_(buf_done) struct buf both = BUF_INIT(0);
	int r = cmd_call(a, "GET", "/api/v1/cluster/status", STR_NULL, &node);

	if (r == CLI_OK)
		r = call_list(a, "/api/v1/queues", &queues);
	if (r != CLI_OK)
		return r;
	if (a->json) {
		buf_printf(&both, "{\"cluster\":%.*s,\"queues\":%.*s}",
			   STR_ARG(buf_str(&node)), STR_ARG(buf_str(&queues)));
		out_json(buf_str(&both));
		return CLI_OK;
	}
	print_node(json_root(buf_str(&node)));
	print_list(json_root(buf_str(&queues)), queue_columns,
		   ARRAY_SIZE(queue_columns), "No queues");
	return CLI_OK;
}
