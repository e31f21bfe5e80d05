/*
 * Room on the disk of the data directory: how much there has to be for work to
 * begin, and a reserve, a file that holds a little of it. It is given back
 * when the store has to be opened on a full disk: RocksDB cannot be opened
 * without writing, and aborts the process when it cannot write.
 */
#ifndef CORVO_ROOM_H
#define CORVO_ROOM_H

#include "rt/config.h"

enum room {
	ROOM_NONE, /* nothing may be written */
	ROOM_LOW,  /* only what makes room */
	ROOM_OK,
};

/*
 * `before`: what the last look said, and ROOM_NONE at a start. It takes more
 * room to begin than to go on, or the first write after a start, for which the
 * log is laid out again, would be one too many.
 */
enum room room_look(const struct settings *s, enum room before);
/* Free bytes for ROOM_OK. */
uint64_t room_needed(const struct settings *s, enum room before);

/* Before the store is opened. False: it cannot be, not even with the reserve;
 * ask again when there may be room. */
bool room_to_open(const struct settings *s);

/* What has to be written now may use the reserve. */
void room_give_back(const struct settings *s);

/* The reserve is whole again, or as large as there is room for. */
void room_reserve(const struct settings *s);

#endif
