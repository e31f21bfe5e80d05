/*
 * Scores: how good the results of jobs are.
 */
#include "answer.h"
#include "api.h"
#include "cmd.h"
#include "proto/proto.h"

int cmd_score(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(LIMIT_BODY_BYTES);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);
	int r;

	if (!cmd_is_json("VALUE", str_from(a->argv[2])))
		return CLI_USAGE;
	jw_object(&w);
	jw_key(&w, "name");
	jw_cstr(&w, a->argv[1]);
	jw_key(&w, "value");
	jw_raw(&w, str_from(a->argv[2]));
	cmd_put_text(&w, a, OPT_SCORE_BY, "by");
	cmd_put_text(&w, a, OPT_SCORE_COMMENT, "comment");
	r = cmd_put_number(&w, a, OPT_SCORE_ITERATION, "iteration");
	jw_object_end(&w);
	if (r == CLI_OK)
		r = cmd_call_job(a, "POST", "/scores", buf_str(&body), &reply);
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		out_linef("Score %s of %s: %s", a->argv[1], a->argv[0],
			  a->argv[2]);
	return CLI_OK;
}

static const struct out_column score_columns[] = {
	{ "NAME", "name", false, NULL },
	{ "VALUE", "value", true, NULL },
	{ "ITERATION", "iteration", true, NULL },
	{ "BY", "by", false, NULL },
	{ "AT", "created_at", false, NULL },
	{ "COMMENT", "comment", false, NULL },
};

static const struct out_column sum_columns[] = {
	{ "NAME", "name", false, NULL },
	{ "GROUP", "by", false, cmd_put_key },
	{ "SCORES", "count", true, NULL },
	{ "MEAN", "mean", true, NULL },
	{ "MIN", "min", true, NULL },
	{ "MAX", "max", true, NULL },
};

int cmd_scores(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct arena arena = ARENA_INIT;
	bool of_job = a->argc > 0;
	struct json list;
	int r;

	buf_puts(&path, "/api/v1/scores");
	cmd_put_sums(&path, a);
	if (of_job)
		r = cmd_call_job(a, "GET", "/scores", STR_NULL, &reply);
	else
		r = cmd_call(a, "GET", path.p, STR_NULL, &reply);
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else if (answer_list(buf_str(&reply), "scores", &arena, &list))
		out_table(list, of_job ? score_columns : sum_columns,
			  of_job ? ARRAY_SIZE(score_columns)
				 : ARRAY_SIZE(sum_columns));
	arena_done(&arena);
	return CLI_OK;
}
