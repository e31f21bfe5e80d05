/*
 * The view process: mirrors raftd's state into SQLite (feed, mirror, rebuild)
 * and answers lists and searches from it (service, query). It owns nothing
 * but that file, which may be deleted at any time it does not run.
 */
#ifndef CORVO_VIEWD_H
#define CORVO_VIEWD_H

#include "rt/daemon.h"

extern const struct daemon_ops viewd_ops;

#endif
