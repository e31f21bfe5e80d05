/*
 * The numbers of this process for GET /api/v1/metrics. Where several httpd
 * processes share the port a client reaches one of them, so each tells raftd
 * its own from time to time, and whoever is asked answers those of all.
 */
#ifndef CORVO_TELL_H
#define CORVO_TELL_H

#include "proto/metric_list.h"
#include "req/parts.h"

struct tell;

/* Begins to tell, if there are others. */
struct tell *tell_new(struct httpd *h);
void tell_free(struct tell *t); /* before the link; NULL: fine */

bool tell_has_others(const struct httpd *h);
/* With the label httpd="N" if there are others. */
void tell_collect(struct httpd *h, struct metric_list *l);

#endif
