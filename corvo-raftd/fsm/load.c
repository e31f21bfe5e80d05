/*
 * Rebuilds the working set from the store at start. Windows of pending jobs
 * are not read here: they are filled when the first fetch asks.
 */
#include "fsm/core/answers.h"
#include "fsm/core/clock.h"
#include "fsm/core/cluster.h"
#include "fsm/core/entry.h"
#include "fsm/core/scan.h"
#include "fsm/core/settings.h"
#include "fsm/core/state.h"
#include "fsm/job/active.h"
#include "fsm/job/job.h"
#include "fsm/job/sdb.h"
#include "fsm/job/worker.h"
#include "fsm/order/lane.h"
#include "fsm/order/queue.h"
#include "fsm/order/retention.h"
#include "fsm/order/roster.h"
#include "fsm/order/window.h"
#include "fsm/ties/bulk.h"
#include "fsm/ties/inbound.h"
#include "fsm/ties/policy.h"
#include "fsm/ties/provider.h"
#include "fsm/ties/purse.h"
#include "fsm/ties/schedule.h"
#include "fsm/ties/usage.h"
#include "fsm/ties/webhook.h"
#include "store/record.h"

#define CURSOR_STEPS 8 /* farther than that a look-up is as cheap */

static int load_queue(struct fsm *f, struct str key, struct str value)
{
	struct m_queue_doc doc;

	if (!queue_name_fits(key) ||
	    msg_decode(&msg_queue_doc, value, &f->item_arena, &doc) < 0)
		return -ERR_INTERNAL_ERROR;
	queue_add(f, key, &doc);
	return 0;
}

static int load_counts(struct fsm *f, struct str key, struct str value)
{
	struct fsm_queue *q = queue_find(f, key);
	struct m_queue m;

	if (q == NULL || msg_decode(&msg_queue, value, &f->item_arena, &m) < 0)
		return -ERR_INTERNAL_ERROR;
	q->counts[JOB_PENDING] = m.pending;
	q->lanes.base.pending = m.pending; /* lanes_load takes groups off */
	q->counts[JOB_ACTIVE] = m.active;
	q->counts[JOB_HELD] = m.held;
	q->counts[JOB_COMPLETED] = m.completed;
	q->counts[JOB_DEAD] = m.dead;
	q->counts[JOB_SCHEDULED] = m.scheduled;
	q->counts[JOB_RETRYING] = m.retrying;
	q->counts[JOB_CANCELLED] = m.cancelled;
	q->counts[JOB_BLOCKED] = m.blocked;
	for (int i = 0; i < JOB_STATE_MAX; i++)
		f->jobs[i] += q->counts[i];
	q->failed = m.failed;
	roster_load_idle(f, q, m.idle_since);
	return 0;
}

/*
 * Records of active jobs are asked for in the order of their keys, and most
 * workers hold jobs that were made one after the other: to step there from the
 * last one costs a fraction of a look-up.
 */
static int cursor_get(struct fsm *f, struct kv_iter **it, const struct key *k,
		      struct str *ret)
{
	struct str wanted = key_str(k);
	int order = -1;

	for (int i = 0; *it != NULL && kv_iter_valid(*it); i++) {
		order = str_cmp(kv_iter_key(*it), wanted);
		if (order >= 0 || i == CURSOR_STEPS)
			break;
		kv_iter_next(*it);
	}
	if (order != 0) {
		kv_iter_free(*it);
		*it = kv_iter_new(f->kv, wanted, STR_NULL);
	}
	if (!kv_iter_valid(*it) || !str_eq(kv_iter_key(*it), wanted))
		return kv_iter_error(*it);
	*ret = kv_iter_value(*it);
	return 1;
}

static int load_active(struct fsm *f, struct str key, struct str value)
{
	struct job j = { 0 };
	struct str queue, raw;
	struct key k;
	int r;

	if (!str_split(key, '\0', &queue, &j.id) || j.id.n == 0 ||
	    j.id.n > LIMIT_JOB_ID_BYTES || value.n < 16)
		return -ERR_INTERNAL_ERROR;
	key_job(&k, j.id);
	r = cursor_get(f, &f->load_doc, &k, &raw);
	if (r <= 0)
		return r < 0 ? r : -ERR_INTERNAL_ERROR;
	if (msg_decode(&msg_job_doc, raw, &f->item_arena, &j.doc) < 0)
		return -ERR_INTERNAL_ERROR;
	key_live(&k, j.id);
	r = cursor_get(f, &f->load_live, &k, &raw);
	if (r <= 0)
		return r < 0 ? r : -ERR_INTERNAL_ERROR;
	j.q = queue_find(f, queue);
	if (j.q == NULL || j.doc.priority >= PRIORITIES ||
	    msg_decode(&msg_job_live, raw, &f->item_arena, &j.live) < 0 ||
	    j.live.state != JOB_ACTIVE)
		return -ERR_INTERNAL_ERROR;
	job_compose(f, &j);
	if (j.q != queue_find(f, queue))
		return -ERR_INTERNAL_ERROR;
	active_keep_live(active_add(f, &j, get_be64(value.p)), raw);
	return 0;
}

