/*
 * What corvo-httpd's handlers do beyond the tables. Constants and lookups.
 */
#include "api/route_shape.h"
#include "api/route_shape_impl.h"

#define LIST_OF_JOBS                                                           \
	.arguments = MEMBERS(                                                  \
	    { "queue", "text", TEXT_SCHEMA, "Only jobs of this queue." },      \
	    LIMIT_ARGUMENT("Jobs in the answer, at most 1000 (50)."),          \
	    { "cursor", "text", TEXT_SCHEMA, "`cursor` of the page before." }, \
	    { "order", "text", TEXT_SCHEMA, "asc or desc." }),                 \
	.errors = { ERR_VALIDATION_ERROR }, .members = MEMBERS(VIEW_LAG)

static const struct special specials[] = {
	{ .id = "enqueue",
	  .errors = { ERR_PAYLOAD_TOO_LARGE, ERR_NOT_FOUND, ERR_BATCH_ERROR },
	  .request_note = "A body with a `jobs` array is taken as "
			  "`/api/v1/enqueue/batch` takes it. `payload` is at "
			  "most as large as the setting `max_payload_size` "
			  "says (256KiB).",
	  .also = 200,
	  .reply_note = "200 for a duplicate, which has no `job`.",
	  .members = MEMBERS(ENQUEUED_MEMBERS) },
	{ .id = "queue_hook",
	  .takes_anything = true,
	  .arguments = MEMBERS(
	      { "priority", "text", TEXT_SCHEMA, "critical, high or normal." },
	      { "unique_key", "text", TEXT_SCHEMA, "As in enqueue." },
	      { "max_retries", "whole number", UINT_SCHEMA,
		"Total number of attempts." },
	      { "scheduled_at", "time", TEXT_SCHEMA, "Not before this time." },
	      { "tags", "text", TEXT_SCHEMA,
		"name:value, several with commas between them." }),
	  .request_note = "Anything. JSON is the payload as it is, other text "
			  "is a string of it, bytes that are no text are "
			  "`{\"base64\": ...}`, nothing is `{}`.",
	  .errors = { ERR_PAYLOAD_TOO_LARGE, ERR_BODY_TOO_LARGE },
	  .also = 200,
	  .reply_note = "As `/api/v1/enqueue`: 200 for a duplicate.",
	  .members = MEMBERS(ENQUEUED_MEMBERS) },
	{ .id = "take_hook",
	  .takes_anything = true,
	  .reply = &msg_hook_reply,
	  .request_note = "Anything, with any arguments: the webhook says what "
			  "becomes of it.",
	  .errors = { ERR_SIGNATURE_ERROR, ERR_NOT_FOUND, ERR_PAYLOAD_TOO_LARGE,
		      ERR_BODY_TOO_LARGE, ERR_OVERLOADED, ERR_STORAGE_FULL },
	  .also = 200,
	  .reply_note = "200 for a duplicate, and for Slack's challenge." },
	{ .id = "get_hook", .errors = { ERR_NOT_FOUND } },
	{ .id = "webhooks", .reply = &msg_webhook, .form = REPLY_LIST },
	{ .id = "set_webhook",
	  .members = MEMBERS(STATUS_MEMBER("Always ok.")),
	  .errors = { ERR_WEBHOOK_ERROR } },
	{ .id = "change_webhook",
	  .members = MEMBERS(STATUS_MEMBER("Always ok.")),
	  .errors = { ERR_WEBHOOK_ERROR, ERR_NOT_FOUND } },
	{ .id = "get_webhook", .errors = { ERR_NOT_FOUND } },
	{ .id = "delete_webhook", .errors = { ERR_NOT_FOUND } },
	{ .id = "test_webhook", .errors = { ERR_NOT_FOUND, ERR_CONFLICT } },
	{ .id = "deliveries",
	  .arguments = MEMBERS(
	      { "state", "text", TEXT_SCHEMA,
		"Only tries of this state: delivered, retrying or failed." },
	      { "before", "whole number", UINT_SCHEMA, "Only before this n." },
	      LIMIT_ARGUMENT("At most so many, up to 500 (default 100).")),
	  .errors = { ERR_NOT_FOUND } },
	{ .id = "replay_webhook", .errors = { ERR_NOT_FOUND, ERR_CONFLICT } },
	{ .id = "replay_delivery", .errors = { ERR_NOT_FOUND, ERR_CONFLICT } },
	{ .id = "delete_hook", .errors = { ERR_NOT_FOUND } },
	{ .id = "enqueue_batch",
	  .errors = { ERR_PAYLOAD_TOO_LARGE, ERR_NOT_FOUND, ERR_BATCH_ERROR },
	  .members = MEMBERS({ "jobs", "list of objects",
			       "{\"type\":\"array\",\"items\":{\"type\":"
			       "\"object\",\"properties\":{\"id\":" TEXT_SCHEMA
			       ",\"queue\":" TEXT_SCHEMA
			       ",\"state\":" TEXT_SCHEMA "}}}",
			       "`id`, `queue` and `state` of each job." }) },
	{ .id = "fetch",
	  .reply = &msg_fetched,
	  .may_be_empty = true,
	  .errors = { ERR_BUDGET_EXCEEDED } },
	{ .id = "ack",
	  .errors = { ERR_ACK_ERROR, ERR_LEASE_LOST, ERR_BUDGET_EXCEEDED } },
	{ .id = "ack_batch", .errors = { ERR_ACK_ERROR } },
	{ .id = "open_batch", .errors = { ERR_NOT_FOUND, ERR_BATCH_ERROR } },
	{ .id = "fail", .errors = { ERR_FAIL_ERROR, ERR_LEASE_LOST } },
	{ .id = "heartbeat",
	  .request_note = "`jobs` may also be an object from job id to the "
			  "other members.",
	  .members =
	      MEMBERS({ "jobs", "object",
			"{\"type\":\"object\",\"additionalProperties\":" REF(
			    "beat_reply") "}",
			"From job id to the members of `beat_reply`." },
		      { "acked", "list of texts", TEXTS_SCHEMA,
			"Ids whose lease was extended." },
		      { "unknown", "list of texts", TEXTS_SCHEMA,
			"Ids that do not exist." },
		      { "canceled", "list of texts", TEXTS_SCHEMA,
			"Ids the worker should stop working on." }) },
	{ .id = "set_schedule",
	  .errors = { ERR_SCHEDULE_ERROR, ERR_CONFLICT, ERR_PAYLOAD_TOO_LARGE },
	  .request_note = "`name`, `queue` and `cron` are required. The "
			  "members of `job` may stand beside the others." },
	{ .id = "put_schedule",
	  .errors = { ERR_SCHEDULE_ERROR, ERR_CONFLICT, ERR_PAYLOAD_TOO_LARGE },
	  .request_note = "The new definition: `queue` and `cron` are "
			  "required, `name` and `paused` stay when absent." },
	{ .id = "resume_schedule", .errors = { ERR_CONFLICT } },
	{ .id = "schedules",
	  .arguments = MEMBERS(
	      LIMIT_ARGUMENT("Schedules in the answer, at most 1000."),
	      { "after", "text", TEXT_SCHEMA, "`next` of the page before." }),
	  .errors = { ERR_VALIDATION_ERROR } },
	{ .id = "next_times",
	  .arguments = MEMBERS({ "count", "whole number", UINT_SCHEMA,
				 "Times in the answer, at most 100 (5)." }),
	  .reply = &msg_times },
	{ .id = "preview",
	  .request = &msg_preview,
	  .reply = &msg_times,
	  .errors = { ERR_SCHEDULE_ERROR } },
	{ .id = "search", .members = MEMBERS(VIEW_LAG) },
	{ .id = "bulk_get", .errors = { ERR_OVERLOADED } },
	{ .id = "get_job",
	  .arguments = MEMBERS(WAIT_ARGUMENT(
	      "Wait so long, at most 60s, for the job to end. The header "
	      "Prefer: wait=30 says the same.")),
	  .errors = { ERR_OVERLOADED } },
	{ .id = "job_logs",
	  .arguments =
	      MEMBERS({ "after", "whole number", UINT_SCHEMA,
			"`next` of the page before (0)." },
		      LIMIT_ARGUMENT("Lines in the answer, at most 1000.")) },
	{ .id = "dead", LIST_OF_JOBS },
	{ .id = "held", LIST_OF_JOBS },
	{ .id = "fulltext",
	  .needs = "q",
	  .arguments =
	      MEMBERS({ "q", "text", TEXT_SCHEMA, "The words." },
		      LIMIT_ARGUMENT("Jobs in the answer, at most 500 (50).")),
	  .errors = { ERR_VALIDATION_ERROR },
	  .members = MEMBERS(VIEW_LAG) },
	{ .id = "iterations",
	  .arguments =
	      MEMBERS({ "after", "whole number", UINT_SCHEMA,
			"`next` of the page before (0)." },
		      LIMIT_ARGUMENT("Iterations in the answer, at most 1000 "
				     "(100); fewer when they are large.")) },
	{ .id = "replay", .errors = { ERR_REPLAY_ERROR } },
	{ .id = "bulk",
	  .request = &msg_bulk_request,
	  .also = 202,
	  .also_reply = &msg_bulk_accepted,
	  .errors = { ERR_BULK_ERROR, ERR_VIEW_UNAVAILABLE },
	  .request_note = "`job_ids` or `filter` is required; `filter` counts "
			  "only without ids. `rate` and `canary` imply "
			  "`async`.",
	  .reply_note = "With `async`, or over 10,000 jobs: 202 and the "
			"members of `bulk_accepted` instead." },
	{ .id = "bulk_progress",
	  .form = REPLY_STREAM,
	  .may_be_empty = true,
	  .reply_note =
	      "Server-sent events: what it is like now "
	      "(`bulk.async.started`, or how it ended), then "
	      "`bulk.async.progress`, `paused` and `resumed`, at last "
	      "`completed`, `failed` or `cancelled`. `data` has `type`, "
	      "`task_id`, `status`, `action`, `total`, `processed`, "
	      "`affected`, `skipped`, `percent`, `created_at_ns` and perhaps "
	      "`error`. With the header `Last-Event-ID` the first frame tells "
	      "what was missed; 204 when that was nothing and it has ended." },
	{ .id = "bulk_cancel", .errors = { ERR_BULK_ERROR } },
	{ .id = "bulk_pause", .errors = { ERR_BULK_ERROR } },
	{ .id = "bulk_resume", .errors = { ERR_BULK_ERROR } },
	{ .id = "verify_view", .errors = { ERR_CONFLICT } },
	{ .id = "digest",
	  .arguments = MEMBERS({ "at_index", "whole number", UINT_SCHEMA,
				 "Wait until this entry is applied, for as "
				 "long as an operation may take "
				 "(`op_timeout`)." }),
	  .errors = { ERR_CONFLICT, ERR_VALIDATION_ERROR } },
	{ .id = "retry", .errors = { ERR_RETRY_ERROR } },
	{ .id = "cancel", .errors = { ERR_CANCEL_ERROR } },
	{ .id = "queues",
	  .arguments =
	      MEMBERS(LIMIT_ARGUMENT("Queues in the answer, at most 10000."),
		      { "after", "text", TEXT_SCHEMA,
			"Those whose names come after this one; the header "
			"X-Corvo-Next of a page says how to go on." }),
	  .errors = { ERR_VALIDATION_ERROR },
	  .reply = &msg_queue,
	  .form = REPLY_LIST },
	{ .id = "drain",
	  .arguments = MEMBERS(WAIT_ARGUMENT(
	      "Wait so long, at most 60s, until no job is active.")),
	  .reply = &msg_drain_reply },
	{ .id = "clear_queue",
	  .members = MEMBERS(STATUS_MEMBER("Always cleared.")) },
	{ .id = "delete_queue",
	  .needs = "confirm",
	  .arguments =
	      MEMBERS({ "confirm", "text", TEXT_SCHEMA, "Must be true." }),
	  .members = MEMBERS(STATUS_MEMBER("Always deleted.")) },
	{ .id = "set_concurrency",
	  .request = &msg_set_concurrency,
	  .reply = &msg_status_reply },
	{ .id = "set_throttle",
	  .request = &msg_set_throttle,
	  .reply = &msg_status_reply },
	{ .id = "unset_throttle", .reply = &msg_status_reply },
	{ .id = "workers", .reply = &msg_worker, .form = REPLY_LIST },
	{ .id = "cluster_status",
	  .members = MEMBERS(
	      { "applied_index", "text", TEXT_SCHEMA,
		"Last raft entry applied, as a text." },
	      { "commit_index", "text", TEXT_SCHEMA,
		"Last raft entry committed, as a text." },
	      { "mode", "text", TEXT_SCHEMA, "Always cluster." },
	      { "status", "text", TEXT_SCHEMA, "healthy, or no leader." },
	      { "nodes", "list of objects",
		"{\"type\":\"array\",\"items\":{\"type\":\"object\"}}",
		"`id`, `address`, `voter`, `role` and `self` of each "
		"node." }) },
	{ .id = "cluster_events",
	  .arguments = MEMBERS(
	      { "after_seq", "whole number", UINT_SCHEMA,
		"Events after this one (0: from the oldest kept)." },
	      LIMIT_ARGUMENT("Events, before the filters, at most 1000 (100)."),
	      EVENT_FILTERS),
	  .errors = { ERR_VALIDATION_ERROR } },
	{ .id = "events",
	  .arguments = MEMBERS({ "last_event_id", "text", TEXT_SCHEMA,
				 "Events after this one; the header "
				 "Last-Event-ID counts before it." },
			       EVENT_FILTERS),
	  .form = REPLY_STREAM,
	  .errors = { ERR_VALIDATION_ERROR, ERR_EVENTS_LOST },
	  .reply_note =
	      "Server-sent events: `id`, `event` (its type) and `data` (the "
	      "members of `event`, and `at_ns`), from now on or after the one "
	      "that the header `Last-Event-ID` or the argument "
	      "`last_event_id` names. An event must match each filter that is "
	      "given. One of type `error` with `error` and `code` says why "
	      "the stream ends." },
	{ .id = "info",
	  .members = MEMBERS(
	      { "server_version", "text", TEXT_SCHEMA,
		"Version of the program." },
	      { "api_version", "text", TEXT_SCHEMA, "Version of this API." }) },
	{ .id = "metrics",
	  .form = REPLY_TEXT,
	  .reply_note = "Prometheus text, version 0.0.4." },
	{ .id = "throughput",
	  .reply = &msg_throughput_minute,
	  .form = REPLY_LIST },
	{ .id = "budgets", .reply = &msg_budget, .form = REPLY_LIST },
	{ .id = "set_budget", .errors = { ERR_BUDGET_ERROR } },
	{ .id = "policies", .reply = &msg_policy, .form = REPLY_LIST },
	{ .id = "set_policy", .errors = { ERR_POLICY_ERROR } },
	{ .id = "try_policy",
	  .errors = { ERR_POLICY_ERROR },
	  .members = MEMBERS(VIEW_LAG) },
	{ .id = "get_policy", .errors = { ERR_NOT_FOUND } },
	{ .id = "delete_policy", .errors = { ERR_NOT_FOUND } },
	{ .id = "make_links", .errors = { ERR_APPROVE_ERROR } },
	{ .id = "show_link", .errors = { ERR_LINK_ERROR, ERR_LINK_OVER } },
	{ .id = "decide", .errors = { ERR_LINK_ERROR, ERR_LINK_OVER } },
	{ .id = "usage",
	  .arguments = MEMBERS(USAGE_ARGUMENTS, { "format", "text", TEXT_SCHEMA,
						  "json (default) or csv." }),
	  .members = MEMBERS(GROUPS_MEMBER(
	      "By group_by, in order of their keys: `by` and the sums; `other` "
	      "is what was folded together because there were too many "
	      "names.")),
	  .errors = { ERR_VALIDATION_ERROR } },
	{ .id = "scores",
	  .arguments = MEMBERS(USAGE_ARGUMENTS, { "name", "text", TEXT_SCHEMA,
						  "Only scores of this "
						  "name." }),
	  .reply = &msg_scores_reply,
	  .members = MEMBERS(
	      { "scores", "list of objects",
		"{\"type\":\"array\",\"items\":{\"type\":\"object\"}}",
		"By name and group_by: `name`, `by`, `count`, `mean`, and the "
		"lowest and highest that were recorded, `min` and `max`." }),
	  .errors = { ERR_VALIDATION_ERROR } },
	{ .id = "usage_summary",
	  .arguments = MEMBERS(
	      { "period", "duration", TEXT_SCHEMA,
		"How far back, to the hour (default 24h)." },
	      { "group_by", "text", TEXT_SCHEMA,
		"queue, model, provider, or another name /usage takes." }),
	  .members = MEMBERS(
	      { "period", "duration", TEXT_SCHEMA, "As asked for." },
	      GROUPS_MEMBER("By group_by, most expensive first: `key` and the "
			    "sums.")),
	  .errors = { ERR_VALIDATION_ERROR, ERR_USAGE_SUMMARY_ERROR } },
	{ .id = "scale",
	  .arguments =
	      MEMBERS({ "queue", "text", TEXT_SCHEMA, "Only this queue." }),
	  .errors = { ERR_NOT_FOUND, ERR_VALIDATION_ERROR } },
	{ .id = "runtime",
	  .members = MEMBERS(
	      { "goroutines", "whole number", UINT_SCHEMA, "Threads." },
	      { "gomaxprocs", "whole number", UINT_SCHEMA, "Processors." },
	      { "heap_inuse_bytes", "whole number", UINT_SCHEMA,
		"Memory in use that is not of files." },
	      { "stack_inuse_bytes", "whole number", UINT_SCHEMA,
		"Stacks of the main threads." },
	      { "gc_pause_p99_ns", "whole number", UINT_SCHEMA,
		"Always 0: there is no garbage collector." },
	      { "cpu_user_ns", "whole number", UINT_SCHEMA,
		"Processor time since the processes started." },
	      { "cpu_sys_ns", "whole number", UINT_SCHEMA,
		"The same, in the kernel." }) },
	{ .id = "healthz",
	  .members = MEMBERS({ "status", "text", TEXT_SCHEMA, "Always ok." },
			     { "raft_state", "text", TEXT_SCHEMA,
			       "As in cluster/status, when it is known." },
			     { "leader", "true or false", BOOL_SCHEMA,
			       "This node leads, when it is known." }) },
	{ .id = "readyz",
	  .errors = { ERR_LEADER_UNAVAILABLE, ERR_STORAGE_FULL,
		      ERR_SHUTTING_DOWN },
	  .members =
	      MEMBERS({ "status", "text", TEXT_SCHEMA, "Always ready." }) },
	{ .id = "openapi", .reply_note = "The OpenAPI document." },
};

