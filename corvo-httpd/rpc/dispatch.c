/*
 * From a request to its method. See rpc/rpc.h.
 */
#include "req/metrics.h"
#include "req/origin.h"
#include "rpc/flow.h"
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

/* How long the client waits; false: an error has been answered. */
static bool read_deadline(struct req *r)
{
	bool is_grpc = remote_of(r)->form.protocol == RPC_GRPC ||
		       remote_of(r)->form.protocol == RPC_GRPC_WEB;
	const char *text = req_header(r, is_grpc ? HEAD_GRPC_TIMEOUT
						 : HEAD_CONNECT_TIMEOUT_MS);
	uint64_t ns;

	if (text == NULL)
		return true;
	if (!(is_grpc ? form_grpc_timeout(text, &ns)
		      : form_connect_timeout(text, &ns))) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 is_grpc ? "grpc-timeout: must be a number of at most "
				   "8 digits and a unit, such as 100m"
				 : "Connect-Timeout-Ms: must be a number of at "
				   "most 10 digits");
		return false;
	}
	r->deadline_ns = r->x.start_ns + ns;
	if (r->deadline_ns > clock_mono_ns())
		return true;
	req_fail(r, ERR_REQUEST_TIMEOUT, "the deadline of the call is over");
	return false;
}

/* Both sides may send at the same time. */
static bool is_duplex(const struct req *r)
{
	return r->x.front->duplex;
}

static void refuse_type(struct req *r)
{
	req_add_field(r, "accept-post", form_content_types());
	req_fail(r, ERR_UNSUPPORTED_MEDIA_TYPE,
		 "a remote call has a Content-Type of Connect, gRPC or "
		 "gRPC-Web; see the header Accept-Post");
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
	if (r->counted)
		return;
	metrics_begin(r->h->metrics);
	r->counted = true;
	rpc_dispatch(r);
}

static void on_bytes(struct exchange *x, const char *p, size_t n)
{
	struct req *r = req_of(x);

	dispatch_once(r);
	if (r->form != NULL && remote_of(r)->flow != NULL)
		flow_feed(remote_of(r)->flow, str_of(p, n));
	else
		exchange_took(x, n); /* it was refused */
}

static void on_body_end(struct exchange *x)
{
	struct req *r = req_of(x);

	dispatch_once(r);
	if (r->form != NULL && remote_of(r)->flow != NULL)
		flow_feed_end(remote_of(r)->flow);
}

static const struct body_ops in_pieces = {
	.bytes = on_bytes,
	.end = on_body_end,
};

void rpc_head(struct req *r)
{
	struct method m;

	if (r->x.front->duplex && rpc_is_path(r->x.path) &&
	    method_find(r->x.path, &m) && m.pb->kind == RPC_BIDI)
		r->x.body_to = &in_pieces;
}

void rpc_dispatch(struct req *r)
{
	struct rpc_form form;
	struct method m;
	bool is_known;

	if (!origin_admit(r))
		return;
	if (strcmp(r->x.method, "OPTIONS") == 0) {
		req_answer_empty(r, 200);
		return;
	}
	if (strcmp(r->x.method, "POST") != 0) {
		r->x.allow = 1u << HTTP_POST;
		req_fail_text(r, ERR_METHOD_NOT_ALLOWED, STR_NULL);
		return;
	}
	is_known = method_find(r->x.path, &m);
	if (!form_parse(req_header(r, HEAD_CONTENT_TYPE), &form) ||
	    (is_known && !fits_kind(&form, m.pb->kind))) {
		refuse_type(r);
		return;
	}
	if (!is_duplex(r) && (form.protocol == RPC_GRPC ||
			      (is_known && m.pb->kind == RPC_BIDI))) {
		req_fail(r, ERR_HTTP_VERSION,
			 "gRPC, and streams in both directions, need HTTP/2");
		return;
	}
	(void)remote_begin(r, &form);
	if (!is_known) {
		req_fail(r, ERR_UNIMPLEMENTED, "there is no method %.*s",
			 (int)MIN(r->x.path.n, (size_t)128), r->x.path.p);
		return;
	}
	remote_of(r)->method = m.pb;
	r->match.route = m.route;
	if (!read_deadline(r) || !remote_read_coding(r) ||
	    (m.pb->kind != RPC_UNARY && !flow_may_begin(r)))
		return;
	if (m.pb->kind == RPC_BIDI || remote_take(r))
		m.serve(r);
}
