/*
 * One request: pool, reading, calls, answers. See req/req.h.
 */
#include "req/req.h"

#include <stdlib.h>

#include "front/answer.h"
#include "front/head.h"
#include "front/park.h"
#include "front/server.h"
#include "req/guarded.h"
#include "req/job_check.h"
#include "req/metrics.h"
#include "req/work.h"
#include "util/clock.h"
#include "util/turn.h"

/* Memory a pooled request may keep; what is larger is given back. */
#define POOL_KEEP_BYTES (16u << 10)
#define POOL_MAX        512 /* requests kept for reuse */
/* A message larger than that gives its buffer back. */
#define SCRATCH_KEEP_BYTES (1u << 20)
#define ARENA_BLOCK        2048
#define FIELDS_MAX         8 /* further headers of an answer */

static void req_reset(struct req *r)
{
	struct arena arena = r->arena;
	struct buf body = r->x.body;
	struct buf out = r->x.out;

	arena_reset(&arena);
	buf_done(&r->taken);
	if (body.cap > POOL_KEEP_BYTES)
		buf_done(&body);
	if (out.cap > POOL_KEEP_BYTES)
		buf_done(&out);
	buf_clear(&body);
	buf_clear(&out);
	*r = (struct req){ .arena = arena, .x = { .body = body, .out = out } };
	list_init(&r->x.node);
}

struct req *req_new(struct httpd *h)
{
	struct req *r;

	if (list_empty(&h->free_reqs)) {
		r = xcalloc(1, sizeof(*r));
		r->arena.block_size = ARENA_BLOCK;
		r->x.body.max = LIMIT_BODY_BYTES;
		list_init(&r->x.node);
	} else {
		r = list_entry(h->free_reqs.next, struct req, x.node);
		list_remove(&r->x.node);
		h->free_reqs_n--;
	}
	r->h = h;
	r->x.start_ns = clock_mono_ns();
	r->x.content_type = "application/json";
	return r;
}

void req_cancel_call(struct req *r)
{
	if (r->call != NULL && r->too_late != NULL)
		(void)rpc_abandon(r->client, r->call, r->too_late, r->h);
	else if (r->call != NULL)
		rpc_cancel(r->client, r->call);
	r->call = NULL;
}

static void req_release(struct req *r)
{
	arena_done(&r->arena);
	buf_done(&r->taken);
	buf_done(&r->x.body);
	buf_done(&r->x.out);
	free(r);
}

void req_free(struct req *r)
{
	struct httpd *h = r->h;

	req_cancel_call(r);
	park_remove(&r->x);
	req_reset(r);
	if (h->free_reqs_n >= POOL_MAX) {
		req_release(r);
		return;
	}
	list_push_front(&h->free_reqs, &r->x.node);
	h->free_reqs_n++;
}

void req_pool_done(struct httpd *h)
{
	LIST_FOREACH_SAFE (it, &h->free_reqs) {
		list_remove(it);
		req_release(list_entry(it, struct req, x.node));
	}
	h->free_reqs_n = 0;
}

/* --- reading --- */

static bool all_optional(const struct msg_desc *d)
{
	for (size_t i = 0; i < d->n; i++) {
		unsigned f = d->fields[i].flags;

		if ((f & F_REQUIRED) && !(f & (F_PATH | F_INTERNAL)))
			return false;
	}
	return true;
}

static bool set_path_field(struct req *r, const struct msg_desc *d, void *m,
			   size_t param)
{
	struct str name = r->match.name[param];
	struct str value;

	if (!url_decode(r->match.value[param], &r->arena, &value) ||
	    !str_is_utf8(value)) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "%.*s in the path is not percent-encoded UTF-8",
			 STR_ARG(name));
		return false;
	}
	for (size_t i = 0; i < d->n; i++) {
		const struct field_desc *f = &d->fields[i];

		if (!(f->flags & F_PATH) || !str_is(name, f->name))
			continue;
		REQUIRE(f->kind == K_str);
		*(struct str *)((char *)m + f->offset) = value;
		*(uint64_t *)m |= 1ULL << i; /* `has` is the first member */
		return true;
	}
	REQUIRE(!"a route names a member its message does not have");
	return false;
}

