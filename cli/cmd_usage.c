/*
 * What jobs have used, how it is summed up, what models cost, and how those who
 * serve them do.
 */
#include "answer.h"
#include "api.h"
#include "cmd.h"
#include "proto/proto.h"

#define USAGE_PATH    "/api/v1/usage"
#define SETTINGS_PATH "/api/v1/usage/settings"

/* --- usage --- */

void cmd_put_key(struct buf *b, struct json object, const char *member)
{
	struct arena a = ARENA_INIT;
	struct json_iter it;
	struct json by, v;
	struct str name;
	bool first = true;

	(void)member;
	if (json_member(object, "by", &a, &by) &&
	    json_type_of(by) == JSON_OBJECT) {
		it = json_iter(by);
		while (json_next_member(&it, &a, &name, &v)) {
			if (!first)
				buf_puts(b, ", ");
			first = false;
			if (json_type_of(v) == JSON_STRING)
				buf_put_str(b, json_string(v, &a));
		}
	} else {
		out_text(b, object, "key");
	}
	arena_done(&a);
}

static const struct out_column group_columns[] = {
	{ "GROUP", "key", false, cmd_put_key },
	{ "REPORTS", "count", true, NULL },
	{ "INPUT", "input_tokens", true, NULL },
	{ "OUTPUT", "output_tokens", true, NULL },
	{ "CACHE WRITE", "cache_creation_tokens", true, NULL },
	{ "CACHE READ", "cache_read_tokens", true, NULL },
	{ "COST USD", "cost_usd", true, NULL },
	{ "UNPRICED", "unpriced", true, NULL },
	{ "UNITS", "units", false, NULL },
};

static void print_line(const char *title, struct json totals,
		       const char *member)
{
	_cleanup_(buf_done) struct buf value = BUF_INIT(0);

	out_text(&value, totals, member);
	if (value.n > 0)
		out_linef("%-20s %.*s", title, STR_ARG(buf_str(&value)));
}

static void print_usage(struct str reply)
{
	struct arena a = ARENA_INIT;
	struct json root = json_root(reply), totals, groups;

	print_line("From:", root, "from");
	print_line("To:", root, "to");
	if (json_member(root, "totals", &a, &totals)) {
		print_line("Reports:", totals, "count");
		print_line("Input tokens:", totals, "input_tokens");
		print_line("Output tokens:", totals, "output_tokens");
		print_line("Cache write tokens:", totals,
			   "cache_creation_tokens");
		print_line("Cache read tokens:", totals, "cache_read_tokens");
		print_line("Cost (usd):", totals, "cost_usd");
		print_line("of that computed:", totals, "computed_usd");
		print_line("Without a price:", totals, "unpriced");
		print_line("Units:", totals, "units");
	}
	if (json_member(root, "groups", &a, &groups)) {
		out_line(STR("Groups:"));
		out_table(groups, group_columns, ARRAY_SIZE(group_columns));
	}
	arena_done(&a);
}

/* ?name=value, or &name=value, when it was given. */
static void put_argument(struct buf *path, const struct cmd_args *a,
			 enum cmd_opt opt, const char *name)
{
	if (a->opt[opt] == NULL)
		return;
	buf_printf(path,
		   "%c%s=", memchr(path->p, '?', path->n) == NULL ? '?' : '&',
		   name);
	buf_put_percent(path, str_from(a->opt[opt]));
}

void cmd_put_sums(struct buf *path, const struct cmd_args *a)
{
	put_argument(path, a, OPT_USAGE_FROM, "from");
	put_argument(path, a, OPT_USAGE_TO, "to");
	put_argument(path, a, OPT_USAGE_DAYS, "days");
	put_argument(path, a, OPT_USAGE_QUEUE, "queue");
	put_argument(path, a, OPT_USAGE_MODEL, "model");
	put_argument(path, a, OPT_USAGE_PROVIDER, "provider");
	put_argument(path, a, OPT_USAGE_TAG, "tag");
	put_argument(path, a, OPT_GROUP_BY, "group_by");
	put_argument(path, a, OPT_SCORE_NAME, "name");
	buf_putc(path, '\0');
}

