/*
 * The last seconds of a process that was told to stop. Requests under way are
 * finished, but nobody can say how long one takes that waits for a leader: when
 * there is none for a second, calls to raftd end. Those it has sent to nobody
 * are answered as not done, the others as of unknown outcome. The same becomes
 * of all that lasts until shortly before the supervisor would kill us. Loop
 * thread.
 */
#ifndef CORVO_HTTPD_LEAVING_H
#define CORVO_HTTPD_LEAVING_H

#include "req/parts.h"

/* The drain has begun. */
struct leaving *leaving_new(struct httpd *h);
void leaving_free(struct leaving *l); /* before the links */

#endif