/* --- messages --- */

/* Members JSON has beside those of a table; sub: what they refer to. */
static const struct extra {
	const struct msg_desc *d;
	const struct shape_member *members;
	const struct msg_desc *sub[2];
} extras[] = {
	{ &msg_job,
	  MEMBERS({ "worker", "object",
		    "{\"type\":\"object\",\"properties\":{\"id\":" TEXT_SCHEMA
		    ",\"hostname\":" TEXT_SCHEMA "}}",
		    "`worker_id` and `hostname` as `id` and `hostname`." }),
	  { NULL } },
	{ &msg_set_queue,
	  MEMBERS({ "groups", "object",
		    "{\"type\":\"object\",\"additionalProperties\":{"
		    "\"nullable\":true,\"allOf\":[" REF("group_limit") "]}}",
		    "Limits of single groups, by name: `weight`, "
		    "`max_concurrency`, `rate`, `period`, `paused`." },
		  { "push", "object",
		    "{\"nullable\":true,\"allOf\":[" REF("push") "]}",
		    "The server calls a URL for each job; in an answer without "
		    "secrets, whose number is `secrets`." }),
	  { &msg_group_limit, &msg_push } },
	{ &msg_event,
	  MEMBERS({ "at_ns", "whole number", UINT_SCHEMA,
		    "The same in nanoseconds since 1970." }),
	  { NULL } },
};

