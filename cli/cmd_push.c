/*
 * Push queues: a call to see that its receiver works.
 */
#include "answer.h"
#include "api.h"
#include "cmd.h"

#define WAIT_DEFAULT "60s"

/* The member of an object, or an empty one. */
static struct json member_of(struct json v, const char *name, struct arena *a)
{
	struct json ret;

	if (json_type_of(v) == JSON_OBJECT && json_member(v, name, a, &ret) &&
	    json_type_of(ret) == JSON_OBJECT)
		return ret;
	return json_root(STR("{}"));
}

static int check_queue(const struct cmd_args *a, struct arena *mem)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json settings, push;
	int r = cmd_call_on(a, "GET", "queues", "", STR_NULL, &reply);

	if (r != CLI_OK)
		return r;
	settings = member_of(json_root(buf_str(&reply)), "settings", mem);
	if (json_member(settings, "push", mem, &push))
		return CLI_OK;
	return cmd_failed(
	    "queue \"%s\" is no push queue; set push with its url", a->argv[0]);
}

static int enqueue(const struct cmd_args *a, struct buf *ret)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&body);

	jw_object(&w);
	jw_key(&w, "queue");
	jw_cstr(&w, a->argv[0]);
	jw_key(&w, "payload");
	jw_raw(&w, a->argc > 1 ? str_from(a->argv[1]) : STR("{\"test\":true}"));
	jw_key(&w, "max_retries");
	jw_u64(&w, 1);
	jw_key(&w, "priority");
	jw_cstr(&w, "critical");
	jw_object_end(&w);
	return cmd_call(a, "POST", "/api/v1/enqueue", buf_str(&body), ret);
}

static int wait_for(const struct cmd_args *a, struct json enqueued,
		    struct buf *ret)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf id = BUF_INIT(0);
	const char *wait = a->opt[OPT_WAIT];

	out_text(&id, enqueued, "job_id");
	buf_putc(&id, '\0');
	buf_puts(&path, "/api/v1/jobs/");
	api_put_segment(&path, id.p);
	buf_puts(&path, "?wait=");
	api_put_segment(&path, wait != NULL ? wait : WAIT_DEFAULT);
	buf_putc(&path, '\0');
	return cmd_call(a, "GET", path.p, STR_NULL, ret);
}

static void show(struct json job, struct json response)
{
	static const char *const members[] = { "url",         "status",
					       "duration_ms", "error_class",
					       "error",       "body" };

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(0);
		size_t before;

		buf_printf(&b, "%s: ", members[i]);
		before = b.n;
		out_text(&b, response, members[i]);
		if (b.n > before)
			out_line(buf_str(&b));
	}
	if (answer_is(response, "url", "") &&
	    answer_is(job, "state", "pending"))
		out_line(STR("not called yet; corvo why tells more"));
}

int cmd_push_test(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf made = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct arena mem = ARENA_INIT;
	struct json job, response;
	bool ok = false;
	int r = check_queue(a, &mem);

	if (r == CLI_OK)
		r = enqueue(a, &made);
	if (r == CLI_OK)
		r = wait_for(a, json_root(buf_str(&made)), &reply);
	if (r == CLI_OK) {
		job = json_root(buf_str(&reply));
		response = member_of(job, "response", &mem);
		ok = answer_is(job, "state", "completed") ||
		     answer_number(response, "status") == 202;
		if (a->json)
			out_json(buf_str(&reply));
		else
			show(job, response);
	}
	arena_done(&mem);
	if (r == CLI_OK && !ok)
		r = cmd_failed("the receiver has not done its part");
	return r;
}
