/*
 * The nodes of the cluster: who they are, and who leads.
 */
#include "answer.h"
#include "cmd.h"

/* "120 MiB of 2 GiB, 64 MiB/s", of one that it fetches. */
static void put_snapshot(struct buf *b, struct json object, const char *member)
{
	struct arena a = ARENA_INIT;
	uint64_t done = 0, total = 0, rate = 0;
	struct json v, m;

	if (json_member(object, member, &a, &v) &&
	    json_type_of(v) == JSON_OBJECT) {
		if (json_member(v, "bytes_done", &a, &m))
			(void)json_u64(m, &done);
		if (json_member(v, "bytes_total", &a, &m))
			(void)json_u64(m, &total);
		if (json_member(v, "bytes_per_second", &a, &m))
			(void)json_u64(m, &rate);
		out_put_bytes(b, done);
		buf_puts(b, " of ");
		out_put_bytes(b, total);
		buf_puts(b, ", ");
		out_put_bytes(b, rate);
		buf_puts(b, "/s");
	}
	arena_done(&a);
}

static const struct out_column node_columns[] = {
	{ "NODE", "id", false, NULL },
	{ "ROLE", "role", false, NULL },
	{ "VOTER", "voter", false, NULL },
	{ "ALIVE", "alive", false, NULL },
	{ "LAG", "lag_entries", true, NULL },
	{ "LAG MS", "lag_ms", true, NULL },
	{ "CONTACT MS", "last_contact_ms", true, NULL },
	{ "CLOCK MS", "clock_offset_ms", true, NULL },
	{ "DISK FREE", "disk_free_bytes", true, out_bytes },
	{ "SNAPSHOT", "snapshot", false, put_snapshot },
	{ "DIFFERS", "differs", true, NULL },
	{ "VERSION", "version", false, NULL },
	{ "LEVEL", "feature_level", true, NULL },
	{ "ADDRESS", "address", false, NULL },
};

static void print_nodes(const struct cmd_args *a, struct str reply)
{
	struct arena arena = ARENA_INIT;
	struct json nodes;

	if (a->json)
		out_json(reply);
	else if (answer_list(reply, "nodes", &arena, &nodes))
		out_table(nodes, node_columns, ARRAY_SIZE(node_columns));
	arena_done(&arena);
}

/* Without a leader the node is asked alone, which knows them too. */
int cmd_cluster_status(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf own = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	int r = cmd_call(a, "GET", "/api/v1/cluster/status", STR_NULL, &own);

	if (r != CLI_OK)
		return r;
	if (answer_is_unled(json_root(buf_str(&own)), &why)) {
		print_nodes(a, buf_str(&own));
		return cmd_failed("%.*s", STR_ARG(buf_str(&why)));
	}
	r = cmd_call(a, "GET", "/api/v1/cluster/nodes", STR_NULL, &reply);
	if (r == CLI_OK)
		print_nodes(a, buf_str(&reply));
	return r;
}

/* node: NULL is whichever the leader chooses. */
static int ask(const struct cmd_args *a, const char *path, const char *node,
	       const char *done)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);
	int r;

	jw_object(&w);
	if (node != NULL) {
		jw_key(&w, "node_id");
		jw_cstr(&w, node);
	}
	jw_object_end(&w);
	r = cmd_call(a, "POST", path, buf_str(&body), &reply);
	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), done, "status");
	return r;
}

int cmd_cluster_join(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);
	int r;

	jw_object(&w);
	jw_key(&w, "addr");
	jw_cstr(&w, a->argv[0]);
	jw_object_end(&w);
	r = cmd_call(a, "POST", "/api/v1/cluster/join", buf_str(&body), &reply);
	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), "Member", "node_id");
	return r;
}

int cmd_cluster_leave(const struct cmd_args *a)
{
	return ask(a, "/api/v1/cluster/leave", a->argc > 0 ? a->argv[0] : NULL,
		   "Node");
}

int cmd_cluster_remove(const struct cmd_args *a)
{
	return ask(a, "/api/v1/cluster/remove", a->argv[0], "Node");
}

int cmd_cluster_transfer(const struct cmd_args *a)
{
	return ask(a, "/api/v1/cluster/transfer",
		   a->argc > 0 ? a->argv[0] : NULL, "Leadership");
}