static const struct extra *find_extra(const struct msg_desc *d)
{
	for (size_t i = 0; i < ARRAY_SIZE(extras); i++)
		if (extras[i].d == d)
			return &extras[i];
	return NULL;
}

const struct shape_member *message_extra(const struct msg_desc *d)
{
	const struct extra *x = find_extra(d);

	return x != NULL ? x->members : NULL;
}

const struct msg_desc *message_extra_sub(const struct msg_desc *d, size_t i)
{
	const struct extra *x = find_extra(d);

	return x != NULL && i < ARRAY_SIZE(x->sub) ? x->sub[i] : NULL;
}

/* --- routes --- */

bool route_shape_has(const struct route_shape *s, const struct field_desc *f)
{
	if ((f->flags & F_INTERNAL) != 0)
		return false;
	for (const struct shape_member *m = s->members;
	     m != NULL && m->name != NULL; m++)
		if (strcmp(m->name, f->name) == 0)
			return false;
	return true;
}

bool field_is_in_body(const struct field_desc *f)
{
	return (f->flags & (F_INTERNAL | F_PATH)) == 0;
}

static bool has_body(const struct msg_desc *d)
{
	for (size_t i = 0; i < d->n; i++)
		if (field_is_in_body(&d->fields[i]))
			return true;
	return false;
}

