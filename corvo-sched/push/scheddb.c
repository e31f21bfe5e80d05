/*
 * Jobs of Scheduled-DB: each has a URL of its own, or none.
 */
#include "push/push_impl.h"

bool pcall_take_url(struct pcall *c, struct outcome *o)
{
	const struct m_sdb *s = c->job.scheduled_db;
	struct push_url parts;
	const char *why = "is missing";

	*o = (struct outcome){ .kind = OUTCOME_FAILED, .final = true };
	MSG_UNSET(c->set, push, url);
	MSG_UNSET(c->set, push, credentials);
	c->set->url = STR_NULL;
	if (s != NULL && s->webhook_url.n == 0) {
		o->kind = OUTCOME_DONE;
		o->response = STR("{}");
		return false;
	}
	if (s == NULL || !push_url_parse(s->webhook_url, &parts, &why)) {
		o->error = arena_cstr(
		    &c->arena,
		    arena_printf(&c->arena, "unknown: webhook_url %s", why));
		return false;
	}
	MSG_SET(c->set, push, url, s->webhook_url);
	if (s->credentials.n > 0)
		MSG_SET(c->set, push, credentials, s->credentials);
	return true;
}
