/*
 * Numbers of a process on their way to GET /api/v1/metrics.
 */
#ifndef CORVO_METRIC_LIST_H
#define CORVO_METRIC_LIST_H

#include "proto/proto.h"
#include "util/arena.h"

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

/* The list as a message. */
void metric_list_message(const struct metric_list *l, struct m_metrics *ret);

#endif