bool req_read_path(struct req *r, const struct msg_desc *d, void *m)
{
	for (size_t i = 0; i < r->match.n; i++)
		if (!set_path_field(r, d, m, i))
			return false;
	return true;
}

bool req_read_json(struct req *r, bool may_be_empty, struct json *ret)
{
	struct str text = buf_str(&r->x.body);
	struct json_error e;
	bool ok;

	if (text.n == 0 && may_be_empty)
		text = STR("{}");
	turn_open();
	ok = json_validate(text, LIMIT_JSON_DEPTH, &e);
	turn_close();
	if (!ok) {
		req_fail(r, ERR_PARSE_ERROR, "invalid JSON at byte %zu: %s",
			 e.pos, e.text);
		return false;
	}
	*ret = json_root(text);
	if (json_type_of(*ret) != JSON_OBJECT) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "the body must be an object, not %s",
			 json_type_name(json_type_of(*ret)));
		return false;
	}
	return true;
}

struct msg_reader req_reader(struct req *r, struct buf *why)
{
	return (struct msg_reader){ .a = &r->arena,
				    .why = why,
				    .ignored = &r->ignored,
				    .unknown = route_is_exact(r->match.route)
						   ? &r->unknown
						   : NULL,
				    .compat_03 = req_is_compat(r) };
}

bool req_is_compat(struct req *r)
{
	const char *h;

	if (r->compat == COMPAT_UNASKED) {
		h = r->h->compat_03 ? "0.3" : req_header(r, HEAD_COMPAT);
		r->compat = h != NULL && str_is(str_from(h), "0.3") ? COMPAT_03
								    : COMPAT_NO;
	}
	return r->compat == COMPAT_03;
}

int req_mistake(struct req *r, int code_03)
{
	return req_is_compat(r) ? code_03 : ERR_VALIDATION_ERROR;
}

bool req_read(struct req *r, const struct msg_desc *d, void *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct msg_reader rd;
	enum http_method method = r->match.route->method;
	struct json v;
	int err;

	if (r->form != NULL)
		return r->form->read(r, d, m) && req_read_done(r);
	if (!req_read_path(r, d, m))
		return false;
	if (method == HTTP_GET || method == HTTP_DELETE) {
		err = msg_check(d, m, &why);
	} else {
		if (!req_read_json(r, all_optional(d), &v))
			return false;
		rd = req_reader(r, &why);
		turn_open();
		err = msg_from_json(&rd, d, v, m);
		turn_close();
	}
	if (err == 0 || r->unknown.n > 0)
		return req_read_done(r);
	req_fail_text(r, -err, buf_str(&why));
	return false;
}

struct str req_make_id(struct req *r, const char *prefix)
{
	return job_make_id(r->h, &r->arena, prefix);
}

struct json_style req_style(struct req *r)
{
	return (struct json_style){ .compat_03 = req_is_compat(r) };
}

/* --- calls --- */

/* What this floor keeps for it has changed. */
static void count_work(struct req *r)
{
	r->x.work_n = arena_bytes(&r->arena) + r->taken.cap;
	if (r->call != NULL)
		r->x.work_n += r->call_n;
	exchange_count(&r->x);
}

/* In JSON it is about twice as long, and a copy is made. Operations have been
 * carried out, so whoever asked for one is told. */
static bool has_room_for(struct req *r, const struct rpc_reply *reply)
{
	return reply->err != 0 || !r->is_question ||
	       exchange_fits_answer(&r->x, 3 * reply->body.n, false);
}

static void take_reply(struct req *r, void *reply)
{
	r->then(r, reply);
}

static void take_large(struct req *r)
{
	r->then(r, &r->reply);
}

/* Megabytes are not copied, but taken. */
static void keep_body(struct req *r, const struct rpc_reply *reply)
{
	if (reply->memory == NULL) {
		r->reply.body = arena_copy(&r->arena, reply->body);
		return;
	}
	buf_done(&r->taken);
	r->taken = *reply->memory;
	*reply->memory = BUF_INIT(0);
}

/* The bytes of a reply last for the callback. What was carried out is told at
 * once, and so is what goes into a stream. */
static bool works_on(struct req *r, const struct rpc_reply *reply)
{
	if (reply->err != 0 || reply->body.n <= LIMIT_REPLY_AT_ONCE ||
	    !r->is_question || !r->x.waiting || r->x.stream != NULL)
		return false;
	r->reply = *reply;
	keep_body(r, reply);
	count_work(r);
	req_work(r, reply->body.n, take_large);
	return true;
}