static int load_worker(struct fsm *f, struct str key, struct str value)
{
	struct m_worker m;

	if (msg_decode(&msg_worker, value, &f->item_arena, &m) < 0)
		return -ERR_INTERNAL_ERROR;
	m.id = key;
	worker_add(f, &m);
	return 0;
}

/* The time in the first key with this prefix; NEVER: there is none. */
static int first_time(struct fsm *f, const struct key *prefix, uint64_t *ret)
{
	struct kv_iter *it;
	struct key upto;
	int r;

	key_prefix_end(prefix, &upto);
	it = kv_iter_new(f->kv, key_str(prefix), key_str(&upto));
	*ret = NEVER;
	if (kv_iter_valid(it))
		*ret = get_be64(kv_iter_key(it).p + prefix->n);
	r = kv_iter_error(it);
	kv_iter_free(it);
	return r;
}

/* Most queues have nothing of most kinds, which the counts tell. */
static int load_bounds(struct fsm *f, struct fsm_queue *q)
{
	for (enum bound b = 0; b < BOUNDS; b++) {
		uint64_t first;
		struct key k;
		int r;

		if (!bounds_has(q, b))
			continue;
		key_prefix_queue(&k, bounds_prefix(b), q->space, q->name);
		r = first_time(f, &k, &first);
		if (r < 0)
			return r;
		bounds_set(f, q, b, first);
	}
	return 0;
}

static int load_due(struct fsm *f)
{
	struct str name;
	struct key k;
	size_t pos = 0;
	void *v;
	int r;

	while (hmap_next(&f->queues, &pos, &name, &v)) {
		r = load_bounds(f, v);
		if (r < 0)
			return r;
	}
	key_prefix(&k, "bt|");
	r = first_time(f, &k, &f->batches_from);
	if (r < 0)
		return r;
	key_prefix(&k, "bo|");
	r = first_time(f, &k, &f->open_from);
	if (r < 0)
		return r;
	key_prefix(&k, "ie|");
	r = first_time(f, &k, &f->keys_from);
	if (r < 0)
		return r;
	key_prefix(&k, "hd|");
	r = first_time(f, &k, &f->deadline_from);
	if (r < 0)
		return r;
	key_prefix(&k, "x|");
	return first_time(f, &k, &f->expiry_from);
}

static void load_settings(struct fsm *f)
{
	struct str name;
	size_t pos = 0;
	void *v;

	while (hmap_next(&f->queues, &pos, &name, &v))
		lanes_settings_changed(f, v);
}

int fsm_load(struct fsm *f)
{
	struct record_meta m;
	int r = record_meta_read(f->kv, &m);

	if (r < 0)
		return r;
	f->applied_index = m.applied_index;
	f->last_seq = m.last_seq;
	f->last_job_seq = m.last_job_seq;
	f->first_seq = m.first_seq;
	f->origin = m.origin;
	f->now_ns = m.now_ns;
	r = cluster_settings_load(f);
	if (r == 0)
		r = cluster_load(
		    f); /* the level decides which lanes there are */
	if (r == 0)
		r = load_all_named(f, "qc|", load_queue);
	if (r == 0)
		r = load_all_named(f, "qs|", load_counts);
	if (r == 0)
		r = lanes_load(f);
	if (r == 0)
		r = load_all_named(f, "a|", load_active);
	kv_iter_free(f->load_doc);
	kv_iter_free(f->load_live);
	f->load_doc = f->load_live = NULL;
	if (r == 0)
		r = load_all_named(f, "wk|", load_worker);
	if (r == 0)
		r = load_due(f);
	if (r == 0)
		load_settings(f);
	if (r == 0)
		r = ended_load(f);
	if (r == 0)
		r = sdb_load(f);
	if (r == 0)
		r = schedules_load(f);
	if (r == 0)
		r = bulks_load(f);
	if (r == 0)
		r = usage_load(f);
	if (r == 0)
		r = purses_load(f);
	if (r == 0)
		r = inbound_load(f);
	if (r == 0)
		r = webhooks_load(f);
	if (r == 0)
		r = policies_load(f);
	if (r == 0)
		r = providers_load(f);
	if (r == 0)
		r = clock_load(f);
	if (r == 0)
		r = answers_load(f);
	return r;
}
