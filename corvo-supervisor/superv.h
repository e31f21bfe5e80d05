/*
 * A node as the supervisor sees it: children in the order of procs.def, the
 * listening socket, the lock on the data directory, and the ladder by which
 * all of it is stopped. One thread, one poll loop.
 */
#ifndef CORVO_SUPERV_H
#define CORVO_SUPERV_H

#include "child.h"
#include "ctl_server.h"
#include "proto/limits.h"
#include "rt/listen.h"
#include "rt/log.h"
#include "rt/notify.h"

/* One of each kind, and httpd_processes at most 64. */
#define SUPERV_CHILDREN_MAX (PROC_MAX - 1 + 64)

/* poll takes no more entries than there may be open files. */
_Static_assert(1 + CTL_POLL_FDS + SUPERV_CHILDREN_MAX < LIMIT_FILES_MIN,
	       "a limit of open files we can poll with");

/* The ladder goes from RUNNING down: the last process started leaves first. */
enum superv_state {
	SUPERV_STARTING,
	SUPERV_RUNNING,
#define PROC(NAME, name, program, doc) SUPERV_DRAIN_##NAME,
#include "proto/defs/procs.def"
	SUPERV_DONE,
	SUPERV_STATE_MAX
};

struct superv {
	struct settings settings;
	int argc; /* flags */
	char *const *argv;
	struct buf run_dir; /* NUL-terminated */
	struct listeners listeners;
	struct buf address; /* we listen on; NUL-terminated */
	int signal_fd;
	int run_lock_fd; /* run directory; the host has that on the data */
	struct child_host host;
	struct child *children; /* in start order */
	size_t children_n;
	struct ctl_server ctl;
	struct notify systemd;
	enum superv_state state;
	uint64_t started_ns;
	uint64_t beat_ns;    /* next beat to systemd */
	uint64_t stopped_ns; /* when the stop began */
	uint64_t stop_by_ns; /* the whole stop, when stopping */
	bool failed;         /* exit status 1 */
	bool hopeless;       /* or EXIT_NO_RETRY */
};

/* The whole life of a node; returns the exit status. argv: flags only. */
int superv_main(int argc, char *const argv[]);

/* --- superv_setup.c --- */

/* Everything up to the first child; -ERR_* with text in why. */
int superv_set_up(struct superv *s, struct buf *why);
void superv_tear_down(struct superv *s); /* also after a failed set-up */
/*
 * Writes down for the children what the configuration file has set. They never
 * read the file itself: one that is being edited must not change or break a
 * process that only starts again. next: what will be taken over of is written
 * so already. 0 or -ERR_INTERNAL_ERROR with text in why, and all is as before.
 */
int superv_publish(struct superv *s, const struct settings *next,
		   struct buf *why);

/* --- for superv_ctl.c --- */

const char *superv_state_name(enum superv_state s);
bool superv_is_stopping(const struct superv *s);
void superv_stop(struct superv *s); /* first call drains */
/* 0, with what changed in `answer`, as JSON; or -ERR_VALIDATION_ERROR with
 * text in why: the old settings stay. */
int superv_reload(struct superv *s, struct buf *answer, struct buf *why);
void superv_set_level(struct superv *s, enum log_level level);

/* ctx is the struct superv. */
void superv_on_request(void *ctx, struct ctl_client *c, struct str line);

#endif
