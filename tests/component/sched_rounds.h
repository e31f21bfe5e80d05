/*
 * What holds for every kind of work that corvo-sched does in rounds (a
 * question what is due, then operations for it): one round at a time, pauses
 * after errors, nothing sent again to a raftd that came back.
 *
 * Included once per program, which defines `kind`.
 */
#ifndef CORVO_SCHED_ROUNDS_H
#define CORVO_SCHED_ROUNDS_H

#include "component/sched_world.h"

/* The scripts of every kind, as the first of `scripts`. */
enum { REFUSED, BAD_QUESTION, BAD_OPERATION, OPEN, OWN_SCRIPTS };

extern const struct kind {
	unsigned query; /* what is due */
	void (*answer_due)(struct rpc_req req);
	/* judges an operation on the first of what is due */
	void (*read_op)(const struct frame_request *item);
	/* the operation is answered with success, nothing is due any more */
	void (*end)(struct fake *f, struct rpc_req req);
} kind;

static unsigned rounds;         /* so far */
static unsigned rounds_open;    /* operations that are not answered yet */
static uint64_t rounds_last_ns; /* monotonic */

/* Raftd was asked; how long after the time before. */
static inline uint64_t round_note(void)
{
	uint64_t now = clock_mono_ns(), gap = now - rounds_last_ns;

	EXPECT(rounds_open == 0); /* one at a time */
	rounds_last_ns = now;
	rounds++;
	return gap;
}

/* True when the request was the question, which is answered then. */
static inline bool round_begins(struct rpc_req req,
				const struct frame_request *item)
{
	EXPECT((item->flags & FRAME_RESEND) == 0);
	if (item->op != kind.query)
		return false;
	(void)round_note();
	kind.answer_due(req);
	return true;
}

/* Refused, first the operation and then the question: 50 ms, then 100. */
static inline void refused_on_item(struct fake *f, struct rpc_req req,
				   const struct frame_request *item)
{
	static const uint64_t gap_ms[] = { 0, 49, 98 };

	if (item->op != kind.query) {
		kind.read_op(item);
		if (++f->ops == 2)
			kind.end(f, req);
		else
			rpc_reply(req, ERR_OVERLOADED, 0, STR("no"));
		return;
	}
	EXPECT(rounds < ARRAY_SIZE(gap_ms));
	EXPECT(round_note() >= gap_ms[rounds - 1] * NS_PER_MS);
	if (rounds == 2)
		rpc_reply(req, ERR_LEADER_UNAVAILABLE, 0, STR("no"));
	else
		kind.answer_due(req);
}

/* Operations or questions are answered with what is no message. */
static inline void garbage_on_item(struct fake *f, struct rpc_req req,
				   const struct frame_request *item)
{
	bool is_question = item->op == kind.query;

	if (rounds == 0)
		timer_in_ms(f, 300);
	if (is_question)
		(void)round_note();
	if (is_question && f->script == &scripts[BAD_OPERATION])
		kind.answer_due(req);
	else
		rpc_reply(req, 0, 0, STR("\xc1 what"));
}

/* No hot loop comes of it. */
static inline void garbage_on_timer(struct fake *f)
{
	EXPECT(rounds >= 1 && rounds <= 12);
	done(f);
}

/* Raftd dies with an operation under way. */
static inline void open_on_item(struct fake *f, struct rpc_req req,
				const struct frame_request *item)
{
	if (round_begins(req, item))
		return;
	kind.read_op(item);
	done(f); /* and never answers */
}

#define ROUND_SCRIPTS(begin)                                          \
	[REFUSED] = { .start = (begin), .on_item = refused_on_item }, \
	[BAD_QUESTION] = { .start = (begin),                          \
			   .on_item = garbage_on_item,                \
			   .on_timer = garbage_on_timer },            \
	[BAD_OPERATION] = { .start = (begin),                         \
			    .on_item = garbage_on_item,               \
			    .on_timer = garbage_on_timer },           \
	[OPEN] = { .start = (begin), .on_item = open_on_item }

PLAY(test_what_is_refused_comes_again_after_a_pause, REFUSED)
PLAY(test_a_list_that_cannot_be_read_is_an_error, BAD_QUESTION)
PLAY(test_an_answer_that_cannot_be_read_is_an_error, BAD_OPERATION)

/* Nothing of the lost round is sent again: raftd is asked what is due. */
static inline void round_lost_then(void **state, unsigned script)
{
	struct fixture *f = *state;
	struct actor a = actor_start(fake_raftd, f->socket, OPEN);

	actor_expect(&a, "ok");
	actor_kill(&a);
	play(f, script);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define ROUND_TESTS                                            \
	TEST(test_what_is_refused_comes_again_after_a_pause),  \
	    TEST(test_a_list_that_cannot_be_read_is_an_error), \
	    TEST(test_an_answer_that_cannot_be_read_is_an_error)

#endif
