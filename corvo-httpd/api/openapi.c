/*
 * Walks routes and messages. No input from outside; the cost is that of a
 * page, so callers that serve it keep the result.
 */
#include "api/openapi.h"

#include <stdio.h>

#include "api/route_shape.h"
#include "util/json.h"

#define REF_MAX 128

/* Where a message is used decides how its durations look. */
enum role { ROLE_REQUEST = 1, ROLE_REPLY = 2 };

static void put(struct json_writer *w, const char *key, const char *text)
{
	jw_key(w, key);
	jw_cstr(w, text);
}

static void put_type(struct json_writer *w, const char *type)
{
	put(w, "type", type);
}

static void put_ref(struct json_writer *w, const char *schema)
{
	char ref[REF_MAX];

	snprintf(ref, sizeof(ref), "#/components/schemas/%s", schema);
	put(w, "$ref", ref);
}

static void put_limit(struct json_writer *w, const char *key, uint64_t max)
{
	if (max == 0)
		return;
	jw_key(w, key);
	jw_u64(w, max);
}

/* --- members --- */

static void put_number(struct json_writer *w, const char *type, uint64_t max)
{
	put_type(w, type);
	jw_key(w, "minimum");
	jw_u64(w, 0);
	put_limit(w, "maximum", max);
}

/* A text or a number of seconds. */
static void put_duration(struct json_writer *w)
{
	jw_key(w, "oneOf");
	jw_array(w);
	jw_object(w);
	put_type(w, "string");
	put(w, "example", "1h30m");
	jw_object_end(w);
	jw_object(w);
	put_number(w, "number", 0);
	jw_object_end(w);
	jw_array_end(w);
}

static void put_enum(struct json_writer *w, const struct enum_desc *e)
{
	put_type(w, "string");
	jw_key(w, "enum");
	jw_array(w);
	for (size_t i = 0; i < e->n; i++)
		jw_cstr(w, e->values[i].text);
	jw_array_end(w);
}

static void put_list(struct json_writer *w, const struct field_desc *f)
{
	put_type(w, "array");
	jw_key(w, "items");
	jw_object(w);
	if (f->kind == K_msgs) {
		put_ref(w, f->sub->name);
	} else {
		put_type(w, "string");
		put_limit(w, "maxLength", f->max);
	}
	jw_object_end(w);
	put_limit(w, "maxItems",
		  f->kind == K_msgs ? f->max
		  : f->max != 0     ? field_texts_max(f)
				    : 0);
}

static void put_nested(struct json_writer *w, const struct field_desc *f)
{
	/* A reference may have no description beside it. */
	jw_key(w, "allOf");
	jw_array(w);
	jw_object(w);
	put_ref(w, f->sub->name);
	jw_object_end(w);
	jw_array_end(w);
}

static void put_kind(struct json_writer *w, const struct field_desc *f,
		     unsigned roles)
{
	switch ((enum field_kind)f->kind) {
	case K_bool:
		put_type(w, "boolean");
		break;
	case K_u32:
	case K_u64:
		put_number(w, "integer", f->max);
		break;
	case K_i64:
		put_type(w, "integer");
		break;
	case K_f64:
	case K_nano:
		put_number(w, "number", f->max);
		break;
	case K_str:
		put_type(w, "string");
		put_limit(w, "maxLength", f->max);
		break;
	case K_raw: /* any JSON has no type */
		if ((f->flags & F_OBJECT) != 0)
			put_type(w, "object");
		break;
	case K_time:
		put_type(w, "string");
		put(w, "format", "date-time");
		break;
	case K_dur:
	case K_secs:
		if ((roles & ROLE_REQUEST) != 0 || f->max != 0)
			put_duration(w);
		else if (f->kind == K_dur)
			put_type(w, "string");
		else
			put_number(w, "number", 0);
		break;
	case K_enum:
		put_enum(w, f->values);
		break;
	case K_strs:
	case K_msgs:
		put_list(w, f);
		break;
	case K_msg:
		put_nested(w, f);
		break;
	}
}

static void put_millis(struct json_writer *w, const struct field_desc *f)
{
	char key[REF_MAX];

	snprintf(key, sizeof(key), "%s_ms", f->name);
	jw_key(w, key);
	jw_object(w);
	put_number(w, "integer", 0);
	snprintf(key, sizeof(key), "%s in milliseconds.", f->name);
	put(w, "description", key);
	jw_object_end(w);
}

