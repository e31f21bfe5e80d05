/*
 * The event feed of what is not a job itself: scores, iterations, budgets,
 * providers, policies and webhooks. See store/record_feed.c.
 */
#include "store/key.h"
#include "store/record_feed_impl.h"
#include "util/json.h"

void *feed_grow(struct arena *a, void *list, size_t size, size_t n, size_t *cap)
{
	void *p;

	*cap = MAX(*cap * 2, (size_t)64);
	p = arena_alloc(a, *cap * size);
	if (n > 0)
		memcpy(p, list, n * size);
	return p;
}

bool feed_seen(struct hmap *m, struct str id)
{
	static char mark;

	return hmap_put(m, id, &mark) != NULL;
}

struct str feed_member(struct feed *f, const struct m_event *e,
		       const char *name)
{
	struct json root, v;

	if (e->data.n == 0)
		return STR_NULL;
	root = json_root(e->data);
	if (json_type_of(root) != JSON_OBJECT ||
	    !json_member(root, name, f->a, &v) ||
	    json_type_of(v) != JSON_STRING)
		return STR_NULL;
	return json_string(v, f->a);
}

/* All that the job has: they are few. */
int feed_scores(struct feed *f, struct str id)
{
	struct m_score_list list;
	int r;

	if (feed_seen(&f->scored, id))
		return 0;
	r = record_scores(f->kv, id, f->a, &list);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list.scores_n; i++) {
		*FEED_ADD(f, scores) = list.scores[i];
		f->bytes += RECORD_OVERHEAD + list.scores[i].comment.n;
	}
	return 0;
}

/* 1 found, 0 there is none, or none any more, -ERR_*. */
static int feed_read_iteration(struct feed *f, struct str id, uint32_t n,
			       struct arena *a, struct m_iteration *ret)
{
	struct str raw;
	struct key k;
	int r;

	*ret = (struct m_iteration){ 0 };
	key_iteration(&k, id, n);
	r = record_get(f->kv, &k, a, &raw);
	if (r > 0 && !record_iteration(id, n, raw, a, ret))
		return record_damaged();
	return r;
}

/*
 * The iteration whose end this event tells: its record names the event before.
 * Nearly always it is the newest; in a view that is behind it is one of those
 * before, and found by halves. 1 found, 0 there is none, -ERR_*.
 */
static int feed_find_iteration(struct feed *f, const struct m_event *e,
			       uint32_t newest, uint32_t *ret)
{
	uint32_t low =
	    newest - MIN(newest - 1, (uint32_t)LIMIT_ITERATIONS_KEPT);
	uint32_t high = newest, n = newest;
	struct arena a = ARENA_INIT; /* results may be large */
	struct m_iteration m;
	int r = 0;

	while (low <= high && r >= 0) {
		arena_reset(&a);
		r = feed_read_iteration(f, e->job_id, n, &a, &m);
		if (r > 0 && m.seq + 1 == e->seq)
			break;
		/* the present one has no record, those that went had one */
		if (r > 0 ? m.seq >= e->seq : n == newest)
			high = n - 1;
		else
			low = n + 1;
		n = n == newest ? high : low + (high - low) / 2;
	}
	arena_done(&a);
	*ret = n;
	return r < 0 ? r : low <= high;
}

int feed_iteration(struct feed *f, const struct m_event *e, uint32_t newest)
{
	struct m_iteration m;
	uint32_t n;
	int r = feed_find_iteration(f, e, newest, &n);

	if (r > 0)
		r = feed_read_iteration(f, e->job_id, n, f->a, &m);
	if (r <= 0)
		return r;
	*FEED_ADD(f, iterations) = m;
	f->bytes += 4 * RECORD_OVERHEAD + m.result.n + m.trace.n;
	return 0;
}

int feed_budget(struct feed *f, const struct m_event *e)
{
	struct str id = feed_member(f, e, "id");
	struct str target = feed_member(f, e, "target");
	struct m_budget m;
	uint32_t scope;
	struct key k;
	int r;

	if (feed_seen(&f->budgets, id) ||
	    target.n > LIMIT_BUDGET_TARGET_BYTES ||
	    !enum_parse(&enum_budget_scope, feed_member(f, e, "scope"), &scope))
		return 0;
	key_budget(&k, SPACE_DEFAULT, (uint8_t)scope, target);
	r = record_read(f->kv, &k, &msg_budget, f->a, &m);
	if (r > 0)
		*FEED_ADD(f, budgets) = m;
	/* another one may have taken its place */
	if (r == 0 || (r > 0 && !str_eq(m.id, id)))
		*FEED_ADD(f, gone_budgets) = id;
	f->bytes += RECORD_OVERHEAD;
	return MIN(r, 0);
}

int feed_provider(struct feed *f, const struct m_event *e)
{
	struct str name = feed_member(f, e, "provider");
	struct m_provider_doc m;
	struct key k;
	int r;

	if (feed_seen(&f->providers, name) || name.n > LIMIT_PROVIDER_BYTES)
		return 0;
	key_provider(&k, SPACE_DEFAULT, name);
	r = record_read(f->kv, &k, &msg_provider_doc, f->a, &m);
	if (r > 0)
		*FEED_ADD(f, providers) = m;
	else if (r == 0)
		*FEED_ADD(f, gone_providers) = name;
	f->bytes += RECORD_OVERHEAD;
	return MIN(r, 0);
}

int feed_policy(struct feed *f, const struct m_event *e)
{
	struct str id = feed_member(f, e, "id");
	struct m_policy m;
	struct key k;
	int r;

	if (id.n == 0 || id.n > LIMIT_JOB_ID_BYTES ||
	    feed_seen(&f->policies, id))
		return 0;
	key_policy(&k, SPACE_DEFAULT, id);
	r = record_read(f->kv, &k, &msg_policy, f->a, &m);
	if (r > 0)
		*FEED_ADD(f, policies) = m;
	else if (r == 0)
		*FEED_ADD(f, gone_policies) = id;
	f->bytes += RECORD_OVERHEAD;
	return MIN(r, 0);
}

#define TAKE(member)                                              \
	do {                                                      \
		if (MSG_HAS(m, webhook, member))                  \
			MSG_SET(ret, webhook, member, m->member); \
	} while (0)

/* What has a column: what signs or logs in stays where it is. */
static void take_webhook(const struct m_webhook *m, struct m_webhook *ret)
{
	*ret = (struct m_webhook){ 0 };
	TAKE(id);
	TAKE(url);
	TAKE(enabled);
	TAKE(retry_limit);
	TAKE(created_at);
	TAKE(updated_at);
	TAKE(disabled_at);
	TAKE(disabled_reason);
	MSG_SET_LIST(ret, webhook, events, m->events, m->events_n);
	if (m->queues_n > 0)
		MSG_SET_LIST(ret, webhook, queues, m->queues, m->queues_n);
}

int feed_webhook(struct feed *f, const struct m_event *e)
{
	struct str id = feed_member(f, e, "webhook_id");
	struct m_webhook m;
	struct key k;
	int r;

	if (id.n == 0 || id.n > LIMIT_WEBHOOK_ID_BYTES ||
	    feed_seen(&f->webhooks, id))
		return 0;
	key_webhook(&k, SPACE_DEFAULT, id);
	r = record_read(f->kv, &k, &msg_webhook, f->a, &m);
	if (r > 0)
		take_webhook(&m, FEED_ADD(f, webhooks));
	else if (r == 0)
		*FEED_ADD(f, gone_webhooks) = id;
	f->bytes += RECORD_OVERHEAD;
	return MIN(r, 0);
}
