/*
 * See push/letter.h.
 */
#include "push/letter.h"

#include <strings.h>

#include "proto/push.h"
#include "util/base64.h"
#include "util/json.h"
#include "util/sha256.h"

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

static void add_own(struct headers *h, const struct letter *l)
{
	struct json_iter it;
	struct json v;
	struct str name;

	if (!MSG_HAS(l->push, push, headers))
		return;
	it = json_iter(json_root(l->push->headers));
	while (json_next_member(&it, h->a, &name, &v)) {
		if (l->elsewhere && push_header_is_secret(name))
			continue;
		h->has_type |= is_name(name, "content-type");
		h->has_agent |= is_name(name, "user-agent");
		add(h, arena_cstr(h->a, name), json_string(v, h->a));
	}
}

static void add_job(struct headers *h, const struct letter *l, struct str body)
{
	_cleanup_(buf_done) struct buf sign = BUF_INIT(0);
	const struct m_fetched *j = l->job;
	uint64_t timestamp = l->now_ns / NS_PER_S;

	add(h, "webhook-id", j->job_id);
	add_number(h, "webhook-timestamp", timestamp);
	letter_sign(&sign, l->push, j->job_id, timestamp, body);
	if (sign.n > 0)
		add(h, "webhook-signature", buf_str(&sign));
	add(h, "Idempotency-Key", j->job_id);
	add(h, "X-Corvo-Job-Id", j->job_id);
	add_number(h, "X-Corvo-Attempt", j->attempt);
	add_number(h, "X-Corvo-Max-Retries", j->max_retries);
	if (!l->elsewhere)
		add_number(h, "X-Corvo-Lease-Token", j->lease_token);
	if (!h->has_type)
		add(h, "Content-Type", STR("application/json"));
	if (!h->has_agent)
		add(h, "User-Agent",
		    arena_printf(h->a, "corvo/%s", corvo_version));
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
	add_own(&h, l);
	add_job(&h, l, ret->body);
	add_queue(&h, l->job->queue);
	ret->headers = h.list;
	ret->headers_n = h.n;
	return true;
}
