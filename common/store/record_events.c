/*
 * Pages of the event log. See record.h. Any thread; what is returned lives in
 * the caller's arena. Records were written by the state machine: one that
 * cannot be read is a damaged store, and an error.
 */
#include "store/event_pack.h"
#include "store/key.h"
#include "store/record_impl.h"

struct page {
	struct arena *a;
	uint64_t after_seq;
	uint32_t limit;
	size_t bytes;
	struct m_events_reply *ret;
};

/* 1: go on with the next event; 0: enough. */
static int page_add(struct page *p, uint64_t seq, struct str raw)
{
	struct m_events_reply *ret = p->ret;
	struct m_event *e = &ret->events[ret->events_n];

	if (seq <= p->after_seq)
		return 1;
	if (msg_decode(&msg_event, arena_copy(p->a, raw), p->a, e) < 0)
		return record_damaged();
	MSG_SET(e, event, seq, seq);
	if (seq != ret->next + 1)
		MSG_SET(ret, events_reply, lost, true);
	ret->next = seq;
	ret->head_seq = MAX(ret->head_seq, seq);
	ret->events_n++;
	p->bytes += raw.n;
	return ret->events_n < p->limit && p->bytes < RECORD_EVENTS_BYTES;
}

static int page_add_pack(struct page *p, struct str raw)
{
	struct event_pack pack;
	uint64_t seq;
	struct str e;
	int r;

	if (!event_pack_open(&pack, raw))
		return record_damaged();
	while ((r = event_pack_next(&pack, &seq, &e)) > 0) {
		r = page_add(p, seq, e);
		if (r <= 0)
			return r;
	}
	return r < 0 ? record_damaged() : 1;
}

static int page_read(struct kv *kv, struct page *p)
{
	struct kv_iter *it;
	struct key from, upto;
	int r = 1;

	key_event(&from, p->after_seq + 1);
	key_event(&upto, UINT64_MAX);
	it = kv_iter_new(kv, key_str(&from), key_str(&upto));
	for (; kv_iter_valid(it) && r > 0; kv_iter_next(it))
		r = page_add_pack(p, kv_iter_value(it));
	if (r >= 0)
		r = kv_iter_error(it);
	kv_iter_free(it);
	return r;
}

int record_events(struct kv *kv, uint64_t after_seq, uint32_t limit,
		  struct arena *a, struct m_events_reply *ret)
{
	struct page p = { .a = a, .ret = ret };
	struct record_meta meta;
	int r = record_meta_read(kv, &meta);

	if (r < 0)
		return r;
	*ret = (struct m_events_reply){ 0 };
	MSG_SET(ret, events_reply, head_seq, meta.last_seq);
	if (after_seq > meta.last_seq) {
		MSG_SET(ret, events_reply, lost, true);
		MSG_SET(ret, events_reply, next, meta.last_seq);
		return 0;
	}
	/* a record may hold events that are no longer kept */
	p.after_seq = MAX(after_seq, MAX(meta.first_seq, 1ULL) - 1);
	MSG_SET(ret, events_reply, next, after_seq);
	p.limit = MIN(MAX(limit, 1u), (uint32_t)LIMIT_EVENTS_READ);
	MSG_SET_LIST(ret, events_reply, events,
		     arena_alloc(a, p.limit * sizeof(*ret->events)), 0);
	return page_read(kv, &p);
}
