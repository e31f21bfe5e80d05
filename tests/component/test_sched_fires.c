/*
 * corvo-sched and schedules: what it asks and proposes when the time of one
 * has come, and what it does with each kind of answer.
 */
#include "component/sched_rounds.h"

#define FIRES_MAX 64
#define SCHEDULES 2

#define EACH_SECOND "* * * * * *"
#define EACH_YEAR   "0 0 1 1 *" /* one time at most comes while a test runs */

/* Each script runs in a process of its own, which starts with zeroes. */
static struct {
	struct m_schedule list[SCHEDULES]; /* what is due, as raftd says it */
	size_t n;
	struct rpc_req open[FIRES_MAX]; /* operations not answered yet */
	unsigned fires, pauses;
	char jobs[FIRES_MAX][64]; /* ids, all different */
} w;

static uint64_t second_of(uint64_t ns)
{
	return ns / NS_PER_S * NS_PER_S;
}

/* All of its times are wanted, however late they are fired. */
static struct m_schedule *schedule(const char *name, const char *cron,
				   uint64_t next_ns)
{
	struct m_schedule *s = &w.list[w.n++];

	MSG_SET(s, schedule, id, str_from(name));
	MSG_SET(s, schedule, name, str_from(name));
	MSG_SET(s, schedule, cron, str_from(cron));
	MSG_SET(s, schedule, catch_up, CATCH_UP_ALL);
	MSG_SET(s, schedule, version, 7);
	MSG_SET(s, schedule, next_run, next_ns);
	return s;
}

static void due_at(struct fake *f, uint64_t ns)
{
	f->due.leader = true;
	f->due.fire_ns = ns;
	due_changed(f);
}

static void answer_due(struct rpc_req req)
{
	struct m_schedule_list list = { 0 };

	MSG_SET_LIST(&list, schedule_list, schedules, w.list, w.n);
	MSG_SET(&list, schedule_list, now_ns, clock_wall_ns());
	reply(req, &msg_schedule_list, &list);
}

static void answer_fire(struct rpc_req req, const char *status)
{
	struct m_fire_reply m = { 0 };

	MSG_SET(&m, fire_reply, status, str_from(status));
	reply(req, &msg_fire_reply, &m);
}

static void note_job(struct str id)
{
	EXPECT(str_starts(id, STR("job_")) && id.n < sizeof(w.jobs[0]));
	EXPECT(w.fires < FIRES_MAX);
	for (unsigned i = 0; i < w.fires; i++)
		EXPECT(!str_is(id, w.jobs[i]));
	(void)snprintf(w.jobs[w.fires], sizeof(w.jobs[0]), "%.*s", STR_ARG(id));
}

/* A fire of the schedule's next time; its texts are gone afterwards. */
static struct m_fire read_fire(const struct frame_request *item,
			       const struct m_schedule *s)
{
	struct arena a = ARENA_INIT;
	struct m_fire m;

	EXPECT(item->op == OP_FIRE);
	EXPECT(msg_decode(&msg_fire, item->body, &a, &m) == 0);
	EXPECT(str_eq(m.id, s->id));
	EXPECT(m.version == s->version);
	EXPECT(m.due_ns == s->next_run);
	note_job(m.job_id);
	w.fires++;
	arena_done(&a);
	return m;
}

/* --- in time --- */

static void time_start(struct fake *f)
{
	due_at(f, schedule("s", EACH_SECOND, in_ms(30))->next_run);
}

static void time_on_item(struct fake *f, struct rpc_req req,
			 const struct frame_request *item)
{
	struct m_schedule *s = &w.list[0];
	struct m_fire m;

	/* Never early. A late round may be followed by one too many. */
	EXPECT(clock_wall_ns() >= s->next_run || w.fires > 1);
	if (round_begins(req, item))
		return;
	EXPECT(clock_wall_ns() >= s->next_run);
	m = read_fire(item, s);
	EXPECT(!m.skip && m.missed == 0 && m.at_ns == 0);
	EXPECT(m.next_ns == second_of(s->next_run) + NS_PER_S);
	s->next_run = m.next_ns;
	f->due.fire_ns = m.next_ns;
	/* The answer and the news may come in either order. */
	if (w.fires % 2 == 0)
		due_changed(f);
	answer_fire(req, "created");
	due_changed(f);
	if (w.fires == 2)
		done(f);
}

/* --- missed times --- */

/* Twenty whole seconds have passed. */
static void missed_start(struct fake *f)
{
	uint64_t from = second_of(clock_wall_ns()) - 20 * NS_PER_S;

	(void)schedule("s", EACH_SECOND, from);
	due_at(f, from);
}

