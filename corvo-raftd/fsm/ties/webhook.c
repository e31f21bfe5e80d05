/*
 * See ties/webhook.h. All but the logs is in memory too.
 */
#include "fsm/ties/webhook.h"

#include <stdlib.h>

#include "fsm/core/scan.h"
#include "fsm/core/state.h"
#include "store/key.h"

static void webhook_free(struct fsm_webhook *w)
{
	arena_done(&w->arena);
	free(w->tries);
	free(w);
}

struct fsm_webhook *webhook_find(const struct fsm *f, struct str id)
{
	return hmap_get(&f->webhooks.by_id, id);
}

/* --- settings --- */

static int keep(struct fsm *f, struct str id, struct str raw)
{
	struct fsm_webhook *w = webhook_find(f, id);
	struct arena a = ARENA_INIT;
	struct m_webhook m;

	if (msg_decode(&msg_webhook, arena_copy(&a, raw), &a, &m) < 0) {
		arena_done(&a);
		return -ERR_INTERNAL_ERROR;
	}
	if (w == NULL) {
		w = xcalloc(1, sizeof(*w));
		hmap_put(&f->webhooks.by_id, id, w);
	}
	arena_done(&w->arena);
	w->arena = a;
	w->m = m;
	f->webhooks.version = MAX(f->webhooks.version, m.version);
	return 0;
}

struct fsm_webhook *webhook_save(struct fsm *f, const struct m_webhook *m)
{
	struct fsm_webhook *w = webhook_find(f, m->id);
	struct key k;

	MUST(f, m->number > 0); /* by it its other records are found */
	key_webhook(&k, SPACE_DEFAULT, m->id);
	fsm_put(f, &k, &msg_webhook, m);
	MUST(f, keep(f, m->id, buf_str(&f->scratch)) == 0);
	/* of one that was there m may be a copy, whose texts are gone now */
	return w != NULL ? w : webhook_find(f, m->id);
}

/* --- how far it is --- */

void webhook_set_error(struct fsm_webhook *w, struct str error)
{
	size_t n = MIN(error.n, sizeof(w->last_error));

	if (n > 0)
		memcpy(w->last_error, error.p, n);
	MSG_SET(&w->st, webhook_state, last_error, str_of(w->last_error, n));
	if (n == 0)
		MSG_UNSET(&w->st, webhook_state, last_error);
}

void webhook_save_state(struct fsm *f, struct fsm_webhook *w)
{
	struct key k;

	key_webhook_state(&k, w->m.number);
	fsm_put(f, &k, &msg_webhook_state, &w->st);
}

/* --- tries --- */

