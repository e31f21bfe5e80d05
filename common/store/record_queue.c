/*
 * What the record of a queue says to those who list queues.
 */
#include "store/record.h"

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
