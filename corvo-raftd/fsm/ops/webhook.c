/*
 * set_webhook, delete_webhook, replay_webhook, test_webhook. Which types of
 * events there are is not asked here: other versions know other ones.
 */
#include "fsm/ties/webhook.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/ops/ops.h"
#include "proto/push.h"
#include "proto/webhook.h"

static uint64_t tell(struct fsm *f, enum event_type type, struct str id)
{
	struct m_event e = { 0 };

	MSG_SET(&e, event, type, type);
	MSG_SET(&e, event, data, fsm_event_text(f, "webhook_id", id));
	return fsm_event(f, &e);
}

/* What who delivers has to know: it hears of it by this number. */
static void tell_change(struct fsm *f, enum event_type type, struct str id)
{
	f->webhooks.version = tell(f, type, id);
}

static int refuse_unknown(struct fsm *f, struct str id)
{
	return fsm_refuse(f, ERR_NOT_FOUND, "there is no webhook \"%.*s\"",
			  STR_ARG(id));
}

/* --- set_webhook --- */

/* Everything of it in the item's arena: the record it is of will change. */
static void copy_old(struct fsm *f, const struct fsm_webhook *w,
		     struct m_webhook *ret)
{
	buf_clear(&f->scratch);
	msg_encode(&msg_webhook, &w->m, &f->scratch);
	CHECK(msg_decode(&msg_webhook,
			 arena_copy(&f->item_arena, buf_str(&f->scratch)),
			 &f->item_arena, ret) == 0);
}

#define DROP(member)                                     \
	do {                                             \
		if (str_is(name, #member))               \
			MSG_UNSET(ret, webhook, member); \
	} while (0)

static void drop(struct str name, struct m_webhook *ret)
{
	DROP(events);
	DROP(queues);
	DROP(secret);
	DROP(previous_secret);
	DROP(enabled);
	DROP(retry_limit);
	DROP(retry_delay);
	DROP(retry_max_delay);
	DROP(timeout);
	DROP(concurrency);
	DROP(headers);
	DROP(disable_after);
	if (str_is(name, "secret"))
		MSG_UNSET(ret, webhook, previous_secret);
	if (str_is(name, "url"))
		ret->url = STR_NULL; /* which is refused below */
}

#define TAKE(member)                                               \
	do {                                                       \
		if (MSG_HAS(op, set_webhook, member))              \
			MSG_SET(ret, webhook, member, op->member); \
	} while (0)

static void take(const struct m_set_webhook *op, struct m_webhook *ret)
{
	MSG_SET(ret, webhook, id, op->id);
	if (MSG_HAS(op, set_webhook, url))
		MSG_UNSET(ret, webhook, credentials); /* of the old one */
	TAKE(url);
	TAKE(credentials);
	TAKE(enabled);
	TAKE(retry_limit);
	TAKE(retry_delay);
	TAKE(retry_max_delay);
	TAKE(timeout);
	TAKE(concurrency);
	TAKE(headers);
	TAKE(disable_after);
	if (MSG_HAS(op, set_webhook, events))
		MSG_SET_LIST(ret, webhook, events, op->events, op->events_n);
	if (MSG_HAS(op, set_webhook, queues))
		MSG_SET_LIST(ret, webhook, queues, op->queues, op->queues_n);
}

/* Nobody can read them back, so a change without any keeps what there is. */
static void take_secrets(const struct m_set_webhook *op,
			 const struct m_webhook *old, struct m_webhook *ret)
{
	if (MSG_HAS(op, set_webhook, secret)) {
		MSG_UNSET(ret, webhook, previous_secret);
		MSG_UNSET(ret, webhook, any_secret);
		if (op->any_secret)
			MSG_SET(ret, webhook, any_secret, true);
	} else if (old != NULL && !op->change) {
		if (MSG_HAS(old, webhook, secret))
			MSG_SET(ret, webhook, secret, old->secret);
		if (MSG_HAS(old, webhook, previous_secret))
			MSG_SET(ret, webhook, previous_secret,
				old->previous_secret);
		if (MSG_HAS(old, webhook, any_secret))
			MSG_SET(ret, webhook, any_secret, true);
	}
	TAKE(secret);
	TAKE(previous_secret);
	if (ret->secret.n == 0)
		MSG_UNSET(ret, webhook, secret);
	if (ret->previous_secret.n == 0)
		MSG_UNSET(ret, webhook, previous_secret);
	MSG_SET(ret, webhook, secrets,
		(uint32_t)(MSG_HAS(ret, webhook, secret) +
			   MSG_HAS(ret, webhook, previous_secret)));
}

#define DEFAULT(member, value)                                \
	do {                                                  \
		if (!MSG_HAS(ret, webhook, member))           \
			MSG_SET(ret, webhook, member, value); \
	} while (0)

static void fill(struct fsm *f, struct m_webhook *ret)
{
	struct str *all;

	DEFAULT(enabled, true);
	DEFAULT(retry_limit, WEBHOOK_TRIES);
	DEFAULT(retry_delay, WEBHOOK_DELAY_NS);
	DEFAULT(retry_max_delay, WEBHOOK_DELAY_MAX_NS);
	DEFAULT(timeout, PUSH_TIMEOUT_NS);
	DEFAULT(concurrency, WEBHOOK_CONCURRENCY);
	DEFAULT(disable_after, WEBHOOK_DISABLE_AFTER_NS);
	/* as the releases before took it */
	if (ret->retry_limit == 0)
		MSG_SET(ret, webhook, retry_limit, WEBHOOK_TRIES);
	if (ret->concurrency == 0)
		MSG_SET(ret, webhook, concurrency, WEBHOOK_CONCURRENCY);
	if (!MSG_HAS(ret, webhook, queues) || ret->queues_n == 0) {
		ret->queues_n = 0;
		MSG_UNSET(ret, webhook, queues);
	}
	if (MSG_HAS(ret, webhook, events) && ret->events_n > 0)
		return;
	all = arena_alloc(&f->item_arena, sizeof(*all));
	*all = STR("*");
	MSG_SET_LIST(ret, webhook, events, all, 1);
}

static int check(struct fsm *f, const struct m_set_webhook *op,
		 const struct fsm_webhook *w, const struct m_webhook *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);

	if (!webhook_id_fits(op->id))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "id: must be 1 to %d letters, digits, dashes "
				  "and underscores",
				  LIMIT_WEBHOOK_ID_BYTES);
	if (w == NULL && f->webhooks.by_id.n >= LIMIT_WEBHOOKS)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "there are %d webhooks, which is as many as "
				  "there may be; delete some",
				  LIMIT_WEBHOOKS);
	if (webhook_check(m, &f->item_arena, &why) < 0)
		return fsm_refuse(f, ERR_VALIDATION_ERROR, "%.*s",
				  STR_ARG(buf_str(&why)));
	return 0;
}

