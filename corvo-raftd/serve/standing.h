/*
 * What the data directory says of this node and its cluster that neither the
 * log nor the store can say: small files beside them.
 */
#ifndef CORVO_STANDING_H
#define CORVO_STANDING_H

#include "rt/config.h"

enum standing {
	/* The nodes there are have chosen this one to make the cluster; it does
	 * at its next start. */
	STANDING_FOUNDER,
	/* It has left its cluster, which has removed it. */
	STANDING_LEFT,
	/* Its history began with a recovery; nodes of the one before may turn
	 * up. */
	STANDING_RECOVERED,
};

bool standing_is(const struct settings *s, enum standing what);
/* On disk when this returns. 0 or -ERR_* with a sentence in `why`. */
int standing_set(const struct settings *s, enum standing what, struct buf *why);
void standing_clear(const struct settings *s, enum standing what);

/* Whether a node may be started on it: -ERR_CONFLICT with a sentence. */
int standing_check(const struct settings *s, struct buf *why);

#endif
