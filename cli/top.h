/*
 * `corvo top`: a look at a server (top_look.c), the lines that show it
 * (top_text.c), and the program around both (cmd_top.c).
 */
#ifndef CORVO_CLI_TOP_H
#define CORVO_CLI_TOP_H

#include "api.h"
#include "util/arena.h"

struct top_queue {
	struct str name;
	bool paused, has_rates;
	uint64_t pending, active, scheduled, retrying, held, dead;
	uint64_t completed, ever; /* ever: all it holds */
	double in, out;           /* a second; if has_rates */
	uint64_t oldest_ns;       /* 0: none waits */
};

struct top_worker {
	struct str id, hostname;
	uint64_t seen_ns;
	uint64_t active;
};

struct top_failure {
	struct str id, queue, state, error;
	uint64_t at_ns;
	uint64_t attempt;
};

/* Of the cluster; what is not known is 0. */
struct top_node {
	struct str name, role, version;
	bool alive, clock_ok, disk_ok;
	uint64_t lag, lag_ms, contact_ms, disk_free;
	int64_t clock_ms;
};

enum top_part {
	PART_NODE,
	PART_INFO,
	PART_QUEUES,
	PART_WORKERS,
	PART_ACTIVE,
	PART_FAILURES,
	PART_THROUGHPUT, /* in the JSON only */
	PART_SCALE,
	TOP_PARTS
};

/* Texts are slices of the replies, or in mem. */
struct top_look {
	struct buf replies[TOP_PARTS]; /* empty: not answered */
	struct arena mem;
	uint64_t wall_ns, mono_ns;
	struct str node, role, version;
	bool healthy;
	struct str unled; /* why no leader can be asked; empty: one can */
	uint64_t uptime_s, view_lag_ms;
	uint64_t recent_s; /* what happened in so many seconds; 0: not told */
	uint64_t recent_in, recent_out, recent_failed;
	bool has_active; /* the workers' are known */
	struct top_node *nodes;
	size_t nodes_n;
	struct top_queue *queues;
	size_t queues_n;
	struct top_worker *workers;
	size_t workers_n;
	struct top_failure *failures;
	size_t failures_n;
};

/*
 * Asks the server. before (NULL: none) is for rates the server does not tell.
 * 0, or -ERR_* with a sentence in why. Always top_look_done after it.
 */
int top_look_take(const struct api *api, const struct top_look *before,
		  struct top_look *ret, struct buf *why);
void top_look_done(struct top_look *l);

/* The answers as they came, in one object. */
void top_look_json(const struct top_look *l, struct buf *ret);

/* --- lines --- */

enum top_sort {
	SORT_NAME,
	SORT_PENDING,
	SORT_ACTIVE,
	SORT_DEAD,
	SORT_IN,
	SORT_OUT,
	SORT_OLDEST,
	TOP_SORTS
};

const char *top_sort_name(enum top_sort s);

struct top_line {
	struct str text; /* printable */
	bool strong;
};

struct top_page {
	struct arena mem;
	struct top_line *lines;
	size_t n, cap;
	size_t head; /* lines that stay when the others are scrolled */
};

/* filter: only queues with this in their names. Sorts l's queues. */
void top_page_make(struct top_look *l, enum top_sort sort, struct str filter,
		   struct top_page *ret);
void top_page_done(struct top_page *p);

#endif
