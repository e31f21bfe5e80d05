/*
 * The log of fake_backend.c: of so few events, and nothing new ever; and of
 * places far behind them, from where on it is those of one bulk operation that
 * is under way, more than any client may leave unread.
 */
#ifndef CORVO_FAKE_LOG_H
#define CORVO_FAKE_LOG_H

#include "rt/rpc.h"

#define FAKE_LOG_SHORT  3u
#define FAKE_LOG_BEGIN  1000000u /* the event before its first */
#define FAKE_LOG_EVENTS 20000u
#define FAKE_LOG_BULK   "bulk_long"

/* Who waits for more is not answered; who asks after an event that never was is
 * refused. */
void fake_log_events(struct rpc_req req, const struct m_events_ask *m);
/* The operation as it was before them. */
void fake_log_bulk(struct rpc_req req);

#endif
