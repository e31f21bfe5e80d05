/*
 * The job a delivery becomes. All that can be asked for is written as one
 * document, {body, headers, query, hook, raw}, and places are looked up there.
 */
#include "hook/hook.h"

#include <strings.h>

#include "hook/hook_impl.h"
#include "jq/jq.h"
#include "proto/msg_json.h"
#include "proto/route.h"
#include "util/base64.h"
#include "util/json.h"
#include "util/sha256.h"
#include "util/turn.h"

/* What all deliveries are known to idempotency by: their name alone tells them
 * apart. The last bit says that the answer is that of one job. */
#define DELIVERY_HASH 0x686f6f6aULL

struct mapping {
	struct str payload; /* the body as its sender meant it, as JSON */
	struct str document;
	struct arena *a;
	struct buf *why;
};

/* --- headers and arguments --- */

struct str hook_find_field(const struct hook_fields *f, struct str name)
{
	for (size_t i = 0; i < f->n; i++) {
		struct str n = f->list[i].name;
		size_t k = 0;

		if (n.n != name.n)
			continue;
		while (k < n.n && hook_lower(name.p[k]) == hook_lower(n.p[k]))
			k++;
		if (k == n.n)
			return f->list[i].value;
	}
	return STR_NULL;
}

struct str hook_header(const struct hook_delivery *d, const char *name)
{
	return hook_find_field(&d->headers, str_from(name));
}

static struct hook_field *find(struct hook_fields *f, struct str name)
{
	for (size_t i = 0; i < f->n; i++)
		if (str_eq(f->list[i].name, name))
			return &f->list[i];
	return NULL;
}

static void add(struct hook_fields *f, struct str name, struct str value,
		struct arena *a)
{
	f->list = arena_grow(a, f->list, sizeof(*f->list), f->n, &f->cap);
	f->list[f->n++] = (struct hook_field){ name, value };
}

void hook_add_header(struct hook_fields *f, struct str name, struct str value,
		     struct arena *a)
{
	char *low = arena_alloc(a, name.n + 1);
	struct hook_field *old;

	for (size_t i = 0; i < name.n; i++)
		low[i] = hook_lower(name.p[i]);
	name = str_of(low, name.n);
	old = find(f, name);
	if (old == NULL)
		add(f, name, value, a);
	else
		old->value = arena_printf(a, "%.*s, %.*s", STR_ARG(old->value),
					  STR_ARG(value));
}

void hook_add_argument(struct hook_fields *f, struct str name, struct str value,
		       struct arena *a)
{
	if (find(f, name) == NULL)
		add(f, name, value, a);
}

/* --- the document --- */

static void put_base64(struct json_writer *w, struct str bytes)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	base64_write(&text, bytes, true);
	jw_str(w, buf_str(&text));
}

/* Headers are bytes; those that are no UTF-8 are read as Latin-1. */
static void put_header(struct json_writer *w, struct str value)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	if (str_is_utf8(value)) {
		jw_str(w, value);
		return;
	}
	for (size_t i = 0; i < value.n; i++) {
		unsigned char c = (unsigned char)value.p[i];

		if (c >= 0x80)
			buf_putc(&text, (char)(0xc0 | c >> 6));
		buf_putc(&text, c < 0x80 ? (char)c : (char)(0x80 | (c & 0x3f)));
	}
	jw_str(w, buf_str(&text));
}

static bool is_json(struct str text)
{
	struct json_error err;

	return json_validate(text, LIMIT_JSON_DEPTH, &err);
}

/* Copied to where it lives as long as the arena. */
static struct str keep(struct buf *b, struct arena *a)
{
	struct str s = arena_copy(a, buf_str(b));

	buf_done(b);
	return s;
}

/* Some bytes that no JSON has would be six in a text. */
size_t hook_payload_most(struct str body)
{
	size_t n = 2 * body.n;

	for (size_t i = 0; i < body.n; i++) {
		if ((unsigned char)body.p[i] < ' ')
			n += body.p[i] == '\n' || body.p[i] == '\t' ? 0 : 4;
		turn_at(i);
	}
	return n;
}

