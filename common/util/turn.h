/*
 * Long work that is done in turns with others: it says at every step that it
 * could stop here for a while. A step costs next to nothing, and means nothing
 * in a thread that does not take turns (rt/turns.h).
 */
#ifndef CORVO_TURN_H
#define CORVO_TURN_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes that are looked at one by one are worth a step, so many of them. */
#define TURN_STEP_BYTES 64
/* Who walks over many says so after each of such pieces. */
#define TURN_PIECE_BYTES 4096

typedef void turn_fn(void *ctx);

extern _Thread_local int turn_steps_left; /* before somebody looks */

/* Whether the work is over, see turn_is_over. */
bool turn_look(void);

/*
 * A step, of some hundred nanoseconds at most. Nothing that others use is half
 * done. True: nobody wants what this comes to; it is not said at each step, but
 * soon, and then now and then.
 */
static inline bool turn_step(void)
{
	return --turn_steps_left < 0 && turn_look();
}

/* One of some thousand times as much. */
static inline bool turn_stride(void)
{
	turn_steps_left = 0;
	return turn_step();
}

/* So many bytes of a long text were looked at: TURN_PIECE_BYTES, or a few more
 * or less. */
static inline bool turn_bytes(size_t n)
{
	turn_steps_left -= (int)(n / TURN_STEP_BYTES);
	return turn_step();
}

/* In a loop over the bytes of a text, for the one at that place. */
static inline void turn_at(size_t i)
{
	if (i % TURN_PIECE_BYTES == TURN_PIECE_BYTES - 1)
		(void)turn_bytes(TURN_PIECE_BYTES);
}

/* Where the piece of a text ends that begins at p. */
static inline const char *turn_piece(const char *p, const char *end)
{
	return end - p > TURN_PIECE_BYTES ? p + TURN_PIECE_BYTES : end;
}

/*
 * Between the two, steps of this thread mean something. What calls turn_open
 * has no buffer in use that others may need.
 */
void turn_open(void);
void turn_close(void);

/*
 * Between the two no step means anything, whoever says it: something that
 * others use is half done, or is about another request than the work.
 */
void turn_hold(void);
void turn_let(void);

/* Nobody wants what this work would come to: it ends as soon as it can, with
 * any failure. */
bool turn_is_over(void);

/* What steps mean. All zero: nothing. */
struct turn_meaning {
	turn_fn *look;
	const bool *over;
	void *ctx;
	unsigned open, held;
};

/* For who goes on on another stack (util/fiber.c): what steps of this thread
 * mean is put there, and what was there takes its place. */
void turn_swap(struct turn_meaning *m);

/* For rt/turns.c: this thread takes turns; look is called between two steps,
 * also when it is over, and returns when it has its next turn. over: see
 * turn_is_over. */
void turn_take_by(turn_fn *look, const bool *over, void *ctx);

#endif
