/*
 * Budgets and many workers, by chance: 64 of them fetch, report, fail, lose
 * their leases and say things twice, over days. What was spent is added up here
 * from what was reported, and by nothing else. With reservations it is never
 * more than the budget; without, nothing is handed out once it is spent, and
 * what is above it was in flight then.
 */
#include "fsm_fixture.h"

#define HOUR    (3600 * NS_PER_S)
#define DAY     (24 * HOUR)
#define USD     NS_PER_S /* billionths */
#define WORKERS 64
#define ROUNDS  6
#define STEPS   500
#define COST    (3 * USD) /* of an attempt, at most */

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

/* A job in a worker's hands. */
struct busy {
	char id[24];
	uint64_t token;
	uint64_t left; /* what it may still cost, in this attempt */
	bool counts;   /* it is the budget's */
};

struct report {
	uint64_t at, amount;
};

struct race {
	struct fx *x;
	struct rng rng;
	bool reserve;
	enum budget_scope scope;
	enum budget_period per;
	uint64_t window, amount;
	struct busy busy[WORKERS];
	size_t busy_n, busy_most;
	struct report reports[STEPS * 2];
	size_t reports_n;
	uint64_t bound; /* while it is spent, what was in flight ends here */
	uint64_t jobs;
	size_t refused, reached; /* so that rounds are worth something */
};

/* --- adding up --- */

/* Days and months are those of UTC; the tests begin in a month of 30 days. */
static uint64_t month_of(uint64_t at)
{
	static const uint64_t first[] = { 1698796800, 1701388800, 1704067200 };
	uint64_t n = 0;

	while (n < ARRAY_SIZE(first) && at >= first[n] * NS_PER_S)
		n++;
	return n;
}

static bool is_in_period(const struct race *r, uint64_t at)
{
	uint64_t now = r->x->now_ns;

	if (r->per == BUDGET_PER_DAY)
		return at / DAY == now / DAY;
	if (r->per == BUDGET_PER_MONTH)
		return month_of(at) == month_of(now);
	return at + r->window > now;
}

static uint64_t spent(const struct race *r)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->reports_n; i++)
		if (is_in_period(r, r->reports[i].at))
			sum += r->reports[i].amount;
	return sum;
}

static void count(struct race *r, const struct busy *b, uint64_t amount)
{
	uint64_t sum;

	if (!b->counts)
		return;
	assert_true(r->reports_n < ARRAY_SIZE(r->reports));
	r->reports[r->reports_n++] = (struct report){ r->x->now_ns, amount };
	sum = spent(r);
	if (r->reserve && sum > r->amount)
		fail_msg("%llu of %llu are spent, though all was reserved",
			 (unsigned long long)sum,
			 (unsigned long long)r->amount);
	r->reached += sum >= r->amount;
}

/* After each step: b->left is what those in flight may still add. */
static void check_bound(struct race *r)
{
	uint64_t sum = spent(r), flying = 0;

	for (size_t i = 0; i < r->busy_n; i++)
		flying += r->busy[i].counts ? r->busy[i].left : 0;
	if (sum < r->amount)
		r->bound = UINT64_MAX;
	else if (r->bound == UINT64_MAX)
		r->bound = sum + flying;
	if (sum > r->bound)
		fail_msg("%llu are spent, of at most %llu that were in flight",
			 (unsigned long long)sum, (unsigned long long)r->bound);
}

/* --- what workers do --- */

static struct m_usage usage_of(uint64_t cost)
{
	struct m_usage u = { 0 };

	MSG_SET(&u, usage, cost_usd, cost);
	return u;
}

static void enqueue(struct race *r)
{
	bool counts = rng_below(&r->rng, 5) > 0;
	struct m_enqueue m;
	char id[24];

	(void)snprintf(id, sizeof(id), "%s%llu", counts ? "in" : "out",
		       (unsigned long long)r->jobs++);
	m = fx_new(id, counts || r->scope != BUDGET_QUEUE ? "q" : "other");
	MSG_SET(&m, enqueue, tags,
		counts ? STR("{\"team\":\"red\"}")
		       : STR("{\"team\":\"blue\"}"));
	MSG_SET(&m, enqueue, group, counts ? STR("g") : STR("h"));
	MSG_SET(&m, enqueue, max_retries, 1 + (uint32_t)rng_below(&r->rng, 3));
	MSG_SET(&m, enqueue, retry_backoff, BACKOFF_NONE);
	if (r->reserve)
		MSG_SET(&m, enqueue, expected_cost,
			1 + rng_below(&r->rng, COST));
	assert_int_equal(fx_do(r->x, OP_ENQUEUE, &m, NULL), 0);
}

