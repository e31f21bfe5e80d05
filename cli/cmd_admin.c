/*
 * Work on the view: compare it with the store, make it anew. And a digest of
 * the store.
 */
#include <stdio.h>

#include "answer.h"
#include "cmd.h"

static const struct out_column difference_columns[] = {
	{ "TABLE", "table", false, NULL },   { "KEY", "key", false, NULL },
	{ "COLUMN", "column", false, NULL }, { "VIEW", "view", false, NULL },
	{ "STORE", "store", false, NULL },
};

static void print_comparison(struct str reply)
{
	struct json root = json_root(reply), first;
	struct arena a = ARENA_INIT;

	if (answer_list(reply, "first", &a, &first) && json_count(first) > 0)
		out_table(first, difference_columns,
			  ARRAY_SIZE(difference_columns));
	arena_done(&a);
	(void)printf("%llu rows compared, %llu differences\n",
		     (unsigned long long)answer_number(root, "rows"),
		     (unsigned long long)answer_number(root, "differences"));
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
		print_comparison(buf_str(&reply));
	return answer_number(root, "differences") > 0 ? CLI_FAILED : CLI_OK;
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

int cmd_admin_digest(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf digest = BUF_INIT(0);
	const char *at = a->opt[OPT_AT_INDEX];
	struct json root;
	uint64_t index;
	int r;

	buf_puts(&path, "/api/v1/admin/digest");
	if (at != NULL) {
		if (!str_parse_u64(str_from(at), &index) || index == 0)
			return cmd_usage("--at-index takes a whole number from "
					 "1 on, not \"%s\"",
					 at);
		buf_printf(&path, "?at_index=%llu", (unsigned long long)index);
	}
	buf_putc(&path, '\0');
	r = cmd_call_long(a, "GET", path.p, &reply);
	if (r != CLI_OK)
		return r;
	root = json_root(buf_str(&reply));
	if (a->json) {
		out_json(buf_str(&reply));
		return CLI_OK;
	}
	out_text(&digest, root, "digest");
	out_linef("%.*s index=%llu seq=%llu keys=%llu bytes=%llu",
		  STR_ARG(buf_str(&digest)),
		  (unsigned long long)answer_number(root, "index"),
		  (unsigned long long)answer_number(root, "seq"),
		  (unsigned long long)answer_number(root, "keys"),
		  (unsigned long long)answer_number(root, "bytes"));
	return CLI_OK;
}
