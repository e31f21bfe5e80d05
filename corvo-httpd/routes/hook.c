/*
 * Inbound webhooks: POST /webhooks/{queue}, and those with a name and a
 * configuration. Deliveries come from anywhere; who signs one is known only
 * when its webhook has been asked for, and until then it is only kept.
 */
#include "hook/hook.h"

#include "front/head.h"
#include "req/job_check.h"
#include "req/req.h"
#include "req/work.h"
#include "routes/handlers.h"
#include "util/clock.h"
#include "util/timefmt.h"
#include "util/turn.h"

/* So often there is what a payload may be long, while a delivery becomes a job:
 * as its form had it, in the document that places are looked up in, and as a
 * payload. */
#define COPIES_OF_HOOK  3
#define COPIES_OF_QUEUE 2

/* For what is made of the body. False: it was refused. */
static bool has_room(struct req *r, size_t copies)
{
	size_t n;

	turn_open();
	n = hook_payload_most(buf_str(&r->x.body));
	turn_close();
	return req_work_fits(r, copies * n);
}

/* --- PUT /hooks/{name} --- */

static void on_set(struct req *r, const struct rpc_reply *reply)
{
	const struct m_hook *m = req_reply(r, &msg_hook, reply);

	if (m != NULL)
		req_answer_message(r, &msg_hook, m, r->match.route->status);
}

void h_set_hook(struct req *r)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct m_set_hook *m = arena_zalloc(&r->arena, sizeof(*m));

	if (!req_read(r, &msg_set_hook, m))
		return;
	if (hook_check(m, &r->arena, &why) < 0)
		req_fail_text(r, ERR_VALIDATION_ERROR, buf_str(&why));
	else
		req_call_raftd(r, OP_SET_HOOK, STR_NULL, &msg_set_hook, m,
			       on_set);
}

/* --- POST /hooks/{name} --- */

struct taking {
	struct hook_delivery d;
	const struct m_hook *h;
};

static void on_header(void *ctx, const char *name, const char *value)
{
	struct req *r = ctx;
	struct hook_delivery *d = &((struct taking *)r->state)->d;

	hook_add_header(&d->headers, str_from(name),
			arena_copy(&r->arena, str_from(value)), &r->arena);
}

struct arguments {
	struct req *r;
	bool ok;
};

static void on_argument(void *ctx, const char *name)
{
	struct arguments *a = ctx;
	struct req *r = a->r;
	struct hook_delivery *d = &((struct taking *)r->state)->d;
	struct str plain, value = STR_NULL;

	if (!a->ok || *name == '\0')
		return;
	a->ok =
	    url_decode(str_from(name), &r->arena, &plain) && str_is_utf8(plain);
	if (!a->ok) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "the name of an argument is not percent-encoded "
			 "UTF-8");
		return;
	}
	a->ok = req_text_argument(r, name, &value);
	if (a->ok)
		hook_add_argument(&d->query, arena_copy(&r->arena, plain),
				  value, &r->arena);
}

static void on_taken(struct req *r, const struct rpc_reply *reply)
{
	const struct m_enqueue_reply *m =
	    req_reply(r, &msg_enqueue_reply, reply);
	struct m_hook_reply a = { 0 };

	if (m == NULL)
		return;
	r->x.replayed = m->replayed;
	MSG_SET(&a, hook_reply, job_id, m->job_id);
	MSG_SET(&a, hook_reply, duplicate, m->replayed || m->unique_existing);
	MSG_SET(&a, hook_reply, status,
		a.duplicate ? STR("duplicate")
			    : str_from(enum_text(&enum_job_state, m->status)));
	req_answer_message(r, &msg_hook_reply, &a, a.duplicate ? 200 : 201);
}

static void make_job(struct req *r, const struct taking *t)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct m_enqueue *e = arena_zalloc(&r->arena, sizeof(*e));
	int err;

	turn_open();
	err = hook_map(t->h, &t->d, &r->arena, e, &why);
	turn_close();
	if (req_is_unwanted(r)) /* it may have been read in part only */
		return;
	if (err == 0)
		err = job_check(r->h->set, e, &why);
	if (err < 0) {
		req_fail_text(r, -err, buf_str(&why));
		return;
	}
	job_give_ids(r->h, &r->arena, e);
	req_call_raftd(r, OP_ENQUEUE, e->queue, &msg_enqueue, e, on_taken);
}

/* False: it was refused. */
static bool verify(struct req *r, const struct taking *t)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	int err;

	turn_open();
	err = hook_verify(t->h, &t->d, clock_wall_ns(), &why);
	turn_close();
	if (err < 0)
		req_fail_text(r, ERR_SIGNATURE_ERROR, buf_str(&why));
	return err == 0;
}

static bool is_challenge(struct req *r, const struct taking *t, struct str *ret)
{
	bool is;

	turn_open();
	is = hook_is_challenge(t->h, &t->d, &r->arena, ret);
	turn_close();
	return is;
}

static void take(struct req *r)
{
	const struct taking *t = r->state;
	struct m_hook_reply a = { 0 };
	struct str challenge;

	if (!verify(r, t))
		return;
	if (is_challenge(r, t, &challenge)) {
		MSG_SET(&a, hook_reply, challenge, challenge);
		req_answer_message(r, &msg_hook_reply, &a, 200);
	} else if (has_room(r, COPIES_OF_HOOK)) {
		make_job(r, t);
	}
}

