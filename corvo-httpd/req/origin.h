/*
 * Which requests a browser may have been made to send. A node without keys
 * trusts whoever reaches its address; any web page reaches the address of the
 * machine it is looked at on. So a page that comes by another name (a name
 * whose address was changed under it) is refused by its Host, and a request of
 * a page from elsewhere must be of a kind that browsers ask leave for first:
 * leave is given to `cors_origins` alone.
 */
#ifndef CORVO_ORIGIN_H
#define CORVO_ORIGIN_H

#include "req/req.h"

/* 0 or -ERR_. */
int origin_admit(struct req *r);

#endif
