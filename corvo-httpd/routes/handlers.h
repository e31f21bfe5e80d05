/*
 * One function per handler name of routes.def. Each is given a complete
 * request whose route is found, and sees to it that it is answered.
 */
#ifndef CORVO_HANDLERS_H
#define CORVO_HANDLERS_H

struct req;

#define ROUTE(method, path, handler, target, status, doc) \
	void h_##handler(struct req *r);
#include "proto/defs/routes.def"

#endif
