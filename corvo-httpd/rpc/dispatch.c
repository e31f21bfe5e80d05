/*
 * From a request to its method. See rpc/rpc.h.
 */
#include "routes/dispatch.h"
#include "req/guarded.h"
#include "rpc/flow.h"
#include "rpc/form/gzip.h"
#include "rpc/methods.h"
#include "rpc/remote.h"
#include "rpc/rpc.h"
#include "util/clock.h"

bool rpc_is_path(struct str path)
{
	const struct pb_file *f;

	for (size_t i = 0; (f = pb_file_at(i)) != NULL; i++) {
		struct str package = str_from(f->package);

		if (path.n > package.n + 1 && path.p[0] == '/' &&
		    str_starts(str_skip(path, 1), package) &&
		    path.p[package.n + 1] == '.')
			return true;
	}
	return str_starts(path, STR("/grpc.reflection."));
}

#define TOO_LATE STR("the deadline of the call is over")

static bool is_too_late(const struct req *r)
{
	return r->deadline_ns != 0 && r->deadline_ns <= clock_mono_ns();
}

int rpc_read_deadline(struct req *r, struct str *why)
{
	bool is_grpc;
	const char *text;
	uint64_t ns;

	if (r->form == NULL) /* it is refused for that */
		return 0;
	is_grpc = remote_of(r)->form.protocol == RPC_GRPC ||
		  remote_of(r)->form.protocol == RPC_GRPC_WEB;
	text = req_header(r, is_grpc ? HEAD_GRPC_TIMEOUT
				     : HEAD_CONNECT_TIMEOUT_MS);
	if (text == NULL)
		return 0;
	if (!(is_grpc ? form_grpc_timeout(text, &ns)
		      : form_connect_timeout(text, &ns))) {
		*why = is_grpc ? STR("grpc-timeout: must be a number of at "
				     "most 8 digits and a unit, such as 100m")
			       : STR("Connect-Timeout-Ms: must be a number of "
				     "at most 10 digits");
		return -ERR_VALIDATION_ERROR;
	}
	r->deadline_ns = r->x.start_ns + ns;
	*why = TOO_LATE;
	return is_too_late(r) ? -ERR_REQUEST_TIMEOUT : 0;
}

/* Both sides may send at the same time. */
static bool is_duplex(const struct req *r)
{
	return r->x.front->duplex;
}

static bool needs_duplex(const struct rpc_form *f, const struct method *m)
{
	return f->protocol == RPC_GRPC ||
	       (m != NULL && m->pb->kind == RPC_BIDI);
}

static void refuse_type(struct req *r, const char *why)
{
	req_add_field(r, "accept-post", form_content_types());
	req_fail(r, ERR_UNSUPPORTED_MEDIA_TYPE, "%s", why);
}

/* A stream has envelopes, and of Connect no single call has; as text only
 * answers come in pieces. */
static bool fits_kind(const struct rpc_form *f, enum pb_kind kind)
{
	if (f->is_text && kind == RPC_BIDI)
		return false;
	if (f->protocol == RPC_CONNECT)
		return kind == RPC_UNARY;
	return f->protocol != RPC_CONNECT_STREAM || kind != RPC_UNARY;
}

/* --- messages as they come --- */

static void dispatch_once(struct req *r)
{
	if (r->is_begun)
		return;
	r->is_begun = true;
	rpc_dispatch(r);
}

static struct flow *flow_of(struct req *r)
{
	return r->form != NULL ? remote_of(r)->flow : NULL;
}

static void take_head(struct req *r, _unused_ void *arg)
{
	dispatch_once(r);
}

static void on_head(struct exchange *x)
{
	req_guarded(req_of(x), take_head, NULL);
}

static void take_bytes(struct req *r, void *arg)
{
	const struct str *bytes = arg;

	dispatch_once(r);
	if (flow_of(r) != NULL)
		flow_feed(flow_of(r), *bytes);
	else
		exchange_took(&r->x, bytes->n); /* it was refused */
}

static void on_bytes(struct exchange *x, const char *p, size_t n)
{
	struct str bytes = str_of(p, n);

	req_guarded(req_of(x), take_bytes, &bytes);
}

