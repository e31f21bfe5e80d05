/*
 * See push/letter.h.
 */
#include "push/letter.h"

#include <strings.h>

#include "proto/event.h"
#include "proto/push.h"
#include "proto/webhook.h"
#include "util/base64.h"
#include "util/json.h"
#include "util/sha256.h"
#include "util/timefmt.h"

#define OWN_HEADERS 16

/* --- the body --- */

static struct str write_envelope(const struct m_fetched *j, struct arena *a)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);

	jw_object(&w);
	jw_key(&w, "job_id");
	jw_str(&w, j->job_id);
	jw_key(&w, "queue");
	jw_str(&w, j->queue);
	jw_key(&w, "attempt");
	jw_u64(&w, j->attempt);
	jw_key(&w, "max_retries");
	jw_u64(&w, j->max_retries);
	if (j->tags.n > 0) {
		jw_key(&w, "tags");
		jw_raw(&w, j->tags);
	}
	if (j->checkpoint.n > 0) {
		jw_key(&w, "checkpoint");
		jw_raw(&w, j->checkpoint);
	}
	jw_key(&w, "payload");
	jw_raw(&w, j->payload);
	jw_object_end(&w);
	return arena_copy(a, buf_str(&b));
}

/* As Scheduled-DB calls; a run goes by the id of its recurrente. */
static struct str write_scheddb(const struct letter *l, struct arena *a)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);
	const struct m_fetched *j = l->job;
	const struct m_sdb *s = j->scheduled_db;

	jw_object(&w);
	jw_key(&w, "job_id");
	jw_str(&w, s->run_of.n > 0 ? s->run_of : j->job_id);
	jw_key(&w, "type");
	jw_cstr(&w, enum_text(&enum_sdb_type, s->type));
	jw_key(&w, "timestamp");
	jw_u64(&w, l->now_ns / NS_PER_S);
	jw_key(&w, "data");
	jw_raw(&w, j->payload);
	jw_object_end(&w);
	return arena_copy(a, buf_str(&b));
}

static struct str write_body(const struct letter *l, struct arena *a)
{
	switch (l->push->format) {
	case PUSH_ENVELOPE:
		return write_envelope(l->job, a);
	case PUSH_SCHEDDB:
		return write_scheddb(l, a);
	default:
		return arena_copy(a, l->job->payload);
	}
}

/* --- the signature --- */

static void put_signature(struct buf *out, struct str secret, struct str id,
			  uint64_t timestamp, struct str body)
{
	_cleanup_(buf_done) struct buf key = BUF_INIT(0);
	_cleanup_(buf_done) struct buf head = BUF_INIT(0);
	unsigned char mac[SHA256_BYTES];
	struct hmac_sha256 m;

	if (!push_secret_key(secret, &key))
		return; /* it was checked when it was set */
	buf_put_str(&head, id);
	buf_printf(&head, ".%llu.", (unsigned long long)timestamp);
	hmac_sha256_init(&m, buf_str(&key));
	hmac_sha256_add(&m, buf_str(&head));
	hmac_sha256_add(&m, body);
	hmac_sha256_end(&m, mac);
	if (out->n > 0)
		buf_putc(out, ' ');
	buf_puts(out, "v1,");
	base64_write(out, str_of(mac, sizeof(mac)), true);
}

void letter_sign(struct buf *out, const struct m_push *p, struct str id,
		 uint64_t timestamp, struct str body)
{
	if (MSG_HAS(p, push, secret))
		put_signature(out, p->secret, id, timestamp, body);
	if (MSG_HAS(p, push, previous_secret))
		put_signature(out, p->previous_secret, id, timestamp, body);
}

/* --- headers --- */

struct headers {
	struct arena *a;
	const char **list;
	size_t n;
	bool has_type, has_agent;
};

static void add(struct headers *h, const char *name, struct str value)
{
	struct str line = arena_printf(h->a, "%s: %.*s", name, STR_ARG(value));

	h->list[h->n++] = arena_cstr(h->a, line);
}

static void add_number(struct headers *h, const char *name, uint64_t v)
{
	add(h, name, arena_printf(h->a, "%llu", (unsigned long long)v));
}

static bool is_name(struct str name, const char *word)
{
	return name.n == strlen(word) && strncasecmp(name.p, word, name.n) == 0;
}

static void add_own(struct headers *h, const struct m_push *p, bool elsewhere)
{
	struct json_iter it;
	struct json v;
	struct str name;

	if (!MSG_HAS(p, push, headers))
		return;
	it = json_iter(json_root(p->headers));
	while (json_next_member(&it, h->a, &name, &v)) {
		if (elsewhere && push_header_is_secret(name))
			continue;
		h->has_type |= is_name(name, "content-type");
		h->has_agent |= is_name(name, "user-agent");
		add(h, arena_cstr(h->a, name), json_string(v, h->a));
	}
}

