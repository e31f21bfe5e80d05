/*
 * What this process counts about its requests: by method and route pattern,
 * never by path, so the number of series is bounded by the table.
 */
#ifndef CORVO_HTTP_METRICS_H
#define CORVO_HTTP_METRICS_H

#include "proto/metric_list.h"

struct req;
struct server;
struct http_metrics;

struct http_metrics *metrics_new(void);
void metrics_free(struct http_metrics *m);

void metrics_begin(struct http_metrics *m);
/* The request has its answer. */
void metrics_count(struct http_metrics *m, const struct req *r);

/* Its client left before. */
void metrics_leave(struct http_metrics *m);

/* A check of ours has failed in the work for a request. */
void metrics_note_broken(struct http_metrics *m);

/* A process was asked for its numbers and did not tell them. */
void metrics_note_silent(struct http_metrics *m, enum proc_id p);

/*
 * The same form in which raftd and viewd send theirs. extra: a label of all of
 * them, ending in a comma, or empty.
 */
void metrics_collect(const struct http_metrics *m, struct str extra,
		     struct server *s, struct metric_list *l);

/*
 * viewd told its numbers; and what to say when it does not. No series goes with
 * it: what cannot be told is NaN. raftd: its numbers, perhaps none.
 */
void metrics_note_view(struct http_metrics *m, const struct m_metrics *told);
void metrics_of_silent_view(const struct http_metrics *m,
			    const struct m_metrics *raftd,
			    struct metric_list *l);

/*
 * Prometheus text of several collections; labels as in metric_list.h. What is
 * made on the way comes from `a`.
 */
void metrics_write(const struct m_metrics *const *sets, size_t n,
		   struct arena *a, struct buf *out);

#endif