/* All of a round are there before the first is answered. */
static void missed_on_timer(struct fake *f)
{
	struct m_schedule *s = &w.list[0];

	due_at(f, s->next_run);
	for (; rounds_open > 0; rounds_open--)
		answer_fire(w.open[rounds_open - 1], "created");
	if (s->next_run > clock_wall_ns())
		done(f);
}

static void missed_on_item(struct fake *f, struct rpc_req req,
			   const struct frame_request *item)
{
	struct m_schedule *s = &w.list[0];
	struct m_fire m;

	if (round_begins(req, item))
		return;
	/* Each names the time before it as the one that must have come. */
	m = read_fire(item, s);
	EXPECT(!m.skip && m.missed == 0);
	EXPECT(m.next_ns == s->next_run + NS_PER_S);
	s->next_run = m.next_ns;
	w.open[rounds_open++] = req;
	EXPECT(rounds_open <= 16); /* and a bounded number at a time */
	timer_in_ms(f, 20);
}

/* --- answers that are no --- */

static void once_start(struct fake *f)
{
	due_at(f, schedule("s", EACH_YEAR, in_ms(30))->next_run);
}

/* The schedule was changed meanwhile: its news are fired, without haste. */
static void void_on_item(struct fake *f, struct rpc_req req,
			 const struct frame_request *item)
{
	struct m_schedule *s = &w.list[0];

	if (item->op == kind.query && rounds == 3)
		s->version = 8;
	if (round_begins(req, item))
		return;
	(void)read_fire(item, s);
	if (s->version == 7) {
		answer_fire(req, "void");
		return;
	}
	f->due.fire_ns = 0;
	answer_fire(req, "created");
	due_changed(f);
	done(f);
}

/* --- a schedule that means nothing here --- */

static void broken_start(struct fake *f)
{
	uint64_t at = in_ms(10);
	struct m_schedule *s = schedule("broken", EACH_YEAR, at);

	MSG_SET(s, schedule, timezone, STR("Nowhere/At_All"));
	(void)schedule("sound", EACH_YEAR, at);
	due_at(f, at);
}

static void broken_on_item(struct fake *f, struct rpc_req req,
			   const struct frame_request *item)
{
	static const struct m_schedule paused;
	struct m_pause_schedule m;
	struct arena a = ARENA_INIT;

	if (round_begins(req, item))
		return;
	EXPECT(rounds == 1);
	f->due.fire_ns = 0;
	if (item->op == OP_PAUSE_SCHEDULE) {
		EXPECT(msg_decode(&msg_pause_schedule, item->body, &a, &m) ==
		       0);
		EXPECT(str_is(m.id, "broken") && m.paused);
		w.pauses++;
		reply(req, &msg_schedule, &paused);
	} else {
		(void)read_fire(item, &w.list[1]); /* is not held up */
		answer_fire(req, "created");
	}
	arena_done(&a);
	due_changed(f);
	if (w.pauses == 1 && w.fires == 1)
		done(f);
}

/* --- tests --- */

static void read_first(const struct frame_request *item)
{
	(void)read_fire(item, &w.list[0]);
}

static void end(struct fake *f, struct rpc_req req)
{
	f->due.fire_ns = 0;
	answer_fire(req, "created");
	due_changed(f);
	done(f);
}

const struct kind kind = {
	.query = QUERY_DUE_SCHEDULES,
	.answer_due = answer_due,
	.read_op = read_first,
	.end = end,
};

enum script_id {
	IN_TIME = OWN_SCRIPTS,
	MISSED,
	VOID,
	BROKEN,
};

const struct script scripts[] = {
	ROUND_SCRIPTS(once_start),
	[IN_TIME] = { .start = time_start, .on_item = time_on_item },
	[MISSED] = { .start = missed_start,
		     .on_item = missed_on_item,
		     .on_timer = missed_on_timer },
	[VOID] = { .start = once_start, .on_item = void_on_item },
	[BROKEN] = { .start = broken_start, .on_item = broken_on_item },
};

PLAY(test_a_schedule_fires_at_its_times, IN_TIME)
PLAY(test_missed_times_are_fired_in_order_once_each, MISSED)
PLAY(test_a_void_fire_is_planned_anew, VOID)
PLAY(test_a_broken_schedule_is_paused_and_holds_up_no_other, BROKEN)

static void test_raftd_restarts_during_a_fire(void **state)
{
	round_lost_then(state, IN_TIME);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ROUND_TESTS,
		TEST(test_a_schedule_fires_at_its_times),
		TEST(test_missed_times_are_fired_in_order_once_each),
		TEST(test_a_void_fire_is_planned_anew),
		TEST(test_a_broken_schedule_is_paused_and_holds_up_no_other),
		TEST(test_raftd_restarts_during_a_fire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
