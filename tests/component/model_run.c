/*
 * See model_run.h: choosing, applying, reporting.
 */
#include "model_run.h"

#include "proto/msg_json.h"

#define CROWD 40 /* jobs from which on no new ones are made */

bool run_chance(struct run *n, unsigned percent)
{
	return rng_below(&n->rng, 100) < percent;
}

uint64_t run_below(struct run *n, uint64_t upto)
{
	return rng_below(&n->rng, upto);
}

struct str run_queue(struct run *n)
{
	static const char *const names[] = { "q0", "q1", "q2", "q3",
					     "scheduled-db" };

	return str_from(names[run_below(n, ARRAY_SIZE(names))]);
}

struct str run_job(struct run *n)
{
	size_t top = n->m->top;

	for (int i = 0; i < 20 && top > 0; i++) {
		const struct model_job *j = &n->m->jobs[run_below(n, top)];

		if (j->used)
			return j->id;
	}
	return STR("job_unknown");
}

/* --- applying --- */

static void note(struct run *n, enum op_id op, const void *request)
{
	static const struct json_style style;
	struct run_line *line = &n->log[n->op % RUN_LOG];
	struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);

	buf_printf(&b, "%llu at %llu.%09llu: %s ", (unsigned long long)n->op,
		   (unsigned long long)(n->x->now_ns / NS_PER_S % 1000000),
		   (unsigned long long)(n->x->now_ns % NS_PER_S),
		   op_info(op)->name);
	if (op == OP_ENQUEUE) /* ids are not part of the JSON */
		buf_printf(
		    &b, "%.*s ",
		    STR_ARG(((const struct m_enqueue *)request)->job_id));
	msg_to_json(op_info(op)->request, request, &style, &w);
	if (op == OP_ENQUEUE_BATCH) {
		const struct m_enqueue_batch *m = request;

		for (size_t i = 0; i < m->jobs_n; i++)
			buf_printf(&b, " %.*s", STR_ARG(m->jobs[i].job_id));
		buf_printf(&b, " in %.*s", STR_ARG(m->batch_id));
	}
	free(line->text);
	line->text = xstrndup(b.p, b.n);
	buf_done(&b);
}

static const char *err_name(int err)
{
	return err == 0 ? "accepted" : err_code(err);
}

static bool is_expected(const struct model *m, int err)
{
	if (m->errs_n == 0)
		return err == 0;
	for (size_t i = 0; i < m->errs_n; i++) {
		if (m->errs[i] == err)
			return true;
	}
	return false;
}

/* --- once more --- */

static bool may_be_resent(enum op_id op, const void *request)
{
	static const enum op_id ops[] = {
		OP_ENQUEUE,      OP_ENQUEUE_BATCH, OP_FETCH,      OP_CANCEL,
		OP_RETRY,        OP_DELETE,        OP_MOVE,       OP_PRIORITY,
		OP_REQUEUE,      OP_HOLD,          OP_APPROVE,    OP_REJECT,
		OP_PAUSE,        OP_RESUME,        OP_OPEN_BATCH, OP_SEAL_BATCH,
		OP_RUN_SCHEDULE,
	};

	/* Without a token nobody can tell a second ack from another's. */
	if (op == OP_ACK)
		return MSG_HAS((const struct m_ack *)request, ack, lease_token);
	if (op == OP_FAIL)
		return MSG_HAS((const struct m_fail *)request, fail,
			       lease_token);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (ops[i] == op)
			return true;
	}
	return false;
}

static void keep_request(struct run *n, enum op_id op, const void *request)
{
	buf_clear(&n->last);
	n->last_op = may_be_resent(op, request) ? op : 0;
	if (n->last_op != 0)
		msg_encode(op_info(op)->request, request, &n->last);
}

bool run_do(struct run *n, enum op_id op, const void *request, void *reply)
{
	int err;

	note(n, op, request);
	err = fx_do(n->x, op, request, reply);
	if (!is_expected(n->m, err))
		fail_msg("%s: %s (%.*s), the rules say %s", op_info(op)->name,
			 err_name(err),
			 STR_ARG(err ? n->x->replies[0].body : STR("")),
			 n->m->errs_n ? err_name(n->m->errs[0]) : "accepted");
	n->last_op = 0;
	if (err == 0)
		keep_request(n, op, request);
	n->accepted += err == 0;
	n->refused += err != 0;
	return err == 0;
}

