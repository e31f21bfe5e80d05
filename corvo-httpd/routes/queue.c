/*
 * One queue: reading it, settings, drain, clear, delete. Bodies are hostile;
 * what has to live from call to reply is in the request's arena.
 */
#include "front/park.h"
#include "front/server.h"
#include "req/ask_view.h"
#include "req/req.h"
#include "routes/handlers.h"
#include "routes/queue_parts.h"
#include "util/hmap.h"

/* --- a queue as JSON --- */

static void write_groups(const struct m_set_queue *s,
			 const struct json_style *style, struct json_writer *w)
{
	jw_key(w, "groups");
	jw_object(w);
	for (size_t i = 0; i < s->groups_n; i++) {
		jw_key_str(w, s->groups[i].name);
		msg_to_json(&msg_group_limit, &s->groups[i], style, w);
	}
	jw_object_end(w);
}

/* Groups are a list between processes and an object for clients. */
static void answer_queue(struct req *r, const struct m_queue *q)
{
	struct json_style style = req_style(r);
	struct json_writer w = req_json(r);
	struct m_queue top = *q;

	MSG_UNSET(&top, queue, settings);
	jw_object(&w);
	msg_members_to_json(&msg_queue, &top, &style, &w);
	jw_key(&w, "settings");
	jw_object(&w);
	if (q->settings != NULL) {
		msg_members_to_json(&msg_set_queue, q->settings, &style, &w);
		if (q->settings->groups_n > 0)
			write_groups(q->settings, &style, &w);
		if (q->settings->push != NULL)
			push_write(q->settings->push, &style, &w);
	}
	jw_object_end(&w);
	jw_object_end(&w);
	req_answer(r, 200);
}

static void on_queue(struct req *r, const struct rpc_reply *reply)
{
	struct m_queue *q = req_reply(r, &msg_queue, reply);

	if (q != NULL)
		answer_queue(r, q);
}

/* When its oldest pending job was created, only the view knows. */
static void on_oldest(struct req *r, const struct rpc_reply *reply)
{
	struct m_queue *q = r->state;
	struct m_queue_list list;

	if (reply->err == 0 &&
	    msg_decode(&msg_queue_list, reply->body, &r->arena, &list) == 0) {
		ask_view_lag(r, list.lag_ns);
		if (list.queues_n == 1 &&
		    MSG_HAS(&list.queues[0], queue, oldest_pending_at))
			MSG_SET(q, queue, oldest_pending_at,
				list.queues[0].oldest_pending_at);
	}
	r->x.seq = 0;
	answer_queue(r, q);
}

/* Without the view the rest is answered. */
static void on_read(struct req *r, const struct rpc_reply *reply)
{
	struct rpc_reply copy = *reply;
	struct m_view_query *ask = arena_zalloc(&r->arena, sizeof(*ask));
	struct m_queue *q;

	/* its texts are needed when the view has answered */
	copy.body = arena_copy(&r->arena, reply->body);
	q = req_reply(r, &msg_queue, &copy);
	if (q == NULL)
		return;
	r->x.seq = 0; /* a read has no index of its own */
	if (q->pending == 0 || !rpc_client_is_up(r->h->viewd)) {
		answer_queue(r, q);
		return;
	}
	r->state = q;
	MSG_SET(ask, view_query, queue, q->name);
	ask_view_query(r, QUERY_LIST_QUEUES, &msg_view_query, ask, on_oldest);
}

void h_get_queue(struct req *r)
{
	struct m_queue_ref *m = arena_zalloc(&r->arena, sizeof(*m));

	if (req_read(r, &msg_queue_ref, m))
		req_call_raftd(r, QUERY_GET_QUEUE, m->queue, &msg_queue_ref, m,
			       on_read);
}

/* --- PATCH --- */

/* "period" for "period" and, since it is a duration, "period_ms". */
static const struct field_desc *find_setting(const struct msg_desc *d,
					     struct str name)
{
	struct str bare = name;

