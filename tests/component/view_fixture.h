/*
 * An empty view in a directory of its own, and one question to it at a time.
 */
#ifndef CORVO_TEST_VIEW_FIXTURE_H
#define CORVO_TEST_VIEW_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#include "lib/testlib.h"
#include "query/query.h"
#include "rt/file.h"
#include "view.h"

struct fixture {
	char dir[64];
	struct view view;
	uint64_t seq;       /* of the last event, where a test counts them */
	struct arena arena; /* of the last answer */
	struct buf out;
};

static inline int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/corvo-view-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(view_init(&f->view, f->dir, &why), 0);
	assert_int_equal(view_open(&f->view, &why), 0);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	view_close(&f->view, true);
	view_done(&f->view);
	assert_int_equal(dir_remove(f->dir), 0);
	arena_done(&f->arena);
	buf_done(&f->out);
	free(f);
	return 0;
}

/* The decoded answer; its slices live until the next question. */
static inline void run(struct fixture *f, unsigned id, const void *m, void *ret)
{
	struct query_ask ask = { .id = id,
				 .request = m,
				 .lag_ns = 7,
				 .facts = { .position = 5,
					    .head_seq = 9,
					    .lag_ns = 1500 * NS_PER_MS } };

	arena_reset(&f->arena);
	buf_clear(&f->out);
	assert_int_equal(query_run(f->view.readers[0], &ask, &f->out), 0);
	assert_int_equal(
	    msg_decode(query_info(id)->reply, buf_str(&f->out), &f->arena, ret),
	    0);
}

#endif
