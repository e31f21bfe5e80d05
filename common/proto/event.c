/*
 * See proto/event.h.
 */
#include "proto/event.h"

#include "proto/msg_json.h"

void event_to_json(const struct m_event *e, struct json_writer *w)
{
	struct json_style style = { 0 };

	jw_object(w);
	msg_members_to_json(&msg_event, e, &style, w);
	jw_key(w, "at_ns");
	jw_u64(w, e->at);
	jw_object_end(w);
}
