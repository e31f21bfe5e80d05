#include "fsm_fixture.h"

#include <unistd.h>

#include "fsm_twin.h"
#include "proto/mpk.h"

#define FX_BEHIND_BYTES (32u << 10)
#define FX_ORIGIN       0x1234567890abcdefULL

static struct kv *open_rocks(const char *dir)
{
	struct kv_options o = { .write_buffer_bytes = 1u << 20,
				.cache_bytes = 1u << 20 };
	struct buf why = BUF_INIT(1024);
	struct kv *kv = NULL;
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/db", dir);
	if (kv_rocks_open(path, &o, &kv, &why) < 0)
		fail_msg("%s: %.*s", path, STR_ARG(buf_str(&why)));
	buf_done(&why);
	return kv;
}

static void load(const struct fx *x, struct fx_side *s)
{
	s->f = fsm_new(s->kv);
	if (x->budget > 0)
		fsm_set_budget(s->f, x->budget);
	assert_int_equal(fsm_load(s->f), 0);
}

int fx_setup(void **state)
{
	struct fx *x = xcalloc(1, sizeof(*x));

	(void)snprintf(x->dir, sizeof(x->dir), "/tmp/corvo_fsm_XXXXXX");
	assert_non_null(mkdtemp(x->dir));
	x->now_ns = FX_START_NS;
	x->keep = FX_KEEP;
	x->side[FX_MEM].kv = kv_mem_new();
	x->side[FX_ROCKS].kv =
	    kv_behind_new(open_rocks(x->dir), FX_BEHIND_BYTES);
	for (int i = 0; i < FX_SIDES; i++)
		load(x, &x->side[i]);
	*state = x;
	return 0;
}

int fx_teardown(void **state)
{
	struct fx *x = *state;
	char cmd[128];

	if (x->twins != NULL)
		twins_stop(x);
	for (int i = 0; i < FX_SIDES; i++) {
		fsm_free(x->side[i].f);
		kv_close(x->side[i].kv);
	}
	(void)snprintf(cmd, sizeof(cmd), "rm -rf -- '%s'", x->dir);
	assert_int_equal(system(cmd), 0);
	buf_done(&x->entry);
	arena_done(&x->arena);
	hmap_done(&x->sent);
	free(x);
	return 0;
}

void fx_restart(struct fx *x, enum fx_side_id side)
{
	struct fx_side *s = &x->side[side];

	fsm_free(s->f);
	if (side == FX_ROCKS) {
		kv_close(s->kv);
		s->kv = open_rocks(x->dir);
	}
	load(x, s);
}

void fx_set_budget(struct fx *x, uint64_t bytes)
{
	x->budget = bytes;
	for (int i = 0; i < FX_SIDES; i++)
		fsm_set_budget(x->side[i].f, bytes);
}

/* --- entries --- */

void fx_begin(struct fx *x)
{
	arena_reset(&x->arena);
	x->n = 0;
	entry_begin_for(&x->w, &x->entry, x->now_ns, x->raft_index + 1,
			&(struct entry_caller){
			    FX_ORIGIN, 1 + x->calls - MIN(x->calls, x->keep) },
			1);
}

/* A request that comes again has the number of the first time. */
static uint64_t number_of(struct fx *x, enum op_id op, uint32_t flags,
			  struct str body)
{
	struct buf key = BUF_INIT(0);
	uint64_t id = 0;

	buf_printf(&key, "%u ", (unsigned)op);
	if (body.n > 0)
		buf_put_str(&key, body);
	if (flags & FRAME_RESEND)
		id = (uintptr_t)hmap_get(&x->sent, buf_str(&key));
	if (id == 0)
		id = ++x->calls;
	(void)hmap_put(&x->sent, buf_str(&key), (void *)(uintptr_t)id);
	buf_done(&key);
	return id;
}

static void add_item(struct fx *x, enum op_id op, uint32_t flags, uint64_t id,
		     struct str body)
{
	struct entry_item item = { .op = op,
				   .flags = flags,
				   .body = body.n ? body : STR(""),
				   .caller = id != 0,
				   .id = id };

