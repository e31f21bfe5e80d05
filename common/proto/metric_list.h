/*
 * Numbers of a process on their way to GET /api/v1/metrics.
 */
#ifndef CORVO_METRIC_LIST_H
#define CORVO_METRIC_LIST_H

#include <math.h>

#include "proto/proto.h"
#include "util/arena.h"

/* A series stays when its value is not known. */
#define METRIC_UNKNOWN ((double)NAN)

/* Zeroed but for the arena: empty. Memory is the arena's. */
struct metric_list {
	struct arena *a;
	struct m_metric_value *items;
	size_t n, cap;
};

/*
 * label: empty, or text such as queue="a",state="dead", which must live as
 * long as the list. Of a histogram, values labelled with le are its buckets
 * (cumulative); "sum" and "count" before the other labels mark the other two.
 */
void metric_add(struct metric_list *l, enum metric_id id, double value,
		struct str label);

/* As Prometheus wants the value of a label. */
struct str metric_escape(struct str s, struct arena *a);

/* Folders of the data directory, and their label of corvo_storage_bytes. */
#define METRIC_PARTS 3
struct metric_part {
	const char *folder, *label;
};
extern const struct metric_part metric_parts[METRIC_PARTS];

/* The list as a message. */
void metric_list_message(const struct metric_list *l, struct m_metrics *ret);

#endif
