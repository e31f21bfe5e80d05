/*
 * Jobs that frames say are done. See rpc/life_parts.h.
 *
 * An answer to several acks says which of them were refused by the ids of their
 * jobs: so two frames that name the same job do not go together, and each hears
 * what became of its own.
 */
#include "rpc/life_parts.h"

/*
 * They come in the order of the acks. A lease may be lost without any fault, so
 * the stream is not slowed down for it.
 */
static void refuse(struct life_frame *f, struct m_refusal *all, size_t n)
{
	bool was_wrong = f->is_wrong;
	size_t at = 0;

	MSG_SET_LIST(&f->reply, lifecycle_reply, refused, all, n);
	for (size_t i = 0; i < n; i++) {
		while (at < f->acks_n &&
		       !str_eq(f->m.acks[at].job_id, all[i].job_id))
			at++;
		REQUIRE(at < f->acks_n);
		life_refuse_item(f, LIFE_ACKS, f->ack_places[at++],
				 err_of_code(all[i].code), STR_NULL);
	}
	f->is_wrong = was_wrong;
}

/* --- by itself --- */

static void on_acked(struct life_frame *f, _unused_ struct part *p,
		     const struct rpc_reply *reply)
{
	struct m_ack_batch_reply *m =
	    life_decode(f, LIFE_ACKS, 0, &msg_ack_batch_reply, reply);

	if (m == NULL)
		return;
	MSG_SET(&f->reply, lifecycle_reply, acked, m->acked);
	refuse(f, m->refused, m->refused_n);
}

static void start_alone(struct life_frame *f)
{
	struct m_ack_batch m = { 0 };

	MSG_SET_LIST(&m, ack_batch, acks, f->m.acks, f->acks_n);
	life_change(f, &f->ack, OP_ACK_BATCH, STR_NULL, &msg_ack_batch, &m,
		    on_acked);
}

/* --- together --- */

static void *items(struct life_frame *f)
{
	return f->m.acks;
}

static struct str encode(void *all, size_t n, struct buf *out)
{
	struct m_ack_batch m = { 0 };

	MSG_SET_LIST(&m, ack_batch, acks, all, n);
	msg_encode(&msg_ack_batch, &m, out);
	return STR_NULL;
}

static size_t answered(const void *reply)
{
	const struct m_ack_batch_reply *m = reply;

	return m->acked + m->refused_n;
}

static bool has_job(const struct life_frame *f, size_t n, struct str id)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(f->m.acks[i].job_id, id))
			return true;
	return false;
}

static bool goes_with(const struct life_frame *f, size_t n,
		      const struct share *s)
{
	for (size_t i = 0; i < n; i++)
		if (has_job(s->f, s->n, f->m.acks[i].job_id))
			return false;
	return true;
}

static void tell(struct life_frame *f, _unused_ size_t at, const void *reply)
{
	const struct m_ack_batch_reply *m = reply;
	size_t all = f->acks_n, n = 0;
	struct m_refusal *own;

	if (m->refused_n > 0) {
		own = arena_alloc(&f->a, all * sizeof(*own));
		for (size_t i = 0; i < m->refused_n && n < all; i++) {
			if (!has_job(f, all, m->refused[i].job_id))
				continue;
			own[n] = m->refused[i];
			own[n].job_id = arena_copy(&f->a, own[n].job_id);
			own[n].code = arena_copy(&f->a, own[n].code);
			n++;
		}
		refuse(f, own, n);
	}
	MSG_SET(&f->reply, lifecycle_reply, acked, (uint32_t)(all - n));
}

const struct gather_kind gather_acks = {
	.part = LIFE_ACKS,
	.op = OP_ACK_BATCH,
	.item = &msg_ack_item,
	.reply = &msg_ack_batch_reply,
	.items = items,
	.encode = encode,
	.answered = answered,
	.goes_with = goes_with,
	.tell = tell,
	.alone = start_alone,
};

void life_start_acks(struct life_frame *f)
{
	size_t n = 0;

	f->ack_places = arena_alloc(&f->a, f->m.acks_n * sizeof(size_t));
	for (size_t i = 0; i < f->m.acks_n; i++) {
		if (!life_item_ok(f, LIFE_ACKS, i, &f->m.acks[i]))
			continue;
		pushed_remove(f->l, f->m.acks[i].job_id);
		f->ack_places[n] = i;
		f->m.acks[n++] = f->m.acks[i];
	}
	f->acks_n = n;
	if (n == 0)
		return;
	if (life_may_gather(f, n))
		life_gather(f, GATHER_ACKS, n);
	else
		start_alone(f);
}
