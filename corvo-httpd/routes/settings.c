/*
 * The settings that all nodes of a cluster share. Bodies come from clients.
 */
#include "routes/settings.h"
#include "proto/msg_json.h"
#include "req/req.h"
#include "routes/handlers.h"

static void on_settings(struct req *r, const struct rpc_reply *reply)
{
	const void *m = req_reply(r, &msg_cluster_settings, reply);

	if (m != NULL)
		req_answer_message(r, &msg_cluster_settings, m,
				   r->match.route->status);
}

bool settings_refuse_null(struct req *r, const struct msg_desc *d,
			  struct json body)
{
	struct json_iter it = json_iter(body);
	struct json value;
	struct str name;

	while (json_next_member(&it, &r->arena, &name, &value)) {
		if (json_type_of(value) != JSON_NULL ||
		    !msg_has_member(d, name))
			continue;
		req_fail(r, ERR_VALIDATION_ERROR,
			 "%.*s: must have a value; leave it out to keep the "
			 "one it has",
			 STR_ARG(name));
		return false;
	}
	return true;
}

void h_set_settings(struct req *r)
{
	struct m_cluster_settings *m = arena_zalloc(&r->arena, sizeof(*m));
	struct json body;

	if (req_read(r, &msg_cluster_settings, m) &&
	    req_read_json(r, true, &body) &&
	    settings_refuse_null(r, &msg_cluster_settings, body))
		req_call_raftd(r, OP_SET_SETTINGS, STR_NULL,
			       &msg_cluster_settings, m, on_settings);
}