/* The first that is not below seq. */
static size_t place_of(const struct fsm_webhook *w, uint64_t seq)
{
	size_t low = 0, high = w->tries_n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (w->tries[mid].seq < seq)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const struct m_webhook_try *webhook_try(const struct fsm_webhook *w,
					uint64_t seq)
{
	size_t i = place_of(w, seq);

	return i < w->tries_n && w->tries[i].seq == seq ? &w->tries[i] : NULL;
}

static struct m_webhook_try *insert(struct fsm_webhook *w, uint64_t seq)
{
	size_t i = place_of(w, seq);

	if (i < w->tries_n && w->tries[i].seq == seq)
		return &w->tries[i];
	if (w->tries_n == w->tries_cap) {
		w->tries_cap = MAX(w->tries_cap * 2, (size_t)8);
		w->tries = xrealloc(w->tries, w->tries_cap * sizeof(*w->tries));
	}
	memmove(&w->tries[i + 1], &w->tries[i],
		(w->tries_n - i) * sizeof(*w->tries));
	w->tries_n++;
	w->tries[i] = (struct m_webhook_try){ 0 };
	MSG_SET(&w->tries[i], webhook_try, seq, seq);
	return &w->tries[i];
}

bool webhook_try_set(struct fsm *f, struct fsm_webhook *w, uint64_t seq,
		     uint32_t tries, uint64_t next_at)
{
	struct m_webhook_try *t;
	struct key k;

	MUST(f, seq > 0 && seq <= f->last_seq); /* of an event there was */
	if (w->tries_n >= LIMIT_WEBHOOK_TRIES && webhook_try(w, seq) == NULL)
		return false;
	t = insert(w, seq);
	MSG_SET(t, webhook_try, tries, tries);
	MSG_SET(t, webhook_try, next_at, next_at);
	key_webhook_try(&k, w->m.number, seq);
	fsm_put(f, &k, &msg_webhook_try, t);
	return true;
}

void webhook_try_drop(struct fsm *f, struct fsm_webhook *w, uint64_t seq)
{
	size_t i = place_of(w, seq);
	struct key k;

	if (i == w->tries_n || w->tries[i].seq != seq)
		return;
	w->tries_n--;
	memmove(&w->tries[i], &w->tries[i + 1],
		(w->tries_n - i) * sizeof(*w->tries));
	key_webhook_try(&k, w->m.number, seq);
	fsm_delete(f, &k);
}

/* --- the log --- */

static void log_drop(struct fsm *f, const struct fsm_webhook *w, uint64_t n)
{
	struct key k;

	key_webhook_log(&k, w->m.number, n);
	fsm_delete(f, &k);
}

void webhook_log(struct fsm *f, struct fsm_webhook *w,
		 const struct m_delivery *d)
{
	struct m_delivery line = *d;
	uint64_t n = MAX(w->st.log_next, (uint64_t)1);
	struct key k;

	MSG_SET(&line, delivery, n, n);
	key_webhook_log(&k, w->m.number, n);
	fsm_put(f, &k, &msg_delivery, &line);
	if (n > LIMIT_WEBHOOK_LOG)
		log_drop(f, w, n - LIMIT_WEBHOOK_LOG);
	MSG_SET(&w->st, webhook_state, log_next, n + 1);
}

void webhook_remove(struct fsm *f, struct fsm_webhook *w)
{
	uint64_t next = w->st.log_next;
	struct key k;

	while (w->tries_n > 0)
		webhook_try_drop(f, w, w->tries[w->tries_n - 1].seq);
	for (uint64_t n = next > LIMIT_WEBHOOK_LOG ? next - LIMIT_WEBHOOK_LOG
						   : 1;
	     n < next; n++)
		log_drop(f, w, n);
	key_webhook_state(&k, w->m.number);
	fsm_delete(f, &k);
	key_webhook(&k, SPACE_DEFAULT, w->m.id);
	fsm_delete(f, &k);
	MUST(f, hmap_remove(&f->webhooks.by_id, w->m.id) == w);
	webhook_free(w);
}

/* --- loading --- */

static struct fsm_webhook *find_number(const struct fsm *f, uint64_t number)
{
	struct str id;
	size_t pos = 0;
	void *v;

	while (hmap_next(&f->webhooks.by_id, &pos, &id, &v))
		if (((struct fsm_webhook *)v)->m.number == number)
			return v;
	return NULL;
}

static int load_state(struct fsm *f, struct str key, struct str value)
{
	struct fsm_webhook *w =
	    key.n == 8 ? find_number(f, get_be64(key.p)) : NULL;

	if (w == NULL ||
	    msg_decode(&msg_webhook_state, value, &f->item_arena, &w->st) < 0)
		return -ERR_INTERNAL_ERROR;
	webhook_set_error(w, w->st.last_error);
	return 0;
}

static int load_try(struct fsm *f, struct str key, struct str value)
{
	struct fsm_webhook *w =
	    key.n == 16 ? find_number(f, get_be64(key.p)) : NULL;
	struct m_webhook_try t;

	if (w == NULL || w->tries_n >= LIMIT_WEBHOOK_TRIES ||
	    msg_decode(&msg_webhook_try, value, &f->item_arena, &t) < 0 ||
	    t.seq != get_be64(key.p + 8))
		return -ERR_INTERNAL_ERROR;
	*insert(w, t.seq) = t;
	return 0;
}

int webhooks_load(struct fsm *f)
{
	int r = load_all_named(f, "wh|", keep);

	if (r == 0)
		r = load_all(f, "ws|", load_state);
	if (r == 0)
		r = load_all(f, "wt|", load_try);
	return r;
}

void webhooks_free(struct fsm *f)
{
	struct str id;
	size_t pos = 0;
	void *v;

	while (hmap_next(&f->webhooks.by_id, &pos, &id, &v))
		webhook_free(v);
	hmap_done(&f->webhooks.by_id);
}
