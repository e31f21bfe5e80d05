/*
 * See push/outcome.h. Everything a receiver says is hostile.
 */
#include "push/outcome.h"

#include <stdio.h>
#include <strings.h>

#include "util/civil.h"
#include "util/json.h"

#define HEADER_SHOWN 256 /* bytes of a header that are kept */
#define RETRY_MAX_NS (86400 * NS_PER_S)
#define YEAR_MAX     9999
#define ERROR_BODY   200 /* bytes of a body in the text of an error */

static const char *const class_names[] = {
	[CALL_TIMEOUT] = "timeout",
	[CALL_CANCELLED] = "cancelled",
	[CALL_CONNECTION] = "connection_error",
	[CALL_DNS] = "dns_error",
	[CALL_TLS] = "tls_error",
	[CALL_HTTP] = "http_error",
};

/* --- Retry-After --- */

static bool month_of(const char *text, unsigned *ret)
{
	static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

	for (unsigned i = 0; i < 12; i++)
		if (strncmp(names + 3 * i, text, 3) == 0) {
			*ret = i + 1;
			return true;
		}
	return false;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
static bool read_date(const char *text, uint64_t *ret_s)
{
	unsigned day, year, hour, minute, second, month;
	char name[4];

	if (sscanf(text, "%*3s, %2u %3s %4u %2u:%2u:%2u GMT", &day, name, &year,
		   &hour, &minute, &second) != 6 ||
	    !month_of(name, &month) || year < 1970 || year > YEAR_MAX ||
	    day == 0 || day > civil_month_days(year, month) || hour > 23 ||
	    minute > 59 || second > 60)
		return false;
	*ret_s = civil_days(year, month, day) * S_PER_DAY + hour * S_PER_HOUR +
		 minute * S_PER_MIN + second;
	return true;
}

bool outcome_retry_after(const char *text, uint64_t now_ns, uint64_t *ret_ns)
{
	uint64_t s;

	if (text == NULL)
		return false;
	if (str_parse_u64(str_trim(str_from(text)), &s)) {
		*ret_ns = MIN(s, RETRY_MAX_NS / NS_PER_S) * NS_PER_S;
		return true;
	}
	if (!read_date(text, &s))
		return false;
	/* before it is nanoseconds, of which there are 584 years */
	s = MIN(s, now_ns / NS_PER_S + RETRY_MAX_NS / NS_PER_S + 1);
	*ret_ns = s * NS_PER_S > now_ns
		      ? MIN(s * NS_PER_S - now_ns, RETRY_MAX_NS)
		      : 0;
	return true;
}

/* --- the response --- */

struct str outcome_text(struct str s, size_t max, struct arena *a)
{
	struct str t = str_of(s.p, MIN(s.n, max));
	char *copy;

	for (int i = 0; i < 3 && t.n > 0 && t.n < s.n && !str_is_utf8(t); i++)
		t.n--;
	if (str_is_utf8(t))
		return t;
	copy = arena_alloc(a, t.n);
	for (size_t i = 0; i < t.n; i++)
		copy[i] = (unsigned char)t.p[i] < 0x80 ? t.p[i] : '?';
	return str_of(copy, t.n);
}

static void put_ms(struct json_writer *w, const char *key, uint64_t ns)
{
	if (ns == 0)
		return;
	jw_key(w, key);
	jw_double(w, (double)(ns / NS_PER_US) / 1000);
}

static void put_headers(struct json_writer *w, struct call *c, struct arena *a)
{
	static const char *const names[] = {
		"content-type", "content-length", "date",         "location",
		"retry-after",  "server",         "x-request-id",
	};

	jw_key(w, "headers");
	jw_object(w);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *v = call_header(c, names[i]);

		if (v == NULL)
			continue;
		jw_key(w, names[i]);
		jw_str(w, outcome_text(str_from(v), HEADER_SHOWN, a));
	}
	jw_object_end(w);
}

