/*
 * What a process tells whoever started it, and hears from it.
 *
 * Under corvo-supervisor: one end of a UNIX socket pair, its number in
 * CORVO_NOTIFY_FD. The process writes lines READY=1, WATCHDOG=1, STATUS=text,
 * STOPPING=1; the supervisor writes lines "drain", "reload", "log-level L".
 * End of file means that the supervisor is gone, and the process leaves too.
 * CORVO_WATCHDOG_MS is the silence after which the supervisor restarts the
 * process; watchdog_ns is a quarter of it. A descriptor that comes with
 * "reload" holds the settings of the file as they are now.
 * CORVO_NODE_STARTED_NS is when the supervisor itself was started, which no
 * restart of a process changes. Under systemd: the same words to the datagram
 * socket in NOTIFY_SOCKET, and WATCHDOG_USEC in the place of CORVO_WATCHDOG_MS.
 * Started by hand: nothing is sent.
 */
#ifndef CORVO_NOTIFY_H
#define CORVO_NOTIFY_H

#include "util/str.h"

/* Exit status of a process that another start would not help: a setting or the
 * data are wrong, and it has said how. The supervisor ends the node with it. */
#define EXIT_NO_RETRY 2

#define NOTIFY_UNSENT_BYTES 1024

struct notify {
	int supervisor_fd; /* -1: not under the supervisor */
	int systemd_fd;    /* -1: not under systemd */
	/* Where the process reads its settings; -1: nowhere. One that comes
	 * from the supervisor takes its place. */
	int settings_fd;
	uint64_t watchdog_ns; /* beat at least so often; 0: nobody listens */
	/* When the node was started, clock_mono_ns; without a supervisor this
	 * process is the node. */
	uint64_t node_started_ns;
	char unsent[NOTIFY_UNSENT_BYTES]; /* words for systemd; newest first */
	char in[256]; /* received bytes of an unfinished line */
	size_t in_n;
	size_t in_used; /* of these, the line that was returned last */
};

void notify_init(struct notify *n); /* reads and clears the environment */
void notify_done(struct notify *n);
void notify_ready(struct notify *n);
void notify_stopping(struct notify *n);
void notify_watchdog(struct notify *n);
_printf_(2, 3) void notify_status(struct notify *n, const char *fmt, ...);

/*
 * Call when supervisor_fd is readable. Returns 1 with one line in *ret_line
 * (valid until the next call; call again for more), 0 when there is no whole
 * line yet, -1 when the supervisor is gone.
 */
int notify_receive(struct notify *n, struct str *ret_line);

/*
 * Sends one datagram of words to systemd's NOTIFY_SOCKET. What has no room
 * there, but for beats, goes with the next ones: systemd may be late, but a
 * READY=1 it never hears ends the unit.
 */
void sd_notify_send(struct notify *n, const char *words);

#endif
