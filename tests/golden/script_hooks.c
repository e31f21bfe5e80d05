/*
 * Inbound webhooks.
 */
#include "script.h"

void script_hooks(struct script *s)
{
	struct m_set_hook m = { 0 };
	struct m_hook_ref gone = { 0 };

	MSG_SET(&m, set_hook, name, STR("github"));
	MSG_SET(&m, set_hook, queue, STR(".body.kind"));
	MSG_SET(&m, set_hook, verify, HOOK_VERIFY_GITHUB);
	MSG_SET(&m, set_hook, secret, STR("new"));
	MSG_SET(&m, set_hook, previous_secret, STR("old"));
	MSG_SET(&m, set_hook, delivery_id, STR(".body.id"));
	MSG_SET(&m, set_hook, payload, STR("{\"all\":\".body\"}"));
	MSG_SET(&m, set_hook, unique_key, STR(".query.key"));
	MSG_SET(&m, set_hook, unique_period, 60 * SECOND);
	MSG_SET(&m, set_hook, as_numbers, DUR_UNIQUE_PERIOD);
	MSG_SET(&m, set_hook, tags, STR("{\"from\":\"github\"}"));
	MSG_SET(&m, set_hook, priority, PRIORITY_HIGH);
	MSG_SET(&m, set_hook, max_retries, 7);
	script_one(s, OP_SET_HOOK, &m, NULL);
	MSG_UNSET(&m, set_hook, secret);
	MSG_UNSET(&m, set_hook, previous_secret);
	script_one(s, OP_SET_HOOK, &m, NULL); /* the secrets stay */
	m = (struct m_set_hook){ 0 };
	MSG_SET(&m, set_hook, name, STR("tool"));
	MSG_SET(&m, set_hook, queue, STR("tools"));
	MSG_SET(&m, set_hook, verify, HOOK_VERIFY_TOKEN);
	MSG_SET(&m, set_hook, secret, STR("t"));
	MSG_SET(&m, set_hook, token_header, STR("X-Token"));
	script_one(s, OP_SET_HOOK, &m, NULL);
	MSG_SET(&m, set_hook, name, STR("gone"));
	script_one(s, OP_SET_HOOK, &m, NULL);
	MSG_SET(&gone, hook_ref, name, STR("gone"));
	script_one(s, OP_DELETE_HOOK, &gone, NULL);
}
