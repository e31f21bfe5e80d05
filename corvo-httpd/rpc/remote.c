/*
 * See rpc/remote.h. The body is hostile.
 */
#include "rpc/remote.h"

#include "front/answer.h"
#include "req/work.h"
#include "rpc/form/gzip.h"
#include "util/base64.h"
#include "util/turn.h"

#define STATUS_FIELDS 3

/* --- reading --- */

/* The coding of the message, by the header that its protocol has for it. */
static const char *coding_of(struct req *r)
{
	switch (remote_of(r)->form.protocol) {
	case RPC_CONNECT:
		return req_header(r, HEAD_CONTENT_ENCODING);
	case RPC_CONNECT_STREAM:
		return req_header(r, HEAD_CONNECT_CONTENT_ENCODING);
	case RPC_GRPC:
	case RPC_GRPC_WEB:
		break;
	}
	return req_header(r, HEAD_GRPC_ENCODING);
}

bool remote_read_coding(struct req *r)
{
	const char *coding = coding_of(r);

	if (coding == NULL || *coding == '\0' ||
	    str_is(str_from(coding), "identity"))
		return true;
	remote_of(r)->unpacks = str_is(str_from(coding), "gzip");
	if (!remote_of(r)->unpacks)
		req_fail(r, ERR_UNSUPPORTED_ENCODING,
			 "messages may be packed by gzip only, not by %.64s",
			 coding);
	return remote_of(r)->unpacks;
}

struct str remote_unpack_text(int err)
{
	if (err == -ERR_PARSE_ERROR)
		return STR("a message is not packed by gzip, or not "
			   "completely");
	if (err == -ERR_OVERLOADED)
		return REQ_NO_ROOM;
	return STR("a message is larger than 16 MiB, or than 100 times what "
		   "it came in");
}

static bool fits(void *ctx, const struct buf *out, size_t n)
{
	struct req *r = ctx;

	r->x.work_n = arena_bytes(&r->arena) + out->cap;
	exchange_count(&r->x);
	return exchange_fits_grown(&r->x, out, n);
}

static bool unpack(struct req *r, struct str *bytes)
{
	_cleanup_(buf_done) struct buf plain = BUF_INIT(0);
	const struct gzip_limit l = { gzip_most(bytes->n), fits, r };
	int err;

	turn_open();
	err = gzip_unpack_by(*bytes, &l, &plain);
	turn_close();
	if (err < 0) {
		req_fail_text(r, -err, remote_unpack_text(err));
		return false;
	}
	*bytes = buf_str(&plain);
	r->x.work_n = arena_bytes(&r->arena);
	exchange_unpacked(&r->x, &plain);
	return true;
}

/* As text: base64 of all of it. */
static bool read_text(struct req *r, struct str *body)
{
	_cleanup_(buf_done) struct buf bytes = BUF_INIT(LIMIT_BODY_BYTES);
	bool is_text;

	if (!req_work_fits(r, body->n))
		return false;
	turn_open();
	is_text = form_read_text(*body, &bytes);
	turn_close();
	if (!is_text) {
		req_fail(r, ERR_PARSE_ERROR,
			 "the body is not base64, as its Content-Type says");
		return false;
	}
	*body = buf_str(&bytes);
	r->x.work_n = arena_bytes(&r->arena);
	exchange_decoded(&r->x, &bytes);
	return true;
}

/* The one envelope of a body. */
static bool open_envelope(struct req *r, struct str body, struct str *ret)
{
	struct envelope e;
	int n = envelope_next(&body, LIMIT_BODY_BYTES, &e);

	if (n == -ERR_BODY_TOO_LARGE) {
		req_fail_text(r, ERR_BODY_TOO_LARGE, STR_NULL);
		return false;
	}
	if (n <= 0 || body.n > 0 || (e.flags & ~ENVELOPE_PACKED) != 0) {
		req_fail(r, ERR_PARSE_ERROR,
			 "the body must be one message in its envelope");
		return false;
	}
	if ((e.flags & ENVELOPE_PACKED) != 0 && !remote_of(r)->unpacks) {
		req_fail(r, ERR_PARSE_ERROR,
			 "a message is packed, and no header says how");
		return false;
	}
	*ret = e.data;
	return (e.flags & ENVELOPE_PACKED) == 0 || unpack(r, ret);
}

bool remote_take(struct req *r)
{
	struct remote *c = remote_of(r);
	struct str body = buf_str(&r->x.body);

	if (c->form.protocol == RPC_CONNECT) {
		c->message = body;
		return !c->unpacks || unpack(r, &c->message);
	}
	if (c->form.is_text && !read_text(r, &body))
		return false;
	return open_envelope(r, body, &c->message);
}