static void add_error(struct route_shape *s, enum err e)
{
	for (size_t i = 0; i < s->errors_n; i++)
		if (s->errors[i] == e)
			return;
	REQUIRE(s->errors_n < SHAPE_ERRORS_MAX);
	s->errors[s->errors_n++] = e;
}

/* What follows from the kind of route. */
static void add_usual_errors(const struct route *r, struct route_shape *s)
{
	if (s->request != NULL || s->takes != NULL) {
		add_error(s, ERR_PARSE_ERROR);
		add_error(s, ERR_VALIDATION_ERROR);
		add_error(s, ERR_BODY_TOO_LARGE);
	}
	if (strchr(r->path, '{') != NULL)
		add_error(s, ERR_VALIDATION_ERROR);
	if (strstr(r->path, "{job_id}") != NULL ||
	    strstr(r->path, "{batch_id}") != NULL ||
	    strstr(r->path, "{bulk_id}") != NULL ||
	    strstr(r->path, "/schedules/{id}") != NULL)
		add_error(s, ERR_NOT_FOUND);
	if (op_info(r->target) != NULL) {
		add_error(s, ERR_OVERLOADED);
		add_error(s, ERR_LEADER_UNAVAILABLE);
		add_error(s, ERR_STORAGE_FULL);
	} else if (query_info(r->target) != NULL) {
		add_error(s, query_info(r->target)->process == PROC_VIEWD
				 ? ERR_VIEW_UNAVAILABLE
				 : ERR_LEADER_UNAVAILABLE);
	}
}