static void write_response(struct call *c, const struct call_answer *a,
			   const char *url, enum call_class class,
			   struct arena *arena, struct outcome *ret)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);

	jw_object(&w);
	if (a->status > 0) {
		jw_key(&w, "status");
		jw_u64(&w, a->status);
		put_headers(&w, c, arena);
		jw_key(&w, "body");
		jw_str(&w, outcome_text(a->body, LIMIT_RESPONSE_BODY, arena));
		if (a->cut || a->body.n > LIMIT_RESPONSE_BODY) {
			jw_key(&w, "truncated");
			jw_bool(&w, true);
		}
	}
	jw_key(&w, "url");
	jw_cstr(&w, url);
	put_ms(&w, "duration_ms", a->total_ns);
	put_ms(&w, "connect_ms", a->connect_ns);
	put_ms(&w, "first_byte_ms", a->first_byte_ns);
	if (class != CALL_ANSWERED) {
		jw_key(&w, "error_class");
		jw_cstr(&w, class_names[class]);
	}
	if (a->error != NULL) {
		jw_key(&w, "error");
		jw_str(&w, outcome_text(str_from(a->error), ERROR_BODY, arena));
	}
	jw_object_end(&w);
	ret->response = arena_copy(arena, buf_str(&b));
}

/* --- the rules --- */

/* A body that says it is JSON, and is. */
static struct str result_of(struct call *c, const struct call_answer *a)
{
	const char *type = call_header(c, "content-type");
	struct json_error e;

	if (a->cut || a->body.n == 0 || a->body.n > LIMIT_RESULT_BYTES ||
	    type == NULL || strcasestr(type, "json") == NULL ||
	    !json_validate(a->body, LIMIT_JSON_DEPTH, &e))
		return STR_NULL;
	return json_root(a->body).raw;
}

static bool is_final(unsigned status)
{
	return status >= 400 && status < 500 && status != 408 &&
	       status != 409 && status != 425 && status != 429;
}

static void judge_status(struct call *c, const struct call_answer *a,
			 bool final_4xx, uint64_t now_ns, struct arena *arena,
			 struct outcome *ret)
{
	struct str words = outcome_text(a->body, ERROR_BODY, arena);
	struct str error =
	    arena_printf(arena, "http_error: the receiver answered %u%s%.*s",
			 a->status, words.n > 0 ? ": " : "", STR_ARG(words));

	ret->kind = OUTCOME_FAILED;
	ret->error = arena_cstr(arena, error);
	ret->final = final_4xx && is_final(a->status);
	ret->of_host = a->status >= 500;
	if (a->status == 429 || a->status == 503)
		ret->has_wait = outcome_retry_after(
		    call_header(c, "retry-after"), now_ns, &ret->wait_ns);
}

static const char *class_text(enum call_class class, struct str error,
			      struct arena *a)
{
	struct str text = outcome_text(error, ERROR_BODY, a);

	return arena_cstr(
	    a, arena_printf(a, "%s: %.*s", class_names[class], STR_ARG(text)));
}

void outcome_judge(struct call *c, const struct call_answer *a, const char *url,
		   bool final_4xx, uint64_t now_ns, struct arena *arena,
		   struct outcome *ret)
{
	enum call_class class = a->class;

	*ret = (struct outcome){ .kind = OUTCOME_DONE };
	if (class == CALL_ANSWERED && (a->status < 200 || a->status > 299))
		class = CALL_HTTP;
	if (class == CALL_HTTP) {
		judge_status(c, a, final_4xx, now_ns, arena, ret);
	} else if (class != CALL_ANSWERED) {
		ret->kind = OUTCOME_FAILED;
		ret->error = class_text(class, str_from(a->error), arena);
		ret->of_host = class != CALL_CANCELLED;
	} else if (a->status == 202) {
		ret->kind = OUTCOME_ACCEPTED;
	} else {
		ret->result = arena_copy(arena, result_of(c, a));
	}
	write_response(c, a, url, class, arena, ret);
}

/* One that could not be followed: to nowhere, or one too many. */
static bool is_redirect(const struct call_answer *a)
{
	return a->status >= 300 && a->status < 400 && a->location != NULL;
}

void outcome_judge_sdb(struct call *c, const struct call_answer *a,
		       const char *url, struct arena *arena,
		       struct outcome *ret)
{
	bool ok =
	    a->class == CALL_ANSWERED && a->status < 400 && !is_redirect(a);

	if (!ok) {
		outcome_judge(c, a, url, false, 0, arena, ret);
		ret->has_wait = ret->of_host = false;
		return;
	}
	*ret = (struct outcome){ .kind = OUTCOME_DONE };
	ret->result = arena_copy(arena, result_of(c, a));
	write_response(c, a, url, CALL_ANSWERED, arena, ret);
}
