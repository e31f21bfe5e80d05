/*
 * The supervisor's control socket, <run-dir>/control.sock: a UNIX stream, one
 * request line, one reply of JSON, then the supervisor closes. Requests:
 *
 *   ps                    {"supervisor":{...},"processes":[{...}],
 *                         "memory":{...}}
 *   restart NAME          NAME as ps shows it: raftd, httpd-0, ...
 *   log-level LEVEL       all processes, until the next reload
 *   reload                like SIGHUP; says what it changed, and what only a
 *                         restart will: {"ok":true,
 *                         "changed":[{"name","before","value"}],
 *                         "waiting":[{"name","value","next"}]}
 *   config                {"settings":[{"name","value","source",...}]}, what
 *                         the node runs with; where its file, environment and
 *                         flags say something else by now, "next" and "at",
 *                         "reload" or "restart"; "problem": they cannot be
 *                         read
 *   stop                  like SIGTERM
 *
 * An error is {"error": text, "code": NAME}.
 */
#ifndef CORVO_CTL_H
#define CORVO_CTL_H

#include "util/buf.h"

/* Sends one request and appends the reply; -ERR_* with text in `why`. */
int ctl_request(const char *run_dir, const char *request, struct buf *ret_reply,
		struct buf *why);

#endif