static void take_end(struct req *r, _unused_ void *arg)
{
	dispatch_once(r);
	if (flow_of(r) != NULL)
		flow_feed_end(flow_of(r));
}

static void on_body_end(struct exchange *x)
{
	req_guarded(req_of(x), take_end, NULL);
}

struct refusal {
	int err;
	struct str text;
};

static void take_refusal(struct req *r, void *arg)
{
	const struct refusal *why = arg;

	if (flow_of(r) != NULL)
		flow_end(flow_of(r), why->err, why->text);
}

static void on_refused(struct exchange *x, int err, struct str text)
{
	struct refusal why = { err, text };

	req_guarded(req_of(x), take_refusal, &why);
}

static const struct body_ops in_pieces = {
	.head = on_head,
	.refuse = on_refused,
	.bytes = on_bytes,
	.end = on_body_end,
};

void rpc_head(struct req *r)
{
	struct rpc_form form;
	struct method m;
	bool is_known;

	if (!rpc_is_path(r->x.path))
		return;
	is_known = method_find(r->x.path, &m);
	if (is_duplex(r) && is_known && m.pb->kind == RPC_BIDI)
		r->x.body_to = &in_pieces;
	if (dispatch_is_served(r) && strcmp(r->x.method, "POST") == 0 &&
	    form_parse(req_header(r, HEAD_CONTENT_TYPE), &form) &&
	    (!is_known || fits_kind(&form, m.pb->kind)) &&
	    (is_duplex(r) || !needs_duplex(&form, is_known ? &m : NULL)))
		(void)remote_begin(r, &form);
}

static bool is_packed(const struct req *r)
{
	return req_header(r, HEAD_CONTENT_ENCODING) != NULL ||
	       req_header(r, HEAD_CONNECT_CONTENT_ENCODING) != NULL ||
	       req_header(r, HEAD_GRPC_ENCODING) != NULL;
}

size_t rpc_bytes(const struct req *r)
{
	size_t n = r->x.body.n;

	return n > 0 && is_packed(r) ? gzip_most(n) : n;
}

static const char *why_misfit(const struct rpc_form *f)
{
	if (f->protocol == RPC_CONNECT)
		return "a stream of Connect has the Content-Type "
		       "application/connect+json or application/connect+proto";
	if (f->protocol == RPC_CONNECT_STREAM)
		return "a call of Connect that is no stream has the "
		       "Content-Type application/json or application/proto";
	return "a stream in both directions cannot be "
	       "application/grpc-web-text";
}

/* It has no form it could be served in. */
static void refuse_form(struct req *r)
{
	struct rpc_form form;
	struct method m;

	if (!form_parse(req_header(r, HEAD_CONTENT_TYPE), &form))
		refuse_type(r, "a remote call has a Content-Type of Connect, "
			       "gRPC or gRPC-Web; see the header Accept-Post");
	else if (method_find(r->x.path, &m) && !fits_kind(&form, m.pb->kind))
		refuse_type(r, why_misfit(&form));
	else
		req_fail(r, ERR_HTTP_VERSION,
			 "gRPC, and streams in both directions, need HTTP/2");
}

void rpc_dispatch(struct req *r)
{
	struct method m;

	if (strcmp(r->x.method, "OPTIONS") == 0) {
		req_answer_empty(r, 200);
		return;
	}
	if (strcmp(r->x.method, "POST") != 0) {
		r->x.allow = 1u << HTTP_POST;
		req_fail_text(r, ERR_METHOD_NOT_ALLOWED, STR_NULL);
		return;
	}
	if (r->form == NULL) {
		refuse_form(r);
		return;
	}
	if (!method_find(r->x.path, &m)) {
		req_fail(r, ERR_UNIMPLEMENTED, "there is no method %.*s",
			 (int)MIN(r->x.path.n, (size_t)128), r->x.path.p);
		return;
	}
	remote_of(r)->method = m.pb;
	r->match.route = m.route;
	if (is_too_late(r)) {
		req_fail_text(r, ERR_REQUEST_TIMEOUT, TOO_LATE);
		return;
	}
	if (!remote_read_coding(r) ||
	    (m.pb->kind != RPC_UNARY && !flow_may_begin(r)))
		return;
	if (m.pb->kind == RPC_BIDI || remote_take(r))
		m.serve(r);
}
