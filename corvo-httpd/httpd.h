/*
 * corvo-httpd: takes HTTP requests, turns them into operations and questions
 * for raftd and viewd, and their answers into JSON. It owns no state: it may
 * die at any moment and another one goes on with the same listening socket.
 *
 * Everything that comes from a socket of a client is hostile. One thread, the
 * loop's; nng's threads never call in here.
 */
#ifndef CORVO_HTTPD_H
#define CORVO_HTTPD_H

#include "rt/daemon.h"

extern const struct daemon_ops httpd_ops;

#endif