	entry_add(&x->w, &item);
	x->n++;
}

uint64_t fx_add_raw(struct fx *x, enum op_id op, uint32_t flags,
		    struct str body)
{
	/* as corvo-httpd does: a fetch has a name of its own */
	uint64_t id = op == OP_FETCH ? 0 : number_of(x, op, flags, body);

	add_item(x, op, flags, id, body);
	return id;
}

void fx_add_again(struct fx *x, enum op_id op, uint64_t id, struct str body)
{
	add_item(x, op, FRAME_RESEND, id, body);
}

void fx_add(struct fx *x, enum op_id op, uint32_t flags, const void *request)
{
	struct buf b = BUF_INIT(0);

	msg_encode(op_info(op)->request, request, &b);
	(void)fx_add_raw(x, op, flags, buf_str(&b));
	buf_done(&b);
}

static void on_first(void *ctx, size_t item, int err, uint64_t seq,
		     struct str body)
{
	struct fx *x = ctx;

	assert_true(item < x->n);
	x->replies[item] =
	    (struct fx_reply){ err, seq,
			       arena_copy(&x->arena, body.n ? body : STR("")) };
	if (x->twins != NULL)
		twins_told(x, item, err, seq, body);
}

static void on_second(void *ctx, size_t item, int err, uint64_t seq,
		      struct str body)
{
	const struct fx *x = ctx;
	const struct fx_reply *r = &x->replies[item];

	assert_int_equal(err, r->err);
	assert_int_equal(seq, r->seq);
	assert_int_equal(body.n, r->body.n);
	if (body.n > 0)
		assert_memory_equal(body.p, r->body.p, body.n);
}

static void on_fault(void *ctx _unused_, const struct fsm_fault *fault)
{
	const struct call_info *op = op_info(fault->op);

	fail_msg("%s failed a check: %s:%d: %s", op != NULL ? op->name : "?",
		 fault->file, fault->line, fault->what);
}

void fx_apply(struct fx *x, struct str entry)
{
	int r;

	x->raft_index++;
	if (x->twins != NULL)
		twins_apply(x, entry);
	r = fsm_apply(x->side[FX_MEM].f, x->raft_index, entry, on_first, x);
	if (x->twins != NULL)
		twins_compare(x, r);
	assert_int_equal(r, 0);
	assert_int_equal(
	    fsm_apply(x->side[FX_ROCKS].f, x->raft_index, entry, on_second, x),
	    0);
	for (int i = 0; i < FX_SIDES; i++) {
		x->side[i].latest_ns = MAX(x->side[i].latest_ns, x->now_ns);
		x->side[i].back_ns += x->last_ns - MIN(x->last_ns, x->now_ns);
	}
	x->last_ns = x->now_ns;
	if (!x->breaks)
		fsm_each_fault(x->side[FX_MEM].f, on_fault, NULL);
	if (x->unchecked)
		return;
	fx_check_same(x);
	fx_check_side(&x->side[FX_MEM]);
	fx_check_side(&x->side[FX_ROCKS]);
}

void fx_commit(struct fx *x)
{
	entry_end(&x->w);
	x->replies = arena_zalloc(&x->arena, (x->n + 1) * sizeof(*x->replies));
	fx_apply(x, buf_str(&x->entry));
}

static int do_one(struct fx *x, enum op_id op, uint32_t flags,
		  const void *request, void *reply)
{
	fx_begin(x);
	fx_add(x, op, flags, request);
	fx_commit(x);
	if (x->replies[0].err == 0 && reply != NULL)
		assert_int_equal(msg_decode(op_info(op)->reply,
					    x->replies[0].body, &x->arena,
					    reply),
				 0);
	return x->replies[0].err;
}

int fx_do(struct fx *x, enum op_id op, const void *request, void *reply)
{
	return do_one(x, op, 0, request, reply);
}

int fx_resend(struct fx *x, enum op_id op, const void *request, void *reply)
{
	return do_one(x, op, FRAME_RESEND, request, reply);
}