bool route_is_read(const struct route *r)
{
	static const unsigned reads[] = {
		QUERY_GET_JOB,
		QUERY_GET_JOBS,
		QUERY_JOB_LOGS,
		QUERY_WHY,
		QUERY_GET_QUEUE,
		QUERY_GET_BATCH,
		QUERY_GET_BULK,
		QUERY_LIST_BULKS,
		QUERY_LIST_SCHEDULES,
		QUERY_SCALE,
		QUERY_GET_SCHEDULE,
		QUERY_GET_SETTINGS,
		QUERY_LIST_QUEUES,
		QUERY_LIST_WORKERS,
		QUERY_SEARCH_JOBS,
		QUERY_FULLTEXT,
		QUERY_LIST_ITERATIONS,
		QUERY_USAGE,
		QUERY_LIST_PRICES,
		QUERY_LIST_BUDGETS,
		QUERY_GET_USAGE_SETTINGS,
		QUERY_JOB_SCORES,
		QUERY_LIST_POLICIES,
		QUERY_GET_POLICY,
		QUERY_SHOW_LINK,
		QUERY_TRY_POLICY,
		QUERY_GET_HOOK,
		QUERY_LIST_HOOKS,
		QUERY_LIST_WEBHOOKS,
		QUERY_GET_WEBHOOK,
		QUERY_LIST_DELIVERIES,
		QUERY_LIST_PROVIDERS,
	};

	for (size_t i = 0; i < ARRAY_SIZE(reads); i++)
		if (reads[i] == r->target)
			return strcmp(r->handler, "bulk_progress") != 0 &&
			       strcmp(r->handler, "take_hook") != 0;
	return false;
}

