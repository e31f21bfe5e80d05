/*
 * Webhooks, for who asks between entries; nothing changes by it.
 */
#include <stdlib.h>

#include "fsm/core/state.h"
#include "fsm/ties/webhook.h"
#include "proto/webhook.h"
#include "store/key.h"

uint64_t fsm_webhooks_version(const struct fsm *f)
{
	return f->webhooks.version;
}

/* What is kept of how it does, beside what was set. */
static void add_state(const struct fsm *f, const struct fsm_webhook *w,
		      struct m_webhook *ret)
{
	const struct m_webhook_state *st = &w->st;

	MSG_SET(ret, webhook, position, st->position);
	MSG_SET(ret, webhook, lag,
		f->last_seq - MIN(st->position, f->last_seq));
	MSG_SET(ret, webhook, pending, w->tries_n);
	MSG_SET(ret, webhook, delivered, st->delivered);
	MSG_SET(ret, webhook, failed, st->failed);
	MSG_SET(ret, webhook, lost, st->lost);
	if (MSG_HAS(st, webhook_state, last_status_code))
		MSG_SET(ret, webhook, last_status_code, st->last_status_code);
	if (MSG_HAS(st, webhook_state, last_error))
		MSG_SET(ret, webhook, last_error, st->last_error);
	if (MSG_HAS(st, webhook_state, last_delivery_at))
		MSG_SET(ret, webhook, last_delivery_at, st->last_delivery_at);
	if (MSG_HAS(st, webhook_state, failing_since))
		MSG_SET(ret, webhook, failing_since, st->failing_since);
	if (MSG_HAS(st, webhook_state, replay_id)) {
		MSG_SET(ret, webhook, replay_at, st->replay_at);
		MSG_SET(ret, webhook, replay_to, st->replay_to);
		MSG_SET(ret, webhook, replay_id, st->replay_id);
	}
}

void fsm_webhook_show(const struct fsm *f, const struct fsm_webhook *w,
		      struct m_webhook *ret)
{
	*ret = w->m;
	add_state(f, w, ret);
	if (MSG_HAS(ret, webhook, credentials))
		MSG_SET(ret, webhook, has_credentials, true);
	/* what is shown is for people */
	MSG_UNSET(ret, webhook, secret);
	MSG_UNSET(ret, webhook, previous_secret);
	MSG_UNSET(ret, webhook, credentials);
}

bool fsm_webhook(const struct fsm *f, struct str id, struct m_webhook *ret)
{
	const struct fsm_webhook *w = webhook_find(f, id);

	if (w != NULL)
		fsm_webhook_show(f, w, ret);
	return w != NULL;
}

/* --- all of them --- */

static int by_id(const void *a, const void *b)
{
	const struct fsm_webhook *x = *(struct fsm_webhook *const *)a;
	const struct fsm_webhook *y = *(struct fsm_webhook *const *)b;

	return str_cmp(x->m.id, y->m.id);
}

static size_t sorted(const struct fsm *f, struct arena *a,
		     const struct fsm_webhook ***ret)
{
	const struct fsm_webhook **all =
	    arena_alloc(a, f->webhooks.by_id.n * sizeof(*all));
	struct str id;
	size_t pos = 0, n = 0;
	void *v;

	while (hmap_next(&f->webhooks.by_id, &pos, &id, &v))
		all[n++] = v;
	qsort(all, n, sizeof(*all), by_id);
	*ret = all;
	return n;
}

void fsm_webhooks(const struct fsm *f, struct arena *a,
		  struct m_webhook_list *ret)
{
	const struct fsm_webhook **all;
	size_t n = sorted(f, a, &all);
	struct m_webhook *list = arena_alloc(a, n * sizeof(*list));

	for (size_t i = 0; i < n; i++)
		fsm_webhook_show(f, all[i], &list[i]);
	MSG_SET_LIST(ret, webhook_list, webhooks, list, n);
}

void fsm_webhook_work(const struct fsm *f, struct arena *a,
		      struct m_webhook_work_list *ret)
{
	const struct fsm_webhook **all;
	size_t n = sorted(f, a, &all);
	struct m_webhook_work *list = arena_zalloc(a, n * sizeof(*list));

	for (size_t i = 0; i < n; i++) {
		struct m_webhook *m = arena_alloc(a, sizeof(*m));

		*m = all[i]->m;
		add_state(f, all[i], m);
		MSG_SET(&list[i], webhook_work, webhook, m);
		MSG_SET_LIST(&list[i], webhook_work, tries, all[i]->tries,
			     all[i]->tries_n);
	}
	MSG_SET(ret, webhook_work_list, version, f->webhooks.version);
	MSG_SET_LIST(ret, webhook_work_list, webhooks, list, n);
}

void fsm_webhook_totals(const struct fsm *f, struct fsm_webhook_totals *ret)
{
	struct str id;
	size_t pos = 0;
	void *v;

	*ret = (struct fsm_webhook_totals){ .n = f->webhooks.by_id.n };
	while (hmap_next(&f->webhooks.by_id, &pos, &id, &v)) {
		const struct fsm_webhook *w = v;

		ret->pending += w->tries_n;
		if (w->m.enabled)
			ret->lag =
			    MAX(ret->lag,
				f->last_seq - MIN(w->st.position, f->last_seq));
	}
}

/* --- the log --- */

static int read_line(const struct fsm *f, const struct fsm_webhook *w,
		     uint64_t n, struct arena *a, struct m_delivery *ret)
{
	_cleanup_(buf_done) struct buf raw = BUF_INIT(0);
	_cleanup_(buf_done) struct buf id = BUF_INIT(0);
	struct key k;
	int r;

	key_webhook_log(&k, w->m.number, n);
	r = kv_get(f->kv, key_str(&k), &raw);
	if (r <= 0)
		return r < 0 ? r : -ERR_INTERNAL_ERROR;
	if (msg_decode(&msg_delivery, arena_copy(a, buf_str(&raw)), a, ret) < 0)
		return -ERR_INTERNAL_ERROR;
	webhook_put_delivery_id(&id, w->m.id, ret->seq);
	MSG_SET(ret, delivery, delivery_id, arena_copy(a, buf_str(&id)));
	return 1;
}

int fsm_deliveries(const struct fsm *f, const struct m_deliveries_ask *m,
		   struct arena *a, struct m_delivery_list *ret)
{
	const struct fsm_webhook *w = webhook_find(f, m->id);
	size_t max = m->limit > 0 ? m->limit : DELIVERIES_PAGE, n = 0;
	struct m_delivery *list;
	uint64_t at, first;

	if (w == NULL)
		return 0;
	at = MAX(w->st.log_next, (uint64_t)1);
	first = at > LIMIT_WEBHOOK_LOG ? at - LIMIT_WEBHOOK_LOG : 1;
	if (m->before > 0)
		at = MIN(at, m->before);
	list = arena_alloc(a, max * sizeof(*list));
	while (at > first && n < max) {
		int r = read_line(f, w, --at, a, &list[n]);

		if (r < 0)
			return r;
		n += !MSG_HAS(m, deliveries_ask, state) ||
		     list[n].state == m->state;
	}
	MSG_SET_LIST(ret, delivery_list, deliveries, list, n);
	if (at > first)
		MSG_SET(ret, delivery_list, next, at);
	return 1;
}