static void on_reply(void *ctx, const struct rpc_reply *reply)
{
	static const struct rpc_reply no_room = { .err = ERR_OVERLOADED,
						  .body = REQ_NO_ROOM };
	struct req *r = ctx;

	r->call = NULL;
	park_remove(&r->x);
	if (!has_room_for(r, reply))
		reply = &no_room;
	if (r->client == r->h->raftd) {
		r->h->seq = MAX(r->h->seq, reply->seq);
		r->x.seq = reply->seq;
	}
	if (!works_on(r, reply))
		req_guarded(r, take_reply, (void *)(uintptr_t)reply);
}

bool req_end_call(struct req *r)
{
	if (r->call != NULL && !rpc_abandon(r->client, r->call, on_reply, r))
		return false;
	r->call = NULL;
	return true;
}

/* A call lasts no longer than its client waits. */
static uint64_t deadline_of(const struct req *r, const struct req_call *c,
			    int *timeout_err)
{
	uint64_t by = clock_mono_ns() + c->timeout_ns;

	*timeout_err = c->timeout_err;
	if (r->deadline_ns == 0 || r->deadline_ns >= by)
		return by;
	*timeout_err = ERR_REQUEST_TIMEOUT;
	return r->deadline_ns;
}

void req_call(struct req *r, const struct req_call *c)
{
	struct buf *b = &r->h->scratch;
	struct rpc_call *call;
	uint64_t by;
	int timeout_err;

	by = deadline_of(r, c, &timeout_err);
	buf_clear(b);
	msg_encode(c->desc, c->m, b);
	REQUIRE(!b->full);
	r->client = c->client;
	r->then = c->then;
	call = rpc_call(c->client, c->id, c->key, buf_str(b), by, timeout_err,
			c->flags, on_reply, r);
	if (c->link_ns != 0 && !rpc_client_is_up(c->client))
		rpc_send_by(c->client, call, clock_mono_ns() + c->link_ns);
	r->call = call;
	r->call_n = b->n;
	r->is_question = !call_changes(c->id);
	count_work(r);
	if (b->cap > SCRATCH_KEEP_BYTES)
		buf_done(b);
}

/* A fetch has a name of its own, by which it finds what it was given. */
static unsigned call_flags(unsigned id)
{
	if (!call_changes(id))
		return 0;
	return RPC_CHANGES |
	       (op_info(id) != NULL && id != OP_FETCH ? RPC_KEEP : 0);
}

void req_call_raftd(struct req *r, unsigned id, struct str key,
		    const struct msg_desc *d, const void *m, req_reply_fn *then)
{
	req_call(r, &(struct req_call){ .client = r->h->raftd,
					.id = id,
					.key = key,
					.desc = d,
					.m = m,
					.timeout_ns = req_time_left(r),
					.timeout_err = ERR_LEADER_UNAVAILABLE,
					.flags = call_flags(id),
					.then = then });
}

void *req_reply(struct req *r, const struct msg_desc *d,
		const struct rpc_reply *reply)
{
	void *m;
	int err;

	if (reply->err != 0) {
		req_fail_text(r, reply->err, reply->body);
		return NULL;
	}
	m = arena_alloc(&r->arena, d->size);
	turn_open();
	err = msg_decode(d, reply->body, &r->arena, m);
	turn_close();
	if (err != 0) {
		req_fail(r, ERR_BAD_MESSAGE, "%s", err_text(ERR_BAD_MESSAGE));
		return NULL;
	}
	return m;
}

/* --- answers --- */

static void finish(struct req *r, int status)
{
	/* nobody is told, and what was not read to its end is no mistake; but
	 * a stream that has begun ends by itself */
	if (r->x.unwanted || (req_is_unwanted(r) && r->x.stream == NULL))
		return;
	REQUIRE(!r->x.answered);
	r->x.answered = true;
	r->x.status = status;
	buf_fit(&r->x.out, LIMIT_SMALL_BYTES);
	count_work(r);
	metrics_count(r->h->metrics, r);
	if (r->x.waiting)
		exchange_resume(&r->x);
}

