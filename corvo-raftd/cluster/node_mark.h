/*
 * Keeps the mark of a running node: about once a second, and only when
 * something new was acknowledged. See mark.h.
 */
#ifndef CORVO_NODE_MARK_H
#define CORVO_NODE_MARK_H

#include "cluster/mark.h"
#include "rt/loop.h"

struct mark_write;

struct node_mark {
	int fd; /* -1: none */
	struct mark last;
	uint64_t written_ns;
	struct mark_write *running;
	bool failed; /* and said so */
};

/* `last`: as it was read at the start. A mark that cannot be written is told
 * in the log; the node works without. */
void node_mark_init(struct node_mark *m, const char *dir,
		    const struct mark *last, const struct history *h);
void node_mark_look(struct node_mark *m, struct loop *l, uint64_t committed);
void node_mark_done(struct node_mark *m);

#endif