static int read_plain(const struct remote *c, struct str bytes,
		      const struct msg_reader *rd, const struct pb_desc *d,
		      void *m, bool check)
{
	struct json_error e;

	if (!c->form.is_json)
		return check ? pb_read(rd, d, bytes, m)
			     : pb_read_unchecked(rd, d, bytes, m);
	if (bytes.n == 0)
		bytes = STR("{}");
	if (!json_validate(bytes, LIMIT_JSON_DEPTH, &e)) {
		buf_printf(rd->why, "invalid JSON at byte %zu: %s", e.pos,
			   e.text);
		return -ERR_PARSE_ERROR;
	}
	return check ? pb_read_json(rd, d, json_root(bytes), m)
		     : pb_read_json_unchecked(rd, d, json_root(bytes), m);
}

static int parse(struct req *r, struct str bytes, const struct msg_reader *rd,
		 const struct pb_desc *d, void *m, bool check)
{
	int err;

	turn_open();
	err = read_plain(remote_of(r), bytes, rd, d, m, check);
	turn_close();
	return err;
}

int remote_parse(struct req *r, struct str bytes, const struct msg_reader *rd,
		 const struct pb_desc *d, void *m)
{
	return parse(r, bytes, rd, d, m, true);
}

int remote_parse_unchecked(struct req *r, struct str bytes,
			   const struct msg_reader *rd, const struct pb_desc *d,
			   void *m)
{
	return parse(r, bytes, rd, d, m, false);
}

static bool read_message(struct req *r, const struct msg_desc *d, void *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct msg_reader rd = req_reader(r, &why);
	struct remote *c = remote_of(r);
	int err;

	REQUIRE(c->method->request->msg == d);
	err = remote_parse(r, c->message, &rd, c->method->request, m);
	if (err == 0)
		return true;
	req_fail_text(r, -err, buf_str(&why));
	return false;
}

/* --- answering --- */

struct rpc_status remote_status(int err, struct str text)
{
	return (struct rpc_status){
		.err = err,
		.text = text,
		.retry_after_ms = answer_retry_after(err) * 1000,
	};
}

static bool is_packed(const struct remote *c, size_t n)
{
	return c->packs && n >= REMOTE_PACK_BYTES && n <= REMOTE_PACK_MAX_BYTES;
}

static void put_plain(const struct remote *c, const struct pb_desc *d,
		      const void *m, struct buf *out)
{
	struct json_writer w = JSON_WRITER(out);

	if (c->form.is_json)
		pb_write_json(d, m, &w);
	else
		pb_write(d, m, out);
}

void remote_put(struct remote *c, const struct pb_desc *d, const void *m,
		struct buf *out)
{
	size_t start = envelope_open(out, 0);
	_cleanup_(buf_done) struct buf packed = BUF_INIT(0);

	put_plain(c, d, m, out);
	if (is_packed(c, out->n - start)) {
		gzip_pack(str_of(out->p + start, out->n - start), &packed);
		out->n = start;
		buf_put_str(out, buf_str(&packed));
		out->p[start - ENVELOPE_HEAD] = (char)ENVELOPE_PACKED;
	}
	envelope_close(out, start);
}

void remote_put_end(const struct remote *c, const struct rpc_status *s,
		    struct buf *out)
{
	bool is_web = c->form.protocol == RPC_GRPC_WEB;
	size_t start =
	    envelope_open(out, is_web ? ENVELOPE_TRAILERS : ENVELOPE_END);

	if (is_web)
		status_trailers(s, out);
	else
		status_end_json(s, out);
	envelope_close(out, start);
}

/* As text all of it is base64. */
static void as_text(struct buf *out)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	base64_write(&text, buf_str(out), true);
	buf_clear(out);
	buf_put_str(out, buf_str(&text));
}

typedef void put_fn(const struct rpc_status *s, struct buf *out);

static char *cstr_of(struct req *r, put_fn *put, const struct rpc_status *s)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	put(s, &b);
	return arena_cstr(&r->arena, buf_str(&b));
}

/* Of gRPC: grpc-status and what goes with it. */
static size_t status_fields(struct req *r, const struct rpc_status *s,
			    struct field f[STATUS_FIELDS])
{
	struct str code =
	    arena_printf(&r->arena, "%d", s->err == 0 ? 0 : err_rpc(s->err));

	f[0] = (struct field){ "grpc-status", arena_cstr(&r->arena, code) };
	if (s->err == 0)
		return 1;
	f[1] = (struct field){ "grpc-message", cstr_of(r, status_message, s) };
	f[2] = (struct field){ "grpc-status-details-bin",
			       cstr_of(r, status_details, s) };
	return 3;
}