static void compare_fetch_again(struct run *n)
{
	struct m_fetch op;
	struct m_fetch_reply r;

	assert_int_equal(
	    msg_decode(&msg_fetch, buf_str(&n->last), &n->arena, &op), 0);
	assert_int_equal(
	    msg_decode(&msg_fetch_reply, n->x->replies[0].body, &n->arena, &r),
	    0);
	model_fetch_again(n->m, &op, &r);
}

bool run_resend(struct run *n)
{
	if (n->last_op == 0 || !run_chance(n, 4))
		return false;
	fx_begin(n->x);
	(void)fx_add_raw(n->x, n->last_op, FRAME_RESEND, buf_str(&n->last));
	fx_commit(n->x);
	if (n->x->replies[0].err != 0)
		fail_msg("%s, sent again: %s (%.*s)", op_info(n->last_op)->name,
			 err_name(n->x->replies[0].err),
			 STR_ARG(n->x->replies[0].body));
	n->resent++;
	model_begin(n->m, n->x->now_ns);
	if (n->last_op == OP_FETCH)
		compare_fetch_again(n);
	return true;
}

void run_must(struct run *n, enum op_id op, const void *request, void *reply)
{
	n->m->errs_n = 0;
	(void)run_do(n, op, request, reply);
}

/* So many jobs that checks after each op would take long. */
static bool is_crowded(struct run *n)
{
	size_t jobs = 0;

	MODEL_EACH(n->m, j) jobs++;
	return jobs > CROWD;
}

static run_fn *some_kind(struct run *n)
{
	unsigned total = 0, dice;

	for (size_t i = 0; i < run_kinds_n; i++)
		total += run_kinds[i].weight;
	dice = (unsigned)run_below(n, total);
	for (size_t i = 0;; i++) {
		if (dice < run_kinds[i].weight)
			return run_kinds[i].fn;
		dice -= run_kinds[i].weight;
	}
}

/* Mostly a little later, now and then much; never between two slots. */
static void pass_time(struct run *n)
{
	uint64_t ns = run_below(n, 2 * NS_PER_S);

	if (run_chance(n, 30))
		ns = 0;
	if (run_chance(n, 3))
		ns = run_below(n, 100 * NS_PER_S);
	n->x->now_ns += ns;
	n->m->now = n->x->now_ns;
	while (!model_rates_are_clear(n->m))
		n->m->now = n->x->now_ns += NS_PER_S / 2;
}

void run_step(struct run *n)
{
	run_fn *fn = some_kind(n);

	while (is_crowded(n) && (fn == run_enqueue || fn == run_enqueue_batch))
		fn = some_kind(n);
	n->op++;
	pass_time(n);
	model_begin(n->m, n->x->now_ns);
	fn(n);
}

/* --- reporting --- */

static void print_lines(const struct run *n, const char *with, size_t most)
{
	size_t from = n->op > RUN_LOG ? n->op - RUN_LOG + 1 : 1, found = 0;

	for (size_t i = n->op; i >= from && found < most; i--) {
		const char *text = n->log[i % RUN_LOG].text;

		if (text == NULL || (with != NULL && !strstr(text, with)))
			continue;
		/* print_message cuts it off */
		(void)printf("  %s\n", text);
		found++;
	}
}

void run_report(const struct run *n)
{
	char id[LIMIT_JOB_ID_BYTES + 1];

	print_message("op %llu failed; it and those before it:\n",
		      (unsigned long long)n->op);
	print_lines(n, NULL, 12);
	if (model_suspect.n == 0)
		return;
	(void)snprintf(id, sizeof(id), "%.*s", STR_ARG(model_suspect));
	print_message("those that name %s:\n", id);
	print_lines(n, id, 20);
}

void run_summary(const struct run *n)
{
	size_t jobs = 0;

	MODEL_EACH(n->m, j) jobs++;
	print_message("%llu ops, %llu accepted, %llu refused, %llu sent again, "
		      "%zu jobs left\n",
		      (unsigned long long)n->op,
		      (unsigned long long)n->accepted,
		      (unsigned long long)n->refused,
		      (unsigned long long)n->resent, jobs);
}

void run_done(struct run *n)
{
	buf_done(&n->last);
	for (size_t i = 0; i < RUN_LOG; i++)
		free(n->log[i].text);
	arena_done(&n->arena);
}