static void merge(struct fsm *f, const struct m_set_webhook *op,
		  const struct fsm_webhook *w, struct m_webhook *ret)
{
	struct m_webhook old = { 0 };

	if (w != NULL)
		copy_old(f, w, &old);
	if (op->change)
		*ret = old;
	for (size_t i = 0; i < op->remove_n; i++)
		drop(op->remove[i], ret);
	take(op, ret);
	take_secrets(op, w != NULL ? &old : NULL, ret);
	fill(f, ret);
	MSG_UNSET(ret, webhook, disabled_at);
	MSG_UNSET(ret, webhook, disabled_reason);
	if (!ret->enabled && MSG_HAS(&old, webhook, disabled_at)) {
		MSG_SET(ret, webhook, disabled_at, old.disabled_at);
		MSG_SET(ret, webhook, disabled_reason, old.disabled_reason);
	}
	MSG_SET(ret, webhook, number, w != NULL ? old.number : f->last_seq + 1);
	MSG_SET(ret, webhook, version, f->last_seq + 1);
	MSG_SET(ret, webhook, created_at,
		w != NULL ? old.created_at : f->now_ns);
	MSG_SET(ret, webhook, updated_at, f->now_ns);
}

int apply_set_webhook(struct fsm *f, const struct m_set_webhook *op,
		      struct m_webhook *ret)
{
	struct fsm_webhook *w = webhook_find(f, op->id);
	bool is_new = w == NULL;
	int r;

	if (is_new && op->change)
		return refuse_unknown(f, op->id);
	merge(f, op, w, ret);
	r = check(f, op, w, ret);
	if (r < 0)
		return r;
	w = webhook_save(f, ret);
	if (is_new)
		MSG_SET(&w->st, webhook_state, position, ret->number);
	if (ret->enabled)
		MSG_UNSET(&w->st, webhook_state, failing_since);
	webhook_save_state(f, w);
	tell_change(f, EVENT_WEBHOOK_SET, op->id);
	MUST(f, f->last_seq == ret->version);
	/* an answer is kept for a while: it needs no secrets */
	fsm_webhook_show(f, w, ret);
	return 0;
}