static bool is_shown(const struct field_desc *f, unsigned roles)
{
	if ((roles & ROLE_REPLY) == 0)
		return field_is_in_body(f);
	return (f->flags & F_INTERNAL) == 0;
}

static void put_member(struct json_writer *w, const struct field_desc *f,
		       unsigned roles)
{
	jw_key(w, f->name);
	jw_object(w);
	put_kind(w, f, roles);
	put(w, "description", f->doc);
	if ((roles & ROLE_REQUEST) != 0 &&
	    (!is_shown(f, ROLE_REQUEST) || (f->flags & F_ANSWER) != 0)) {
		jw_key(w, "readOnly");
		jw_bool(w, true);
	}
	jw_object_end(w);
	if (f->kind == K_dur ||
	    (f->kind == K_secs && (roles & ROLE_REQUEST) != 0))
		put_millis(w, f);
}

static void put_shape_members(struct json_writer *w,
			      const struct shape_member *m)
{
	for (; m != NULL && m->name != NULL; m++) {
		jw_key(w, m->name);
		jw_raw(w, str_from(m->schema));
	}
}

/* --- messages --- */

/* Of one that is asked and answered, what is asked for. */
static void put_required(struct json_writer *w, const struct msg_desc *d,
			 unsigned roles)
{
	bool is_request = (roles & ROLE_REQUEST) != 0;
	unsigned flag = is_request ? F_REQUIRED : F_NEVER_NULL;
	unsigned shown = is_request ? ROLE_REQUEST : ROLE_REPLY;
	bool open = false;

	for (size_t i = 0; i < d->n; i++) {
		if (!is_shown(&d->fields[i], shown) ||
		    (d->fields[i].flags & flag) == 0)
			continue;
		if (!open) {
			jw_key(w, "required");
			jw_array(w);
			open = true;
		}
		jw_cstr(w, d->fields[i].name);
	}
	if (open)
		jw_array_end(w);
}

static void put_message(struct json_writer *w, const struct msg_desc *d,
			unsigned roles)
{
	jw_key(w, d->name);
	jw_object(w);
	put_type(w, "object");
	put(w, "description", d->doc);
	put_required(w, d, roles);
	jw_key(w, "properties");
	jw_object(w);
	for (size_t i = 0; i < d->n; i++)
		if (is_shown(&d->fields[i], roles))
			put_member(w, &d->fields[i], roles);
	put_shape_members(w, message_extra(d));
	jw_object_end(w);
	jw_object_end(w);
}

#define MESSAGES_MAX 512

static size_t message_index(const struct msg_desc *d)
{
	size_t i = 0;

	while (msg_at(i) != d)
		REQUIRE(msg_at(i++) != NULL);
	REQUIRE(i < MESSAGES_MAX);
	return i;
}

/* Marks a message and all it holds; along descriptors, so not deep. */
static void mark(const struct msg_desc *d, enum role role, uint8_t *roles)
{
	size_t i = message_index(d);

	if ((roles[i] & role) != 0)
		return;
	roles[i] |= role;
	for (size_t f = 0; f < d->n; f++)
		if (d->fields[f].sub != NULL && is_shown(&d->fields[f], role))
			mark(d->fields[f].sub, role, roles);
	for (size_t k = 0; message_extra_sub(d, k) != NULL; k++)
		mark(message_extra_sub(d, k), role, roles);
}

static void put_schemas(struct json_writer *w)
{
	uint8_t roles[MESSAGES_MAX] = { 0 };
	const struct msg_desc *d;
	struct route_shape s;

	REQUIRE(msg_at(MESSAGES_MAX) == NULL);
	for (size_t i = 0; i < route_count(); i++) {
		route_shape_get(route_at(i), &s);
		if (s.request != NULL)
			mark(s.request, ROLE_REQUEST, roles);
		if (s.reply != NULL)
			mark(s.reply, ROLE_REPLY, roles);
		if (s.also_reply != NULL)
			mark(s.also_reply, ROLE_REPLY, roles);
	}
	jw_key(w, "schemas");
	jw_object(w);
	jw_key(w, "error");
	jw_raw(w, STR("{\"type\":\"object\",\"required\":[\"error\",\"code\"],"
		      "\"properties\":{\"error\":{\"type\":\"string\","
		      "\"description\":\"What is wrong, for people.\"},"
		      "\"code\":{\"type\":\"string\",\"description\":\"What "
		      "is wrong, for programs.\"},\"retry_after_ms\":{\"type\""
		      ":\"integer\",\"minimum\":0,\"description\":\"When to "
		      "try again.\"}}}"));
	for (size_t i = 0; (d = msg_at(i)) != NULL; i++)
		if (roles[i] != 0)
			put_message(w, d, roles[i]);
	jw_object_end(w);
}

