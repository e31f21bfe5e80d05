/*
 * See rpc/form/form.h.
 */
#include "rpc/form/form.h"

#include <strings.h>

#include "proto/err.h"
#include "util/base64.h"
#include "util/turn.h"

#define TEXT_HEAD 8 /* characters that hold the head of an envelope */

static const struct {
	const char *type;
	struct rpc_form form;
} types[] = {
	/* the first of a form is what it is answered with */
	{ "application/json", { RPC_CONNECT, true, false } },
	{ "application/proto", { RPC_CONNECT, false, false } },
	{ "application/connect+json", { RPC_CONNECT_STREAM, true, false } },
	{ "application/connect+proto", { RPC_CONNECT_STREAM, false, false } },
	{ "application/grpc+proto", { RPC_GRPC, false, false } },
	{ "application/grpc", { RPC_GRPC, false, false } },
	{ "application/grpc+json", { RPC_GRPC, true, false } },
	{ "application/grpc-web+proto", { RPC_GRPC_WEB, false, false } },
	{ "application/grpc-web", { RPC_GRPC_WEB, false, false } },
	{ "application/grpc-web+json", { RPC_GRPC_WEB, true, false } },
	{ "application/grpc-web-text+proto", { RPC_GRPC_WEB, false, true } },
	{ "application/grpc-web-text", { RPC_GRPC_WEB, false, true } },
};

bool form_parse(const char *content_type, struct rpc_form *ret)
{
	struct str name, rest;

	if (content_type == NULL)
		return false;
	(void)str_split(str_from(content_type), ';', &name, &rest);
	name = str_trim(name);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strlen(types[i].type) == name.n &&
		    strncasecmp(types[i].type, name.p, name.n) == 0) {
			*ret = types[i].form;
			return true;
		}
	return false;
}

const char *form_content_type(const struct rpc_form *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (types[i].form.protocol == f->protocol &&
		    types[i].form.is_json == f->is_json &&
		    types[i].form.is_text == f->is_text)
			return types[i].type;
	REQUIRE(!"a form without a content type");
	return NULL;
}

const char *form_content_types(void)
{
	return "application/json, application/proto, application/connect+json, "
	       "application/connect+proto, application/grpc, "
	       "application/grpc+proto, application/grpc+json, "
	       "application/grpc-web, application/grpc-web+proto, "
	       "application/grpc-web+json, application/grpc-web-text, "
	       "application/grpc-web-text+proto";
}

/* --- deadlines --- */

/* Nanoseconds of a unit of gRPC; 0: there is no such unit. */
static uint64_t grpc_unit(char c)
{
	switch (c) {
	case 'H':
		return 3600 * NS_PER_S;
	case 'M':
		return 60 * NS_PER_S;
	case 'S':
		return NS_PER_S;
	case 'm':
		return NS_PER_MS;
	case 'u':
		return NS_PER_US;
	case 'n':
		return 1;
	default:
		return 0;
	}
}

/* The largest of either form are years: no need to tell them apart. */
#define TIMEOUT_MAX_NS (UINT64_C(1000000000) * NS_PER_S)

static bool timeout(struct str digits, size_t digits_max, uint64_t unit,
		    uint64_t *ret_ns)
{
	uint64_t v;

	if (digits.n > digits_max || !str_parse_u64(digits, &v))
		return false;
	if (__builtin_mul_overflow(v, unit, ret_ns))
		*ret_ns = TIMEOUT_MAX_NS;
	*ret_ns = MIN(*ret_ns, TIMEOUT_MAX_NS);
	return true;
}

bool form_grpc_timeout(const char *text, uint64_t *ret_ns)
{
	struct str s = str_from(text);
	uint64_t unit = s.n > 0 ? grpc_unit(s.p[s.n - 1]) : 0;

	return unit != 0 && timeout(str_of(s.p, s.n - 1), 8, unit, ret_ns);
}

bool form_connect_timeout(const char *text, uint64_t *ret_ns)
{
	return timeout(str_from(text), 10, NS_PER_MS, ret_ns);
}

/* --- codings --- */

bool form_takes_gzip(const char *list)
{
	struct str rest = str_from(list), item, name, weight;

	while (rest.n > 0) {
		(void)str_split(rest, ',', &item, &rest);
		(void)str_split(item, ';', &name, &weight);
		name = str_trim(name);
		weight = str_trim(weight);
		if (name.n == 4 && strncasecmp(name.p, "gzip", 4) == 0)
			return !str_is(weight, "q=0");
	}
	return false;
}

bool form_read_text(struct str text, struct buf *out)
{
	size_t n, before = out->n;

	while (text.n > 0) {
		for (n = 0; n < text.n && text.p[n] != '='; n++)
			turn_at(n);
		for (; n < text.n && text.p[n] == '='; n++)
			turn_at(n);
		if (turn_step() || !base64_read(out, str_of(text.p, n))) {
			out->n = before;
			return false;
		}
		text = str_skip(text, n);
	}
	return true;
}

/* --- envelopes --- */

/* Of the message behind the head. */
static size_t length_at(const char *head)
{
	const unsigned char *p = (const unsigned char *)head;

	return (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 |
	       p[4];
}

size_t envelope_end(const char *p, size_t at, size_t n)
{
	size_t end = 0;

	while (end < at) {
		REQUIRE(n - end >= ENVELOPE_HEAD);
		end += ENVELOPE_HEAD + length_at(p + end);
		REQUIRE(end <= n);
	}
	return end;
}

size_t envelope_end_text(const char *p, size_t at, size_t n)
{
	size_t end = 0;

	while (end < at) {
		_cleanup_(buf_done) struct buf head = BUF_INIT(0);

		REQUIRE(n - end >= TEXT_HEAD &&
			base64_read(&head, str_of(p + end, TEXT_HEAD)) &&
			head.n >= ENVELOPE_HEAD);
		end += (ENVELOPE_HEAD + length_at(head.p) + 2) / 3 * 4;
		REQUIRE(end <= n);
	}
	return end;
}

int envelope_next(struct str *in, size_t max, struct envelope *ret)
{
	const unsigned char *p = (const unsigned char *)in->p;
	size_t n;

	if (in->n < ENVELOPE_HEAD)
		return 0;
	if ((p[0] & ~(ENVELOPE_PACKED | ENVELOPE_END | ENVELOPE_TRAILERS)) != 0)
		return -ERR_PARSE_ERROR;
	n = length_at(in->p);
	if (n > max)
		return -ERR_BODY_TOO_LARGE;
	if (in->n - ENVELOPE_HEAD < n)
		return 0;
	*ret = (struct envelope){ p[0], str_of(in->p + ENVELOPE_HEAD, n) };
	*in = str_skip(*in, ENVELOPE_HEAD + n);
	return 1;
}

size_t envelope_open(struct buf *out, unsigned flags)
{
	char head[ENVELOPE_HEAD] = { (char)flags };

	buf_append(out, head, sizeof(head));
	return out->n;
}

void envelope_close(struct buf *out, size_t start)
{
	size_t n = out->n - start;
	char *p = out->p + start - 4;

	if (out->full)
		return;
	REQUIRE(n <= UINT32_MAX);
	p[0] = (char)(n >> 24);
	p[1] = (char)(n >> 16);
	p[2] = (char)(n >> 8);
	p[3] = (char)n;
}

void envelope_write(struct buf *out, unsigned flags, struct str data)
{
	size_t start = envelope_open(out, flags);

	buf_put_str(out, data);
	envelope_close(out, start);
}
