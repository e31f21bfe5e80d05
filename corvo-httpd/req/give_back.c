/*
 * See req/give_back.h.
 */
#include "req/give_back.h"

#include "proto/job.h"
#include "rt/log.h"
#include "util/clock.h"

static void on_given_back(_unused_ void *ctx, const struct rpc_reply *reply)
{
	if (reply->err != 0 && reply->err != ERR_LEASE_LOST)
		log_warn("a job nobody took could not be given back (%s): it "
			 "waits for the end of its lease",
			 err_code(reply->err));
}

/* As raftd does it when it hears in time that nobody waits any more. */
void give_back_job(struct httpd *h, const struct m_fail *f)
{
	buf_clear(&h->scratch);
	msg_encode(&msg_fail, f, &h->scratch);
	(void)rpc_call(h->raftd, OP_FAIL, STR_NULL, buf_str(&h->scratch),
		       clock_mono_ns() + h->set->op_timeout,
		       ERR_LEADER_UNAVAILABLE, RPC_CHANGES, on_given_back,
		       NULL);
}

void give_back_late(void *ctx, const struct rpc_reply *reply)
{
	struct httpd *h = ctx;
	struct arena a = ARENA_INIT;
	struct m_fetch_reply m;

	if (reply->err == 0 &&
	    msg_decode(&msg_fetch_reply, reply->body, &a, &m) == 0)
		for (size_t i = 0; i < m.jobs_n; i++) {
			struct m_fail f = fetched_give_back(&m.jobs[i]);

			give_back_job(h, &f);
		}
	arena_done(&a);
}
