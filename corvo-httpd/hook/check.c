/*
 * What must hold of a webhook before it is set, so that a mistake is told to
 * who makes it and not to who delivers.
 */
#include "hook/hook.h"
#include "hook/hook_impl.h"
#include "jq/jq.h"
#include "proto/msg_json.h"
#include "util/clock.h"
#include "util/json.h"

static int refuse(struct buf *why, const char *text)
{
	buf_puts(why, text);
	return -ERR_VALIDATION_ERROR;
}

/* Whether a delivery has such places at all. */
static bool is_of_delivery(const struct jq *path)
{
	static const char *const names[] = { "body", "headers", "query", "hook",
					     "raw" };
	struct str first;

	if (!jq_path_first(path, &first))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_is(first, names[i]))
			return true;
	return first.n == 0;
}

static int check_place(const char *member, struct str text, struct arena *a,
		       struct buf *why)
{
	struct jq_error err;
	struct jq *path;

	if (!hook_is_place(text))
		return 0;
	path = jq_parse_path(text, a, &err);
	if (path != NULL && is_of_delivery(path))
		return 0;
	if (path != NULL)
		buf_printf(why,
			   "%s: a delivery has no place \"%.*s\"; there are "
			   ".body, .headers, .query, .hook and .raw",
			   member, STR_ARG(text));
	else
		buf_printf(why, "%s: %s at byte %zu of \"%.*s\"", member,
			   err.text, err.pos, STR_ARG(text));
	return -ERR_VALIDATION_ERROR;
}

/* Its values are texts: the table says so. */
static int check_places(const char *member, struct str object, struct arena *a,
			struct buf *why)
{
	struct json_iter it;
	struct str name;
	struct json v;
	int r = 0;

	if (object.n == 0)
		return 0;
	it = json_iter(json_root(object));
	while (r == 0 && json_next_member(&it, a, &name, &v))
		r = check_place(member, json_string(v, a), a, why);
	return r;
}

static int check_queue(const struct m_set_hook *m, struct arena *a,
		       struct buf *why)
{
	size_t before = why->n;
	int r = check_place("queue", m->queue, a, why);

	if (r < 0 || hook_is_place(m->queue))
		return r;
	buf_puts(why, "queue: ");
	r = queue_name_check(m->queue, why);
	if (r == 0)
		why->n = before;
	return r;
}

static bool is_visible(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] >= 0x7f)
			return false;
	return true;
}

static int check_secret(const struct m_set_hook *m, struct str secret,
			const char *member, struct buf *why)
{
	_cleanup_(buf_done) struct buf key = BUF_INIT(0);

	if (secret.n == 0)
		return 0;
	if (m->verify == HOOK_VERIFY_STANDARD &&
	    !hook_key(secret, true, &key)) {
		buf_printf(why,
			   "%s: must be base64, perhaps with whsec_ before it",
			   member);
		return -ERR_VALIDATION_ERROR;
	}
	if (m->verify == HOOK_VERIFY_TOKEN && !is_visible(secret)) {
		buf_printf(why, "%s: a token must be of visible characters",
			   member);
		return -ERR_VALIDATION_ERROR;
	}
	return 0;
}

static bool is_timed(uint32_t verify)
{
	return verify == HOOK_VERIFY_STRIPE || verify == HOOK_VERIFY_SLACK ||
	       verify == HOOK_VERIFY_STANDARD;
}

static int check_verify(const struct m_set_hook *m, struct buf *why)
{
	int r = check_secret(m, m->secret, "secret", why);

	if (r == 0)
		r = check_secret(m, m->previous_secret, "previous_secret", why);
	if (r < 0)
		return r;
	if (m->token_header.n > 0 && m->verify != HOOK_VERIFY_TOKEN)
		return refuse(why, "token_header: goes with verify token");
	if (m->token_header.n > 0 &&
	    !str_is_name(m->token_header, LIMIT_HOOK_HEADER_BYTES))
		return refuse(why,
			      "token_header: must be the name of a header");
	if (!MSG_HAS(m, set_hook, tolerance))
		return 0;
	if (!is_timed(m->verify))
		return refuse(why, "tolerance: goes with verify stripe, slack "
				   "or standard");
	if (m->tolerance < NS_PER_S ||
	    m->tolerance > LIMIT_HOOK_TOLERANCE_S * NS_PER_S)
		return refuse(why, "tolerance: must be from 1s to 24h");
	return 0;
}

int hook_check(const struct m_set_hook *m, struct arena *a, struct buf *why)
{
	int r = check_queue(m, a, why);

	if (r == 0)
		r = check_verify(m, why);
	if (r == 0 && m->delivery_id.n > 0 && !hook_is_place(m->delivery_id))
		r = refuse(why, "delivery_id: must be a place in the delivery, "
				"such as .body.id");
	if (r == 0)
		r = check_place("delivery_id", m->delivery_id, a, why);
	if (r == 0)
		r = check_place("unique_key", m->unique_key, a, why);
	if (r == 0 && MSG_HAS(m, set_hook, unique_period) &&
	    m->unique_key.n == 0)
		r = refuse(why, "unique_period: goes with unique_key");
	if (r == 0)
		r = check_places("payload", m->payload, a, why);
	return r == 0 ? check_places("tags", m->tags, a, why) : r;
}
