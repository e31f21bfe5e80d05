/*
 * `push` of a queue's settings, as clients give and see it. What it says about
 * a URL is hostile; what it says about secrets is not shown again.
 */
#include "proto/push.h"
#include "routes/queue_parts.h"

bool push_url_part(struct req *r, const char *member, struct str *url,
		   struct str *ret_credentials)
{
	struct push_url parts;
	const char *why;

	if (!push_url_parse(*url, &parts, &why)) {
		req_fail(r, ERR_VALIDATION_ERROR, "%s: %s", member, why);
		return false;
	}
	*ret_credentials = parts.credentials;
	*url = push_url_bare(*url, &parts, &r->arena);
	return true;
}

static bool part_url(struct req *r, struct m_push *p)
{
	struct str credentials;

	if (!push_url_part(r, "push.url", &p->url, &credentials))
		return false;
	if (credentials.p != NULL)
		MSG_SET(p, push, credentials, credentials);
	return true;
}

bool push_read(struct req *r, struct json v, struct m_set_queue *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct msg_reader rd = req_reader(r, &why);
	struct m_push *p = arena_zalloc(&r->arena, sizeof(*p));
	struct str *nulls;
	struct json push;
	size_t n;
	int err;

	if (!json_member(v, "push", &r->arena, &push) ||
	    json_type_of(push) == JSON_NULL)
		return true;
	if (json_type_of(push) != JSON_OBJECT) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "push: must be an object or null, not %s",
			 json_type_name(json_type_of(push)));
		return false;
	}
	rd.under = STR("push.");
	err = msg_from_json(&rd, &msg_push, push, p);
	if (err < 0) {
		req_fail(r, -err, "push.%.*s", STR_ARG(buf_str(&why)));
		return false;
	}
	n = queue_read_nulls(r, &msg_push, push, &nulls);
	if (n > 0)
		MSG_SET_LIST(p, push, remove, nulls, n);
	if (MSG_HAS(p, push, url) && !part_url(r, p))
		return false;
	MSG_SET(m, set_queue, push, p);
	return true;
}

void push_headers_write(struct str headers, struct json_writer *w)
{
	struct arena a = ARENA_INIT;
	struct json_iter it = json_iter(json_root(headers));
	struct json v;
	struct str name;

	jw_object(w);
	while (json_next_member(&it, &a, &name, &v)) {
		jw_key_str(w, name);
		if (push_header_is_secret(name))
			jw_cstr(w, "***");
		else
			jw_raw(w, v.raw);
	}
	jw_object_end(w);
	arena_done(&a);
}

void push_write(const struct m_push *p, const struct json_style *style,
		struct json_writer *w)
{
	struct m_push shown = *p;

	MSG_UNSET(&shown, push, headers);
	MSG_UNSET(&shown, push, secret);
	MSG_UNSET(&shown, push, previous_secret);
	jw_key(w, "push");
	jw_object(w);
	msg_members_to_json(&msg_push, &shown, style, w);
	if (MSG_HAS(p, push, headers)) {
		jw_key(w, "headers");
		push_headers_write(p->headers, w);
	}
	if (MSG_HAS(p, push, credentials)) {
		jw_key(w, "credentials");
		jw_bool(w, true);
	}
	jw_key(w, "secrets");
	jw_u64(w, (uint64_t)(MSG_HAS(p, push, secret) +
			     MSG_HAS(p, push, previous_secret)));
	jw_object_end(w);
}