	if (name.n > 3 && memcmp(name.p + name.n - 3, "_ms", 3) == 0)
		bare.n -= 3;
	for (size_t i = 0; i < d->n; i++) {
		const struct field_desc *f = &d->fields[i];

		/* not for the tables to read, yet a setting */
		if ((f->flags & F_PATH) ||
		    ((f->flags & F_INTERNAL) && !(f->flags & F_ROUTE)))
			continue;
		if (str_is(name, f->name) ||
		    (f->kind == K_dur && str_is(bare, f->name)))
			return f;
	}
	return NULL;
}

size_t queue_read_nulls(struct req *r, const struct msg_desc *d, struct json v,
			struct str **ret)
{
	struct json_iter it = json_iter(v);
	struct json value;
	struct str name;
	size_t n = 0;

	*ret = arena_alloc(&r->arena, (json_count(v) + 1) * sizeof(**ret));
	while (json_next_member(&it, &r->arena, &name, &value)) {
		const struct field_desc *f;

		if (json_type_of(value) != JSON_NULL)
			continue;
		f = find_setting(d, name);
		if (f != NULL)
			(*ret)[n++] = str_from(f->name);
	}
	return n;
}

/* False when an error has been answered. */
static bool read_group(struct req *r, struct str name, struct json v,
		       struct m_group_limit *ret)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct msg_reader rd = req_reader(r, &why);
	struct str *nulls;
	size_t n;
	int err;

	rd.under = arena_printf(&r->arena, "groups.%.*s.",
				(int)MIN(name.n, 64u), name.p);
	*ret = (struct m_group_limit){ 0 };
	MSG_SET(ret, group_limit, name, name);
	if (json_type_of(v) != JSON_OBJECT) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "groups.%.*s: must be an object or null, not %s",
			 STR_ARG(name), json_type_name(json_type_of(v)));
		return false;
	}
	err = msg_from_json(&rd, &msg_group_limit, v, ret);
	if (err < 0) {
		req_fail(r, -err, "groups.%.*s.%.*s", STR_ARG(name),
			 STR_ARG(buf_str(&why)));
		return false;
	}
	n = queue_read_nulls(r, &msg_group_limit, v, &nulls);
	if (n > 0)
		MSG_SET_LIST(ret, group_limit, remove, nulls, n);
	return true;
}

/* The same; names: those seen so far. */
static bool read_groups(struct req *r, struct json v, struct hmap *names,
			struct m_set_queue *m)
{
	struct json_iter it = json_iter(v);
	size_t max = json_count(v), n = 0, gone = 0;
	struct m_group_limit *limits =
	    arena_alloc(&r->arena, (max + 1) * sizeof(*limits));
	struct str *nulls = arena_alloc(&r->arena, (max + 1) * sizeof(*nulls));
	struct json value;
	struct str name;

	while (json_next_member(&it, &r->arena, &name, &value)) {
		if (hmap_put(names, name, r) != NULL) {
			req_fail(r, ERR_PARSE_ERROR,
				 "groups: \"%.*s\" is given twice",
				 STR_ARG(name));
			return false;
		}
		if (json_type_of(value) == JSON_NULL)
			nulls[gone++] = name;
		else if (!read_group(r, name, value, &limits[n++]))
			return false;
	}
	if (n > 0)
		MSG_SET_LIST(m, set_queue, groups, limits, n);
	if (gone > 0)
		MSG_SET_LIST(m, set_queue, remove_groups, nulls, gone);
	return true;
}

/* False when an error has been answered. */
static bool read_groups_member(struct req *r, struct json v,
			       struct m_set_queue *m)
{
	struct hmap names = { 0 };
	struct json groups;
	bool ok;

	if (!json_member(v, "groups", &r->arena, &groups) ||
	    json_type_of(groups) == JSON_NULL)
		return true;
	if (json_type_of(groups) != JSON_OBJECT) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "groups: must be an object by name, not %s",
			 json_type_name(json_type_of(groups)));
		return false;
	}
	ok = read_groups(r, groups, &names, m);
	hmap_done(&names);
	return ok;
}