static void fetch(struct race *r)
{
	struct str queues[] = { STR("q"), STR("other") };
	bool is_spent = spent(r) >= r->amount;
	struct m_fetch_reply got;
	struct m_fetch m = { 0 };
	struct busy *b;
	int err;

	MSG_SET_LIST(&m, fetch, queues, queues, 2);
	MSG_SET(&m, fetch, lease_duration, HOUR);
	do /* jobs without room are set aside, so many in an entry */
		err = fx_do(r->x, OP_FETCH, &m, &got);
	while (err == FSM_AGAIN);
	if (err != 0) {
		assert_int_equal(err, ERR_BUDGET_EXCEEDED);
		r->refused++;
	}
	if (err != 0 || got.jobs_n == 0)
		return;
	b = &r->busy[r->busy_n++];
	r->busy_most = MAX(r->busy_most, r->busy_n);
	*b = (struct busy){ .token = got.jobs[0].lease_token, .left = COST };
	(void)snprintf(b->id, sizeof(b->id), "%.*s",
		       STR_ARG(got.jobs[0].job_id));
	b->counts = r->scope == BUDGET_GLOBAL ||
		    (r->scope == BUDGET_QUEUE ? str_is(got.jobs[0].queue, "q")
					      : b->id[0] == 'i');
	if (r->reserve)
		b->left = fx_job(r->x, b->id)->expected_cost;
	if (is_spent && b->counts)
		fail_msg("%s was handed out when nothing of the %s was left",
			 b->id, enum_text(&enum_budget_period, r->per));
}

static void forget(struct race *r, struct busy *b)
{
	*b = r->busy[--r->busy_n];
}

/* 0, or it was lost before: then it does not count. */
static void judge(struct race *r, struct busy *b, int err, uint64_t cost)
{
	if (err == 0)
		count(r, b, cost);
	else
		assert_int_equal(err, ERR_LEASE_LOST);
}

static void ack(struct race *r, struct busy *b)
{
	uint64_t cost = rng_below(&r->rng, b->left + 1);
	struct m_usage u = usage_of(cost);
	struct m_ack m = { 0 };
	int err;

	MSG_SET(&m, ack, job_id, str_from(b->id));
	MSG_SET(&m, ack, lease_token, b->token);
	MSG_SET(&m, ack, usage, &u);
	err = fx_do(r->x, OP_ACK, &m, NULL);
	judge(r, b, err, cost);
	if (rng_below(&r->rng, 4) == 0) /* the same again, by the client */
		assert_int_equal(fx_do(r->x, OP_ACK, &m, NULL), err);
	forget(r, b);
}

static void fail_one(struct race *r, struct busy *b)
{
	uint64_t cost = rng_below(&r->rng, b->left + 1);
	struct m_usage u = usage_of(cost);
	struct m_fail m = { 0 };

	MSG_SET(&m, fail, job_id, str_from(b->id));
	MSG_SET(&m, fail, lease_token, b->token);
	MSG_SET(&m, fail, error, STR("bad luck"));
	MSG_SET(&m, fail, usage, &u);
	if (rng_below(&r->rng, 3) == 0)
		MSG_SET(&m, fail, requeue, true);
	judge(r, b, fx_do(r->x, OP_FAIL, &m, NULL), cost);
	forget(r, b);
}

static void beat(struct race *r, struct busy *b)
{
	uint64_t cost = rng_below(&r->rng, b->left + 1);
	struct m_usage u = usage_of(cost);
	struct m_heartbeat m = { 0 };
	struct m_heartbeat_reply got;
	struct m_beat one = { 0 };

	MSG_SET(&one, beat, job_id, str_from(b->id));
	MSG_SET(&one, beat, lease_token, b->token);
	MSG_SET(&one, beat, usage, &u);
	MSG_SET_LIST(&m, heartbeat, jobs, &one, 1);
	assert_int_equal(fx_do(r->x, OP_HEARTBEAT, &m, &got), 0);
	if (got.jobs[0].code.n > 0) {
		assert_str_is(got.jobs[0].code, "LEASE_LOST");
		forget(r, b);
		return;
	}
	b->left -= cost;
	count(r, b, cost);
}

static void step(struct race *r)
{
	uint64_t dice = rng_below(&r->rng, 100);
	struct busy *b =
	    r->busy_n > 0 ? &r->busy[rng_below(&r->rng, r->busy_n)] : NULL;

	r->x->now_ns += rng_below(&r->rng, 20 * 60 * NS_PER_S);
	if (dice < 35)
		enqueue(r);
	else if (dice < 70 && r->busy_n < WORKERS)
		fetch(r);
	else if (dice < 85 && b != NULL)
		ack(r, b);
	else if (dice < 90 && b != NULL)
		fail_one(r, b);
	else if (dice < 97 && b != NULL)
		beat(r, b);
	else if (dice < 99)
		(void)fx_maintain(r->x, OP_RECLAIM, 100, NULL);
	else
		fx_restart(r->x, FX_ROCKS);
	check_bound(r);
}

