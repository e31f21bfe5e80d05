/*
 * Work in turns with the loop: it goes on at one place at a time, every piece
 * gets its turns, and one that nobody wants any more ends at once.
 */
#include "lib/testlib.h"
#include "rt/turns.h"
#include "util/turn.h"

#define PIECES 6

struct world;

struct piece {
	struct world *w;
	struct turn_work *work;
	size_t number;
	unsigned strides;
	bool begun, ended, done;
	bool was_over; /* it was told so */
};

/* All of it belongs to whoever has the turn: nothing here is atomic. */
struct world {
	struct loop *loop;
	struct turns *turns;
	struct loop_timer *timer; /* of the test, in every turn of the loop */
	bool is_out;              /* a piece has the turn */
	unsigned turns_of_loop;
	size_t begun, under_way, most;
	struct piece piece[PIECES];
};

static void enter(struct world *w)
{
	CHECK(!w->is_out);
	w->is_out = true;
}

static void stride(struct piece *p)
{
	p->strides++;
	p->w->is_out = false;
	turn_stride();
	enter(p->w);
}

static void begin_piece(struct piece *p)
{
	struct world *w = p->w;

	enter(w);
	turn_open();
	p->begun = true;
	CHECK(w->begun++ == p->number); /* in the order they came */
	w->under_way++;
	w->most = MAX(w->most, w->under_way);
}

static void end_piece(struct piece *p)
{
	p->was_over = turn_is_over();
	p->ended = true;
	p->w->under_way--;
	turn_close();
	p->w->is_out = false;
}

static void done(void *ctx)
{
	struct piece *p = ctx;

	assert_true(!p->w->is_out);
	assert_true(p->ended && !p->done && !p->was_over);
	p->done = true;
	p->work = NULL;
}

static void add(struct world *w, size_t i, const struct turn_ops *ops)
{
	struct piece *p = &w->piece[i];

	*p = (struct piece){ .w = w, .number = i };
	p->work = turns_add(w->turns, ops, p);
	assert_false(p->begun); /* in a later turn */
}

static void begin(struct world *w, size_t at_a_time)
{
	*w = (struct world){ .loop = loop_new() };
	w->turns = turns_new(w->loop, at_a_time);
}

static void end(struct world *w)
{
	if (w->timer != NULL)
		loop_timer_remove(w->timer);
	turns_free(w->turns);
	loop_free(w->loop);
}

static void run(struct world *w, loop_fn *on_turn)
{
	w->timer = loop_timer_add(w->loop, on_turn, w);
	loop_timer_arm(w->timer, 0);
	loop_run(w->loop);
}

/* A turn of the loop. */
static void look(struct world *w)
{
	assert_false(w->is_out);
	w->turns_of_loop++;
	loop_timer_arm(w->timer, 0);
}

static void stop_when_all_are_done(void *ctx)
{
	struct world *w = ctx;

	look(w);
	for (size_t i = 0; i < PIECES; i++)
		if (w->piece[i].w != NULL && !w->piece[i].done)
			return;
	loop_stop(w->loop);
}

/* --- pieces --- */

/* Ends only if the loop and the other one go on meanwhile. */
static void until_others_went_on(void *ctx)
{
	struct piece *p = ctx;
	struct world *w = p->w;
	struct piece *other = &w->piece[1 - p->number];
	unsigned before;

	begin_piece(p);
	for (int i = 0; i < 3; i++) {
		before = w->turns_of_loop;
		while (w->turns_of_loop == before)
			stride(p);
		before = other->strides;
		while (other->strides == before && !other->ended)
			stride(p);
	}
	end_piece(p);
}

static void until_nobody_wants_it(void *ctx)
{
	struct piece *p = ctx;

	begin_piece(p);
	while (!turn_is_over())
		stride(p);
	/* it has more to do before it ends, and all of it now */
	for (int i = 0; i < 1000; i++)
		stride(p);
	end_piece(p);
}

/* Each of the first ones waits for the others of them. */
static void until_there_are_two(void *ctx)
{
	struct piece *p = ctx;

	begin_piece(p);
	while (p->w->begun < 2)
		stride(p);
	end_piece(p);
}

static void at_once(void *ctx)
{
	begin_piece(ctx);
	end_piece(ctx);
}

/* --- tests --- */

static const struct turn_ops waits_for_others = {
	.work = until_others_went_on,
	.done = done,
};
static const struct turn_ops lasts = {
	.work = until_nobody_wants_it,
	.done = done,
};
static const struct turn_ops waits_for_two = {
	.work = until_there_are_two,
	.done = done,
};
static const struct turn_ops is_short = { .work = at_once, .done = done };

static void test_pieces_and_the_loop_take_turns(void **state _unused_)
{
	struct world w;

	begin(&w, 2);
	add(&w, 0, &waits_for_others);
	add(&w, 1, &waits_for_others);
	run(&w, stop_when_all_are_done);
	assert_int_equal(w.most, 2);
	end(&w);
}

static void test_no_more_at_a_time_than_may_be(void **state _unused_)
{
	struct world w;

	begin(&w, 2);
	for (size_t i = 0; i < PIECES; i++)
		add(&w, i, &waits_for_two);
	run(&w, stop_when_all_are_done);
	assert_int_equal(w.begun, PIECES);
	assert_int_equal(w.most, 2);
	end(&w);
}

static void drop_the_first(void *ctx)
{
	struct world *w = ctx;
	struct piece *p = &w->piece[0];
	unsigned turns = w->turns_of_loop;

	look(w);
	if (p->strides < 2)
		return;
	assert_false(p->ended);
	turns_drop(w->turns, p->work);
	assert_true(p->ended && p->was_over);
	assert_int_equal(w->turns_of_loop, turns + 1);
	loop_stop(w->loop);
}

