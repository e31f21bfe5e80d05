/*
 * Webhooks: how far each is, what waits for another try, and when failures
 * disable it. See model.h and model_run.h.
 */
#include "fsm_fixture.h"
#include "model.h"
#include "model_run.h"

#define LINES_KEPT 500 /* of a log */

static struct model_webhook *find(struct model *m, struct str id)
{
	for (size_t i = 0; i < MODEL_WEBHOOKS; i++)
		if (m->webhooks[i].used && str_eq(m->webhooks[i].id, id))
			return &m->webhooks[i];
	return NULL;
}

static struct model_webhook *find_free(struct model *m)
{
	for (size_t i = 0; i < MODEL_WEBHOOKS; i++)
		if (!m->webhooks[i].used)
			return &m->webhooks[i];
	fail_msg("there are more webhooks than there are names");
	return NULL;
}

/* --- setting --- */

static void model_set_webhook(struct model *m, const struct m_set_webhook *op,
			      uint64_t last_seq)
{
	struct model_webhook *w = find(m, op->id);

	if (w == NULL && op->change) {
		model_refuse(m, ERR_NOT_FOUND);
		return;
	}
	if (w == NULL) {
		w = find_free(m);
		*w = (struct model_webhook){ .used = true, .enabled = true };
		w->id = model_copy(m, op->id);
		w->number = w->position = last_seq + 1;
	}
	if (!op->change) {
		w->retry_limit = 3;
		w->enabled = true;
		w->disable_after = 86400 * NS_PER_S;
	}
	if (MSG_HAS(op, set_webhook, url))
		w->url = model_copy(m, op->url);
	if (MSG_HAS(op, set_webhook, secret))
		w->secret = model_copy(m, op->secret);
	if (MSG_HAS(op, set_webhook, retry_limit))
		w->retry_limit = op->retry_limit;
	if (MSG_HAS(op, set_webhook, enabled))
		w->enabled = op->enabled;
	if (MSG_HAS(op, set_webhook, disable_after))
		w->disable_after = op->disable_after;
	if (w->enabled)
		w->failing_since = 0;
}

/* One that is there and enabled. */
static struct model_webhook *need(struct model *m, struct str id)
{
	struct model_webhook *w = find(m, id);

	if (w == NULL)
		model_refuse(m, ERR_NOT_FOUND);
	else if (!w->enabled)
		model_refuse(m, ERR_CONFLICT);
	return w != NULL && w->enabled ? w : NULL;
}

/* --- tries --- */

static struct model_try *find_try(struct model_webhook *w, uint64_t seq)
{
	for (size_t i = 0; i < w->tries_n; i++)
		if (w->tries[i].seq == seq)
			return &w->tries[i];
	return NULL;
}

static bool set_try(struct model_webhook *w, uint64_t seq, uint32_t tries,
		    uint64_t next_at)
{
	struct model_try *t = find_try(w, seq);

	if (t == NULL && w->tries_n == MODEL_TRIES)
		return false;
	if (t == NULL)
		t = &w->tries[w->tries_n++];
	*t = (struct model_try){ seq, next_at, tries };
	return true;
}

static void drop_try(struct model_webhook *w, uint64_t seq)
{
	struct model_try *t = find_try(w, seq);

	if (t != NULL)
		*t = w->tries[--w->tries_n];
}

/* --- replays --- */

static void model_replay_webhook(struct model *m,
				 const struct m_replay_webhook *op,
				 uint64_t first, uint64_t last)
{
	struct model_webhook *w = need(m, op->id);
	uint64_t from = MAX(op->from_seq, first), to;

	if (w == NULL)
		return;
	to = MIN(op->to_seq, w->position);
	if (op->one && (op->from_seq < first || op->from_seq > last)) {
		model_refuse(m, ERR_NOT_FOUND);
	} else if (op->one) {
		if (op->from_seq > w->position ||
		    !set_try(w, op->from_seq, 0, m->now))
			model_refuse(m, ERR_CONFLICT);
	} else if (w->replay_id != 0) {
		model_refuse(m, ERR_CONFLICT);
	} else if (from <= to && from > 0) {
		w->replay_at = from - 1;
		w->replay_to = to;
		w->replay_id = last + 1;
	}
}

/* --- reports --- */

static void take(struct model *m, struct model_webhook *w,
		 const struct m_delivery *d)
{
	bool waits = d->state == DELIVERY_RETRYING;

	if (waits)
		waits = set_try(w, d->seq, d->attempt, d->next_at);
	else
		drop_try(w, d->seq);
	if (waits && d->attempt == 0)
		return;
	w->lines++;
	w->delivered += d->state == DELIVERY_DELIVERED;
	w->failed += !waits && d->state != DELIVERY_DELIVERED;
	if (d->state == DELIVERY_DELIVERED)
		w->failing_since = 0;
	else if (w->failing_since == 0)
		w->failing_since = m->now;
}

