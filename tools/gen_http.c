/* The page of the HTTP API: every route with what it takes and answers. */
#include "api/route_shape.h"
#include "gen.h"

static const char intro[] =
    "Requests and answers are JSON. An answer that is no success is an "
    "[error](errors.md). The same API as\nan OpenAPI document is served at "
    "`/openapi.json` and stands in [openapi.json](openapi.json).\n\n"
    "* **Bodies** are UTF-8, at most 16 MiB. An empty one counts as `{}` "
    "where no member is required. Unknown\n  members are ignored; one that is "
    "given twice is refused. `null` means absent.\n"
    "* **Durations** are texts (`\"90s\"`, `\"1h30m\"`, `\"500ms\"`) or "
    "numbers of seconds; a member `x` may also\n  be given as `x_ms`, a whole "
    "number of milliseconds. Answers carry the text and `x_ms`.\n"
    "* **Times** are RFC 3339: `\"2026-02-11T10:00:00Z\"`.\n"
    "* **Writes** answer a header `X-Corvo-Index`. A read with "
    "`X-Corvo-Min-Index` waits until it sees that write;\n  one with "
    "`?consistency=leader` sees all that any node acknowledged before.\n"
    "* A request with `X-Corvo-Compat: 0.3` is answered as version 0.3 did: "
    "`priority` is a number.\n\n";

/* "post-api-v1-ack-job_id": how Markdown makes anchors of headings. */
static void put_anchor(struct buf *b, const struct route *r)
{
	static const char *const methods[HTTP_METHOD_MAX] = {
		[HTTP_GET] = "get",       [HTTP_POST] = "post",
		[HTTP_PUT] = "put",       [HTTP_PATCH] = "patch",
		[HTTP_DELETE] = "delete",
	};

	buf_printf(b, "%s-", methods[r->method]);
	for (const char *p = r->path; *p != '\0'; p++)
		if (strchr("/{}.", *p) == NULL)
			buf_putc(b, *p);
}

static void put_contents(struct buf *b)
{
	buf_puts(b, "| Route | What |\n|---|---|\n");
	for (size_t i = 0; i < route_count(); i++) {
		const struct route *r = route_at(i);

		buf_printf(b, "| [`%s %s`](#", http_method_name(r->method),
			   r->path);
		put_anchor(b, r);
		buf_puts(b, ") | ");
		gen_cell(b, r->doc);
		buf_puts(b, " |\n");
	}
}

static void put_member(struct buf *b, const struct field_desc *f,
		       bool is_request)
{
	buf_printf(b, "| `%s` | ", f->name);
	gen_type(b, f, is_request);
	buf_puts(b, " | ");
	if (is_request && (f->flags & F_REQUIRED) != 0)
		buf_puts(b, "**Required.** ");
	gen_cell(b, f->doc);
	buf_puts(b, " |\n");
}

/* Goes on in the line of what was said before the title. */
static void put_table_head(struct buf *b, const char *title)
{
	buf_printf(b, "%s\n\n| Member | Type | What |\n|---|---|---|\n", title);
}

static void put_note(struct buf *b, const char *note)
{
	if (note != NULL)
		buf_printf(b, "\n%s\n", note);
}

static void put_path_members(struct buf *b, const struct route *r)
{
	const struct call_info *call = op_info(r->target);

	if (call == NULL)
		call = query_info(r->target);
	if (call == NULL || strchr(r->path, '{') == NULL)
		return;
	put_table_head(b, "\nIn the path:");
	for (size_t i = 0; i < call->request->n; i++)
		if ((call->request->fields[i].flags & F_PATH) != 0)
			put_member(b, &call->request->fields[i], true);
}

/* needed: the name of one, or NULL */
static void put_shape_members(struct buf *b, const struct shape_member *m,
			      const char *needed)
{
	for (; m != NULL && m->name != NULL; m++) {
		bool is_needed = needed != NULL && strcmp(needed, m->name) == 0;

		buf_printf(b, "| `%s` | %s | %s%s |\n", m->name, m->type,
			   is_needed ? "**Required.** " : "", m->doc);
	}
}

static void put_arguments(struct buf *b, const struct route_shape *s)
{
	if (s->arguments == NULL)
		return;
	put_table_head(b, "\nIn the query string:");
	put_shape_members(b, s->arguments, s->needs);
}

static void put_request(struct buf *b, const struct route_shape *s)
{
	const struct msg_desc *d = s->request;

	if (s->takes_anything)
		put_note(b, s->request_note);
	if (d == NULL && s->takes == NULL)
		return;
	put_table_head(b, "\nTakes:");
	for (size_t i = 0; d != NULL && i < d->n; i++)
		if (field_is_in_body(&d->fields[i]))
			put_member(b, &d->fields[i], true);
	put_shape_members(b, d != NULL ? message_extra(d) : s->takes, s->needs);
	put_note(b, s->request_note);
}

static bool has_reply_members(const struct route_shape *s)
{
	if (s->members != NULL)
		return true;
	for (size_t i = 0; s->reply != NULL && i < s->reply->n; i++)
		if (route_shape_has(s, &s->reply->fields[i]))
			return true;
	return false;
}

static void put_reply(struct buf *b, const struct route *r,
		      const struct route_shape *s)
{
	buf_printf(b, "\nAnswers %s%d",
		   s->may_be_empty ? "204 without a body, or " : "", r->status);
	if (s->form == REPLY_TEXT || s->form == REPLY_STREAM ||
	    !has_reply_members(s)) {
		buf_puts(b, ".\n");
		put_note(b, s->reply_note);
		return;
	}
	put_table_head(b, s->form == REPLY_LIST
			      ? " and an array of objects with:"
			      : " and:");
	for (size_t i = 0; s->reply != NULL && i < s->reply->n; i++)
		if (route_shape_has(s, &s->reply->fields[i]))
			put_member(b, &s->reply->fields[i], false);
	if (s->reply != NULL)
		put_shape_members(b, message_extra(s->reply), NULL);
	put_shape_members(b, s->members, NULL);
	put_note(b, s->reply_note);
}

/* In order of the status; there are a few at most. */
static void put_errors(struct buf *b, const struct route_shape *s)
{
	const char *before = "\nRefusals: ";

	for (int status = 400; status < 600; status++) {
		for (size_t i = 0; i < s->errors_n; i++) {
			if (err_status(s->errors[i]) != status)
				continue;
			buf_printf(b, "%s%d `%s`", before, status,
				   err_code(s->errors[i]));
			before = ", ";
		}
	}
	if (s->errors_n > 0)
		buf_puts(b, ".\n");
}

static void put_route(struct buf *b, const struct route *r)
{
	struct route_shape s;

	route_shape_get(r, &s);
	buf_printf(b, "\n## %s %s\n\n%s\n", http_method_name(r->method),
		   r->path, r->doc);
	put_path_members(b, r);
	put_arguments(b, &s);
	put_request(b, &s);
	put_reply(b, r, &s);
	put_errors(b, &s);
}

void gen_http_api(struct buf *b)
{
	gen_head(b, "HTTP API");
	buf_puts(b, intro);
	put_contents(b);
	for (size_t i = 0; i < route_count(); i++)
		put_route(b, route_at(i));
}
