/*
 * See proto/webhook.h.
 */
#include "proto/webhook.h"

#include <ctype.h>

#include "proto/push.h"
#include "util/glob.h"
#include "util/json.h"

#define PUSH_WORD   "push." /* what names of push_check begin with */
#define DELAY_MAX_S 86400

bool webhook_id_fits(struct str id)
{
	for (size_t i = 0; i < id.n; i++)
		if (id.p[i] == '.')
			return false; /* it parts what is signed */
	return str_is_name(id, LIMIT_WEBHOOK_ID_BYTES);
}

/* --- settings --- */

struct m_push webhook_push(const struct m_webhook *w)
{
	struct m_push p = { 0 };

	MSG_SET(&p, push, url, w->url);
	MSG_SET(&p, push, timeout, w->timeout);
	if (MSG_HAS(w, webhook, headers))
		MSG_SET(&p, push, headers, w->headers);
	if (MSG_HAS(w, webhook, secret))
		MSG_SET(&p, push, secret, w->secret);
	if (MSG_HAS(w, webhook, previous_secret))
		MSG_SET(&p, push, previous_secret, w->previous_secret);
	if (MSG_HAS(w, webhook, credentials))
		MSG_SET(&p, push, credentials, w->credentials);
	return p;
}

static int check_call(const struct m_webhook *w, struct arena *a,
		      struct buf *why)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(4096);
	struct m_push p = webhook_push(w);
	int r;

	if (MSG_HAS(w, webhook, any_secret)) {
		MSG_UNSET(&p, push, secret);
		MSG_UNSET(&p, push, previous_secret);
	}
	r = push_check(&p, a, &b);
	if (r < 0)
		buf_put_str(why, str_skip(buf_str(&b), strlen(PUSH_WORD)));
	return r;
}

static int check_delay(const char *member, uint64_t ns, struct buf *why)
{
	if (ns >= NS_PER_MS && ns <= DELAY_MAX_S * NS_PER_S)
		return 0;
	buf_printf(why, "%s: must be from 1ms to 24h", member);
	return -ERR_VALIDATION_ERROR;
}

static int check_patterns(const char *member, const struct str *list, size_t n,
			  struct buf *why)
{
	if (n > LIMIT_WEBHOOK_PATTERNS) {
		buf_printf(why, "%s: at most %d", member,
			   LIMIT_WEBHOOK_PATTERNS);
		return -ERR_VALIDATION_ERROR;
	}
	for (size_t i = 0; i < n; i++)
		if (list[i].n == 0) {
			buf_printf(why, "%s: an empty text names nothing",
				   member);
			return -ERR_VALIDATION_ERROR;
		}
	return 0;
}

int webhook_check(const struct m_webhook *w, struct arena *a, struct buf *why)
{
	int r = check_call(w, a, why);

	if (r == 0)
		r = check_patterns("events", w->events, w->events_n, why);
	if (r == 0)
		r = check_patterns("queues", w->queues, w->queues_n, why);
	if (r == 0)
		r = check_delay("retry_delay", w->retry_delay, why);
	if (r == 0)
		r = check_delay("retry_max_delay", w->retry_max_delay, why);
	return r;
}

/* --- events --- */

static bool names_type(struct str pattern, uint32_t type)
{
	const char *name = enum_text(&enum_event_type, type);
	char small[LIMIT_EVENT_TYPE_BYTES];

	if (name == NULL || pattern.n > sizeof(small))
		return false;
	for (size_t i = 0; i < pattern.n; i++)
		small[i] = (char)tolower((unsigned char)pattern.p[i]);
	return glob_matches(str_of(small, pattern.n), str_from(name));
}

int webhook_check_events(const struct str *patterns, size_t n, struct buf *why)
{
	for (size_t i = 0; i < n; i++) {
		bool known = false;

		for (uint32_t t = 0; t < EVENT_TYPE_MAX && !known; t++)
			known = names_type(patterns[i], t);
		if (known)
			continue;
		buf_printf(why,
			   "events: there is no event type \"%.*s\"; "
			   "/openapi.json lists them",
			   STR_ARG(patterns[i]));
		return -ERR_VALIDATION_ERROR;
	}
	return 0;
}

void webhook_types(const struct m_webhook *w, struct event_types *ret)
{
	*ret = (struct event_types){ 0 };
	for (size_t i = 0; i < w->events_n; i++)
		for (uint32_t t = 0; t < EVENT_TYPE_MAX; t++)
			ret->has[t] |= names_type(w->events[i], t);
}

bool webhook_is_meant(const struct m_webhook *w, const struct m_event *e)
{
	struct arena a = ARENA_INIT;
	struct json v;
	bool is = e->data.n > 0 &&
		  json_member(json_root(e->data), "webhook_id", &a, &v) &&
		  json_type_of(v) == JSON_STRING &&
		  str_eq(json_string(v, &a), w->id);

	arena_done(&a);
	return is;
}

bool webhook_takes(const struct m_webhook *w, const struct event_types *t,
		   const struct m_event *e)
{
	if (e->type == EVENT_WEBHOOK_TEST)
		return webhook_is_meant(w, e);
	if (e->type >= EVENT_TYPE_MAX || !t->has[e->type])
		return false;
	for (size_t i = 0; i < w->queues_n; i++)
		if (glob_matches(w->queues[i], e->queue))
			return e->queue.n > 0;
	return w->queues_n == 0;
}

/* --- deliveries --- */

void webhook_put_delivery_id(struct buf *out, struct str id, uint64_t seq)
{
	buf_printf(out, "%.*s_%llu", STR_ARG(id), (unsigned long long)seq);
}

bool webhook_read_delivery_id(struct str text, struct str id, uint64_t *ret)
{
	if (str_starts(text, id) && text.n > id.n && text.p[id.n] == '_')
		text = str_skip(text, id.n + 1);
	return str_parse_u64(text, ret) && *ret > 0;
}
