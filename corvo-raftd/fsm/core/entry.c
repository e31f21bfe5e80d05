/*
 * What apply functions use: the store, events, ids. See core/entry.h.
 */
#include "fsm/core/entry.h"

#include "fsm/core/state.h"

#include "proto/msg_json.h"
#include "store/event_pack.h"
#include "util/id.h"
#include "util/json.h"
#include "util/rng.h"

int fsm_refuse(struct fsm *f, int err, const char *fmt, ...)
{
	va_list ap;

	CHECK(err > 0); /* 0 would be taken for a success */
	buf_clear(&f->why);
	va_start(ap, fmt);
	buf_vprintf(&f->why, fmt, ap);
	va_end(ap);
	return -err;
}

int fsm_fail(struct fsm *f, int r)
{
	CHECK(r < 0);
	f->fatal = r;
	return r;
}

int fsm_stop(struct fsm *f, const char *fmt, ...)
{
	va_list ap;

	buf_clear(&f->why);
	va_start(ap, fmt);
	buf_vprintf(&f->why, fmt, ap);
	va_end(ap);
	return fsm_fail(f, -ERR_UNSUPPORTED);
}

int fsm_go_on_with(struct fsm *f, const void *request)
{
	CHECK(budget_is_spent(f));
	f->rest = request;
	return APPLY_REST;
}

int fsm_get(struct fsm *f, const struct key *k, struct str *ret)
{
	int r = txn_get(f->txn, key_str(k), ret);

	if (r < 0)
		return fsm_fail(f, r);
	if (r == 0)
		return 0;
	*ret = arena_copy(&f->item_arena, *ret);
	budget_take(f, ret->n);
	return 1;
}

int fsm_read(struct fsm *f, const struct key *k, const struct msg_desc *d,
	     void *ret)
{
	struct str raw;
	int r = fsm_get(f, k, &raw);

	if (r <= 0)
		return r;
	if (msg_decode(d, raw, &f->item_arena, ret) < 0)
		return fsm_fail(f, -ERR_INTERNAL_ERROR);
	return 1;
}

void fsm_put(struct fsm *f, const struct key *k, const struct msg_desc *d,
	     const void *m)
{
	buf_clear(&f->scratch);
	msg_encode(d, m, &f->scratch);
	txn_put(f->txn, key_str(k), buf_str(&f->scratch));
}

void fsm_delete(struct fsm *f, const struct key *k)
{
	txn_delete(f->txn, key_str(k));
}

uint64_t fsm_event(struct fsm *f, struct m_event *e)
{
	MUST(f, MSG_HAS(e, event, type)); /* no reader knows what it is else */
	MSG_SET(e, event, at, f->now_ns);
	event_pack_add(&f->events, ++f->last_seq, e);
	return f->last_seq;
}

void fsm_tell(struct fsm *f, enum event_type type, const struct msg_desc *d,
	      const void *m)
{
	static const struct json_style style;
	struct json_writer w = JSON_WRITER(&f->data);
	struct m_event e = { 0 };

	buf_clear(&f->data);
	msg_to_json(d, m, &style, &w);
	MSG_SET(&e, event, type, type);
	MSG_SET(&e, event, data, buf_str(&f->data));
	fsm_event(f, &e);
}

struct str fsm_event_text(struct fsm *f, const char *name, struct str text)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, name);
	jw_str(&w, text);
	jw_object_end(&w);
	return buf_str(&f->data);
}

struct str fsm_event_number(struct fsm *f, const char *name, uint64_t n)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, name);
	jw_u64(&w, n);
	jw_object_end(&w);
	return buf_str(&f->data);
}

struct str fsm_event_change(struct fsm *f, struct str from, struct str to)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "from");
	jw_str(&w, from);
	jw_key(&w, "to");
	jw_str(&w, to);
	jw_object_end(&w);
	return buf_str(&f->data);
}

struct str fsm_event_time(struct fsm *f, const char *name, uint64_t ns)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, name);
	jw_time(&w, ns);
	jw_object_end(&w);
	return buf_str(&f->data);
}

uint64_t fsm_random(struct fsm *f)
{
	struct rng r;

	rng_seed(&r, f->seed ^ ((uint64_t)f->item << 32 | f->draws++));
	return rng_u64(&r);
}

struct str fsm_make_id(struct fsm *f, const char *prefix)
{
	char *id = arena_alloc(&f->item_arena, ID_LEN_MAX);
	size_t n =
	    id_derive(prefix, f->now_ns, f->entry_index, f->ids_made++, id);

	return str_of(id, n);
}
