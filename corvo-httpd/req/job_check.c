/*
 * See req/job_check.h.
 */
#include "req/job_check.h"

#include "util/clock.h"

#define LEASE_MIN_NS NS_PER_MS
#define LEASE_MAX_NS (LIMIT_LEASE_S * NS_PER_S)

static int check_step(uint64_t max, const struct m_chain_step *s,
		      const char *name, struct buf *why)
{
	if (s == NULL || s->payload.n <= max)
		return 0;
	buf_printf(why,
		   "chain payload too large: %s for queue \"%.*s\" has %zu "
		   "bytes (max %llu)",
		   name, STR_ARG(s->queue), s->payload.n,
		   (unsigned long long)max);
	return -ERR_PAYLOAD_TOO_LARGE;
}

static int check_chain(uint64_t max, const struct m_chain *c, struct buf *why)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < c->steps_n; i++)
		r = check_step(max, &c->steps[i], "a step", why);
	if (r == 0)
		r = check_step(max, c->on_failure, "on_failure", why);
	return r == 0 ? check_step(max, c->on_exit, "on_exit", why) : r;
}

static int payload_check(const struct settings *set, size_t n, struct buf *why)
{
	if (n <= set->max_payload_size)
		return 0;
	buf_printf(why, "payload too large: %zu bytes (max %llu)", n,
		   (unsigned long long)set->max_payload_size);
	return -ERR_PAYLOAD_TOO_LARGE;
}

bool req_payload_fits(struct req *r, size_t n)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	int err = payload_check(r->h->set, n, &why);

	if (err < 0)
		req_fail_text(r, -err, buf_str(&why));
	return err == 0;
}

int job_check(const struct settings *set, const struct m_enqueue *e,
	      struct buf *why)
{
	int r = payload_check(set, e->payload.n, why);

	if (r == 0 && MSG_HAS(e, enqueue, chain))
		r = check_chain(set->max_payload_size, e->chain, why);
	if (r < 0 || !MSG_HAS(e, enqueue, delay) ||
	    !MSG_HAS(e, enqueue, scheduled_at))
		return r;
	buf_puts(why, "delay: may not stand beside scheduled_at");
	return -ERR_VALIDATION_ERROR;
}

int fetch_check(const struct m_fetch *m, struct buf *why)
{
	if (MSG_HAS(m, fetch, lease_duration) &&
	    (m->lease_duration < LEASE_MIN_NS ||
	     m->lease_duration > LEASE_MAX_NS)) {
		buf_printf(why,
			   "lease_duration: must be from 0.001 to %d seconds",
			   LIMIT_LEASE_S);
		return -ERR_VALIDATION_ERROR;
	}
	if (m->queues_n > LIMIT_FETCH_QUEUES) {
		buf_printf(why, "queues: must have at most %d items",
			   LIMIT_FETCH_QUEUES);
		return -ERR_VALIDATION_ERROR;
	}
	return 0;
}

struct str job_make_id(struct httpd *h, struct arena *a, const char *prefix)
{
	char *id = arena_alloc(a, ID_LEN_MAX);
	size_t n = id_make(&h->ids, prefix, clock_wall_ns(), id);

	return str_of(id, n);
}

void job_give_ids(struct httpd *h, struct arena *a, struct m_enqueue *e)
{
	MSG_SET(e, enqueue, job_id, job_make_id(h, a, "job_"));
	if (MSG_HAS(e, enqueue, chain))
		MSG_SET(e, enqueue, chain_id, job_make_id(h, a, "chn_"));
}

struct m_enqueue_answer enqueue_answer_of(const struct m_enqueue_reply *m)
{
	struct m_enqueue_answer a = { 0 };

	MSG_SET(&a, enqueue_answer, job_id, m->job_id);
	MSG_SET(&a, enqueue_answer, status,
		m->unique_existing
		    ? STR("duplicate")
		    : str_from(enum_text(&enum_job_state, m->status)));
	MSG_SET(&a, enqueue_answer, unique_existing, m->unique_existing);
	MSG_SET(&a, enqueue_answer, batch_id, m->batch_id);
	MSG_SET(&a, enqueue_answer, replaced, m->replaced);
	MSG_SET(&a, enqueue_answer, replayed, m->replayed);
	return a;
}