/* A refusal says that nothing was done, which would not be true any more. */
static bool is_refusal(int err)
{
	int status = err_status(err);

	return status < 500 || status == 503;
}

void req_put_error(struct req *r, int err, struct str text)
{
	buf_clear(&r->x.out);
	r->x.err = err;
	if (r->form != NULL) {
		r->x.status = r->form->fail(r, err, text);
		return;
	}
	answer_error_body(&r->x.out, err, text, r->x.retry_after_s);
	r->x.content_type = "application/json";
	r->x.status = err_status(err);
}

void req_fail_text(struct req *r, int err, struct str text)
{
	if (r->partly && is_refusal(err))
		err = ERR_OUTCOME_UNKNOWN;
	if (err == ERR_VALIDATION_ERROR && r->mistake_03 != 0)
		err = req_mistake(r, r->mistake_03);
	r->x.retry_after_s = answer_retry_after(err);
	req_put_error(r, err, text);
	finish(r, r->x.status);
}

void req_fail(struct req *r, int err, const char *fmt, ...)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(4096);
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	req_fail_text(r, err, buf_str(&text));
}

void req_fail_partly(struct req *r, const struct rpc_reply *reply,
		     const char *done, uint64_t n)
{
	if (n == 0) {
		req_fail_text(r, reply->err, reply->body);
		return;
	}
	r->partly = true;
	req_fail(r, reply->err, "%.*s; %llu jobs were %s before that",
		 STR_ARG(reply->body), (unsigned long long)n, done);
}

bool req_may_go_on(struct req *r, const char *done, uint64_t n)
{
	const struct rpc_reply ended = {
		.err = ERR_SHUTTING_DOWN,
		.body = str_from(err_text(ERR_SHUTTING_DOWN)),
	};

	if (r->h->end_ns == 0 || clock_mono_ns() < r->h->end_ns)
		return true;
	req_fail_partly(r, &ended, done, n);
	return false;
}

struct json_writer req_json(struct req *r)
{
	buf_clear(&r->x.out);
	return JSON_WRITER(&r->x.out);
}

/* It changes nothing, and may be asked again. */
static bool is_read(const struct req *r)
{
	return r->match.route != NULL && r->match.route->method == HTTP_GET;
}

void req_answer(struct req *r, int status)
{
	if (req_refuse_behind(r))
		return;
	if (is_read(r) && !exchange_fits_answer(&r->x, r->x.out.n, true)) {
		req_fail_text(r, ERR_OVERLOADED, REQ_NO_ROOM);
		return;
	}
	if (r->x.out.n == 0 || r->x.out.p[r->x.out.n - 1] != '\n')
		buf_putc(&r->x.out, '\n');
	finish(r, status);
}

void req_answer_message(struct req *r, const struct msg_desc *d, const void *m,
			int status)
{
	struct json_style style = req_style(r);
	struct json_writer w = req_json(r);

	if (r->form != NULL) {
		finish(r, r->form->message(r, d, m));
		return;
	}
	turn_open();
	msg_to_json(d, m, &style, &w);
	turn_close();
	req_answer(r, status);
}

void req_answer_empty(struct req *r, int status)
{
	buf_clear(&r->x.out);
	finish(r, r->form != NULL ? r->form->message(r, NULL, NULL) : status);
}

void req_add_field(struct req *r, const char *name, const char *value)
{
	struct exchange *x = &r->x;

	if (x->fields == NULL)
		x->fields =
		    arena_alloc(&r->arena, FIELDS_MAX * sizeof(*x->fields));
	REQUIRE(x->fields_n < FIELDS_MAX);
	x->fields[x->fields_n++] = (struct field){ name, value };
}

struct stream *req_answer_stream(struct req *r, const struct stream_ops *ops,
				 void *ctx)
{
	return req_answer_pieces(r, &stream_events, ops, ctx);
}

struct stream *req_answer_pieces(struct req *r, const struct stream_kind *kind,
				 const struct stream_ops *ops, void *ctx)
{
	struct stream *s = stream_begin(&r->x, kind, ops, ctx);

	buf_clear(&r->x.out);
	finish(r, 200); /* its form is in what is written to it */
	return s;
}

const char *req_header(const struct req *r, enum head_name name)
{
	return r->x.head.value[name];
}