void remote_set_trailers(struct req *r, const struct rpc_status *s)
{
	if (r->x.trailers == NULL)
		r->x.trailers = arena_alloc(
		    &r->arena, STATUS_FIELDS * sizeof(*r->x.trailers));
	r->x.trailers_n = status_fields(r, s, r->x.trailers);
}

/* A refusal of gRPC has no body: all is in its head. */
static void put_in_head(struct req *r, const struct rpc_status *s)
{
	struct field f[STATUS_FIELDS];
	size_t n = status_fields(r, s, f);

	for (size_t i = 0; i < n; i++)
		req_add_field(r, f[i].name, f[i].value);
}

/* What comes after the message: how it ended. */
static int end_answer(struct req *r, const struct rpc_status *s)
{
	struct remote *c = remote_of(r);

	r->x.content_type = form_content_type(&c->form);
	if (c->form.protocol == RPC_CONNECT && s->err != 0) {
		r->x.content_type = "application/json";
		status_json(s, &r->x.out);
		return status_http(s);
	}
	if (c->form.protocol == RPC_GRPC && r->x.out.n > 0)
		remote_set_trailers(r, s);
	else if (c->form.protocol == RPC_GRPC)
		put_in_head(r, s);
	else if (c->form.protocol != RPC_CONNECT)
		remote_put_end(c, s, &r->x.out);
	if (c->form.is_text)
		as_text(&r->x.out);
	/* an empty answer has a type, too: it says who answers */
	if (r->x.out.n == 0)
		req_add_field(r, "content-type", r->x.content_type);
	return 200;
}

static int fail(struct req *r, int err, struct str text)
{
	struct rpc_status s = {
		.err = err,
		.text = text,
		.retry_after_ms = (uint64_t)r->x.retry_after_s * 1000,
	};

	return end_answer(r, &s);
}

void remote_name_coding(struct req *r)
{
	const struct remote *c = remote_of(r);

	if (c->packs)
		req_add_field(r,
			      c->form.protocol == RPC_CONNECT_STREAM
				  ? "connect-content-encoding"
				  : "grpc-encoding",
			      "gzip");
}

/* A unary answer of Connect is the message alone. */
static void put_bare(struct req *r, const struct pb_desc *d, const void *m)
{
	struct remote *c = remote_of(r);
	_cleanup_(buf_done) struct buf packed = BUF_INIT(0);
	struct buf *out = &r->x.out;

	put_plain(c, d, m, out);
	if (!is_packed(c, out->n))
		return;
	gzip_pack(buf_str(out), &packed);
	buf_clear(out);
	buf_put_str(out, buf_str(&packed));
	req_add_field(r, "content-encoding", "gzip");
}

static int answer_message(struct req *r, const struct msg_desc *d,
			  const void *m)
{
	static const uint64_t nothing[1024];
	struct remote *c = remote_of(r);
	const struct pb_desc *reply = c->method->reply;
	struct rpc_status ok = { 0 };

	/* A method may have less to say than its operation. */
	if (m == NULL || reply->msg != d) {
		REQUIRE(m == NULL || reply->n == 0);
		REQUIRE(reply->msg->size <= sizeof(nothing));
		m = nothing;
	}
	buf_clear(&r->x.out);
	if (c->form.protocol == RPC_CONNECT) {
		put_bare(r, reply, m);
	} else {
		remote_name_coding(r);
		remote_put(c, reply, m, &r->x.out);
	}
	return end_answer(r, &ok);
}

static const struct req_form remote_form = {
	.read = read_message,
	.fail = fail,
	.message = answer_message,
};

/* What the client takes, by the header that its protocol has for it. */
static const char *codings_taken(struct req *r, const struct rpc_form *form)
{
	switch (form->protocol) {
	case RPC_CONNECT:
		return req_header(r, HEAD_ACCEPT_ENCODING);
	case RPC_CONNECT_STREAM:
		return req_header(r, HEAD_CONNECT_ACCEPT_ENCODING);
	case RPC_GRPC:
	case RPC_GRPC_WEB:
		break;
	}
	return req_header(r, HEAD_GRPC_ACCEPT_ENCODING);
}

struct remote *remote_begin(struct req *r, const struct rpc_form *form)
{
	struct remote *c = arena_zalloc(&r->arena, sizeof(*c));

	c->form = *form;
	c->packs = form_takes_gzip(codings_taken(r, form));
	r->form_state = c;
	r->form = &remote_form;
	return c;
}
