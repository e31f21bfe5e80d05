/*
 * How much of a connection of HTTP/2 may be anything but requests. Frames that
 * ask for nothing (pings, settings, windows, priorities, data without bytes)
 * and requests that are taken back cost work and are free for who sends them;
 * both are paid from an account that requests, bodies and answers fill, and
 * time a little. Whoever overdraws it is not a client. No I/O.
 */
#ifndef CORVO_H2_LIMITS_H
#define CORVO_H2_LIMITS_H

#include "util/base.h"

struct h2_account {
	uint32_t have;
	uint64_t since_ns; /* time has been counted up to here */
};

struct h2_limits {
	struct h2_account frames; /* that ask for nothing */
	struct h2_account resets;
};

void h2_limits_init(struct h2_limits *l, uint64_t now_ns);

/* A frame that asks for nothing, a request that is taken back. False: that was
 * one too many. */
bool h2_limits_frame(struct h2_limits *l, uint64_t now_ns);
bool h2_limits_reset(struct h2_limits *l, uint64_t now_ns);

/* Bytes went one way or the other; a request has been answered. */
void h2_limits_moved(struct h2_limits *l);
void h2_limits_answered(struct h2_limits *l);

#endif
