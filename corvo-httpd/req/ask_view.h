/*
 * Questions to viewd. Each names the event the view must hold: the newest
 * this node has acknowledged, or a later one the client asks for, so that a
 * client always finds its own writes. Where several httpd processes share the
 * port none knows what the others acknowledged, nor does one that has just
 * begun what the one before it did: then raftd is asked first.
 *
 * A question is withdrawn when its client leaves, unless the request is one
 * that is worked on to its end all the same.
 */
#ifndef CORVO_ASK_VIEW_H
#define CORVO_ASK_VIEW_H

#include "req/req.h"

/*
 * Asks the query of the request's route. m, a message of desc in the
 * request's arena, gets what it must wait for, if it has a place for it.
 */
void ask_view(struct req *r, const struct msg_desc *desc, void *m,
	      req_reply_fn *then);

/* The same with another query, as often as needed within one request. */
void ask_view_query(struct req *r, unsigned query, const struct msg_desc *desc,
		    void *m, req_reply_fn *then);

/* The same for one who will not do with an old answer: waits longer. */
void ask_view_surely(struct req *r, unsigned query, const struct msg_desc *desc,
		     void *m, req_reply_fn *then);

/* Members of a search that say which page of what it finds. */
#define SEARCH_PAGE_BITS                                    \
	(MSG_BIT(search, limit) | MSG_BIT(search, cursor) | \
	 MSG_BIT(search, sort) | MSG_BIT(search, order) |   \
	 MSG_BIT(search, time_budget))

/*
 * The member `all` stands alone; false when an error has been answered.
 * where: what stands before its name in the text of it.
 */
bool ask_view_all_ok(struct req *r, const struct m_search *s,
		     const char *where);

/* The event the client's X-Corvo-Min-Index names, or a later one that this node
 * is known to have; false when an error has been answered. */
bool ask_view_min_seq(struct req *r, uint64_t *ret);

/* Says in the answer's head how old the view was; 0: it is current. */
void ask_view_lag(struct req *r, uint64_t lag_ns);

/* Answers with m as the tables write it, an object, and says it there too. */
void ask_view_answer(struct req *r, const struct msg_desc *desc, const void *m,
		     uint64_t lag_ns);

#endif