/* --- routes --- */

static const struct field_desc *find_member(const struct msg_desc *d,
					    struct str name)
{
	for (size_t i = 0; i < d->n; i++)
		if (str_is(name, d->fields[i].name))
			return &d->fields[i];
	return NULL;
}

static bool needs(const struct route_shape *s, const struct shape_member *m)
{
	return s->needs != NULL && strcmp(s->needs, m->name) == 0;
}

static void open_parameter(struct json_writer *w, const char *name,
			   const char *in, bool required, const char *doc)
{
	jw_object(w);
	put(w, "name", name);
	put(w, "in", in);
	jw_key(w, "required");
	jw_bool(w, required);
	put(w, "description", doc);
	jw_key(w, "schema");
}

static void put_parameters(struct json_writer *w, const struct route *r,
			   const struct route_shape *s)
{
	const struct call_info *call = op_info(r->target);
	const struct shape_member *a = s->arguments;
	struct route_match m;

	route_find(r->method, str_from(r->path), &m);
	if (m.n == 0 && a == NULL)
		return;
	if (call == NULL)
		call = query_info(r->target);
	jw_key(w, "parameters");
	jw_array(w);
	for (size_t i = 0; i < m.n; i++) {
		const struct field_desc *f =
		    call != NULL ? find_member(call->request, m.name[i]) : NULL;

		REQUIRE(f != NULL);
		open_parameter(w, f->name, "path", true, f->doc);
		jw_object(w);
		put_kind(w, f, ROLE_REQUEST);
		jw_object_end(w);
		jw_object_end(w);
	}
	for (; a != NULL && a->name != NULL; a++) {
		open_parameter(w, a->name, "query", needs(s, a), a->doc);
		jw_raw(w, str_from(a->schema));
		jw_object_end(w);
	}
	jw_array_end(w);
}

static void open_content(struct json_writer *w, const char *type)
{
	jw_key(w, "content");
	jw_object(w);
	jw_key(w, type);
	jw_object(w);
	jw_key(w, "schema");
	jw_object(w);
}

static void close_content(struct json_writer *w)
{
	jw_object_end(w);
	jw_object_end(w);
	jw_object_end(w);
}

static void put_taken(struct json_writer *w, const struct route_shape *s)
{
	put_type(w, "object");
	jw_key(w, "properties");
	jw_object(w);
	put_shape_members(w, s->takes);
	jw_object_end(w);
	jw_key(w, "required");
	jw_array(w);
	jw_cstr(w, s->needs);
	jw_array_end(w);
}

static void put_request(struct json_writer *w, const struct route_shape *s)
{
	bool required = s->takes != NULL;

	if (s->request == NULL && s->takes == NULL && !s->takes_anything)
		return;
	for (size_t i = 0; s->request != NULL && i < s->request->n; i++)
		if (field_is_in_body(&s->request->fields[i]))
			required |= s->request->fields[i].flags & F_REQUIRED;
	jw_key(w, "requestBody");
	jw_object(w);
	jw_key(w, "required");
	jw_bool(w, required);
	if (s->request_note != NULL)
		put(w, "description", s->request_note);
	open_content(w, s->takes_anything ? "*/*" : "application/json");
	if (s->request != NULL)
		put_ref(w, s->request->name);
	else if (s->takes != NULL)
		put_taken(w, s);
	close_content(w);
	jw_object_end(w);
}

/* The message's members and those of the handler in one object. */
static void put_reply_members(struct json_writer *w,
			      const struct route_shape *s)
{
	put_type(w, "object");
	jw_key(w, "properties");
	jw_object(w);
	for (size_t i = 0; s->reply != NULL && i < s->reply->n; i++)
		if (route_shape_has(s, &s->reply->fields[i]))
			put_member(w, &s->reply->fields[i], ROLE_REPLY);
	put_shape_members(w, s->members);
	jw_object_end(w);
}

static void put_reply_schema(struct json_writer *w, const struct route_shape *s)
{
	if (s->form == REPLY_LIST) {
		put_type(w, "array");
		jw_key(w, "items");
		jw_object(w);
		put_ref(w, s->reply->name);
		jw_object_end(w);
	} else if (s->reply != NULL && s->members == NULL) {
		put_ref(w, s->reply->name);
	} else {
		put_reply_members(w, s);
	}
}

