/*
 * See leaving.h. Whether there is a leader raftd knows, which is asked again
 * and again: elections pass, and leaders fall.
 */
#include "leaving.h"

#include <stdlib.h>

#include "front/server.h"
#include "routes/handlers.h"
#include "rt/log.h"
#include "rt/turns.h"
#include "util/clock.h"

#define LEADER_NS (1 * NS_PER_S) /* a request may wait for one so long */
#define LOOK_NS   (100 * NS_PER_MS)
#define LAST_NS   (RPC_LATE_NS + 500 * NS_PER_MS) /* before we are killed */

struct leaving {
	struct httpd *h;
	struct loop_timer *timer;
	struct rpc_call *call; /* NULL: none under way */
	uint64_t unled_ns;     /* since when there is no leader; 0: there is */
	bool told;
};

static void tell(struct leaving *l, const char *why)
{
	_cleanup_(buf_done) struct buf left = BUF_INIT(0);

	if (l->told)
		return;
	l->told = true;
	server_put_left(l->h->server, &left);
	log_info("stopping; %s; what waits is ended: %.*s", why,
		 STR_ARG(buf_str(&left)));
}

static void end_led(struct leaving *l, const char *why)
{
	tell(l, why);
	rpc_client_hurry(l->h->raftd);
}

static void end_all(struct leaving *l)
{
	tell(l, "time is nearly up");
	rpc_client_hurry(l->h->raftd);
	rpc_client_hurry(l->h->viewd);
	turns_time_is_up(l->h->turns);
}

static bool has_no_leader(const struct rpc_reply *reply)
{
	struct arena a = ARENA_INIT;
	struct m_node_status m;
	bool none;

	none = msg_decode(&msg_node_status, reply->body, &a, &m) == 0 &&
	       (m.leader_id.n == 0 || m.membership.n > 0);
	arena_done(&a);
	return none;
}

/* Elections pass, and raftd comes back. */
static void note(struct leaving *l, bool unled, const char *why)
{
	uint64_t now_ns = clock_mono_ns();

	if (!unled)
		l->unled_ns = 0;
	else if (l->unled_ns == 0)
		l->unled_ns = now_ns;
	else if (now_ns - l->unled_ns >= LEADER_NS)
		end_led(l, why);
}

static void on_status(void *ctx, const struct rpc_reply *reply)
{
	struct leaving *l = ctx;

	l->call = NULL;
	if (reply->err != 0)
		note(l, true, "corvo-raftd does not answer");
	else
		note(l, has_no_leader(reply), "no leader answers");
}

static void on_timer(void *ctx)
{
	struct leaving *l = ctx;

	loop_timer_arm(l->timer, LOOK_NS);
	if (clock_mono_ns() >= l->h->end_ns)
		end_all(l);
	else if (!rpc_client_is_up(l->h->raftd))
		note(l, true, "corvo-raftd does not answer");
	else if (l->call == NULL)
		l->call = node_call(l->h, on_status, l);
}

struct leaving *leaving_new(struct httpd *h)
{
	struct leaving *l = xcalloc(1, sizeof(*l));
	uint64_t most = MIN(h->d->drain_ms, UINT32_MAX) * NS_PER_MS;

	if (most == 0)
		most = h->set->shutdown_timeout / 2;
	l->h = h;
	h->end_ns = clock_mono_ns() +
		    MAX(most - MIN(most, (uint64_t)LAST_NS), most / 2);
	l->timer = loop_timer_add(h->d->loop, on_timer, l);
	loop_timer_arm(l->timer, LOOK_NS);
	return l;
}

void leaving_free(struct leaving *l)
{
	if (l == NULL)
		return;
	if (l->call != NULL)
		rpc_cancel(l->h->raftd, l->call);
	loop_timer_remove(l->timer);
	free(l);
}
