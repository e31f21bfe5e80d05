/*
 * How far the view is, for GET /api/v1/metrics, and the sizes of files: a
 * reader runs on a thread that may wait for the disk. What is said of jobs,
 * queues and workers comes from raftd, whose numbers are never late.
 */
#include "proto/metric_list.h"
#include "query/query_impl.h"
#include "rt/file.h"
#include "rt/log.h"

static void add_sizes(struct metric_list *l, const char *data_dir)
{
	for (size_t i = 0; i < METRIC_PARTS; i++) {
		struct str path = arena_printf(l->a, "%s/%s", data_dir,
					       metric_parts[i].folder);
		uint64_t bytes;
		int r = dir_bytes(path.p, &bytes);

		metric_add(l, METRIC_STORAGE,
			   r == 0 ? (double)bytes : METRIC_UNKNOWN,
			   str_from(metric_parts[i].label));
	}
}

void query_facts_encode(const struct query_facts *f, struct buf *out)
{
	uint64_t lag =
	    f->head_seq > f->position ? f->head_seq - f->position : 0;
	struct arena a = ARENA_INIT;
	struct metric_list l = { .a = &a };
	struct m_metrics m;

	metric_add(&l, METRIC_VIEW_SEQ, (double)f->position, STR_NULL);
	metric_add(&l, METRIC_VIEW_LAG, (double)lag, STR_NULL);
	metric_add(&l, METRIC_VIEW_LAG_SECONDS, (double)f->lag_ns / 1e9,
		   STR_NULL);
	metric_add(&l, METRIC_VIEW_TEXT_LAG_SECONDS,
		   (double)f->text_lag_ns / 1e9, STR_NULL);
	metric_add(&l, METRIC_VIEW_REBUILDS, (double)f->rebuilds, STR_NULL);
	metric_add(&l, METRIC_LONG_SEARCHES, (double)f->long_running, STR_NULL);
	metric_add(&l, METRIC_LONG_SEARCHES_WAITING, (double)f->long_waiting,
		   STR_NULL);
	metric_add(&l, METRIC_MIRROR_LAG, (double)lag, STR_NULL);
	metric_add(&l, METRIC_MIRROR_DROPPED, 0, STR_NULL);
	metric_add(&l, METRIC_PROCESS_LOG_DROPPED, (double)log_dropped(),
		   STR("process=\"viewd\""));
	if (f->data_dir != NULL)
		add_sizes(&l, f->data_dir);
	metric_list_message(&l, &m);
	msg_encode(&msg_metrics, &m, out);
	arena_done(&a);
}

int query_metrics(struct query *q, const struct query_ask *ask, struct buf *out)
{
	(void)q;
	query_facts_encode(&ask->facts, out);
	return 0;
}
