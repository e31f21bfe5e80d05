/*
 * One job: enqueue, inspect, retry, delete.
 */
#include <stdio.h>

#include "api.h"
#include "cmd.h"
#include "proto/limits.h"
#include "rt/file.h"
#include "util/clock.h"
#include "util/timefmt.h"

/* --- enqueue --- */

/* The server says what each takes; it knows more than this program. */
static void put_texts(struct json_writer *w, const struct cmd_args *a)
{
	static const struct {
		enum cmd_opt opt;
		const char *member;
	} texts[] = {
		{ OPT_PRIORITY, "priority" },
		{ OPT_SCHEDULED_AT, "scheduled_at" },
		{ OPT_RETRY_BACKOFF, "retry_backoff" },
		{ OPT_RETRY_BASE_DELAY, "retry_base_delay" },
		{ OPT_RETRY_MAX_DELAY, "retry_max_delay" },
		{ OPT_EXPIRE_AFTER, "expire_after" },
		{ OPT_PARENT_ID, "parent_id" },
		{ OPT_ON_DEP_FAILURE, "on_dependency_failure" },
		{ OPT_BATCH_ID, "batch_id" },
		{ OPT_TIMEOUT, "timeout" },
		{ OPT_UNIQUE_KEY, "unique_key" },
		{ OPT_UNIQUE_PERIOD, "unique_period" },
		{ OPT_UNIQUE_ACTION, "unique_action" },
		{ OPT_GROUP, "group" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		cmd_put_text(w, a, texts[i].opt, texts[i].member);
}

static int put_chain(struct json_writer *w, const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf chain = BUF_INIT(0);
	const char *path = a->opt[OPT_CHAIN_FILE];
	int r;

	if (path == NULL)
		return CLI_OK;
	r = file_read(path, LIMIT_BODY_BYTES, &chain);
	if (r < 0)
		return cmd_failed("cannot read %s: %s", path, strerror(-r));
	if (!cmd_is_json(path, buf_str(&chain)))
		return CLI_USAGE;
	jw_key(w, "chain");
	jw_raw(w, str_trim(buf_str(&chain)));
	return CLI_OK;
}

static int put_delay(struct json_writer *w, const struct cmd_args *a)
{
	uint64_t now = clock_wall_ns(), delay;

	if (a->opt[OPT_DELAY] == NULL)
		return CLI_OK;
	if (a->opt[OPT_SCHEDULED_AT] != NULL)
		return cmd_usage("give either --delay or --scheduled-at");
	if (!duration_parse(str_from(a->opt[OPT_DELAY]), &delay) ||
	    delay > UINT64_MAX - now)
		return cmd_usage("--delay takes a duration such as 500ms, 90s "
				 "or 1h30m");
	jw_key(w, "scheduled_at");
	jw_time(w, now + delay);
	return CLI_OK;
}

/* Any of them makes it an agent's job. False: said on stderr. */
static bool put_agent(struct json_writer *w, const struct cmd_args *a)
{
	bool good;

	if (a->opt[OPT_AGENT_ITERATIONS] == NULL &&
	    a->opt[OPT_AGENT_COST] == NULL && a->opt[OPT_AGENT_TIMEOUT] == NULL)
		return true;
	jw_key(w, "agent");
	jw_object(w);
	good = cmd_put_number(w, a, OPT_AGENT_ITERATIONS, "max_iterations") ==
		   CLI_OK &&
	       cmd_put_json(w, a, OPT_AGENT_COST, "max_cost_usd");
	cmd_put_text(w, a, OPT_AGENT_TIMEOUT, "iteration_timeout");
	jw_object_end(w);
	return good;
}

static int put_job(struct buf *body, const struct cmd_args *a,
		   struct str payload)
{
	struct json_writer w = JSON_WRITER(body);
	int r;

	if (!cmd_is_json("the payload", payload))
		return CLI_USAGE;
	jw_object(&w);
	jw_key(&w, "queue");
	jw_cstr(&w, a->argv[0]);
	jw_key(&w, "payload");
	jw_raw(&w, str_trim(payload));
	put_texts(&w, a);
	cmd_put_list(&w, a, OPT_DEPENDS_ON, "depends_on");
	r = cmd_put_number(&w, a, OPT_MAX_RETRIES, "max_retries");
	if (r == CLI_OK)
		r = put_delay(&w, a);
	if (r != CLI_OK)
		return r;
	if (!cmd_put_json(&w, a, OPT_TAGS, "tags") ||
	    !cmd_put_json(&w, a, OPT_RETRY_JITTER, "retry_jitter") ||
	    !cmd_put_json(&w, a, OPT_CHECKPOINT, "checkpoint") ||
	    !put_agent(&w, a))
		return CLI_USAGE;
	r = put_chain(&w, a);
	if (r != CLI_OK)
		return r;
	jw_object_end(&w);
	return CLI_OK;
}

int cmd_enqueue(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf payload = BUF_INIT(LIMIT_BODY_BYTES);
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = CLI_OK;

	if (strcmp(a->argv[1], "-") == 0)
		r = cmd_read_stdin(&payload);
	else
		buf_puts(&payload, a->argv[1]);
	if (r == CLI_OK)
		r = put_job(&body, a, buf_str(&payload));
	if (r == CLI_OK)
		r = cmd_call(a, "POST", "/api/v1/enqueue", buf_str(&body),
			     &reply);
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		out_new_job("Job enqueued", json_root(buf_str(&reply)));
	return CLI_OK;
}

/* --- one job by its id --- */

int cmd_call_job(const struct cmd_args *a, const char *method,
		 const char *action, struct str body, struct buf *reply)
{
	return cmd_call_on(a, method, "jobs", action, body, reply);
}

/* Shows the reply as JSON, or `text` when that was not asked for. */
static int act(const struct cmd_args *a, const char *method, const char *action,
	       const char *text)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call_job(a, method, action, STR_NULL, &reply);

	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		(void)puts(text);
	return CLI_OK;
}

int cmd_inspect(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	_cleanup_(buf_done) struct buf query = BUF_INIT(0);
	int r;

	if (a->opt[OPT_WAIT] != NULL) {
		buf_puts(&query, "?wait=");
		api_put_segment(&query, a->opt[OPT_WAIT]);
	}
	buf_putc(&query, '\0');
	r = cmd_call_job(a, "GET", query.p, STR_NULL, &reply);
	if (r == CLI_OK)
		out_json(buf_str(&reply));
	return r;
}

int cmd_retry(const struct cmd_args *a)
{
	return act(a, "POST", "/retry", "Job retried");
}

int cmd_delete(const struct cmd_args *a)
{
	return act(a, "DELETE", "", "Job deleted");
}
