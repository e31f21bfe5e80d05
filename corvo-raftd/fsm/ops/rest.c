/*
 * See ops/rest.h. Requests come from clients; they were read before.
 */
#include "fsm/ops/rest.h"

/* --- by operation --- */

static void drop_beats(struct m_heartbeat *m)
{
	m->jobs_n = 0;
	MSG_UNSET(m, heartbeat, jobs);
}

static void drop_acks(struct m_ack_batch *m)
{
	m->acks_n = 0;
	MSG_UNSET(m, ack_batch, acks);
}

/* The request may be what was left at an earlier time. */
static bool resume_beats(struct m_heartbeat *m, const struct m_heartbeat *done)
{
	size_t n = done->answers_n - MIN(m->answers_n, done->answers_n);

	if (done->answers_n < m->answers_n || m->jobs_n < n)
		return false;
	MSG_SET_LIST(m, heartbeat, jobs, m->jobs + n, m->jobs_n - n);
	MSG_SET_LIST(m, heartbeat, answers, done->answers, done->answers_n);
	return true;
}

static bool resume_acks(struct m_ack_batch *m, const struct m_ack_batch *done)
{
	size_t before = m->acked + m->refused_n;
	size_t all = done->acked + done->refused_n;

	if (all < before || m->acks_n < all - before)
		return false;
	MSG_SET_LIST(m, ack_batch, acks, m->acks + (all - before),
		     m->acks_n - (all - before));
	MSG_SET(m, ack_batch, acked, done->acked);
	MSG_SET_LIST(m, ack_batch, refused, done->refused, done->refused_n);
	return true;
}

/* --- as bytes --- */

static struct str encoded(struct fsm *f, const struct msg_desc *d,
			  const void *m)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	msg_encode(d, m, &b);
	return arena_copy(&f->entry_arena, buf_str(&b));
}

static bool decode(struct fsm *f, const struct msg_desc *d, struct str raw,
		   void *ret)
{
	return msg_decode(d, raw, &f->entry_arena, ret) == 0;
}

bool rest_shorten(struct fsm *f, enum op_id op, struct str left,
		  struct str *ret)
{
	struct m_heartbeat beats;
	struct m_ack_batch acks;

	if (op == OP_HEARTBEAT && decode(f, &msg_heartbeat, left, &beats)) {
		drop_beats(&beats);
		*ret = encoded(f, &msg_heartbeat, &beats);
		return true;
	}
	if (op == OP_ACK_BATCH && decode(f, &msg_ack_batch, left, &acks)) {
		drop_acks(&acks);
		*ret = encoded(f, &msg_ack_batch, &acks);
		return true;
	}
	return false;
}

bool rest_resume(struct fsm *f, enum op_id op, struct str request,
		 struct str shortened, struct str *ret)
{
	struct m_heartbeat beats, beaten;
	struct m_ack_batch acks, acked;

	if (op == OP_HEARTBEAT && decode(f, &msg_heartbeat, request, &beats) &&
	    decode(f, &msg_heartbeat, shortened, &beaten) &&
	    resume_beats(&beats, &beaten)) {
		*ret = encoded(f, &msg_heartbeat, &beats);
		return true;
	}
	if (op == OP_ACK_BATCH && decode(f, &msg_ack_batch, request, &acks) &&
	    decode(f, &msg_ack_batch, shortened, &acked) &&
	    resume_acks(&acks, &acked)) {
		*ret = encoded(f, &msg_ack_batch, &acks);
		return true;
	}
	return false;
}

bool rest_is_given_again(struct fsm *f, enum op_id op, struct str request)
{
	struct m_fetch m;

	return op == OP_FETCH && decode(f, &msg_fetch, request, &m) &&
	       m.fetch_id != 0;
}