int cmd_usage_show(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	bool lately = a->opt[OPT_USAGE_PERIOD] != NULL;
	int r;

	buf_puts(&path, lately ? USAGE_PATH "/summary" : USAGE_PATH);
	put_argument(&path, a, OPT_USAGE_PERIOD, "period");
	cmd_put_sums(&path, a);
	r = cmd_call(a, "GET", path.p, STR_NULL, &reply);
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		print_usage(buf_str(&reply));
	return CLI_OK;
}

/* --- how it is summed up --- */

int cmd_usage_settings(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call(a, "GET", SETTINGS_PATH, STR_NULL, &reply);

	if (r == CLI_OK)
		out_json(buf_str(&reply));
	return r;
}

/* name=value words as an object. */
static int put_settings(struct buf *body, char **argv, int argc,
			const char *verb, const struct msg_desc *d)
{
	struct json_writer w = JSON_WRITER(body);
	int r = CLI_OK;

	jw_object(&w);
	for (int i = 0; i < argc && r == CLI_OK; i++)
		r = cmd_put_setting(&w, argv[i]);
	jw_object_end(&w);
	return r == CLI_OK
		   ? cmd_check_members(verb, json_root(buf_str(body)), d)
		   : r;
}

int cmd_usage_set(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(LIMIT_BODY_BYTES);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = put_settings(&body, a->argv, a->argc, "usage set",
			     &msg_usage_settings);

	if (r == CLI_OK)
		r = cmd_call(a, "PATCH", SETTINGS_PATH, buf_str(&body), &reply);
	if (r == CLI_OK)
		out_json(buf_str(&reply));
	return r;
}

/* --- the price list --- */

static const struct out_column price_columns[] = {
	{ "PROVIDER", "provider", false, NULL },
	{ "MODEL", "model", false, NULL },
	{ "INPUT", "input_per_million", true, NULL },
	{ "OUTPUT", "output_per_million", true, NULL },
	{ "CACHE WRITE", "cache_creation_per_million", true, NULL },
	{ "CACHE READ", "cache_read_per_million", true, NULL },
	{ "UNITS", "units", false, NULL },
};

static const struct out_column provider_columns[] = {
	{ "PROVIDER", "name", false, NULL },
	{ "STATE", "state", false, NULL },
	{ "SUCCEEDED", "succeeded", true, NULL },
	{ "FAILED", "failed", true, NULL },
	{ "LATENCY", "latency", true, NULL },
	{ "LONGEST", "latency_max", true, NULL },
	{ "LAST FAILURE", "last_failure_at", false, NULL },
	{ "LAST ERROR", "last_error", false, NULL },
};

/* A member of the answer, as a table. */
static int show_list(const struct cmd_args *a, const char *path,
		     const char *member, const struct out_column *columns,
		     size_t n)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct arena arena = ARENA_INIT;
	struct json list;
	int r = cmd_call(a, "GET", path, STR_NULL, &reply);

	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else if (answer_list(buf_str(&reply), member, &arena, &list))
		out_table(list, columns, n);
	arena_done(&arena);
	return CLI_OK;
}

int cmd_prices(const struct cmd_args *a)
{
	return show_list(a, "/api/v1/prices", "prices", price_columns,
			 ARRAY_SIZE(price_columns));
}

int cmd_providers(const struct cmd_args *a)
{
	return show_list(a, "/api/v1/providers", "providers", provider_columns,
			 ARRAY_SIZE(provider_columns));
}

static int call_price(const struct cmd_args *a, const char *method,
		      struct str body, struct buf *reply)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	if (a->argv[0][0] == '\0' || a->argv[1][0] == '\0')
		return cmd_usage("the provider or the model is empty");
	buf_puts(&path, "/api/v1/providers/");
	api_put_segment(&path, a->argv[0]);
	buf_puts(&path, "/models/");
	api_put_segment(&path, a->argv[1]);
	buf_putc(&path, '\0');
	return cmd_call(a, method, path.p, body, reply);
}

int cmd_prices_set(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(LIMIT_BODY_BYTES);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = put_settings(&body, a->argv + 2, a->argc - 2, "prices set",
			     &msg_price);

	if (r == CLI_OK)
		r = call_price(a, "PUT", buf_str(&body), &reply);
	if (r == CLI_OK)
		out_json(buf_str(&reply));
	return r;
}

int cmd_prices_delete(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = call_price(a, "DELETE", STR_NULL, &reply);

	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), "price", "status");
	return r;
}
