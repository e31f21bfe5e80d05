/*
 * See req/event_filter.h.
 */
#include "req/event_filter.h"

static bool names_have(const struct event_names *l, struct str name)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->items[i], name))
			return true;
	return l->n == 0;
}

int event_filter_types(struct event_filter *f, const struct str *names,
		       size_t n, struct buf *why)
{
	uint32_t type;

	f->all_types = n == 0;
	for (size_t i = 0; i < n; i++) {
		if (!enum_parse(&enum_event_type, names[i], &type)) {
			buf_printf(why,
				   "types: there is no event type "
				   "\"%.*s\"; /openapi.json lists them",
				   STR_ARG(names[i]));
			return -ERR_VALIDATION_ERROR;
		}
		f->types[type] = true;
	}
	return 0;
}

bool event_filter_matches(const struct event_filter *f, const struct m_event *e)
{
	return (f->all_types ||
		(e->type < EVENT_TYPE_MAX && f->types[e->type])) &&
	       names_have(&f->queues, e->queue) &&
	       names_have(&f->job_ids, e->job_id);
}
