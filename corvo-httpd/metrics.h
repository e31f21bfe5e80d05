/*
 * What this process counts about its requests: by method and route pattern,
 * never by path, so the number of series is bounded by the table.
 */
#ifndef CORVO_HTTP_METRICS_H
#define CORVO_HTTP_METRICS_H

#include "proto/proto.h"
#include "util/arena.h"

struct req;
struct http_metrics;

struct http_metrics *metrics_new(void);
void metrics_free(struct http_metrics *m);

void metrics_begin(struct http_metrics *m);
/* The request has its answer. */
void metrics_count(struct http_metrics *m, const struct req *r);

/* The same form in which raftd and viewd send theirs; memory from `a`. */
void metrics_collect(const struct http_metrics *m, size_t connections,
		     struct arena *a, struct m_metrics *ret);

/*
 * Prometheus text of several collections. Of a histogram, values labelled
 * with le are its buckets (cumulative), "sum" and "count" the other two.
 */
void metrics_write(const struct m_metrics *const *sets, size_t n,
		   struct buf *out);

#endif