static void add_consistency(struct route_shape *s)
{
	static const struct shape_member m = {
		"consistency", "text",
		"{\"type\":\"string\",\"enum\":[\"local\",\"leader\"]}",
		"leader: with everything any node acknowledged before; the "
		"leader is asked first. local: with what this node has (the "
		"default)."
	};
	size_t n = 0;

	for (; s->arguments != NULL && s->arguments[n].name != NULL; n++) {
		REQUIRE(n + 1 < SHAPE_ARGUMENTS_MAX);
		s->own[n] = s->arguments[n];
	}
	s->own[n] = m;
	s->arguments = s->own;
	add_error(s, ERR_VALIDATION_ERROR);
	add_error(s, ERR_LEADER_UNAVAILABLE);
	add_error(s, ERR_STORAGE_FULL);
}

static void apply_special(const struct special *x, struct route_shape *s)
{
	if (x->reply != NULL)
		s->reply = x->reply;
	s->arguments = x->arguments;
	s->needs = x->needs;
	s->also = x->also;
	s->also_reply = x->also_reply;
	s->form = x->form;
	s->may_be_empty = x->may_be_empty;
	s->request_note = x->request_note;
	s->reply_note = x->reply_note;
	s->members = x->members;
	for (size_t i = 0; i < ARRAY_SIZE(x->errors); i++)
		if (x->errors[i] != 0)
			add_error(s, x->errors[i]);
}

