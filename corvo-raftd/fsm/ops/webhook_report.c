/*
 * webhook_report: what came of deliveries. It may come twice, late, or from a
 * process that another one has taken over from; so each part says what it was
 * made from, and counts only if that is still so: new deliveries, the place the
 * webhook was at; another try, how many there were; a replay, which one it is.
 */
#include "fsm/ties/webhook.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/ops/ops.h"
#include "util/json.h"

struct report {
	struct fsm_webhook *w;
	const struct m_webhook_report *op;
	bool moves;   /* it was where it is */
	bool replays; /* of the replay there is */
};

static bool is_new(const struct report *r, const struct m_delivery *d)
{
	return r->moves && !d->replayed && d->seq > r->op->from &&
	       d->seq <= r->op->to;
}

static bool is_of_replay(const struct report *r, const struct m_delivery *d)
{
	return r->replays && d->replayed && d->seq > r->w->st.replay_at &&
	       d->seq <= r->op->replay_at;
}

static bool is_next_try(const struct report *r, const struct m_delivery *d)
{
	const struct m_webhook_try *t = webhook_try(r->w, d->seq);

	return t != NULL && d->attempt == t->tries + 1;
}

static void count(struct fsm *f, struct fsm_webhook *w,
		  const struct m_delivery *d)
{
	struct m_webhook_state *st = &w->st;

	if (d->state == DELIVERY_DELIVERED) {
		f->counters.webhooks_ok++;
		MSG_SET(st, webhook_state, delivered, st->delivered + 1);
		MSG_UNSET(st, webhook_state, failing_since);
	} else {
		f->counters.webhooks_failed++;
		if (!MSG_HAS(st, webhook_state, failing_since))
			MSG_SET(st, webhook_state, failing_since, f->now_ns);
	}
	if (d->state == DELIVERY_FAILED)
		MSG_SET(st, webhook_state, failed, st->failed + 1);
	MSG_SET(st, webhook_state, last_status_code, d->status_code);
	if (d->status_code == 0)
		MSG_UNSET(st, webhook_state, last_status_code);
	MSG_SET(st, webhook_state, last_delivery_at, d->at);
	webhook_set_error(w, d->error);
}

static void take(struct fsm *f, struct fsm_webhook *w,
		 const struct m_delivery *d)
{
	struct m_delivery line = *d;

	if (line.state != DELIVERY_RETRYING) {
		webhook_try_drop(f, w, line.seq);
	} else if (!webhook_try_set(f, w, line.seq, line.attempt,
				    line.next_at)) {
		MSG_SET(&line, delivery, state, DELIVERY_FAILED);
		MSG_UNSET(&line, delivery, next_at);
	}
	if (line.attempt == 0 && line.state == DELIVERY_RETRYING)
		return; /* it is under way: there is nothing to tell yet */
	webhook_log(f, w, &line);
	count(f, w, &line);
}

static void move(struct report *r)
{
	struct m_webhook_state *st = &r->w->st;

	if (r->moves) {
		MSG_SET(st, webhook_state, position, r->op->to);
		MSG_SET(st, webhook_state, lost, st->lost + r->op->lost);
	}
	if (!r->replays)
		return;
	MSG_SET(st, webhook_state, replay_at, r->op->replay_at);
	if (r->op->replay_at < st->replay_to)
		return;
	st->replay_at = st->replay_to = st->replay_id = 0;
	MSG_UNSET(st, webhook_state, replay_at);
	MSG_UNSET(st, webhook_state, replay_to);
	MSG_UNSET(st, webhook_state, replay_id);
}

static void disable(struct fsm *f, struct fsm_webhook *w, const char *why)
{
	struct m_webhook m = w->m;
	struct m_event e = { 0 };
	struct json_writer jw = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&jw);
	jw_key(&jw, "webhook_id");
	jw_str(&jw, m.id);
	jw_key(&jw, "reason");
	jw_cstr(&jw, why);
	jw_object_end(&jw);
	MSG_SET(&e, event, type, EVENT_WEBHOOK_DISABLED);
	MSG_SET(&e, event, data, buf_str(&f->data));
	MSG_SET(&m, webhook, enabled, false);
	MSG_SET(&m, webhook, disabled_at, f->now_ns);
	MSG_SET(&m, webhook, disabled_reason, str_from(why));
	MSG_SET(&m, webhook, version, f->last_seq + 1);
	webhook_save(f, &m);
	f->webhooks.version = fsm_event(f, &e);
}

static bool failed_for_long(const struct fsm *f, const struct fsm_webhook *w)
{
	return w->m.disable_after > 0 &&
	       MSG_HAS(&w->st, webhook_state, failing_since) &&
	       f->now_ns >= time_after(w->st.failing_since, w->m.disable_after);
}

static void look_at_end(struct fsm *f, const struct report *r, size_t taken)
{
	struct fsm_webhook *w = r->w;

	if (!w->m.enabled || taken == 0)
		return;
	if (r->op->gone)
		disable(f, w, "the receiver answered 410 Gone");
	else if (failed_for_long(f, w))
		disable(f, w, "no delivery has worked for disable_after");
}

int apply_webhook_report(struct fsm *f, const struct m_webhook_report *op,
			 struct m_webhook_place *ret)
{
	struct fsm_webhook *w = webhook_find(f, op->id);
	struct report r = { .w = w, .op = op };
	size_t taken = 0;

	if (w == NULL || w->m.number != op->number)
		return fsm_refuse(f, ERR_NOT_FOUND, "there is no such webhook");
	r.moves = op->from == w->st.position && op->to >= op->from &&
		  op->to <= f->last_seq;
	r.replays = MSG_HAS(&w->st, webhook_state, replay_id) &&
		    op->replay_id == w->st.replay_id &&
		    op->replay_at >= w->st.replay_at &&
		    op->replay_at <= w->st.replay_to;
	for (size_t i = 0; i < op->deliveries_n; i++) {
		const struct m_delivery *d = &op->deliveries[i];

		if (!is_new(&r, d) && !is_of_replay(&r, d) &&
		    !is_next_try(&r, d))
			continue;
		take(f, w, d);
		taken += d->attempt > 0;
	}
	move(&r);
	webhook_save_state(f, w);
	look_at_end(f, &r, taken);
	MSG_SET(ret, webhook_place, position, w->st.position);
	MSG_SET(ret, webhook_place, replay_at, w->st.replay_at);
	MSG_SET(ret, webhook_place, enabled, w->m.enabled);
	return 0;
}
