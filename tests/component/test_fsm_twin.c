/*
 * Replicas do the same, whatever comes and however long they have lived: random
 * requests of every op (wild_gen.h), extreme ones on purpose, and twins of the
 * state machine that are loaded from the store before each entry (fsm_twin.h).
 * Whether what they do is right is for test_fsm_model.c.
 *
 * A run is made of rounds, each with a store and a seed of its own: to repeat
 * one, give its seed. CORVO_TEST_OPS makes it longer.
 */
#include "fsm_twin.h"

#include <signal.h>

#include "proto/msg_json.h"
#include "wild_gen.h"

#define OPS         6000
#define ROUND_OPS   1500
#define MANY_ITEMS  16 /* of an entry */
#define CHECK_EVERY 25 /* entries between looks at the whole store */
#define RECENT_OPS  16 /* shown when something fails */

struct round {
	struct rw w;
	uint64_t seed;
	char *recent[RECENT_OPS];
	size_t ops, accepted;
	bool done;
};

static void note(struct round *n, enum op_id op, const void *m)
{
	static const struct json_style style;
	char **line = &n->recent[n->ops++ % RECENT_OPS];
	struct buf b = BUF_INIT(0);
	struct json_writer jw = JSON_WRITER(&b);

	buf_printf(&b, "%zu in entry %llu at %llu: %s ", n->ops,
		   (unsigned long long)n->w.x->raft_index + 1,
		   (unsigned long long)n->w.x->now_ns, op_info(op)->name);
	msg_to_json(op_info(op)->request, m, &style, &jw);
	free(*line);
	*line = xstrndup(b.p, b.n);
	buf_done(&b);
}

static void add(struct round *n, enum op_id op, const void *m)
{
	note(n, op, m);
	fx_add(n->w.x, op, 0, m);
}

/* Mostly few; many at once make a crowd of one moment. */
static uint64_t items(struct round *n)
{
	return one_in(&n->w, 12) ? MANY_ITEMS : 1 + rng_below(&n->w.r, 4);
}

static void one_entry(struct round *n)
{
	struct fx *x = n->w.x;
	struct m_clock_set set;
	bool is_set = wild_pass_time(&n->w, &set);
	size_t family = wild_family(&n->w);

	fx_begin(x);
	if (is_set)
		add(n, OP_CLOCK_SET, &set);
	for (uint64_t i = items(n); i > 0; i--) {
		enum op_id op = wild_op(&n->w, family);

		add(n, op, wild_request(&n->w, op));
	}
	fx_commit(x);
	for (size_t i = 0; i < x->n; i++)
		n->accepted += x->replies[i].err == 0;
	arena_reset(&n->w.arena);
	if (x->raft_index % CHECK_EVERY == 0)
		fx_check_side(&x->side[FX_MEM]);
}

static void show_recent(const struct round *n)
{
	for (size_t i = 0; i < RECENT_OPS; i++) {
		const char *line = n->recent[(n->ops + i) % RECENT_OPS];

		if (line != NULL)
			print_message("  %s\n", line);
	}
}

/* A failed CHECK ends the process: whoever reads of it wants to know why. */
static const struct round *running;

static void on_abort(int sig _unused_)
{
	if (running != NULL)
		show_recent(running);
}

static void play(struct round *n)
{
	void *x;

	print_message("a round of CORVO_TEST_SEED=%llu\n",
		      (unsigned long long)n->seed);
	rng_seed(&n->w.r, n->seed);
	(void)fx_setup_level(&x);
	n->w.x = x;
	n->w.x->unchecked = true;
	twins_start(n->w.x, n->seed);
	while (n->ops < ROUND_OPS)
		one_entry(n);
	fx_check_same(n->w.x);
	n->done = true;
}

static void round_done(struct round *n)
{
	void *x = n->w.x;

	if (!n->done)
		show_recent(n);
	for (size_t i = 0; i < RECENT_OPS; i++)
		free(n->recent[i]);
	arena_done(&n->w.arena);
	if (x != NULL)
		(void)fx_teardown(&x);
	*n = (struct round){ .seed = n->seed + 1 };
}

static uint64_t ops_wanted(void)
{
	const char *given = getenv("CORVO_TEST_OPS");
	uint64_t n = OPS;

	if (given != NULL && !str_parse_u64(str_from(given), &n))
		fail_msg("CORVO_TEST_OPS=%s is not a number", given);
	return n;
}

static void test_twins_do_whatever_comes_alike(void **state)
{
	uint64_t upto = ops_wanted(), ops = 0, accepted = 0;
	struct round *n = *state;

	n->seed = test_seed();
	while (ops < upto) {
		play(n);
		ops += n->ops;
		accepted += n->accepted;
		round_done(n);
	}
	print_message("%llu ops, %llu accepted\n", (unsigned long long)ops,
		      (unsigned long long)accepted);
	n->done = true;
}

/* --- what a mistake would be --- */

/* As if they had come in another order. */
static void turn_tags_round(struct fsm *f)
{
	struct fsm_purses *p = &f->purses;

	for (size_t i = 0; i < p->tags_n / 2; i++) {
		size_t k = p->tags_n - 1 - i;
		typeof(p->tags[0]) t = p->tags[i];

		p->tags[i] = p->tags[k];
		p->tags[k] = t;
	}
}

