/*
 * Looks at the heads of frames before the library does. That skips what comes
 * for streams that are over, as it must for those we have ended; what comes for
 * those the client has ended is against the protocol (RFC 9113, 5.1), as are
 * frames of a stream below one that is there already. No I/O.
 */
#ifndef CORVO_H2_SCAN_H
#define CORVO_H2_SCAN_H

#include "front/h2_ids.h"

#define H2_FRAME_HEAD 9 /* bytes */

struct h2_scan {
	struct h2_ids ids;
	uint32_t skip;               /* bytes up to the next frame */
	uint8_t head[H2_FRAME_HEAD]; /* of it, as far as it has come */
	uint8_t head_n;
};

void h2_scan_init(struct h2_scan *s); /* the preface is next */

/*
 * Looks at the next bytes and returns how many of them are good: all, or those
 * before the frame that has the verdict. unknown_n: grows by the frames that
 * have types nobody knows.
 */
size_t h2_scan_feed(struct h2_scan *s, const uint8_t *p, size_t n,
		    enum h2_id_verdict *ret, unsigned *unknown_n);

#endif
