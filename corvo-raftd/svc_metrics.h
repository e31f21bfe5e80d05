/*
 * raftd's rows of metrics.def.
 */
#ifndef CORVO_SVC_METRICS_H
#define CORVO_SVC_METRICS_H

#include "raftd.h"

/* 0, or -ERR_* when the store cannot be read. */
int svc_metrics(struct raftd *r, struct arena *a, struct m_metrics *ret);

#endif