int fx_do_old(struct fx *x, enum op_id op, uint32_t flags, const void *request)
{
	struct buf b = BUF_INIT(0), body = BUF_INIT(0);

	msg_encode(op_info(op)->request, request, &body);
	mpk_array(&b, 4);
	mpk_u64(&b, 1);
	mpk_u64(&b, x->now_ns);
	mpk_u64(&b, x->raft_index + 1);
	mpk_array(&b, 1);
	mpk_array(&b, 3);
	mpk_u64(&b, op);
	mpk_u64(&b, flags);
	mpk_bin(&b, buf_str(&body));
	arena_reset(&x->arena);
	x->n = 1;
	x->replies = arena_zalloc(&x->arena, sizeof(*x->replies));
	fx_apply(x, buf_str(&b));
	buf_done(&body);
	buf_done(&b);
	return x->replies[0].err;
}

void fx_refused(struct fx *x, enum op_id op, const void *request, int err,
		const char *text)
{
	struct buf before = BUF_INIT(0), after = BUF_INIT(0);
	uint64_t seq = fsm_last_seq(x->side[FX_MEM].f);

	fx_dump_state(x->side[FX_MEM].kv, &before);
	assert_int_equal(fx_do(x, op, request, NULL), err);
	assert_str_is(x->replies[0].body, text);
	assert_int_equal(x->replies[0].seq, seq);
	fx_dump_state(x->side[FX_MEM].kv, &after);
	assert_true(str_eq(buf_str(&before), buf_str(&after)));
	buf_done(&before);
	buf_done(&after);
}

/* --- short forms --- */

void fx_raise_level(struct fx *x)
{
	struct m_level m = { 0 };

	MSG_SET(&m, level, level, FEATURE_LEVEL);
	assert_int_equal(fx_do(x, OP_SET_LEVEL, &m, NULL), 0);
}

int fx_setup_level(void **state)
{
	int r = fx_setup(state);

	fx_raise_level(*state);
	return r;
}

struct m_enqueue fx_new(const char *id, const char *queue)
{
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, str_from(queue));
	return m;
}

void fx_enqueue(struct fx *x, const char *id, const char *queue)
{
	struct m_enqueue m = fx_new(id, queue);
	struct m_enqueue_reply r;

	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, &r), 0);
	assert_str_is(r.job_id, id);
}

void fx_cap(struct fx *x, const char *queue, uint64_t max_backlog)
{
	struct m_set_queue m = { 0 };

	MSG_SET(&m, set_queue, queue, str_from(queue));
	MSG_SET(&m, set_queue, max_backlog, max_backlog);
	assert_int_equal(fx_do(x, OP_SET_QUEUE, &m, NULL), 0);
}

/* From active on. */
static void make_worked_on(struct fx *x, const char *id, enum job_state s)
{
	struct m_ack a = { 0 };
	struct m_fail f = { 0 };

	fx_expect(x, "q", id);
	MSG_SET(&a, ack, job_id, str_from(id));
	MSG_SET(&a, ack, result, STR("1"));
	MSG_SET(&f, fail, job_id, str_from(id));
	MSG_SET(&f, fail, error, STR("boom"));
	if (s == JOB_COMPLETED)
		assert_int_equal(fx_do(x, OP_ACK, &a, NULL), 0);
	if (s == JOB_DEAD)
		MSG_SET(&f, fail, retry, false);
	if (s == JOB_DEAD || s == JOB_RETRYING)
		assert_int_equal(fx_do(x, OP_FAIL, &f, NULL), 0);
}

void fx_make(struct fx *x, const char *id, enum job_state s)
{
	struct m_enqueue m = { 0 };
	struct m_hold hold = { 0 };

	MSG_SET(&hold, hold, job_id, str_from(id));
	MSG_SET(&m, enqueue, job_id, str_from(id));
	MSG_SET(&m, enqueue, queue, STR("q"));
	MSG_SET(&m, enqueue, expire_after, 3600 * NS_PER_S);
	if (s == JOB_SCHEDULED)
		MSG_SET(&m, enqueue, scheduled_at, x->now_ns + NS_PER_S);
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
	if (s == JOB_CANCELLED)
		fx_job_op(x, OP_CANCEL, id, "cancelled");
	else if (s == JOB_HELD)
		assert_int_equal(fx_do(x, OP_HOLD, &hold, NULL), 0);
	else if (s != JOB_SCHEDULED && s != JOB_PENDING)
		make_worked_on(x, id, s);
	fx_expect_state(x, id, s);
}

