/*
 * Batches: open, seal, get.
 */
#include "cmd.h"

static int put_batch(struct buf *body, const struct cmd_args *a)
{
	struct json_writer w = JSON_WRITER(body);

	jw_object(&w);
	cmd_put_text(&w, a, OPT_CALLBACK_QUEUE, "callback_queue");
	cmd_put_text(&w, a, OPT_PARENT_ID, "parent_id");
	if (!cmd_put_json(&w, a, OPT_CALLBACK_PAYLOAD, "callback_payload"))
		return CLI_USAGE;
	jw_object_end(&w);
	return CLI_OK;
}

int cmd_batch_open(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = put_batch(&body, a);

	if (r == CLI_OK)
		r = cmd_call(a, "POST", "/api/v1/batches", buf_str(&body),
			     &reply);
	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), "Batch opened", "batch_id");
	return r;
}

int cmd_batch_seal(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, "POST", "batches", "/seal", STR_NULL, &reply);

	if (r == CLI_OK)
		cmd_print(a, buf_str(&reply), "Batch sealed, status", "status");
	return r;
}

int cmd_batch_get(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_on(a, "GET", "batches", "", STR_NULL, &reply);

	if (r == CLI_OK)
		out_json(buf_str(&reply));
	return r;
}