void h_set_queue(struct req *r)
{
	struct m_set_queue *m = arena_zalloc(&r->arena, sizeof(*m));
	struct str *nulls;
	struct json v;
	size_t n;

	/* Once for the checks of the tables, once for what they cannot say. */
	if (!req_read(r, &msg_set_queue, m) || !req_read_json(r, true, &v))
		return;
	n = queue_read_nulls(r, &msg_set_queue, v, &nulls);
	if (n > 0)
		MSG_SET_LIST(m, set_queue, remove, nulls, n);
	if (read_groups_member(r, v, m) && push_read(r, v, m) &&
	    req_read_done(r))
		req_call_raftd(r, OP_SET_QUEUE, m->queue, &msg_set_queue, m,
			       on_queue);
}

/* --- concurrency, throttle --- */

static void on_set(struct req *r, const struct rpc_reply *reply)
{
	const struct m_queue *q = req_reply(r, &msg_queue, reply);
	struct m_status_reply done = { 0 };

	if (q == NULL)
		return;
	MSG_SET(&done, status_reply, status, STR("ok"));
	if (q->created)
		MSG_SET(&done, status_reply, created, true);
	req_answer_message(r, &msg_status_reply, &done, 200);
}

/* Checked by the tables, then set. */
static void set(struct req *r, const struct m_set_queue *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	int err = msg_check(&msg_set_queue, m, &why);

	if (err < 0)
		req_fail_text(r, -err, buf_str(&why));
	else
		req_call_raftd(r, OP_SET_QUEUE, m->queue, &msg_set_queue, m,
			       on_set);
}

/* False when an error has been answered: the body must have the member. */
static bool needs_member(struct req *r, const char *name)
{
	struct str body = buf_str(&r->x.body);
	struct json v;

	if (body.n > 0 && json_member(json_root(body), name, &r->arena, &v))
		return true;
	req_fail(r, ERR_VALIDATION_ERROR,
		 "%s is required; 0 or null removes the limit", name);
	return false;
}

void h_set_concurrency(struct req *r)
{
	struct m_set_queue *m = arena_zalloc(&r->arena, sizeof(*m));
	struct m_set_concurrency asked = { 0 };

	if (!req_read(r, &msg_set_concurrency, &asked) ||
	    !needs_member(r, "max"))
		return;
	MSG_SET(m, set_queue, queue, asked.queue);
	MSG_SET(m, set_queue, max_concurrency, asked.max);
	set(r, m);
}

void h_set_throttle(struct req *r)
{
	struct m_set_queue *m = arena_zalloc(&r->arena, sizeof(*m));
	struct m_set_throttle asked = { 0 };
	uint64_t period;

	if (!req_read(r, &msg_set_throttle, &asked) || !needs_member(r, "rate"))
		return;
	period =
	    MSG_HAS(&asked, set_throttle, window) ? asked.window : asked.period;
	if (MSG_HAS(&asked, set_throttle, period) && period != asked.period) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "period: differs from window_ms");
		return;
	}
	if (asked.rate > 0 && period == 0) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "period: must be more than 0; it may also be given as "
			 "window_ms");
		return;
	}
	MSG_SET(m, set_queue, queue, asked.queue);
	MSG_SET(m, set_queue, rate, asked.rate);
	if (asked.rate > 0)
		MSG_SET(m, set_queue, period, period);
	set(r, m);
}

void h_unset_throttle(struct req *r)
{
	struct m_set_queue *m = arena_zalloc(&r->arena, sizeof(*m));

	if (!req_read(r, &msg_set_queue, m))
		return;
	MSG_SET(m, set_queue, rate, 0);
	set(r, m);
}

/* --- drain --- */

struct drain {
	struct m_drain m;
	bool created; /* by pausing it */
};

static void on_drained(struct req *r, const struct rpc_reply *reply)
{
	struct m_drain_reply *m = req_reply(r, &msg_drain_reply, reply);
	const struct drain *d = r->state;

	if (m == NULL)
		return;
	if (d->created)
		MSG_SET(m, drain_reply, created, true);
	req_answer_message(r, &msg_drain_reply, m, 200);
}

/* The node goes while somebody waits; another one can go on. */
static void end_drain(struct req *r)
{
	req_fail_text(r, ERR_SHUTTING_DOWN, STR_NULL);
}

