/*
 * What a leader writes down of itself and of the cluster when it begins, and
 * when the cluster has changed. Loop thread.
 */
#ifndef CORVO_LEAD_H
#define CORVO_LEAD_H

#include "serve/parts.h"

/* Who votes, by raft id. */
struct lead_voters {
	uint64_t ids[LIMIT_MEMBERS];
	size_t n;
	uint64_t self;
};

struct lead {
	struct parts *p;
	void (*voters)(void *ctx, struct lead_voters *ret);
	void *ctx;
	bool leading;
	bool compared;        /* since the start */
	bool told_settings;   /* proposed in this leadership */
	bool told_leader;     /* the same */
	uint32_t level_asked; /* the highest proposed in it */
};

/* This node leads, and has applied all there was before. */
void lead_begin(struct lead *l);
/* It does not, or no more; told again when it has caught up. */
void lead_end(struct lead *l);
/* An entry was applied. */
void lead_look(struct lead *l);
/* The settings of this node may be others than before. */
void lead_reload(struct lead *l);

/*
 * Says, in a line each, which settings of this node are not those of the
 * cluster: flags only seed what the cluster has not set. Done by itself once
 * after a start, when what there was is applied.
 */
void lead_compare(struct lead *l);

#endif
