/*
 * Work on the view: compare it with the store, make it anew.
 */
#include <stdio.h>

#include "cmd.h"

static const struct out_column difference_columns[] = {
	{ "TABLE", "table", false, NULL },   { "KEY", "key", false, NULL },
	{ "COLUMN", "column", false, NULL }, { "VIEW", "view", false, NULL },
	{ "STORE", "store", false, NULL },
};

static uint64_t number(struct json root, const char *name)
{
	struct arena a = ARENA_INIT;
	struct json v;
	uint64_t n = 0;

	if (json_type_of(root) == JSON_OBJECT &&
	    json_member(root, name, &a, &v))
		(void)json_u64(v, &n);
	arena_done(&a);
	return n;
}

static void print_comparison(struct json root)
{
	struct arena a = ARENA_INIT;
	struct json first;

	if (json_type_of(root) == JSON_OBJECT &&
	    json_member(root, "first", &a, &first) &&
	    json_type_of(first) == JSON_ARRAY && json_count(first) > 0)
		out_table(first, difference_columns,
			  ARRAY_SIZE(difference_columns));
	arena_done(&a);
	(void)printf("%llu rows compared, %llu differences\n",
		     (unsigned long long)number(root, "rows"),
		     (unsigned long long)number(root, "differences"));
}

int cmd_admin_verify_view(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_long(a, "POST", "/api/v1/admin/verify-view", &reply);
	struct json root;

	if (r != CLI_OK)
		return r;
	root = json_root(buf_str(&reply));
	if (a->json)
		out_json(buf_str(&reply));
	else
		print_comparison(root);
	return number(root, "differences") > 0 ? CLI_FAILED : CLI_OK;
}

int cmd_admin_rebuild_view(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r =
	    cmd_call_long(a, "POST", "/api/v1/admin/rebuild-sqlite", &reply);

	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), "View rebuilt, jobs", "jobs");
	return r;
}
