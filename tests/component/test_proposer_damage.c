/*
 * A store that cannot read or write: what was answered stays true, what could
 * not be done is kept in the log, and nothing goes on as if a record that
 * cannot be read were not there. See proposer_world.h.
 */
#include "proposer_world.h"
#include "store/kv_impl.h"

static struct {
	const struct kv_ops *inner;
	struct kv_ops ops;
	bool reads, writes; /* fail */
} fault;

static int fault_get(struct kv *kv, struct str key, struct buf *ret)
{
	if (fault.reads)
		return kv_error_set(-ERR_STORAGE_ERROR,
				    "damaged in 000001.sst");
	return fault.inner->get(kv, key, ret);
}

static int fault_write(struct kv *kv, struct kv_batch *b)
{
	if (fault.writes)
		return kv_error_set(-ERR_STORAGE_ERROR, "cannot write");
	return fault.inner->write(kv, b);
}

static struct kv_batch *fault_batch_new(struct kv *kv)
{
	struct kv_batch *b = fault.inner->batch_new(kv);

	b->ops = &fault.ops;
	return b;
}

/* In front of the store, with nothing in the state machine's memory. */
static void inject(struct fixture *f)
{
	fault.inner = f->kv->ops;
	fault.ops = *fault.inner;
	fault.ops.get = fault_get;
	fault.ops.write = fault_write;
	fault.ops.batch_new = fault_batch_new;
	fault.reads = fault.writes = false;
	f->kv->ops = &fault.ops;
	assert_int_equal(fsm_rewind(f->fsm), 0);
}

static int apply_next(struct fixture *f)
{
	size_t i = f->committed++;
	int r;

	assert_true(i < f->node.n);
	r = proposer_apply(f->p, i + 1, &f->node.entries[i],
			   buf_str(&f->node.entries[i].bytes));
	f->node.frozen = r == -ERR_STORAGE_ERROR;
	f->node.ready = !f->node.frozen;
	f->node.entries[i].done(f->node.entries[i].ctx, 0);
	return r;
}

static struct rpc_req cancel(struct fixture *f, const char *id)
{
	struct m_job_ref m = { 0 };

	MSG_SET(&m, job_ref, job_id, str_from(id));
	return submit(f, PEER_A, OP_CANCEL, &m, "");
}

static void assert_state(struct fixture *f, const char *id,
			 enum job_state state)
{
	struct m_job job;

	assert_int_equal(fsm_flush(f->fsm), 0);
	assert_int_equal(record_job(f->kv, str_from(id), 0, &f->a, &job), 1);
	assert_int_equal(job.state, state);
}

static void an_entry_that_cannot_be_applied_is_kept_for_later(void **state)
{
	struct fixture *f = *state;
	struct rpc_req bad, waiting, parked;

	inject(f);
	enqueue(f, "job_1", "q");
	pump_and_commit_all(f);
	bad = cancel(f, "job_1");
	proposer_pump(f->p);
	parked = fetch(f, PEER_A, "other", 30 * NS_PER_S);
	f->s.apply_inflight = 0; /* the log is busy */
	waiting = enqueue(f, "job_2", "q");
	fault.reads = true;
	assert_int_equal(apply_next(f), -ERR_STORAGE_ERROR);
	assert_string_equal(kv_error_text(), "damaged in 000001.sst");
	/* it may be done yet; what was not proposed will not be */
	assert_int_equal(reply_to(f, bad)->err, ERR_OUTCOME_UNKNOWN);
	proposer_pump(f->p);
	assert_int_equal(reply_to(f, waiting)->err, ERR_STORAGE_ERROR);
	assert_int_equal(jobs_given(f, parked), 0);
	assert_int_equal(reply_to(f, enqueue(f, "job_3", "q"))->err,
			 ERR_STORAGE_ERROR);
	assert_true(proposer_is_idle(f->p));
	/* nothing more is applied, nor read from what is half done */
	assert_true(fsm_flush(f->fsm) < 0);
	fault.reads = false;
	assert_true(fsm_apply(f->fsm, 2, buf_str(&f->node.entries[1].bytes),
			      NULL, NULL) < 0);
	/* until it went back; then the entry is as good as before */
	assert_int_equal(fsm_rewind(f->fsm), 0);
	assert_int_equal(fsm_applied_index(f->fsm), 1);
	assert_state(f, "job_1", JOB_PENDING);
	assert_int_equal(fsm_apply(f->fsm, 2,
				   buf_str(&f->node.entries[1].bytes), NULL,
				   NULL),
			 0);
	assert_state(f, "job_1", JOB_CANCELLED);
}