static void model_webhook_report(struct model *m,
				 const struct m_webhook_report *op,
				 uint64_t last)
{
	struct model_webhook *w = find(m, op->id);
	size_t taken = 0;
	bool moves, replays;

	if (w == NULL || w->number != op->number) {
		model_refuse(m, ERR_NOT_FOUND);
		return;
	}
	moves = op->from == w->position && op->to >= op->from && op->to <= last;
	replays = w->replay_id != 0 && op->replay_id == w->replay_id &&
		  op->replay_at >= w->replay_at &&
		  op->replay_at <= w->replay_to;
	for (size_t i = 0; i < op->deliveries_n; i++) {
		const struct m_delivery *d = &op->deliveries[i];
		const struct model_try *t = find_try(w, d->seq);
		bool is_new = moves && !d->replayed && d->seq > op->from &&
			      d->seq <= op->to;
		bool is_again = replays && d->replayed &&
				d->seq > w->replay_at &&
				d->seq <= op->replay_at;

		if (!is_new && !is_again &&
		    (t == NULL || d->attempt != t->tries + 1))
			continue;
		take(m, w, d);
		taken += d->attempt > 0;
	}
	if (moves) {
		w->position = op->to;
		w->lost += op->lost;
	}
	if (replays) {
		w->replay_at = op->replay_at;
		if (w->replay_at == w->replay_to)
			w->replay_at = w->replay_to = w->replay_id = 0;
	}
	if (w->enabled && taken > 0 &&
	    (op->gone || (w->disable_after > 0 && w->failing_since > 0 &&
			  m->now >= w->failing_since + w->disable_after)))
		w->enabled = false;
}

/* --- comparing --- */

static void compare_tries(struct model_webhook *w,
			  const struct m_webhook_work *r)
{
	assert_int_equal(r->tries_n, w->tries_n);
	for (size_t i = 0; i < r->tries_n; i++) {
		const struct model_try *t = find_try(w, r->tries[i].seq);

		assert_non_null(t);
		assert_int_equal(r->tries[i].tries, t->tries);
		assert_int_equal(r->tries[i].next_at, t->next_at);
	}
}

static void compare(struct model_webhook *w, const struct m_webhook_work *r)
{
	const struct m_webhook *s = r->webhook;

	assert_true(str_eq(s->url, w->url));
	assert_true(str_eq(s->secret, w->secret));
	assert_int_equal(s->enabled, w->enabled);
	assert_int_equal(s->retry_limit, w->retry_limit);
	assert_int_equal(s->disable_after, w->disable_after);
	assert_int_equal(s->number, w->number);
	assert_int_equal(s->position, w->position);
	assert_int_equal(s->delivered, w->delivered);
	assert_int_equal(s->failed, w->failed);
	assert_int_equal(s->lost, w->lost);
	assert_int_equal(s->failing_since, w->failing_since);
	assert_int_equal(s->replay_at, w->replay_at);
	assert_int_equal(s->replay_to, w->replay_to);
	assert_int_equal(s->replay_id, w->replay_id);
	compare_tries(w, r);
}

static void compare_log(struct fx *x, const struct model_webhook *w)
{
	struct m_deliveries_ask ask = { 0 };
	struct m_delivery_list list = { 0 };

	MSG_SET(&ask, deliveries_ask, id, w->id);
	MSG_SET(&ask, deliveries_ask, limit, LINES_KEPT);
	assert_int_equal(
	    fsm_deliveries(x->side[FX_MEM].f, &ask, &x->arena, &list), 1);
	assert_int_equal(list.deliveries_n,
			 MIN(w->lines, (uint64_t)LINES_KEPT));
	assert_true(w->lines == 0 || list.deliveries[0].n == w->lines);
}

void model_compare_webhooks(struct model *m, struct fx *x)
{
	struct m_webhook_work_list list = { 0 };
	size_t n = 0;

	fsm_webhook_work(x->side[FX_MEM].f, &x->arena, &list);
	for (size_t i = 0; i < list.webhooks_n; i++) {
		struct model_webhook *w = find(m, list.webhooks[i].webhook->id);

		assert_non_null(w);
		compare(w, &list.webhooks[i]);
		compare_log(x, w);
	}
	for (size_t i = 0; i < MODEL_WEBHOOKS; i++)
		n += m->webhooks[i].used;
	assert_int_equal(list.webhooks_n, n);
}

/* --- some --- */

static struct str some_id(struct run *n)
{
	static const char *const ids[MODEL_WEBHOOKS] = { "wa", "wb", "wc" };

	return str_from(ids[run_below(n, MODEL_WEBHOOKS)]);
}

static uint64_t last_seq(struct run *n)
{
	return fsm_last_seq(n->x->side[FX_MEM].f);
}

