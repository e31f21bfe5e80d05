/*
 * Reports: what came of a call goes into the log, as a worker's would. One that
 * is refused for want of a leader or of room is sent again, under the same
 * token, which the state machine counts once. See push/push_impl.h.
 */
#include "push/push_impl.h"
#include "rt/log.h"

#define RETRY_NS (100 * NS_PER_MS)

static void on_reported(void *ctx, const struct rpc_reply *r);

static void send_report(struct pcall *c)
{
	uint64_t deadline = clock_mono_ns() + c->p->d->settings.op_timeout;

	c->retry_ns = 0;
	c->reply = rpc_call(c->p->raftd, c->op, c->job.job_id, c->report,
			    deadline, ERR_LEADER_UNAVAILABLE,
			    RPC_CHANGES | RPC_KEEP, on_reported, c);
}

bool push_is_passing(int err)
{
	return err_again(err) == AGAIN_AFTER || err == ERR_OUTCOME_UNKNOWN;
}

/* It is not moved to a later moment: there may always be another one. */
static void look_again_at(struct push *p, uint64_t at_ns)
{
	uint64_t now_ns = clock_mono_ns();

	if (p->again_ns != 0 && p->again_ns <= at_ns)
		return;
	p->again_ns = at_ns;
	loop_timer_arm(p->again, at_ns > now_ns ? at_ns - now_ns : 0);
}

static void on_reported(void *ctx, const struct rpc_reply *r)
{
	struct pcall *c = ctx;
	struct push *p = c->p;

	c->reply = NULL;
	if (push_is_passing(r->err) && !p->draining) {
		c->retry_ns = clock_mono_ns() + RETRY_NS;
		look_again_at(p, c->retry_ns);
		return;
	}
	if (r->err != 0 && r->err != ERR_LEASE_LOST)
		log_debug("push: what came of job %.*s was refused: %s",
			  STR_ARG(c->job.job_id), err_code(r->err));
	p->reporting--;
	push_pass_on_any(p);
	pcall_free(c);
	push_check_drained(p);
}

void pcall_report(struct pcall *c, unsigned op, const struct msg_desc *d,
		  const void *m)
{
	struct push *p = c->p;

	p->reporting++;
	pcall_leave(c);
	c->state = PCALL_REPORTING;
	buf_clear(&p->out);
	msg_encode(d, m, &p->out);
	c->op = op;
	c->report = arena_copy(&c->arena, buf_str(&p->out));
	send_report(c);
}

void reports_again(struct push *p)
{
	uint64_t now_ns = clock_mono_ns(), next_ns = 0;

	p->again_ns = 0;
	LIST_FOREACH_SAFE (it, &p->calls) {
		struct pcall *c = list_entry(it, struct pcall, node);

		if (c->retry_ns == 0)
			continue;
		if (c->retry_ns <= now_ns)
			send_report(c);
		else
			next_ns = min_nonzero(next_ns, c->retry_ns);
	}
	if (next_ns != 0)
		look_again_at(p, next_ns);
}
