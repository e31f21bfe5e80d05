/*
 * See jq/policy.h. A tag becomes a condition on the object of all tags.
 */
#include "jq/policy.h"

#include "proto/limits.h"
#include "util/glob.h"

/* --- reading --- */

_printf_(2, 3) static bool wrong(struct buf *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_clear(why);
	buf_vprintf(why, fmt, ap);
	va_end(ap);
	return false;
}

/* .["key"] == "value", or != null. */
static bool read_tag(const struct m_policy *m, struct arena *a,
		     struct policy *ret, struct buf *why)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&text);
	struct jq_error err;

	if (m->tag_key.n == 0 && m->tag_value.n > 0)
		return wrong(why, "tag_value: must stand beside tag_key");
	if (m->tag_key.n == 0)
		return true;
	buf_puts(&text, ".[");
	jw_str(&w, m->tag_key);
	buf_puts(&text, "]");
	w = (struct json_writer)JSON_WRITER(&text);
	if (m->tag_value.n > 0) {
		buf_puts(&text, " == ");
		jw_str(&w, m->tag_value);
	} else {
		buf_puts(&text, " != null");
	}
	ret->tag = jq_parse(arena_copy(a, buf_str(&text)), a, &err);
	CHECK(ret->tag != NULL);
	return true;
}

static bool read_payload(const struct m_policy *m, struct arena *a,
			 struct policy *ret, struct buf *why)
{
	struct jq_error err;

	if (!MSG_HAS(m, policy, payload_jq))
		return true;
	ret->payload = jq_parse(m->payload_jq, a, &err);
	if (ret->payload == NULL)
		return wrong(why, "payload_jq: %s at byte %zu", err.text,
			     err.pos + 1);
	ret->tests = jq_tests(ret->payload);
	return true;
}

static bool read_points(const struct m_policy *m, struct policy *ret,
			struct buf *why)
{
	uint32_t point;

	if (MSG_HAS(m, policy, at) && m->at_n == 0)
		return wrong(why, "at: must name at least one of enqueue, "
				  "fetch and continue");
	if (m->at_n == 0)
		ret->at = 1u << POINT_CONTINUE;
	for (size_t i = 0; i < m->at_n; i++) {
		if (!enum_parse(&enum_policy_point, m->at[i], &point))
			return wrong(why, "at: must be enqueue, fetch or "
					  "continue");
		ret->at = (uint8_t)(ret->at | 1u << point);
	}
	return true;
}

#define CONDITIONS                                                    \
	(MSG_BIT(policy, queue) | MSG_BIT(policy, tag_key) |          \
	 MSG_BIT(policy, cost_min) | MSG_BIT(policy, iteration_min) | \
	 MSG_BIT(policy, payload_jq) | MSG_BIT(policy, provider_state))

static bool check_members(const struct m_policy *m, struct buf *why)
{
	if ((m->has & CONDITIONS) == 0)
		return wrong(why, "queue: a policy needs a condition: queue, "
				  "tag_key, cost_min, iteration_min, "
				  "payload_jq or provider_state; queue * is "
				  "every job");
	if (MSG_HAS(m, policy, cost_min) && m->cost_min == 0)
		return wrong(why, "cost_min: must be more than 0");
	if (MSG_HAS(m, policy, iteration_min) && m->iteration_min == 0)
		return wrong(why, "iteration_min: must be 1 or more");
	if (MSG_HAS(m, policy, provider_state) &&
	    m->provider_state < PROVIDER_DEGRADED)
		return wrong(why, "provider_state: must be degraded or "
				  "failing");
	if (MSG_HAS(m, policy, on_deadline) && m->deadline == 0)
		return wrong(why, "on_deadline: must stand beside deadline");
	if (MSG_HAS(m, policy, deadline) && m->deadline == 0)
		return wrong(why, "deadline: must be longer than 0");
	return true;
}

bool policy_read(const struct m_policy *m, struct arena *a, struct policy *ret,
		 struct buf *why)
{
	*ret = (struct policy){ .m = *m };
	return check_members(m, why) && read_points(m, ret, why) &&
	       read_tag(m, a, ret, why) && read_payload(m, a, ret, why);
}

void policy_done(struct policy *p)
{
	jq_done(p->tag);
	jq_done(p->payload);
}

/* --- matching --- */

/* What has been found out; in mode any one that holds is enough, else one that
 * does not. */
static bool is_settled(const struct policy *p, bool truth)
{
	return truth == (p->m.mode == POLICY_ANY);
}

static bool document_matches(struct jq *jq, struct str text)
{
	return text.n > 0 && jq_matches(jq, text);
}

/* Those that cost little first. */
bool policy_matches(struct policy *p, struct policy_subject *s)
{
	const struct m_policy *m = &p->m;
	bool truth = false;

	if (MSG_HAS(m, policy, queue)) {
		truth = glob_matches(m->queue, s->queue);
		if (is_settled(p, truth))
			return truth;
	}
	if (MSG_HAS(m, policy, cost_min)) {
		truth = s->cost >= m->cost_min;
		if (is_settled(p, truth))
			return truth;
	}
	if (MSG_HAS(m, policy, iteration_min)) {
		truth = s->iteration >= m->iteration_min;
		if (is_settled(p, truth))
			return truth;
	}
	if (MSG_HAS(m, policy, provider_state)) {
		truth = s->provider >= m->provider_state;
		if (is_settled(p, truth))
			return truth;
	}
	if (p->tag != NULL) {
		s->looked += s->tags.n * 2; /* as of a payload, one place */
		truth = document_matches(p->tag, s->tags);
		if (is_settled(p, truth))
			return truth;
	}
	if (p->payload == NULL)
		return truth;
	/* once for each place, and to see that it is JSON */
	s->looked += s->payload.n * (p->tests + 1);
	return document_matches(p->payload,
				s->payload.n > 0 ? s->payload : STR("{}"));
}