/* The batch is lost when it is not written, and later ones must not follow. */
static void what_could_not_be_written_is_not_taken_for_written(void **state)
{
	struct fixture *f = *state;

	inject(f);
	fsm_write_behind(f->fsm, 1u << 20);
	enqueue(f, "job_1", "q");
	pump_and_commit_all(f);
	enqueue(f, "job_2", "q");
	proposer_pump(f->p);
	fault.writes = true;
	assert_int_equal(fsm_flush(f->fsm), -ERR_STORAGE_ERROR);
	fault.writes = false;
	assert_int_equal(fsm_flush(f->fsm), -ERR_STORAGE_ERROR);
	/* what is asked for meanwhile is not looked at in what is not there */
	assert_int_equal(reply_to(f, cancel(f, "job_1"))->err,
			 ERR_STORAGE_ERROR);
	assert_int_equal(apply_next(f), -ERR_STORAGE_ERROR);
	/* the log has both */
	assert_int_equal(fsm_rewind(f->fsm), 0);
	assert_int_equal(fsm_applied_index(f->fsm), 0);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(fsm_apply(f->fsm, i + 1,
					   buf_str(&f->node.entries[i].bytes),
					   NULL, NULL),
				 0);
	assert_state(f, "job_1", JOB_PENDING);
	assert_state(f, "job_2", JOB_PENDING);
}

/* Else it would lead on, and refuse all there is, as long as nobody writes. */
static void a_node_freezes_without_another_entry(void **state)
{
	struct fixture *f = *state;

	inject(f);
	fsm_write_behind(f->fsm, 1u << 20);
	enqueue(f, "job_1", "q");
	pump_and_commit_all(f);
	proposer_pump(f->p);
	assert_false(f->node.frozen);
	fault.writes = true;
	assert_int_equal(fsm_flush(f->fsm), -ERR_STORAGE_ERROR);
	proposer_pump(f->p);
	assert_true(f->node.frozen);
}

static void a_damaged_job_is_refused_before_it_is_proposed(void **state)
{
	struct fixture *f = *state;
	struct rpc_req r;

	inject(f);
	enqueue(f, "job_1", "q");
	pump_and_commit_all(f);
	fault.reads = true;
	r = cancel(f, "job_1");
	assert_int_equal(reply_to(f, r)->err, ERR_STORAGE_ERROR);
	fault.reads = false;
	proposer_pump(f->p);
	assert_int_equal(f->node.n, 1);
	cancel(f, "job_1");
	pump_and_commit_all(f);
	assert_state(f, "job_1", JOB_CANCELLED);
}

static void questions_about_a_damaged_job_do_no_harm(void **state)
{
	struct fixture *f = *state;
	struct fsm_why ask = { .job_id = STR("job_1"), .now_ns = 1 };
	enum fsm_lease_state s;
	struct m_beat beat = { 0 };
	struct m_why_reply why;
	struct fsm_lease lease;

	inject(f);
	enqueue(f, "job_1", "q");
	pump_and_commit_all(f);
	MSG_SET(&beat, beat, job_id, STR("job_1"));
	fault.reads = true;
	assert_int_equal(fsm_lease_check(f->fsm, &beat, STR("w"), &s, &lease),
			 -ERR_STORAGE_ERROR);
	assert_int_equal(fsm_why(f->fsm, &ask, &f->a, &why),
			 -ERR_STORAGE_ERROR);
	fault.reads = false;
	enqueue(f, "job_2", "q");
	pump_and_commit_all(f);
	assert_state(f, "job_2", JOB_PENDING);
	assert_int_equal(fsm_lease_check(f->fsm, &beat, STR("w"), &s, &lease),
			 0);
	assert_int_equal(s, FSM_LEASE_ENDED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(an_entry_that_cannot_be_applied_is_kept_for_later),
		CASE(what_could_not_be_written_is_not_taken_for_written),
		CASE(a_node_freezes_without_another_entry),
		CASE(a_damaged_job_is_refused_before_it_is_proposed),
		CASE(questions_about_a_damaged_job_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
