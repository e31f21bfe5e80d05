/*
 * Events as JSON. See req/event_json.h.
 */
#include "req/event_json.h"

#include "front/stream.h"
#include "req/req.h"

void event_frame(struct buf *out, const struct m_event *e)
{
	_cleanup_(buf_done) struct buf json = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&json);
	const char *type = enum_text(&enum_event_type, e->type);

	event_to_json(e, &w);
	stream_frame(out, e->seq, type != NULL ? type : "unknown",
		     buf_str(&json));
}
