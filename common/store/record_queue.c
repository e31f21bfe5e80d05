/*
 * What the records of queues, batches and unique locks say to those who read
 * them.
 */
#include "store/key.h"
#include "store/record.h"

#define LOCK_HEAD_BYTES 8

void record_queue(struct str name, const struct m_queue_doc *doc,
		  struct m_queue *ret)
{
	const struct m_set_queue *set = doc->settings;

	*ret = (struct m_queue){ 0 };
	MSG_SET(ret, queue, name, name);
	MSG_SET(ret, queue, paused, doc->paused);
	MSG_SET(ret, queue, created_at, doc->created_at);
	if (set == NULL)
		return;
	if (MSG_HAS(set, set_queue, max_concurrency))
		MSG_SET(ret, queue, max_concurrency, set->max_concurrency);
	if (MSG_HAS(set, set_queue, rate)) {
		MSG_SET(ret, queue, rate_limit, set->rate);
		MSG_SET(ret, queue, rate_window_ms, set->period / NS_PER_MS);
	}
}

static const char *batch_status(const struct m_batch_doc *d)
{
	if (d->ended_at != 0)
		return "completed";
	return d->sealed ? "running" : "open";
}

void record_batch(struct str id, const struct m_batch_doc *d,
		  struct m_batch *ret)
{
	*ret = (struct m_batch){ 0 };
	MSG_SET(ret, batch, id, id);
	MSG_SET(ret, batch, batch_id, id);
	MSG_SET(ret, batch, status, str_from(batch_status(d)));
	MSG_SET(ret, batch, total, d->total);
	MSG_SET(ret, batch, succeeded, d->succeeded);
	MSG_SET(ret, batch, failed, d->failed);
	MSG_SET(ret, batch, pending, d->total - d->succeeded - d->failed);
	MSG_SET(ret, batch, sealed, d->sealed);
	MSG_SET(ret, batch, created_at, d->created_at);
	if (d->callback_queue.n > 0)
		MSG_SET(ret, batch, callback_queue, d->callback_queue);
	if (d->callback_payload.n > 0)
		MSG_SET(ret, batch, callback_payload, d->callback_payload);
	if (d->callback_job_id.n > 0)
		MSG_SET(ret, batch, callback_job_id, d->callback_job_id);
	if (d->parent_id.n > 0)
		MSG_SET(ret, batch, parent_id, d->parent_id);
	if (d->ended_at != 0)
		MSG_SET(ret, batch, completed_at, d->ended_at);
}

bool record_lock(struct str queue, struct str key, struct str raw,
		 struct m_unique_lock *ret)
{
	if (raw.n <= LOCK_HEAD_BYTES)
		return false;
	*ret = (struct m_unique_lock){ 0 };
	MSG_SET(ret, unique_lock, queue, queue);
	MSG_SET(ret, unique_lock, unique_key, key);
	MSG_SET(ret, unique_lock, job_id, str_skip(raw, LOCK_HEAD_BYTES));
	MSG_SET(ret, unique_lock, expires_at, get_be64(raw.p));
	return true;
}