/* What every call has, whatever it is about. */
static void add_common(struct headers *h, const struct m_push *p, struct str id,
		       uint64_t now_ns, struct str body)
{
	_cleanup_(buf_done) struct buf sign = BUF_INIT(0);
	uint64_t timestamp = now_ns / NS_PER_S;

	add(h, "webhook-id", id);
	add_number(h, "webhook-timestamp", timestamp);
	letter_sign(&sign, p, id, timestamp, body);
	if (sign.n > 0)
		add(h, "webhook-signature", buf_str(&sign));
	add(h, "Idempotency-Key", id);
	if (!h->has_type)
		add(h, "Content-Type", STR("application/json"));
	if (!h->has_agent)
		add(h, "User-Agent",
		    arena_printf(h->a, "corvo/%s", corvo_version));
}

static void add_job(struct headers *h, const struct letter *l)
{
	const struct m_fetched *j = l->job;

	add(h, "X-Corvo-Job-Id", j->job_id);
	add_number(h, "X-Corvo-Attempt", j->attempt);
	add_number(h, "X-Corvo-Max-Retries", j->max_retries);
	if (!l->elsewhere)
		add_number(h, "X-Corvo-Lease-Token", j->lease_token);
}

/* Names of queues may have bytes that a header cannot. */
static void add_queue(struct headers *h, struct str queue)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	buf_put_percent(&b, queue);
	add(h, "X-Corvo-Queue", buf_str(&b));
}

bool letter_write(const struct letter *l, struct arena *a,
		  struct call_request *ret, const char **why)
{
	const struct m_push *p = l->push;
	struct str url = l->url != NULL ? str_from(l->url) : p->url;
	struct headers h = { .a = a };
	struct push_url parts;

	if (!push_url_parse(url, &parts, why))
		return false;
	h.list = arena_alloc(a, (LIMIT_PUSH_HEADERS + OWN_HEADERS) *
				    sizeof(*h.list));
	ret->url = arena_cstr(a, url);
	ret->host = arena_copy(a, parts.host);
	ret->method = enum_text(&enum_push_method, p->method);
	ret->body = write_body(l, a);
	if (MSG_HAS(p, push, credentials) && !l->elsewhere)
		ret->credentials = arena_cstr(a, p->credentials);
	add_own(&h, p, l->elsewhere);
	add_common(&h, p, l->job->job_id, l->now_ns, ret->body);
	add_job(&h, l);
	add_queue(&h, l->job->queue);
	ret->headers = h.list;
	ret->headers_n = h.n;
	return true;
}

/* --- events --- */

/* The same bytes at each try, which all have one Idempotency-Key: who compares
 * bodies under a key, as we do, would refuse another one. */
static struct str write_event(const struct event_letter *l, struct arena *a)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);

	jw_object(&w);
	jw_key(&w, "webhook_id");
	jw_str(&w, l->webhook->id);
	jw_key(&w, "type");
	jw_cstr(&w, enum_text(&enum_event_type, l->event->type));
	jw_key(&w, "timestamp");
	jw_time(&w, l->event->at);
	jw_key(&w, "event");
	event_to_json(l->event, &w);
	jw_key(&w, "sent_at"); /* receivers of releases before read it */
	jw_time(&w, l->event->at);
	jw_object_end(&w);
	return arena_copy(a, buf_str(&b));
}

static void add_time(struct headers *h, const char *name, uint64_t ns)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	time_format(&b, ns);
	add(h, name, buf_str(&b));
}

/* What receivers of releases before know: the secret as it is, and hex. */
static void add_plain_signature(struct headers *h, struct str secret,
				struct str body)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char mac[SHA256_BYTES];
	char hex[2 * SHA256_BYTES + 1];
	struct hmac_sha256 m;

	hmac_sha256_init(&m, secret);
	hmac_sha256_add(&m, body);
	hmac_sha256_end(&m, mac);
	for (size_t i = 0; i < sizeof(mac); i++) {
		hex[2 * i] = digits[mac[i] >> 4];
		hex[2 * i + 1] = digits[mac[i] & 15];
	}
	hex[sizeof(hex) - 1] = '\0';
	add(h, "X-Corvo-Signature", arena_printf(h->a, "sha256=%s", hex));
}

void letter_write_event(const struct event_letter *l, struct arena *a,
			struct call_request *ret)
{
	const struct m_webhook *w = l->webhook;
	struct m_push p = webhook_push(w);
	struct headers h = { .a = a };
	struct push_url parts;
	const char *why;

	CHECK(push_url_parse(w->url, &parts, &why));
	h.list = arena_alloc(a, (LIMIT_PUSH_HEADERS + OWN_HEADERS) *
				    sizeof(*h.list));
	ret->url = arena_cstr(a, w->url);
	ret->host = arena_copy(a, parts.host);
	ret->method = "POST";
	ret->body = write_event(l, a);
	if (MSG_HAS(w, webhook, credentials))
		ret->credentials = arena_cstr(a, w->credentials);
	add_own(&h, &p, false);
	add_common(&h, &p, l->id, l->now_ns, ret->body);
	add(&h, "X-Corvo-Webhook-ID", w->id);
	add(&h, "X-Corvo-Webhook-Event",
	    str_from(enum_text(&enum_event_type, l->event->type)));
	add_number(&h, "X-Corvo-Attempt", l->attempt);
	add_time(&h, "X-Corvo-Sent-At", l->now_ns);
	if (MSG_HAS(w, webhook, secret))
		add_plain_signature(&h, w->secret, ret->body);
	ret->headers = h.list;
	ret->headers_n = h.n;
}
