/*
 * Headers of answers. See front/answer.h. It is on the path of every request,
 * so numbers are written without printf.
 */
#include "front/answer.h"

#include <time.h>

#include "front/head.h"
#include "front/server.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "proto/route.h"
#include "util/clock.h"
#include "util/json.h"

#define DATE_LOOK_NS (10 * NS_PER_MS) /* it may be late by that */

/* At least `width` digits, ending before `end`; returns their start. */
static char *digits(char *end, uint64_t v, int width)
{
	do {
		*--end = (char)('0' + v % 10);
		v /= 10;
		width--;
	} while (v != 0 || width > 0);
	return end;
}

static void add_number(const struct answer_to *to, const char *name, uint64_t v)
{
	char text[24];

	text[sizeof(text) - 1] = '\0';
	to->add(to->ctx, name, digits(text + sizeof(text) - 1, v, 1));
}

static void add_allow(const struct answer_to *to, unsigned allow)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(128);

	for (int m = 0; m < HTTP_METHOD_MAX; m++) {
		if ((allow & (1u << m)) == 0)
			continue;
		buf_printf(&b, "%s, ", http_method_name(m));
		if (m == HTTP_GET)
			buf_puts(&b, "HEAD, ");
	}
	buf_puts(&b, "OPTIONS");
	buf_putc(&b, '\0');
	to->add(to->ctx, "Allow", b.p);
}

/* "proc;dur=12.345", without the cost of printf: it is on every answer. */
static void add_timing(const struct answer_to *to, const struct exchange *x,
		       uint64_t now_ns)
{
	static const char head[] = "proc;dur=";
	uint64_t us = (now_ns - x->start_ns) / NS_PER_US;
	char text[64];
	char *p = text + sizeof(text) - 1;

	*p = '\0';
	p = digits(p, us % 1000, 3);
	*--p = '.';
	p = digits(p, us / 1000, 1) - (sizeof(head) - 1);
	memcpy(p, head, sizeof(head) - 1);
	to->add(to->ctx, "Server-Timing", p);
}

/* The library would format it for every answer. */
static void look_at_date(struct answer_date *d)
{
	time_t now = (time_t)(clock_wall_ns() / NS_PER_S);
	struct tm tm;

	if ((uint64_t)now == d->unix_s)
		return;
	CHECK(gmtime_r(&now, &tm) != NULL);
	CHECK(strftime(d->text, sizeof(d->text), "%a, %d %b %Y %H:%M:%S GMT",
		       &tm) > 0);
	d->unix_s = (uint64_t)now;
}

static void add_date(const struct answer_to *to, struct answer_date *d,
		     uint64_t now_ns)
{
	if (d->unix_s == 0 || now_ns - d->looked_ns >= DATE_LOOK_NS) {
		look_at_date(d);
		d->looked_ns = now_ns;
	}
	to->add(to->ctx, "Date", d->text);
}

/* They are for browsers, which say where they come from. */
static void add_cors(const struct answer_to *to, const struct exchange *x)
{
	if (x->cors_origin == NULL)
		return;
	to->add(to->ctx, "Access-Control-Allow-Origin", x->cors_origin);
	to->add(to->ctx, "Vary", "Origin");
	to->add(to->ctx, "Access-Control-Allow-Methods", CORS_METHODS);
	to->add(to->ctx, "Access-Control-Allow-Headers", CORS_HEADERS);
}

/* RFC 7240; its wait is in whole seconds, ours may be in parts of one. */
static void add_preference(const struct answer_to *to, uint64_t wait_ns)
{
	static const char head[] = "wait=";
	char text[32];
	char *p = text + sizeof(text) - 1;

	if (wait_ns % NS_PER_S != 0) {
		to->add(to->ctx, "Preference-Applied", "wait");
		return;
	}
	*p = '\0';
	p = digits(p, wait_ns / NS_PER_S, 1) - (sizeof(head) - 1);
	memcpy(p, head, sizeof(head) - 1);
	to->add(to->ctx, "Preference-Applied", p);
}

/* Nobody on the way may keep it back. */
static void add_stream(const struct answer_to *to)
{
	to->add(to->ctx, "Cache-Control", "no-cache");
	to->add(to->ctx, "X-Accel-Buffering", "no");
}

void answer_headers(const struct answer_to *to, const struct exchange *x,
		    struct answer_date *date)
{
	uint64_t now_ns = clock_mono_ns();

	add_date(to, date, now_ns);
	if (x->out.n > 0 || x->stream != NULL)
		to->add(to->ctx, "Content-Type", x->content_type);
	if (x->stream != NULL)
		add_stream(to);
	add_timing(to, x, now_ns);
	to->add(to->ctx, "X-Request-Id", x->request_id);
	if (x->seq != 0)
		add_number(to, "X-Corvo-Index", x->seq);
	if (x->has_lag)
		add_number(to, "X-Corvo-View-Lag-Ms", x->lag_ms);
	if (x->next != NULL)
		to->add(to->ctx, "X-Corvo-Next", x->next);
	if (x->ignored != NULL)
		to->add(to->ctx, "X-Corvo-Ignored", x->ignored);
	if (x->replayed)
		to->add(to->ctx, "Idempotent-Replayed", "true");
	if (x->preferred_ns != 0)
		add_preference(to, x->preferred_ns);
	if (x->retry_after_s != 0)
		add_number(to, "Retry-After", x->retry_after_s);
	if (x->allow != 0)
		add_allow(to, x->allow);
	add_cors(to, x);
	for (size_t i = 0; i < x->fields_n; i++)
		to->add(to->ctx, x->fields[i].name, x->fields[i].value);
}

/* Visible ASCII: it goes into logs and into the answer's head as it is. */
static bool is_request_id(const char *s)
{
	size_t n = 0;

	for (; s[n] != '\0'; n++)
		if (s[n] <= ' ' || s[n] > '~' || n == LIMIT_REQUEST_ID_BYTES)
			return false;
	return n > 0;
}

const char *answer_make_id(char id[REQUEST_ID_MADE], struct rng *rng)
{
	static const char hex[] = "0123456789abcdef";
	uint64_t v = rng_u64(rng);

	for (size_t i = 0; i < REQUEST_ID_MADE - 1; i++, v >>= 4)
		id[i] = hex[v & 15];
	id[REQUEST_ID_MADE - 1] = '\0';
	return id;
}

void answer_name_request(struct exchange *x, struct rng *rng)
{
	const char *given = x->head.value[HEAD_REQUEST_ID];

	x->request_id = given != NULL && is_request_id(given)
			    ? given
			    : answer_make_id(x->made_id, rng);
}

unsigned answer_retry_after(int err)
{
	return err_again(err) == AGAIN_AFTER || err_status(err) == 504 ? 1 : 0;
}

void answer_error_body(struct buf *out, int err, struct str text,
		       unsigned retry_after_s)
{
	struct json_writer w = JSON_WRITER(out);

	jw_object(&w);
	jw_key(&w, "error");
	if (text.n > 0)
		jw_str(&w, text);
	else
		jw_cstr(&w, err_text(err));
	jw_key(&w, "code");
	jw_cstr(&w, err_code(err));
	if (err_status(err) == 429) {
		jw_key(&w, "retry_after_ms");
		jw_u64(&w, retry_after_s * 1000);
	}
	jw_object_end(&w);
	buf_putc(out, '\n');
}