static void on_paused(struct req *r, const struct rpc_reply *reply)
{
	const struct m_status_reply *paused =
	    req_reply(r, &msg_status_reply, reply);
	struct drain *d = r->state;
	struct m_drain *m = &d->m;

	if (paused == NULL)
		return;
	d->created = paused->created;
	r->partly = true; /* it is paused */
	if (r->h->draining)
		MSG_SET(m, drain, wait_ns, 0);
	req_call(r, &(struct req_call){
			.client = r->h->raftd,
			.id = QUERY_DRAINED,
			.key = m->queue,
			.desc = &msg_drain,
			.m = m,
			.timeout_ns = m->wait_ns + r->h->set->op_timeout,
			.timeout_err = ERR_LEADER_UNAVAILABLE,
			.then = on_drained,
		    });
	if (m->wait_ns == 0)
		return;
	r->end_parked = end_drain;
	park_add(&r->x);
}

void h_drain(struct req *r)
{
	struct m_queue_ref *pause = arena_zalloc(&r->arena, sizeof(*pause));
	struct drain *d = arena_zalloc(&r->arena, sizeof(*d));
	struct m_drain *m = &d->m;
	uint64_t wait_ns = 0;

	if (!req_read(r, &msg_queue_ref, pause) ||
	    !req_duration_argument(r, "wait", &wait_ns))
		return;
	MSG_SET(m, drain, queue, pause->queue);
	MSG_SET(m, drain, wait_ns,
		MIN(wait_ns, LIMIT_WAIT_S * (uint64_t)NS_PER_S));
	r->state = d;
	req_call_raftd(r, OP_PAUSE, pause->queue, &msg_queue_ref, pause,
		       on_paused);
}

/* --- clear, delete --- */

/* Portion by portion, until nothing is left to do. */
struct sweep {
	unsigned op;
	const char *done; /* status at the end */
	struct m_clear_queue m;
	uint64_t count;
};

static void sweep_answer(struct req *r, const struct sweep *s)
{
	struct json_writer w = req_json(r);

	jw_object(&w);
	jw_key(&w, "status");
	jw_cstr(&w, s->done);
	jw_key(&w, "count");
	jw_u64(&w, s->count);
	jw_object_end(&w);
	req_answer(r, 200);
}

static void on_swept(struct req *r, const struct rpc_reply *reply)
{
	struct m_clear_queue_reply *m;
	struct sweep *s = r->state;

	if (reply->err != 0) {
		req_fail_partly(r, reply, "deleted", s->count);
		return;
	}
	m = req_reply(r, &msg_clear_queue_reply, reply);
	if (m == NULL)
		return;
	s->count += m->count;
	if (!m->more) {
		sweep_answer(r, s);
		return;
	}
	if (!req_may_go_on(r, "deleted", s->count))
		return;
	MSG_SET(&s->m, clear_queue, upto_seq, m->upto_seq);
	if (MSG_HAS(m, clear_queue_reply, regroups))
		MSG_SET(&s->m, clear_queue, regroups, m->regroups);
	/* the reply's memory goes, the arena's stays */
	MSG_SET(&s->m, clear_queue, cursor, arena_copy(&r->arena, m->cursor));
	req_call_raftd(r, s->op, s->m.queue, &msg_clear_queue, &s->m, on_swept);
}

static void sweep(struct req *r, unsigned op, const char *done)
{
	struct sweep *s = arena_zalloc(&r->arena, sizeof(*s));

	s->op = op;
	s->done = done;
	r->state = s;
	if (!req_read(r, &msg_clear_queue, &s->m))
		return;
	r->x.outlives = true;
	req_call_raftd(r, op, s->m.queue, &msg_clear_queue, &s->m, on_swept);
}

void h_clear_queue(struct req *r)
{
	sweep(r, OP_CLEAR_QUEUE, "cleared");
}

void h_delete_queue(struct req *r)
{
	const char *confirm = req_raw_argument(r, "confirm");

	if (confirm == NULL || !str_is(str_from(confirm), "true"))
		req_fail(r, ERR_VALIDATION_ERROR,
			 "this deletes the queue with all its jobs; add "
			 "?confirm=true to do it");
	else
		sweep(r, OP_DELETE_QUEUE, "deleted");
}