/* --- rounds --- */

/* One entry takes so many jobs back and no more. */
static void do_to_its_end(struct race *r, enum op_id op, const void *m)
{
	int err = fx_do(r->x, op, m, NULL);

	while (err == FSM_AGAIN)
		err = fx_resend(r->x, op, m, NULL);
	assert_int_equal(err, 0);
}

static void set_budget(struct race *r)
{
	static const char *const targets[] = {
		[BUDGET_QUEUE] = "q",
		[BUDGET_TAG] = "team:red",
		[BUDGET_GROUP] = "g",
		[BUDGET_GLOBAL] = "*",
	};
	static const enum budget_action actions[] = { BUDGET_HOLD,
						      BUDGET_REJECT,
						      BUDGET_THROTTLE };
	struct m_budget_limit l = { 0 };
	struct m_budget m = { 0 };

	MSG_SET(&m, budget, scope, r->scope);
	MSG_SET(&m, budget, target, str_from(targets[r->scope]));
	MSG_SET(&m, budget, on_exceed,
		actions[rng_below(&r->rng, ARRAY_SIZE(actions))]);
	MSG_SET(&l, budget_limit, per, r->per);
	if (r->per == BUDGET_PER_WINDOW)
		MSG_SET(&l, budget_limit, window, r->window);
	MSG_SET(&l, budget_limit, amount, r->amount);
	MSG_SET_LIST(&m, budget, limits, &l, 1);
	do_to_its_end(r, OP_SET_BUDGET, &m);
}

static void clear(struct race *r)
{
	struct m_budget_list list = { 0 };
	struct m_budget_ref ref = { 0 };
	struct buf target = BUF_INIT(0);

	fsm_budgets(r->x->side[FX_MEM].f, r->x->now_ns, &r->x->arena, &list);
	assert_int_equal(list.budgets_n, 1);
	MSG_SET(&ref, budget_ref, scope,
		str_from(enum_text(&enum_budget_scope, r->scope)));
	/* the budget is gone before all its jobs are back */
	buf_put_str(&target, list.budgets[0].target);
	MSG_SET(&ref, budget_ref, target, buf_str(&target));
	do_to_its_end(r, OP_DELETE_BUDGET, &ref);
	buf_done(&target);
}

/* Each kind of period with little, and with room for all workers. */
static void run_round(struct race *r, int round)
{
	r->scope = (enum budget_scope)rng_below(&r->rng, 4);
	r->per = (enum budget_period)(round % 3);
	r->window = HOUR * (1 + rng_below(&r->rng, 12));
	r->amount = 4 * USD + rng_below(&r->rng, 20 * USD);
	if (round % 2 == 1)
		r->amount += WORKERS * COST / 2;
	r->reports_n = 0;
	r->bound = UINT64_MAX;
	set_budget(r);
	for (int i = 0; i < STEPS; i++)
		step(r);
	clear(r);
}

/* Those of the round before may still run: they hold nothing of the next. */
static void end_round(struct race *r)
{
	while (r->busy_n > 0)
		ack(r, &r->busy[0]);
}

static void run_all(struct fx *x, bool reserve)
{
	struct race *r = xcalloc(1, sizeof(*r));

	r->x = x;
	r->reserve = reserve;
	test_rng(&r->rng);
	x->unchecked = true;
	for (int i = 0; i < ROUNDS; i++) {
		run_round(r, i);
		r->amount = UINT64_MAX;
		r->bound = UINT64_MAX;
		end_round(r);
	}
	fx_check_same(x);
	fx_check_side(&x->side[FX_MEM]);
	fx_check_side(&x->side[FX_ROCKS]);
	print_message("spent %zu times, refused %zu times, %zu at once\n",
		      r->reached, r->refused, r->busy_most);
	assert_true(reserve || r->reached > 0);
	assert_true(r->busy_most > WORKERS / 4);
	free(r);
}

static void test_with_reservations_it_is_never_exceeded(void **state)
{
	run_all(*state, true);
}

static void test_without_by_what_was_in_flight_at_most(void **state)
{
	run_all(*state, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_with_reservations_it_is_never_exceeded),
		TEST(test_without_by_what_was_in_flight_at_most),
	};

	return cmocka_run_group_tests_name("fsm_purse_chance", tests, NULL,
					   NULL);
}
