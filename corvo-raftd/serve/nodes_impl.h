/*
 * Inside serve/nodes*.c: what is kept of the nodes. Loop thread.
 */
#ifndef CORVO_NODES_IMPL_H
#define CORVO_NODES_IMPL_H

#include "serve/svc_impl.h"
#include "util/clock.h"

#define PROBLEM_BYTES 200
#define SAMPLES       128

/* Whether the store of a node is what the others have. */
struct store_verdict {
	bool known;       /* since this process runs */
	uint64_t differs; /* since that entry; 0: it does not */
};

/* What a node last said of itself. */
struct heard {
	uint64_t raft_id; /* 0: a free place */
	uint64_t at_ns;   /* clock_mono_ns */
	uint64_t lag_entries, lag_ms;
	int64_t offset_ms; /* of its wall clock */
	bool clock_off;
	struct compare_result digest;
	struct store_verdict verdict;
	struct m_node_report m; /* without its texts */
	struct m_snapshot_progress snapshot;
	char problem[PROBLEM_BYTES];
};

/* The leader had applied that at that time. */
struct sample {
	uint64_t index, at_ns;
};

struct svc_nodes {
	struct svc *s;
	struct heard heard[NODE_SERVERS_MAX];
	struct sample samples[SAMPLES];
	size_t samples_n;
	struct store_verdict own;
	/* of a node that does not lead */
	uint64_t asked_ns; /* its last report left */
	unsigned asked;    /* reports that are not answered */
	struct buf told;   /* the leader's last answer */
	uint64_t told_ns;  /* when it came; 0: never, or this node leads */
	uint64_t led_ns;   /* since when, if it was told before */
	bool has_offset;   /* of its clock */
	int64_t offset_ms;
	/* of what it fetches */
	uint64_t fetch_done, fetch_ns, fetch_rate;
};

/* NULL: nothing. raft_id 0: a free place. */
struct heard *nodes_heard(struct svc_nodes *n, uint64_t raft_id);
/* Of a leader: finds out whose store differs. */
void nodes_judge(struct svc_nodes *n);
/* What this node says of itself; p: for what it fetches. */
void nodes_fill_report(struct svc *s, struct m_snapshot_progress *p,
		       struct m_node_report *ret);

#endif
