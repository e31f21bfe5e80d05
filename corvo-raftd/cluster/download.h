/*
 * Brings the files of a snapshot from another node into
 * <data-dir>/incoming/<index>, from where the next start takes them
 * (install.h).
 *
 * Several parts are under way at a time, at most `snapshot_rate` bytes a
 * second. What was interrupted, by a lost link, by a crash, goes on where it
 * was. Every file is compared with its checksum and flushed. Loop thread.
 */
#ifndef CORVO_DOWNLOAD_H
#define CORVO_DOWNLOAD_H

#include "rt/config.h"
#include "rt/rpc.h"
#include "rt/worker.h"

struct download;

/*
 * Once, and then only download_free may follow, which may be called in it, as
 * may be that of the client: it runs in no callback of that. 0:
 * all files are there. -ERR_NOT_FOUND: the other side has a newer snapshot;
 * -ERR_STORAGE_FULL: there is no room; or another -ERR_*, with a sentence.
 */
typedef void download_done_fn(void *ctx, int err, struct str why);

struct download_config {
	struct loop *loop;
	struct worker *worker; /* writes and reads files, for long at times */
	const struct settings *settings;
	struct rpc_client *client; /* lives longer; its owner flushes it */
	uint64_t index;            /* of the snapshot */
	/* One that is over and has succeeded, whose files it takes where they
	 * are the same; NULL: none. It may be freed then. */
	struct download *before;
	download_done_fn *done;
	void *ctx;
};

struct download *download_new(const struct download_config *c);
/* What is on the disk stays for the next time. */
void download_free(struct download *d);

struct download_progress {
	uint64_t index;
	uint64_t done, total; /* bytes; total 0: not known yet */
	uint64_t received;    /* bytes that came over the link */
};

void download_progress(const struct download *d, struct download_progress *ret);

#endif