struct str hook_payload(struct str body, struct arena *a)
{
	struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);

	if (body.n == 0)
		return STR("{}");
	if (is_json(body))
		return body;
	if (turn_is_over()) /* nobody wants it */
		return STR("{}");
	if (str_is_utf8(body)) {
		jw_str(&w, body);
		return keep(&b, a);
	}
	jw_object(&w);
	jw_key(&w, "base64");
	put_base64(&w, body);
	jw_object_end(&w);
	return keep(&b, a);
}

/* GitHub sends a form unless it was told to send JSON; its one member that
 * counts is what else would be the body. */
static bool is_form(const struct m_hook *h, const struct hook_delivery *d)
{
	const struct str form = STR("application/x-www-form-urlencoded");
	struct str type = hook_header(d, "content-type"), rest;

	(void)str_split(type, ';', &type, &rest);
	type = str_trim(type);
	return h->verify == HOOK_VERIFY_GITHUB && type.n == form.n &&
	       strncasecmp(type.p, form.p, form.n) == 0;
}

static bool form_decode(struct str value, struct arena *a, struct str *ret)
{
	char *text = arena_cstr(a, value);

	for (size_t i = 0; i < value.n; i++) {
		if (text[i] == '+')
			text[i] = ' ';
		turn_at(i);
	}
	return url_decode(str_of(text, value.n), a, ret);
}

/* The body as its sender meant it; what is signed are the bytes that came. */
static struct str meant_body(const struct m_hook *h,
			     const struct hook_delivery *d, struct arena *a)
{
	struct str rest = d->body, one, name, value;

	while (is_form(h, d) && rest.n > 0) {
		(void)turn_step();
		(void)str_split(rest, '&', &one, &rest);
		(void)str_split(one, '=', &name, &value);
		if (str_is(name, "payload") && form_decode(value, a, &value))
			return value;
	}
	return d->body;
}

/* What it is verified by, and what logs somebody in, is no business of jobs. */
static bool is_private(const struct m_hook *h, struct str header)
{
	static const char *const names[] = { "authorization",
					     "proxy-authorization", "cookie" };
	const struct hook_field one = { h->token_header, STR("x") };
	const struct hook_fields token = { (struct hook_field *)&one, 1, 0 };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_is(header, names[i]))
			return true;
	return hook_find_field(&token, header).n > 0;
}

static bool has_word(struct str text, const char *word)
{
	return text.n > 0 && memmem(text.p, text.n, word, strlen(word)) != NULL;
}

/* It is a third larger than the body, and few want it. */
static bool wants_raw(const struct m_hook *h)
{
	return has_word(h->payload, "raw") || has_word(h->tags, "raw") ||
	       has_word(h->unique_key, "raw") ||
	       has_word(h->delivery_id, "raw") || has_word(h->queue, "raw");
}

static struct str write_document(const struct m_hook *h,
				 const struct hook_delivery *d,
				 struct str payload, struct arena *a)
{
	struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);

	jw_object(&w);
	jw_key(&w, "hook");
	jw_str(&w, h->name);
	jw_key(&w, "body");
	jw_raw(&w, payload);
	jw_key(&w, "headers");
	jw_object(&w);
	for (size_t i = 0; i < d->headers.n; i++) {
		if (is_private(h, d->headers.list[i].name))
			continue;
		jw_key_str(&w, d->headers.list[i].name);
		put_header(&w, d->headers.list[i].value);
	}
	jw_object_end(&w);
	jw_key(&w, "query");
	jw_object(&w);
	for (size_t i = 0; i < d->query.n; i++) {
		jw_key_str(&w, d->query.list[i].name);
		jw_str(&w, d->query.list[i].value);
	}
	jw_object_end(&w);
	if (wants_raw(h)) {
		jw_key(&w, "raw");
		put_base64(&w, d->body);
	}
	jw_object_end(&w);
	return keep(&b, a);
}

/* --- places --- */

