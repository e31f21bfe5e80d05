/* Placeholders: each goes when its operation is built. */
#include "fsm_impl.h"

int unique_find(struct fsm *f, struct str queue, struct str key,
		struct str *holder)
{
	(void)f;
	(void)queue;
	(void)key;
	(void)holder;
	return 0;
}

void unique_take(struct fsm *f, struct str queue, struct str key, struct str id,
		 uint64_t period)
{
	(void)f;
	(void)queue;
	(void)key;
	(void)id;
	(void)period;
}

void unique_release(struct fsm *f, struct job *j)
{
	(void)f;
	(void)j;
}

int unique_retake(struct fsm *f, struct job *j)
{
	(void)f;
	(void)j;
	return 0;
}

int unique_answer(struct fsm *f, const struct m_enqueue *op, struct str holder,
		  struct m_enqueue_reply *ret)
{
	(void)f;
	(void)op;
	(void)holder;
	(void)ret;
	return 0;
}

int idempotency_find(struct fsm *f, struct str key, uint64_t hash,
		     const struct msg_desc *d, void *reply)
{
	(void)f;
	(void)key;
	(void)hash;
	(void)d;
	(void)reply;
	return 0;
}

void idempotency_keep(struct fsm *f, struct str key, uint64_t hash,
		      const struct msg_desc *d, const void *reply)
{
	(void)f;
	(void)key;
	(void)hash;
	(void)d;
	(void)reply;
}
