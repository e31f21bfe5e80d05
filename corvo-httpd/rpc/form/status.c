/*
 * See rpc/form/status.h. Details are messages of google.rpc: ErrorInfo, whose
 * reason is the code of the error over HTTP, and RetryInfo where it helps to
 * come again.
 */
#include "rpc/form/status.h"

#include "rpc/pb/wire.h"
#include "util/base64.h"
#include "util/json.h"

#define DOMAIN "corvo"

static const char ERROR_INFO[] = "google.rpc.ErrorInfo";
static const char RETRY_INFO[] = "google.rpc.RetryInfo";

int status_http(const struct rpc_status *s)
{
	if (s->err == 0)
		return 200;
	switch (err_rpc(s->err)) {
	case CODE_OK:
		return 200;
	case CODE_CANCELED:
		return 499;
	case CODE_INVALID_ARGUMENT:
	case CODE_FAILED_PRECONDITION:
	case CODE_OUT_OF_RANGE:
		return 400;
	case CODE_UNAUTHENTICATED:
		return 401;
	case CODE_PERMISSION_DENIED:
		return 403;
	case CODE_NOT_FOUND:
		return 404;
	case CODE_ALREADY_EXISTS:
	case CODE_ABORTED:
		return 409;
	case CODE_RESOURCE_EXHAUSTED:
		return 429;
	case CODE_UNIMPLEMENTED:
		return 501;
	case CODE_UNAVAILABLE:
		return 503;
	case CODE_DEADLINE_EXCEEDED:
		return 504;
	case CODE_UNKNOWN:
	case CODE_INTERNAL:
	case CODE_DATA_LOSS:
		break;
	}
	return 500;
}

/* The sentence, with when to come again at its end, as 0.3 had it. */
static void put_text(const struct rpc_status *s, struct buf *out)
{
	struct str text = s->text.n > 0 ? s->text : str_from(err_text(s->err));
	size_t n = MIN(text.n, (size_t)STATUS_TEXT_BYTES);

	while (n > 0 && n < text.n && (text.p[n] & 0xc0) == 0x80)
		n--; /* not in the middle of a character */
	buf_append(out, text.p, n);
	if (s->retry_after_ms > 0)
		buf_printf(out, " (retry_after_ms=%llu)",
			   (unsigned long long)s->retry_after_ms);
}

/* --- details --- */

static void put_error_info(const struct rpc_status *s, struct buf *out)
{
	wire_put_bytes(out, 1, str_from(err_code(s->err)));
	wire_put_bytes(out, 2, STR(DOMAIN));
}

static void put_retry_info(const struct rpc_status *s, struct buf *out)
{
	size_t start = wire_open(out, 1);

	if (s->retry_after_ms >= 1000)
		wire_put_number(out, 1, s->retry_after_ms / 1000);
	if (s->retry_after_ms % 1000 != 0)
		wire_put_number(out, 2, s->retry_after_ms % 1000 * NS_PER_MS);
	wire_close(out, start);
}

typedef void put_detail_fn(const struct rpc_status *s, struct buf *out);

/* --- Connect --- */

static void put_detail_json(const struct rpc_status *s, struct json_writer *w,
			    const char *type, put_detail_fn *put)
{
	_cleanup_(buf_done) struct buf bytes = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	put(s, &bytes);
	base64_write(&text, buf_str(&bytes), false);
	jw_object(w);
	jw_key(w, "type");
	jw_cstr(w, type);
	jw_key(w, "value");
	jw_str(w, buf_str(&text));
	jw_object_end(w);
}

static void put_json(const struct rpc_status *s, struct json_writer *w)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	put_text(s, &text);
	jw_object(w);
	jw_key(w, "code");
	jw_cstr(w, rpc_code_name(err_rpc(s->err)));
	jw_key(w, "message");
	jw_str(w, buf_str(&text));
	jw_key(w, "details");
	jw_array(w);
	put_detail_json(s, w, ERROR_INFO, put_error_info);
	if (s->retry_after_ms > 0)
		put_detail_json(s, w, RETRY_INFO, put_retry_info);
	jw_array_end(w);
	jw_object_end(w);
}

void status_json(const struct rpc_status *s, struct buf *out)
{
	struct json_writer w = JSON_WRITER(out);

	put_json(s, &w);
}

void status_end_json(const struct rpc_status *s, struct buf *out)
{
	struct json_writer w = JSON_WRITER(out);

	jw_object(&w);
	if (s->err != 0) {
		jw_key(&w, "error");
		put_json(s, &w);
	}
	jw_object_end(&w);
}

/* --- gRPC --- */

void status_message(const struct rpc_status *s, struct buf *out)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	put_text(s, &text);
	for (size_t i = 0; i < text.n; i++) {
		unsigned char c = (unsigned char)text.p[i];

		if (c >= ' ' && c <= '~' && c != '%')
			buf_putc(out, (char)c);
		else
			buf_printf(out, "%%%02X", c);
	}
}

/* A google.protobuf.Any. */
static void put_any(const struct rpc_status *s, struct buf *out,
		    const char *type, put_detail_fn *put)
{
	size_t any = wire_open(out, 3), inner = wire_open(out, 1);

	buf_printf(out, "type.googleapis.com/%s", type);
	wire_close(out, inner);
	inner = wire_open(out, 2);
	put(s, out);
	wire_close(out, inner);
	wire_close(out, any);
}

void status_details(const struct rpc_status *s, struct buf *out)
{
	_cleanup_(buf_done) struct buf bytes = BUF_INIT(0);
	size_t inner;

	wire_put_number(&bytes, 1, err_rpc(s->err));
	inner = wire_open(&bytes, 2);
	put_text(s, &bytes);
	wire_close(&bytes, inner);
	put_any(s, &bytes, ERROR_INFO, put_error_info);
	if (s->retry_after_ms > 0)
		put_any(s, &bytes, RETRY_INFO, put_retry_info);
	base64_write(out, buf_str(&bytes), false);
}

void status_trailers(const struct rpc_status *s, struct buf *out)
{
	if (s->err == 0) {
		buf_puts(out, "grpc-status: 0\r\n");
		return;
	}
	buf_printf(out, "grpc-status: %d\r\ngrpc-message: ", err_rpc(s->err));
	status_message(s, out);
	buf_puts(out, "\r\ngrpc-status-details-bin: ");
	status_details(s, out);
	buf_puts(out, "\r\n");
}