/* 1 found, 0 the place leads nowhere or to null, or -ERR_. */
static int look_up(const struct mapping *m, struct str place, struct json *ret)
{
	struct jq_error err;
	struct jq *jq = jq_parse_path(place, m->a, &err);
	bool found;

	if (jq == NULL) {
		buf_printf(m->why, "\"%.*s\" is no place: %s at byte %zu",
			   STR_ARG(place), err.text, err.pos);
		return -ERR_VALIDATION_ERROR;
	}
	found = jq_find(jq, m->document, ret);
	jq_done(jq);
	return found && json_type_of(*ret) != JSON_NULL;
}

/* The text a member stands for: 1, 0 there is none, or -ERR_. */
static int read_text(const struct mapping *m, struct str member,
		     struct str expression, struct str *ret)
{
	struct json v;
	int r;

	*ret = expression;
	if (!hook_is_place(expression))
		return expression.n > 0;
	r = look_up(m, expression, &v);
	if (r <= 0)
		return r;
	*ret = v.raw;
	if (json_type_of(v) == JSON_STRING)
		*ret = json_string(v, m->a);
	else if (json_type_of(v) == JSON_OBJECT ||
		 json_type_of(v) == JSON_ARRAY) {
		buf_printf(m->why,
			   "%.*s: %.*s is %s in this delivery; it must be a "
			   "text, a number, true or false",
			   STR_ARG(member), STR_ARG(expression),
			   json_type_name(json_type_of(v)));
		return -ERR_VALIDATION_ERROR;
	}
	return ret->n > 0;
}

/* --- members of the job --- */

static int map_queue(const struct mapping *m, const struct m_hook *h,
		     struct m_enqueue *ret)
{
	struct str text;
	int r = read_text(m, STR("queue"), h->queue, &text);

	if (r < 0)
		return r;
	if (r == 0) {
		buf_printf(m->why, "queue: there is nothing at %.*s",
			   STR_ARG(h->queue));
		return -ERR_VALIDATION_ERROR;
	}
	MSG_SET(ret, enqueue, queue, text);
	return 0;
}

/* Places that lead nowhere are left out. */
static int map_payload(const struct mapping *m, const struct m_hook *h,
		       struct m_enqueue *ret)
{
	struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);
	struct json_iter it;
	struct str name, text;
	struct json v;
	int r = 0;

	if (h->payload.n == 0) {
		MSG_SET(ret, enqueue, payload, m->payload);
		return 0;
	}
	it = json_iter(json_root(h->payload));
	jw_object(&w);
	while (r >= 0 && json_next_member(&it, m->a, &name, &v)) {
		text = json_string(v, m->a);
		r = hook_is_place(text) ? look_up(m, text, &v) : 1;
		if (r <= 0)
			continue;
		jw_key_str(&w, name);
		jw_raw(&w, v.raw);
	}
	jw_object_end(&w);
	MSG_SET(ret, enqueue, payload, keep(&b, m->a));
	if (r >= 0 && !is_json(ret->payload)) {
		buf_printf(m->why, "payload: would have more than %d levels",
			   LIMIT_JSON_DEPTH);
		return -ERR_VALIDATION_ERROR;
	}
	return MIN(r, 0);
}

static int map_tags(const struct mapping *m, const struct m_hook *h,
		    struct m_enqueue *ret)
{
	struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);
	struct json_iter it;
	struct str name, text;
	struct json v;
	int r = 0;

	if (h->tags.n == 0)
		return 0;
	it = json_iter(json_root(h->tags));
	jw_object(&w);
	while (r >= 0 && json_next_member(&it, m->a, &name, &v)) {
		r = read_text(m, arena_printf(m->a, "tags.%.*s", STR_ARG(name)),
			      json_string(v, m->a), &text);
		if (r <= 0)
			continue;
		jw_key_str(&w, name);
		jw_str(&w, text);
	}
	jw_object_end(&w);
	MSG_SET(ret, enqueue, tags, keep(&b, m->a));
	return MIN(r, 0);
}

static int map_key(const struct mapping *m, const struct m_hook *h,
		   struct m_enqueue *ret)
{
	struct str text;
	int r = read_text(m, STR("unique_key"), h->unique_key, &text);

