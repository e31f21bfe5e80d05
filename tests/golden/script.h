/*
 * The golden log as it is being made; see script.c.
 */
#ifndef CORVO_GOLDEN_SCRIPT_H
#define CORVO_GOLDEN_SCRIPT_H

#include "golden.h"

#define SECOND NS_PER_S

struct script {
	struct golden *g;
	struct golden_lines *log;
	uint64_t now_ns;
	uint64_t calls;
	struct frame_writer w;
	struct buf entry, body;
	size_t n;
};

/* An entry of one operation, which must be accepted. */
void script_one(struct script *s, enum op_id op, const void *m, void *reply);

/* --- script_cluster.c --- */

void script_cluster(struct script *s);

/* --- script_usage.c: after it, for it needs the level --- */

void script_usage(struct script *s);

/* --- script_push.c: the same --- */

void script_push(struct script *s);

/* --- script_agent.c: the same --- */

void script_agent(struct script *s);

/* --- script_hooks.c: the same --- */

void script_hooks(struct script *s);

/* --- script_sdb.c: the same --- */

void script_sdb(struct script *s);
/* --- script_webhooks.c: the same --- */

void script_webhooks(struct script *s);
/* --- script_policy.c: the same --- */

void script_policy(struct script *s);

#endif
