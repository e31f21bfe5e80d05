/*
 * What the handlers of Scheduled-DB do beyond the tables.
 */
#include "api/route_shape_impl.h"

#define CURSOR_ARGUMENT                                                     \
	{                                                                   \
		"cursor", "text", TEXT_SCHEMA, "`next` of the page before." \
	}

static const struct special specials[] = {
	{ .id = "sdb_create",
	  .request = &msg_sdb_new,
	  .errors = { ERR_INSUFFICIENT_STORAGE, ERR_PAYLOAD_TOO_LARGE,
		      ERR_SCHEDULE_ERROR, ERR_QUEUE_FULL },
	  .request_note = "`type` is required; of a unico `timestamp`, of a "
			  "recurrente `cron_expression`.",
	  .reply_note = "507 has `type` (memory or job_count), `current`, "
			"`limit` and `requested` beside `error` and `code`." },
	{ .id = "sdb_list",
	  .reply = &msg_sdb_list,
	  .needs = "status",
	  .arguments =
	      MEMBERS({ "status", "text", TEXT_SCHEMA,
			"pending, in_progress, completed, failed, cancelled or "
			"timeout." },
		      CURSOR_ARGUMENT),
	  .errors = { ERR_VALIDATION_ERROR } },
	{ .id = "sdb_get", .reply = &msg_sdb_job, .errors = { ERR_NOT_FOUND } },
	{ .id = "sdb_delete", .errors = { ERR_NOT_FOUND } },
	{ .id = "sdb_status",
	  .reply = &msg_sdb_state,
	  .errors = { ERR_NOT_FOUND } },
	{ .id = "sdb_executions",
	  .reply = &msg_sdb_executions,
	  .arguments = MEMBERS(CURSOR_ARGUMENT),
	  .errors = { ERR_NOT_FOUND, ERR_VIEW_UNAVAILABLE } },
	{ .id = "sdb_cancel",
	  .errors = { ERR_NOT_FOUND },
	  .request_note = "A body that is no JSON counts as none." },
	{ .id = "sdb_health", .reply = &msg_sdb_health },
	{ .id = "sdb_cluster", .reply = &msg_sdb_cluster },
	{ .id = "sdb_join",
	  .request = &msg_sdb_join,
	  .reply = &msg_sdb_joined,
	  .errors = { ERR_UNAUTHORIZED, ERR_NOT_LEADER, ERR_INTERNAL_ERROR },
	  .request_note = "With `Authorization: Bearer TOKEN` where "
			  "`scheddb_auth_token_file` is set." },
};

const struct special *find_special_sdb(const char *id)
{
	for (size_t i = 0; i < ARRAY_SIZE(specials); i++)
		if (strcmp(specials[i].id, id) == 0)
			return &specials[i];
	return NULL;
}