bool fx_fetch(struct fx *x, const char *queue, struct m_fetched *ret)
{
	struct str name = str_from(queue);
	struct m_fetch m = { 0 };
	struct m_fetch_reply r;

	MSG_SET_LIST(&m, fetch, queues, &name, 1);
	MSG_SET(&m, fetch, worker_id, STR("w1"));
	MSG_SET(&m, fetch, hostname, STR("host1"));
	assert_int_equal(fx_do(x, OP_FETCH, &m, &r), 0);
	assert_true(r.jobs_n <= 1);
	if (r.jobs_n == 1)
		*ret = r.jobs[0];
	return r.jobs_n == 1;
}

void fx_expect(struct fx *x, const char *queue, const char *id)
{
	struct m_fetched j;

	if (!fx_fetch(x, queue, &j))
		fail_msg("no job in %s, expected %s", queue, id);
	assert_str_is(j.job_id, id);
}

void fx_expect_none(struct fx *x, const char *queue)
{
	struct m_fetched j;

	if (fx_fetch(x, queue, &j))
		fail_msg("got %.*s, expected none", STR_ARG(j.job_id));
}

uint32_t fx_maintain(struct fx *x, enum op_id op, uint32_t limit, bool *more)
{
	struct m_maintain m = { 0 };
	struct m_maintain_reply r;

	MSG_SET(&m, maintain, limit, limit);
	assert_int_equal(fx_do(x, op, &m, &r), 0);
	if (more != NULL)
		*more = r.more;
	return r.count;
}

void fx_job_op(struct fx *x, enum op_id op, const char *id, const char *status)
{
	struct m_job_ref m = { 0 };
	struct m_status_reply r;

	MSG_SET(&m, job_ref, job_id, str_from(id));
	if (fx_do(x, op, &m, &r) != 0)
		fail_msg("%.*s", STR_ARG(x->replies[0].body));
	assert_str_is(r.status, status);
}

void fx_queue_op(struct fx *x, enum op_id op, const char *queue)
{
	struct m_queue_ref m = { 0 };
	struct m_status_reply r;

	MSG_SET(&m, queue_ref, queue, str_from(queue));
	assert_int_equal(fx_do(x, op, &m, &r), 0);
	assert_str_is(r.status, op == OP_PAUSE ? "paused" : "resumed");
}

bool fx_job_exists(struct fx *x, const char *id)
{
	struct m_job j;
	int r = record_job(x->side[FX_MEM].kv, str_from(id), 0, &x->arena, &j);

	assert_true(r >= 0);
	return r > 0;
}

const struct m_job *fx_job(struct fx *x, const char *id)
{
	struct m_job *j = arena_alloc(&x->arena, sizeof(*j));
	int r = record_job(x->side[FX_MEM].kv, str_from(id),
			   RECORD_ERRORS | RECORD_TIMELINE, &x->arena, j);

	if (r != 1)
		fail_msg("job %s: %d", id, r);
	return j;
}

void fx_timeline(struct fx *x, const char *id, const char *expected)
{
	const struct m_job *j = fx_job(x, id);
	struct buf b = BUF_INIT(0);

	for (size_t i = 0; i < j->timeline_n; i++)
		buf_printf(&b, "%s%s", i ? " " : "",
			   enum_text(&enum_event_type, j->timeline[i].type));
	assert_str_is(buf_str(&b), expected);
	buf_done(&b);
}

void fx_expect_state(struct fx *x, const char *id, enum job_state s)
{
	assert_string_equal(enum_text(&enum_job_state, fx_job(x, id)->state),
			    enum_text(&enum_job_state, s));
}
