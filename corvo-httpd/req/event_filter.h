/*
 * Which events of the log a client wants.
 */
#ifndef CORVO_EVENT_FILTER_H
#define CORVO_EVENT_FILTER_H

#include "proto/proto.h"

struct event_names {
	struct str *items;
	size_t n; /* 0: all */
};

struct event_filter {
	struct event_names queues, job_ids;
	bool types[EVENT_TYPE_MAX];
	bool all_types;
};

/* Only those types; none: all. 0, or -ERR_VALIDATION_ERROR with a sentence. */
int event_filter_types(struct event_filter *f, const struct str *names,
		       size_t n, struct buf *why);
bool event_filter_matches(const struct event_filter *f,
			  const struct m_event *e);

#endif