static void set_tag_budget(struct fx *x, const char *target)
{
	struct m_budget m = { 0 };

	MSG_SET(&m, budget, scope, BUDGET_TAG);
	MSG_SET(&m, budget, target, str_from(target));
	MSG_SET(&m, budget, on_exceed, BUDGET_HOLD);
	MSG_SET(&m, budget, daily_usd, NS_PER_S);
	assert_int_equal(fx_do(x, OP_SET_BUDGET, &m, NULL), 0);
}

static void enqueue_tagged(struct fx *x, const char *id)
{
	struct m_enqueue m = fx_new(id, "q");

	MSG_SET(&m, enqueue, tags, STR("{\"team\":\"a\",\"user\":\"b\"}"));
	assert_int_equal(fx_do(x, OP_ENQUEUE, &m, NULL), 0);
}

static void test_budgets_asked_in_another_order_are_found(void **state)
{
	struct fx *x = *state;
	struct m_usage u = { 0 };
	struct m_ack a = { 0 };

	set_tag_budget(x, "team:a");
	set_tag_budget(x, "user:b");
	enqueue_tagged(x, "j1");
	fx_expect(x, "q", "j1");
	MSG_SET(&u, usage, cost_usd, 2 * NS_PER_S);
	MSG_SET(&a, ack, job_id, STR("j1"));
	MSG_SET(&a, ack, usage, &u);
	twins_spoil(x, turn_tags_round);
	assert_int_equal(fx_do(x, OP_ACK, &a, NULL), 0);
	assert_int_equal(twins_differed(x), 1); /* the order of events */
	enqueue_tagged(x, "j2");
	fx_expect_none(x, "q");
	assert_int_equal(twins_differed(x), 2); /* who has held it */
	twins_spoil(x, NULL);
}

/* As if it had no order but that of its history. */
static void turn_ends_round(struct fsm *f)
{
	struct heap *h = &f->sdb.ends;

	if (h->n < 2)
		return;
	for (size_t i = 0; i < h->n; i++) {
		h->nodes[i]->tie = 0;
		h->nodes[i]->pos = h->n - i;
	}
	for (size_t i = 0; i < h->n / 2; i++) {
		struct heap_node *t = h->nodes[i];

		h->nodes[i] = h->nodes[h->n - 1 - i];
		h->nodes[h->n - 1 - i] = t;
	}
}

static void create_recurring(struct fx *x, const char *id)
{
	struct m_sdb_settings s = { 0 };
	struct m_sdb_create m = { 0 };

	MSG_SET(&s, sdb_settings, history_retention, 3600 * NS_PER_S);
	MSG_SET(&s, sdb_settings, execution_timeout, 10 * NS_PER_S);
	MSG_SET(&s, sdb_settings, inprogress_timeout, 30 * NS_PER_S);
	MSG_SET(&s, sdb_settings, max_attempts, 3);
	MSG_SET(&s, sdb_settings, concurrency, 100);
	MSG_SET(&m, sdb_create, id, str_from(id));
	MSG_SET(&m, sdb_create, webhook_url, STR("http://x.example/"));
	MSG_SET(&m, sdb_create, limit_jobs, 100);
	MSG_SET(&m, sdb_create, limit_bytes, 1u << 20);
	MSG_SET(&m, sdb_create, settings, &s);
	MSG_SET(&m, sdb_create, type, SDB_RECURRING);
	MSG_SET(&m, sdb_create, cron_expression, STR("* * * * *"));
	MSG_SET(&m, sdb_create, next_ns, x->now_ns + 60 * NS_PER_S);
	assert_int_equal(fx_do(x, OP_SDB_CREATE, &m, NULL), 0);
}

static void test_ended_ones_that_go_in_another_order_are_found(void **state)
{
	struct fx *x = *state;
	struct m_sdb_cancel c = { 0 };
	struct m_maintain p = { 0 };

	create_recurring(x, "a");
	create_recurring(x, "b");
	fx_begin(x);
	MSG_SET(&c, sdb_cancel, id, STR("b"));
	fx_add(x, OP_SDB_CANCEL, 0, &c);
	MSG_SET(&c, sdb_cancel, id, STR("a"));
	fx_add(x, OP_SDB_CANCEL, 0, &c);
	fx_commit(x);
	x->now_ns += 2 * 3600 * NS_PER_S;
	MSG_SET(&p, maintain, limit, 1);
	MSG_SET(&p, maintain, retention_ns, 3600 * NS_PER_S);
	twins_spoil(x, turn_ends_round);
	assert_int_equal(fx_do(x, OP_PURGE, &p, NULL), 0);
	assert_int_equal(twins_differed(x), 1);
	twins_spoil(x, NULL);
}

static int setup_twins(void **state)
{
	int r = fx_setup_level(state);

	twins_start(*state, 1);
	return r;
}

static int setup(void **state)
{
	running = *state = xcalloc(1, sizeof(struct round));
	(void)signal(SIGABRT, on_abort);
	return 0;
}

static int teardown(void **state)
{
	round_done(*state);
	running = NULL;
	free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    test_twins_do_whatever_comes_alike, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_budgets_asked_in_another_order_are_found, setup_twins,
		    fx_teardown),
		cmocka_unit_test_setup_teardown(
		    test_ended_ones_that_go_in_another_order_are_found,
		    setup_twins, fx_teardown),
	};

	return cmocka_run_group_tests_name("fsm_twin", tests, NULL, NULL);
}