static void run_set(struct run *n)
{
	struct m_set_webhook op = { 0 };

	MSG_SET(&op, set_webhook, id, some_id(n));
	MSG_SET(&op, set_webhook, url,
		run_chance(n, 50) ? STR("http://a/") : STR("https://b/x"));
	if (run_chance(n, 50))
		MSG_SET(&op, set_webhook, change, true);
	if (run_chance(n, 30))
		MSG_SET(&op, set_webhook, secret, STR("0123456789abcdef"));
	if (run_chance(n, 30))
		MSG_SET(&op, set_webhook, retry_limit,
			1 + (uint32_t)run_below(n, 9));
	if (run_chance(n, 30))
		MSG_SET(&op, set_webhook, enabled, run_chance(n, 70));
	if (run_chance(n, 50))
		MSG_SET(&op, set_webhook, disable_after,
			run_below(n, 3) * NS_PER_S);
	model_set_webhook(n->m, &op, last_seq(n));
	(void)run_do(n, OP_SET_WEBHOOK, &op, NULL);
}

static void run_ref(struct run *n)
{
	struct m_webhook_ref op = { 0 };
	struct model_webhook *w;
	bool tests = run_chance(n, 60);

	MSG_SET(&op, webhook_ref, id, some_id(n));
	w = find(n->m, op.id);
	if (tests)
		(void)need(n->m, op.id);
	else if (w == NULL)
		model_refuse(n->m, ERR_NOT_FOUND);
	else
		w->used = false;
	(void)run_do(n, tests ? OP_TEST_WEBHOOK : OP_DELETE_WEBHOOK, &op, NULL);
}

static void run_replay_webhook(struct run *n)
{
	struct m_replay_webhook op = { 0 };
	uint64_t last = last_seq(n);

	MSG_SET(&op, replay_webhook, id, some_id(n));
	MSG_SET(&op, replay_webhook, from_seq,
		last + 2 - MIN(last, run_below(n, 60)));
	MSG_SET(&op, replay_webhook, to_seq, op.from_seq + run_below(n, 30));
	MSG_SET(&op, replay_webhook, one, run_chance(n, 50));
	model_replay_webhook(n->m, &op, fsm_first_seq(n->x->side[FX_MEM].f),
			     last);
	(void)run_do(n, OP_REPLAY_WEBHOOK, &op, NULL);
}

/* Mostly one that counts: a new one, of a replay, or another try. */
static struct m_delivery some_delivery(struct run *n,
				       const struct model_webhook *w,
				       const struct m_webhook_report *op)
{
	struct m_delivery d = { 0 };

	MSG_SET(&d, delivery, seq, op->from + run_below(n, 6));
	MSG_SET(&d, delivery, attempt, run_chance(n, 80));
	if (w != NULL && w->replay_id != 0 && run_chance(n, 40)) {
		MSG_SET(&d, delivery, replayed, true);
		MSG_SET(&d, delivery, seq, w->replay_at + run_below(n, 4));
	} else if (w != NULL && w->tries_n > 0 && run_chance(n, 50)) {
		const struct model_try *t = &w->tries[run_below(n, w->tries_n)];

		MSG_SET(&d, delivery, seq, t->seq);
		MSG_SET(&d, delivery, attempt,
			t->tries + (uint32_t)run_below(n, 3));
	}
	MSG_SET(&d, delivery, state,
		d.attempt == 0 ? DELIVERY_RETRYING : (uint32_t)run_below(n, 3));
	MSG_SET(&d, delivery, at, n->m->now);
	if (d.state == DELIVERY_RETRYING)
		MSG_SET(&d, delivery, next_at,
			n->m->now + run_below(n, NS_PER_S));
	return d;
}

static void run_report_webhook(struct run *n)
{
	struct m_webhook_report op = { 0 };
	struct m_delivery list[4];
	const struct model_webhook *w;
	size_t k = run_below(n, 5);

	MSG_SET(&op, webhook_report, id, some_id(n));
	w = find(n->m, op.id);
	if (w != NULL) {
		MSG_SET(&op, webhook_report, number,
			w->number + run_chance(n, 3));
		MSG_SET(&op, webhook_report, from,
			w->position - run_chance(n, 10));
		MSG_SET(&op, webhook_report, replay_id,
			w->replay_id + run_chance(n, 10));
		MSG_SET(&op, webhook_report, replay_at,
			MIN(w->replay_at + run_below(n, 9), w->replay_to));
	}
	MSG_SET(&op, webhook_report, to, op.from + run_below(n, 8));
	MSG_SET(&op, webhook_report, lost, run_chance(n, 5));
	MSG_SET(&op, webhook_report, gone, run_chance(n, 3));
	for (size_t i = 0; i < k; i++)
		list[i] = some_delivery(n, w, &op);
	MSG_SET_LIST(&op, webhook_report, deliveries, list, k);
	model_webhook_report(n->m, &op, last_seq(n));
	(void)run_do(n, OP_WEBHOOK_REPORT, &op, NULL);
}

void run_webhook(struct run *n)
{
	uint64_t dice = run_below(n, 100);

	if (dice < 25)
		run_set(n);
	else if (dice < 35)
		run_ref(n);
	else if (dice < 45)
		run_replay_webhook(n);
	else
		run_report_webhook(n);
}