	if (r <= 0)
		return r;
	MSG_SET(ret, enqueue, unique_key, text);
	if (MSG_HAS(h, hook, unique_period))
		MSG_SET(ret, enqueue, unique_period, h->unique_period);
	if (MSG_HAS(h, hook, as_numbers))
		MSG_SET(ret, enqueue, as_numbers, h->as_numbers);
	return 0;
}

/* Where senders have it. */
static struct str id_place(const struct m_hook *h)
{
	if (h->delivery_id.n > 0)
		return h->delivery_id;
	switch ((enum hook_verify)h->verify) {
	case HOOK_VERIFY_GITHUB:
		/* its id is not signed: who replays a body could change it */
		return STR(".headers[\"x-hub-signature-256\"]");
	case HOOK_VERIFY_STRIPE:
		return STR(".body.id");
	case HOOK_VERIFY_SLACK:
		return STR(".body.event_id");
	case HOOK_VERIFY_STANDARD:
		return STR(".headers[\"webhook-id\"]");
	case HOOK_VERIFY_NONE:
	case HOOK_VERIFY_TOKEN:
		break;
	}
	return STR(".headers[\"idempotency-key\"]");
}

/*
 * As an idempotency key: behind a byte that no header can have, so that no
 * client's key is ever taken for one.
 */
static int map_id(const struct mapping *m, const struct m_hook *h,
		  struct m_enqueue *ret)
{
	struct buf b = BUF_INIT(0);
	unsigned char digest[SHA256_BYTES];
	struct sha256 sha;
	struct str text;
	int r = read_text(m, STR("delivery_id"), id_place(h), &text);

	if (r <= 0)
		return r;
	buf_printf(&b, "\x1f%.*s\x1f", STR_ARG(h->name));
	if (b.n + text.n <= LIMIT_UNIQUE_KEY_BYTES) {
		buf_put_str(&b, text);
	} else {
		sha256_init(&sha);
		sha256_add(&sha, text);
		sha256_end(&sha, digest);
		base64_write(&b, str_of(digest, sizeof(digest)), false);
	}
	MSG_SET(ret, enqueue, idempotency_key, keep(&b, m->a));
	MSG_SET(ret, enqueue, idempotency_hash, DELIVERY_HASH);
	return 0;
}

bool hook_is_challenge(const struct m_hook *h, const struct hook_delivery *d,
		       struct arena *a, struct str *ret)
{
	struct json v, type, text;

	if (h->verify != HOOK_VERIFY_SLACK || !is_json(d->body))
		return false;
	v = json_root(d->body);
	if (json_type_of(v) != JSON_OBJECT ||
	    !json_member(v, "type", a, &type) ||
	    json_type_of(type) != JSON_STRING ||
	    !str_is(json_string(type, a), "url_verification") ||
	    !json_member(v, "challenge", a, &text) ||
	    json_type_of(text) != JSON_STRING)
		return false;
	*ret = json_string(text, a);
	return true;
}

int hook_map(const struct m_hook *h, const struct hook_delivery *d,
	     struct arena *a, struct m_enqueue *ret, struct buf *why)
{
	struct mapping m = { .a = a, .why = why };
	int r;

	m.payload = hook_payload(meant_body(h, d, a), a);
	m.document = write_document(h, d, m.payload, a);
	*ret = (struct m_enqueue){ 0 };
	r = map_queue(&m, h, ret);
	if (r == 0)
		r = map_payload(&m, h, ret);
	if (r == 0)
		r = map_tags(&m, h, ret);
	if (r == 0)
		r = map_key(&m, h, ret);
	if (r == 0)
		r = map_id(&m, h, ret);
	if (MSG_HAS(h, hook, priority))
		MSG_SET(ret, enqueue, priority, h->priority);
	if (MSG_HAS(h, hook, max_retries))
		MSG_SET(ret, enqueue, max_retries, h->max_retries);
	return r == 0 ? msg_check(&msg_enqueue, ret, why) : r;
}
