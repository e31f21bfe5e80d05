#include "util/turn.h"

#include <limits.h>
#include <stddef.h>

#define STEPS 256 /* some microseconds */

_Thread_local int turn_steps_left;

static _Thread_local struct turn_meaning mine;

static bool is_open(void)
{
	return mine.open > 0 && mine.held == 0;
}

bool turn_look(void)
{
	if (!is_open()) {
		turn_steps_left = INT_MAX;
		return false;
	}
	turn_steps_left = STEPS;
	mine.look(mine.ctx);
	return *mine.over;
}

void turn_open(void)
{
	if (mine.look == NULL)
		return;
	mine.open++;
	turn_steps_left = STEPS;
}

void turn_close(void)
{
	if (mine.look != NULL)
		mine.open--;
}

bool turn_is_over(void)
{
	return is_open() && *mine.over;
}

void turn_hold(void)
{
	mine.held++;
}

void turn_let(void)
{
	mine.held--;
	turn_steps_left = 0; /* it may have taken a while */
}

void turn_swap(struct turn_meaning *m)
{
	struct turn_meaning was = mine;

	mine = *m;
	*m = was;
	turn_steps_left = 0; /* of the other one */
}

void turn_take_by(turn_fn *look, const bool *over, void *ctx)
{
	mine.look = look;
	mine.over = over;
	mine.ctx = ctx;
	mine.open = mine.held = 0;
}