static void on_hook(struct req *r, const struct rpc_reply *reply)
{
	struct taking *t = r->state;
	struct rpc_reply copy = *reply;

	/* its texts are needed for longer than this call */
	copy.body = arena_copy(&r->arena, reply->body);
	t->h = req_reply(r, &msg_hook, &copy);
	if (t->h == NULL)
		return;
	r->x.seq = 0; /* nothing was written yet */
	req_work(r, t->d.body.n, take);
}

void h_take_hook(struct req *r)
{
	struct m_hook_ref *m = arena_zalloc(&r->arena, sizeof(*m));
	struct taking *t = arena_zalloc(&r->arena, sizeof(*t));
	struct arguments a = { r, true };

	if (!req_read_path(r, &msg_hook_ref, m))
		return;
	r->state = t;
	t->d.body = buf_str(&r->x.body);
	head_each(&r->x, on_header, r);
	head_each_argument(&r->x, on_argument, &a);
	if (a.ok)
		req_call_raftd(r, QUERY_GET_HOOK, STR_NULL, &msg_hook_ref, m,
			       on_hook);
}

/* --- POST /webhooks/{queue} --- */

static bool read_queue(struct req *r, struct m_enqueue *e)
{
	struct m_queue_ref m = { 0 };

	if (!req_read_path(r, &msg_queue_ref, &m))
		return false;
	MSG_SET(e, enqueue, queue, m.queue);
	return true;
}

static bool read_priority(struct req *r, struct m_enqueue *e)
{
	struct str text = STR_NULL;
	uint32_t number;

	if (!req_text_argument(r, "priority", &text))
		return false;
	if (text.n == 0)
		return true;
	if (enum_parse(&enum_priority, text, &number)) {
		MSG_SET(e, enqueue, priority, number);
		return true;
	}
	if (req_is_compat(r))
		return true; /* as version 0.3 did */
	req_fail(r, ERR_VALIDATION_ERROR,
		 "priority: must be one of critical, high, normal");
	return false;
}

static bool read_time(struct req *r, struct m_enqueue *e)
{
	struct str text = STR_NULL;
	uint64_t ns;

	if (!req_text_argument(r, "scheduled_at", &text))
		return false;
	if (text.n == 0)
		return true;
	if (time_parse(text, &ns)) {
		MSG_SET(e, enqueue, scheduled_at, ns);
		return true;
	}
	req_fail(r, ERR_VALIDATION_ERROR,
		 "scheduled_at: must be a time such as 2026-02-11T10:00:00Z");
	return false;
}

static bool has_tag(struct str *names, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(names[i], name))
			return true;
	return false;
}

/* name:value,name:value as an object */
static bool read_tags(struct req *r, struct m_enqueue *e)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);
	struct str rest = STR_NULL, word, name, value, *names = NULL;
	size_t n = 0, cap = 0;

	if (!req_text_argument(r, "tags", &rest))
		return false;
	if (rest.n == 0)
		return true;
	jw_object(&w);
	while (rest.n > 0) {
		(void)str_split(rest, ',', &word, &rest);
		if (!str_split(word, ':', &name, &value) ||
		    has_tag(names, n, name)) {
			req_fail(r, ERR_VALIDATION_ERROR,
				 "tags: must be name:value, each name once, "
				 "with commas between them");
			return false;
		}
		names = arena_grow(&r->arena, names, sizeof(*names), n, &cap);
		names[n++] = name;
		jw_key_str(&w, name);
		jw_str(&w, value);
	}
	jw_object_end(&w);
	MSG_SET(e, enqueue, tags, arena_copy(&r->arena, buf_str(&b)));
	return true;
}

static bool read_arguments(struct req *r, struct m_enqueue *e)
{
	struct str key = STR_NULL;
	uint64_t retries = UINT64_MAX;

	if (!read_priority(r, e) || !read_time(r, e) || !read_tags(r, e) ||
	    !req_text_argument(r, "unique_key", &key) ||
	    !req_number_argument(r, "max_retries", 0, LIMIT_ATTEMPTS, &retries))
		return false;
	if (key.n > 0)
		MSG_SET(e, enqueue, unique_key, key);
	if (retries != UINT64_MAX)
		MSG_SET(e, enqueue, max_retries, (uint32_t)retries);
	return true;
}

void h_queue_hook(struct req *r)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct m_enqueue *e = arena_zalloc(&r->arena, sizeof(*e));

	if (!read_queue(r, e) || !read_arguments(r, e))
		return;
	/* in a payload it is as long, or longer */
	if (!req_payload_fits(r, r->x.body.n))
		return;
	if (!has_room(r, COPIES_OF_QUEUE))
		return;
	turn_open();
	MSG_SET(e, enqueue, payload,
		hook_payload(buf_str(&r->x.body), &r->arena));
	turn_close();
	if (req_is_unwanted(r))
		return;
	if (msg_check(&msg_enqueue, e, &why) < 0)
		req_fail_text(r, ERR_VALIDATION_ERROR, buf_str(&why));
	else
		enqueue_send(r, e);
}
