/*
 * What tests of the readers of remote calls share.
 */
#ifndef CORVO_PB_WORLD_H
#define CORVO_PB_WORLD_H

#include "lib/testlib.h"
#include "rpc/pb/pb.h"

struct pb_world {
	struct arena a;
	struct buf why;
	struct ignored ignored;
	bool compat_03;
};

static inline struct msg_reader pb_reader(struct pb_world *w)
{
	buf_clear(&w->why);
	w->ignored = (struct ignored){ 0 };
	return (struct msg_reader){ .a = &w->a,
				    .why = &w->why,
				    .ignored = &w->ignored,
				    .compat_03 = w->compat_03 };
}

static inline int pb_setup(void **state)
{
	*state = calloc(1, sizeof(struct pb_world));
	return *state == NULL;
}

static inline int pb_teardown(void **state)
{
	struct pb_world *w = *state;

	arena_done(&w->a);
	buf_done(&w->why);
	free(w);
	return 0;
}

#define PB_TEST(fn) cmocka_unit_test_setup_teardown(fn, pb_setup, pb_teardown)

#endif
