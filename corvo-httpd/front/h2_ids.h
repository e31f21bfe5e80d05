/*
 * Which of the last streams of a connection there were, and which of them the
 * client has ended; see front/h2_scan.h. No I/O.
 */
#ifndef CORVO_H2_IDS_H
#define CORVO_H2_IDS_H

#include "util/base.h"

/* Zeroed: none yet. */
struct h2_ids {
	int32_t last;    /* the greatest */
	uint64_t opened; /* the i-th bit: last - 2i */
	uint64_t ended;
};

enum h2_id_verdict {
	H2_ID_FINE,
	H2_ID_SKIPPED, /* a greater one came before it was opened */
	H2_ID_ENDED,   /* the client has said that nothing comes any more */
};

/* A frame begins that stream, or goes on with it. */
enum h2_id_verdict h2_ids_judge(const struct h2_ids *ids, int32_t id);

void h2_ids_open(struct h2_ids *ids, int32_t id);
void h2_ids_end(struct h2_ids *ids, int32_t id); /* by the client */

#endif