/* --- delete_webhook --- */

int apply_delete_webhook(struct fsm *f, const struct m_webhook_ref *op,
			 struct m_webhook_status *ret)
{
	struct fsm_webhook *w = webhook_find(f, op->id);

	if (w == NULL)
		return refuse_unknown(f, op->id);
	webhook_remove(f, w);
	tell_change(f, EVENT_WEBHOOK_DELETED, op->id);
	MSG_SET(ret, webhook_status, status, STR("deleted"));
	MSG_SET(ret, webhook_status, id, op->id);
	return 0;
}

/* --- replay_webhook --- */

static int find_enabled(struct fsm *f, struct str id, struct fsm_webhook **ret)
{
	*ret = webhook_find(f, id);
	if (*ret == NULL)
		return refuse_unknown(f, id);
	if (!(*ret)->m.enabled)
		return fsm_refuse(f, ERR_CONFLICT,
				  "the webhook \"%.*s\" is disabled",
				  STR_ARG(id));
	return 0;
}

static void set_delivery(struct fsm *f, struct str id, uint64_t seq,
			 struct m_webhook_status *ret)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	webhook_put_delivery_id(&b, id, seq);
	MSG_SET(ret, webhook_status, delivery_id,
		arena_copy(&f->item_arena, buf_str(&b)));
}

/* Whatever came of it before: it is tried again, from the first try on. */
static int replay_one(struct fsm *f, struct fsm_webhook *w, uint64_t seq,
		      struct m_webhook_status *ret)
{
	if (seq < f->first_seq || seq > f->last_seq)
		return fsm_refuse(f, ERR_NOT_FOUND,
				  "the event %llu is not kept",
				  (unsigned long long)seq);
	if (seq > w->st.position)
		return fsm_refuse(f, ERR_CONFLICT,
				  "the event %llu is still to be delivered",
				  (unsigned long long)seq);
	if (!webhook_try_set(f, w, seq, 0, f->now_ns))
		return fsm_refuse(f, ERR_CONFLICT,
				  "%d deliveries wait for another try, which "
				  "is as many as there may be",
				  LIMIT_WEBHOOK_TRIES);
	set_delivery(f, w->m.id, seq, ret);
	return 0;
}

/* What it has dealt with; what comes after is delivered anyway. */
static int replay_range(struct fsm *f, struct fsm_webhook *w,
			const struct m_replay_webhook *op,
			struct m_webhook_status *ret)
{
	uint64_t from = MAX(op->from_seq, f->first_seq);
	uint64_t to = MIN(op->to_seq, w->st.position);

	if (MSG_HAS(&w->st, webhook_state, replay_id))
		return fsm_refuse(f, ERR_CONFLICT,
				  "a replay is under way, up to event %llu",
				  (unsigned long long)w->st.replay_to);
	if (from > to || from == 0) {
		MSG_SET(ret, webhook_status, status, STR("nothing"));
		return 0;
	}
	MSG_SET(&w->st, webhook_state, replay_at, from - 1);
	MSG_SET(&w->st, webhook_state, replay_to, to);
	MSG_SET(&w->st, webhook_state, replay_id, f->last_seq + 1);
	webhook_save_state(f, w);
	MSG_SET(ret, webhook_status, from_seq, from);
	MSG_SET(ret, webhook_status, to_seq, to);
	return 0;
}

int apply_replay_webhook(struct fsm *f, const struct m_replay_webhook *op,
			 struct m_webhook_status *ret)
{
	struct fsm_webhook *w;
	int r = find_enabled(f, op->id, &w);

	MSG_SET(ret, webhook_status, id, op->id);
	MSG_SET(ret, webhook_status, status, STR("replaying"));
	if (r == 0)
		r = op->one ? replay_one(f, w, op->from_seq, ret)
			    : replay_range(f, w, op, ret);
	if (r == 0 && str_is(ret->status, "replaying"))
		tell_change(f, EVENT_WEBHOOK_REPLAYED, op->id);
	return r;
}

/* --- test_webhook --- */

int apply_test_webhook(struct fsm *f, const struct m_webhook_ref *op,
		       struct m_webhook_status *ret)
{
	struct fsm_webhook *w;
	int r = find_enabled(f, op->id, &w);

	if (r < 0)
		return r;
	set_delivery(f, op->id, tell(f, EVENT_WEBHOOK_TEST, op->id), ret);
	MSG_SET(ret, webhook_status, status, STR("sent"));
	MSG_SET(ret, webhook_status, id, op->id);
	return 0;
}
