/*
 * The time entries carry, and what the state machine is told when the clock
 * was set. See propose/wallclock.h. Loop thread.
 */
#include "propose/proposer_impl.h"
#include "util/clock.h"

#define LOOK_NS (1 * NS_PER_S)

static void on_look(void *ctx)
{
	struct proposer *p = ctx;
	uint64_t wall, mono;

	clock_both_ns(&wall, &mono);
	/* One at a time: what has moved half would not know by how much. */
	if (wallclock_look(&p->clock, wall, mono) && !p->step_due &&
	    !p->clock_inflight && !fsm_clock_is_moving(p->c.fsm)) {
		wallclock_follow(&p->clock, wall, mono, &p->step);
		p->step_due = true; /* the pump at the end of this turn */
	}
	loop_timer_arm(p->clock_look, LOOK_NS);
}

void time_new(struct proposer *p)
{
	p->clock_look = loop_timer_add(p->c.loop, on_look, p);
}

void time_free(struct proposer *p)
{
	loop_timer_remove(p->clock_look);
}

void time_lead(struct proposer *p, bool leads)
{
	uint64_t wall, mono;

	if (leads == p->clock.begun)
		return;
	p->step_due = false;
	if (!leads) {
		p->clock.begun = false;
		loop_timer_disarm(p->clock_look);
		return;
	}
	clock_both_ns(&wall, &mono);
	wallclock_begin(&p->clock, fsm_now_ns(p->c.fsm), wall, mono);
	loop_timer_arm(p->clock_look, LOOK_NS);
}

bool time_is_due(const struct proposer *p)
{
	return p->step_due ||
	       (!p->clock_inflight && fsm_clock_is_moving(p->c.fsm));
}

/* What is counted from now has not moved with the clock yet. */
static bool is_moving(const struct proposer *p)
{
	return p->step_due || p->clock_inflight ||
	       fsm_clock_is_moving(p->c.fsm);
}

/*
 * Ends of leases that have not moved cannot be compared with what this node
 * knows of them: nothing has ended as long as that.
 */
bool time_holds_back(struct proposer *p, struct op *op)
{
	static const struct m_maintain_reply nothing;
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);

	if (op->id != OP_RECLAIM || !is_moving(p))
		return false;
	msg_encode(&msg_maintain_reply, &nothing, &body);
	pending_drop(p, op);
	op_reply(op, 0, fsm_last_seq(p->c.fsm), buf_str(&body));
	op_free(p, op);
	return true;
}

bool time_take(struct proposer *p, struct buf *body)
{
	struct m_clock_set m = { 0 };

	if (!time_is_due(p))
		return false;
	if (p->step_due) {
		MSG_SET(&m, clock_set, from_ns, p->step.from_ns);
		MSG_SET(&m, clock_set, to_ns, p->step.to_ns);
	}
	p->step_sent = p->step_due;
	p->step_due = false;
	p->clock_inflight = true;
	msg_encode(&msg_clock_set, &m, body);
	return true;
}

void time_not_taken(struct proposer *p)
{
	p->step_due = p->step_sent;
}

uint64_t proposer_now(const struct proposer *p)
{
	return p->clock.begun ? wallclock_now(&p->clock, clock_mono_ns())
			      : MAX(clock_wall_ns(), fsm_now_ns(p->c.fsm));
}

uint64_t proposer_mono_of(const struct proposer *p, uint64_t at_ns)
{
	return p->clock.begun ? wallclock_mono_of(&p->clock, at_ns) : 0;
}

bool proposer_time_is_settled(const struct proposer *p)
{
	return p->clock.begun &&
	       wallclock_is_settled(&p->clock, clock_mono_ns());
}
