/*
 * The skeleton that owns main() of every daemon but the supervisor: settings,
 * log, signals, the loop, readiness, watchdog beats, reload, drain, exit.
 */
#ifndef CORVO_DAEMON_H
#define CORVO_DAEMON_H

#include "proto/proto.h"
#include "rt/config.h"
#include "rt/ipc.h"
#include "rt/loop.h"
#include "rt/notify.h"

struct daemon {
	enum proc_id proc;
	unsigned number; /* httpd: which of several; else 0 */
	struct settings settings;
	uint64_t drain_ms; /* how long a drain may take; 0: nobody has said */
	struct loop *loop;
	struct ipc *ipc;
	struct notify notify;
	const struct daemon_ops *ops;
	void *state; /* the daemon's own struct, set by init */
	/* owned by daemon.c */
	struct daemon_priv *priv;
};

struct daemon_ops {
	enum proc_id proc;
	/* There is one of it in a node: <data-dir>/<name>.lock is held. */
	bool single;
	/* Sets everything up; non-zero ends the process with status 1 after
	 * the text in `why` was logged, -ERR_CONFLICT with EXIT_NO_RETRY.
	 * Calls daemon_ready when it can serve, now or later. */
	int (*init)(struct daemon *d, struct buf *why);
	/* Settings marked S_RELOAD may have changed. May be NULL. */
	void (*reload)(struct daemon *d);
	/* Finish what is under way, then call daemon_exit. */
	void (*drain)(struct daemon *d);
	/* The loop has ended; release everything (leaks are errors). After a
	 * failed init too, unless it left d->state NULL. */
	void (*done)(struct daemon *d);
	/* End of a loop turn: send what gathered. May be NULL. */
	void (*turn_end)(struct daemon *d);
};

int daemon_main(int argc, char **argv, const struct daemon_ops *ops);

void daemon_ready(struct daemon *d); /* once */
void daemon_exit(struct daemon *d, int status);
/* A sign of life from where the loop cannot turn for a while; its argument is a
 * struct daemon, so that it can be called back. */
void daemon_beat(void *ctx);
/*
 * Should this process crash now, its last words name this and the number. what
 * is a constant; NULL: there is nothing to say any more.
 */
void daemon_doing(const char *what, uint64_t number);

/* <run-dir>/<server>-<client>[-n].sock into ret (cleared first), and a NUL
 * that does not count. */
void daemon_link_path(struct daemon *d, enum proc_id server,
		      enum proc_id client, unsigned number, struct buf *ret);

#endif