static void test_one_that_is_dropped_ends_at_once(void **state _unused_)
{
	struct world w;

	begin(&w, 1);
	add(&w, 0, &lasts);
	run(&w, drop_the_first);
	/* the next one in its place is wanted */
	loop_timer_remove(w.timer);
	w.piece[0].w = NULL;
	add(&w, 1, &is_short);
	run(&w, stop_when_all_are_done);
	assert_false(w.piece[0].done);
	end(&w);
}

/* --- one that is to end soon --- */

static void done_in_a_hurry(void *ctx)
{
	struct piece *p = ctx;

	assert_true(p->ended && p->was_over);
	p->done = true;
}

static void hurry_all(void *ctx)
{
	struct world *w = ctx;

	if (w->piece[0].strides >= 2)
		for (size_t i = 0; i < 2; i++)
			if (!w->piece[i].done)
				turns_hurry(w->piece[i].work);
	stop_when_all_are_done(w);
}

/* Strides on, until the loop has had turns of its own meanwhile. */
static void until_in_a_hurry(void *ctx)
{
	struct piece *p = ctx;
	unsigned turns;

	begin_piece(p);
	while (!turn_is_over())
		stride(p);
	turns = p->w->turns_of_loop;
	while (p->w->turns_of_loop < turns + 3)
		stride(p);
	end_piece(p);
}

static void hurry(void *ctx)
{
	turns_hurry(((struct piece *)ctx)->work);
}

static const struct turn_ops to_be_hurried = {
	.work = until_in_a_hurry,
	.done = done_in_a_hurry,
	.time_is_up = hurry,
};

/* The one that has begun, and the one that has not. */
static void test_one_that_is_unwanted_goes_on_in_turns(void **state _unused_)
{
	struct world w;

	begin(&w, 1);
	for (size_t i = 0; i < 2; i++) {
		w.piece[i] = (struct piece){ .w = &w, .number = i };
		w.piece[i].work =
		    turns_add(w.turns, &to_be_hurried, &w.piece[i]);
	}
	run(&w, hurry_all);
	assert_true(w.piece[0].done && w.piece[1].done);
	end(&w);
}

static void time_is_up(void *ctx)
{
	struct world *w = ctx;

	if (w->piece[0].strides >= 2)
		turns_time_is_up(w->turns);
	stop_when_all_are_done(w);
}

static void drop_it(void *ctx)
{
	struct piece *p = ctx;

	turns_drop(p->w->turns, p->work);
	p->done = true;
}

static const struct turn_ops to_be_dropped = {
	.work = until_nobody_wants_it,
	.done = done,
	.time_is_up = drop_it,
};

/* Those that are under way and those that wait, of both sorts. */
static void test_all_hear_that_time_is_up(void **state _unused_)
{
	struct world w;

	begin(&w, 2);
	for (size_t i = 0; i < PIECES; i++)
		add(&w, i, i == 1 || i > 3 ? &to_be_dropped : &to_be_hurried);
	run(&w, time_is_up);
	for (size_t i = 0; i < PIECES; i++)
		assert_true(w.piece[i].done);
	end(&w);
}

static void drop_both(void *ctx)
{
	struct world *w = ctx;

	look(w);
	if (!w->piece[0].begun)
		return;
	turns_drop(w->turns, w->piece[1].work);
	assert_false(w->piece[1].begun);
	turns_drop(w->turns, w->piece[0].work);
	loop_stop(w->loop);
}

static void test_one_that_waits_is_dropped(void **state _unused_)
{
	struct world w;

	begin(&w, 1);
	add(&w, 0, &lasts);
	add(&w, 1, &is_short);
	run(&w, drop_both);
	/* nothing is left of either */
	assert_false(w.piece[0].done || w.piece[1].begun || w.piece[1].done);
	end(&w);
}

static void done_and_next(void *ctx);

static const struct turn_ops adds_one = {
	.work = at_once,
	.done = done_and_next,
};

static void done_and_next(void *ctx)
{
	struct piece *p = ctx;
	struct world *w = p->w;

	done(p);
	if (p->number + 1 < PIECES) {
		w->piece[p->number + 1] =
		    (struct piece){ .w = w, .number = p->number + 1 };
		(void)turns_add(w->turns, &adds_one, &w->piece[p->number + 1]);
	}
}

static void test_the_end_of_one_adds_the_next(void **state _unused_)
{
	struct world w;

	begin(&w, 2);
	w.piece[0] = (struct piece){ .w = &w };
	(void)turns_add(w.turns, &adds_one, &w.piece[0]);
	run(&w, stop_when_all_are_done);
	assert_int_equal(w.begun, PIECES);
	assert_int_equal(w.most, 1);
	end(&w);
}

static void test_nothing_to_do(void **state _unused_)
{
	struct world w;

	begin(&w, 3);
	end(&w);
	turns_free(NULL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_and_the_loop_take_turns),
		cmocka_unit_test(test_no_more_at_a_time_than_may_be),
		cmocka_unit_test(test_one_that_is_dropped_ends_at_once),
		cmocka_unit_test(test_one_that_is_unwanted_goes_on_in_turns),
		cmocka_unit_test(test_all_hear_that_time_is_up),
		cmocka_unit_test(test_one_that_waits_is_dropped),
		cmocka_unit_test(test_the_end_of_one_adds_the_next),
		cmocka_unit_test(test_nothing_to_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