static void put_status(struct json_writer *w, int status)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", status);
	jw_key_str(w, str_from(text));
}

static void put_other_success(struct json_writer *w,
			      const struct route_shape *s)
{
	put_status(w, s->also);
	jw_object(w);
	put(w, "description",
	    s->also_reply != NULL ? s->also_reply->doc : s->reply_note);
	open_content(w, "application/json");
	if (s->also_reply != NULL)
		put_ref(w, s->also_reply->name);
	else
		put_reply_schema(w, s);
	close_content(w);
	jw_object_end(w);
}

static void put_success(struct json_writer *w, const struct route *r,
			const struct route_shape *s)
{
	put_status(w, r->status);
	jw_object(w);
	put(w, "description",
	    s->reply_note != NULL ? s->reply_note
	    : s->reply != NULL    ? s->reply->doc
				  : r->doc);
	if (s->form == REPLY_TEXT || s->form == REPLY_STREAM) {
		open_content(w, s->form == REPLY_TEXT ? "text/plain"
						      : "text/event-stream");
		put_type(w, "string");
	} else {
		open_content(w, "application/json");
		put_reply_schema(w, s);
	}
	close_content(w);
	jw_object_end(w);
	if (s->also != 0)
		put_other_success(w, s);
	if (s->may_be_empty) {
		put_status(w, 204);
		jw_object(w);
		put(w, "description", "There is nothing.");
		jw_object_end(w);
	}
}

/* Codes that share a status share a response. */
static void put_errors(struct json_writer *w, const struct route_shape *s)
{
	for (size_t i = 0; i < s->errors_n; i++) {
		_cleanup_(buf_done) struct buf codes = BUF_INIT(0);
		int status = err_status(s->errors[i]);
		size_t before = 0;

		while (before < i && err_status(s->errors[before]) != status)
			before++;
		if (before < i)
			continue;
		for (size_t j = i; j < s->errors_n; j++)
			if (err_status(s->errors[j]) == status)
				buf_printf(&codes, "%s%s",
					   codes.n > 0 ? ", " : "",
					   err_code(s->errors[j]));
		put_status(w, status);
		jw_object(w);
		jw_key(w, "description");
		jw_str(w, buf_str(&codes));
		open_content(w, "application/json");
		put_ref(w, "error");
		close_content(w);
		jw_object_end(w);
	}
}

static void put_route(struct json_writer *w, const struct route *r)
{
	static const char *const methods[HTTP_METHOD_MAX] = {
		[HTTP_GET] = "get",       [HTTP_POST] = "post",
		[HTTP_PUT] = "put",       [HTTP_PATCH] = "patch",
		[HTTP_DELETE] = "delete",
	};
	struct route_shape s;

	route_shape_get(r, &s);
	jw_key(w, methods[r->method]);
	jw_object(w);
	put(w, "operationId", s.id);
	put(w, "summary", r->doc);
	put_parameters(w, r, &s);
	put_request(w, &s);
	jw_key(w, "responses");
	jw_object(w);
	put_success(w, r, &s);
	put_errors(w, &s);
	jw_object_end(w);
	jw_object_end(w);
}

/* The rows of one path stand in one object, at the place of the first. */
static void put_paths(struct json_writer *w)
{
	jw_key(w, "paths");
	jw_object(w);
	for (size_t i = 0; i < route_count(); i++) {
		const char *path = route_at(i)->path;
		size_t first = 0;

		while (strcmp(route_at(first)->path, path) != 0)
			first++;
		if (first < i)
			continue;
		jw_key(w, path);
		jw_object(w);
		for (size_t j = i; j < route_count(); j++)
			if (strcmp(route_at(j)->path, path) == 0)
				put_route(w, route_at(j));
		jw_object_end(w);
	}
	jw_object_end(w);
}

void openapi_write(struct buf *out)
{
	struct json_writer w = JSON_WRITER(out);

	jw_object(&w);
	put(&w, "openapi", "3.0.3");
	jw_key(&w, "info");
	jw_object(&w);
	put(&w, "title", "Corvo");
	put(&w, "version", corvo_version);
	put(&w, "description", "A durable job server.");
	jw_object_end(&w);
	put_paths(&w);
	jw_key(&w, "components");
	jw_object(&w);
	put_schemas(&w);
	jw_object_end(&w);
	jw_object_end(&w);
}