static const struct special *find_special(const char *id)
{
	for (size_t i = 0; i < ARRAY_SIZE(specials); i++)
		if (strcmp(specials[i].id, id) == 0)
			return &specials[i];
	return find_special_sdb(id);
}

void route_shape_get(const struct route *r, struct route_shape *ret)
{
	const struct call_info *call = op_info(r->target);
	const struct special *special;
	bool is_generic =
	    strcmp(r->handler, "op") == 0 || strcmp(r->handler, "query") == 0;

	if (call == NULL)
		call = query_info(r->target);
	*ret = (struct route_shape){ .id = r->handler };
	if (is_generic) {
		REQUIRE(call != NULL);
		ret->id = call->name;
	}
	if (call != NULL && r->method != HTTP_GET && r->method != HTTP_DELETE &&
	    has_body(call->request))
		ret->request = call->request;
	/* Probes ask the node's status and say less. */
	if (call != NULL && strcmp(r->handler, "readyz") != 0)
		ret->reply = call->reply;
	special = find_special(ret->id);
	if (special != NULL && special->request != NULL)
		ret->request = special->request;
	if (special != NULL && special->takes != NULL) {
		ret->request = NULL;
		ret->takes = special->takes;
	}
	if (special != NULL && special->takes_anything) {
		ret->request = NULL;
		ret->takes_anything = true;
	}
	add_usual_errors(r, ret);
	if (special != NULL)
		apply_special(special, ret);
	if (route_is_read(r))
		add_consistency(ret);
}
