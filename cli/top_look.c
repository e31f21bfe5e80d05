/*
 * One look at a server: a handful of requests, and what is to be shown of
 * their answers. The answers are valid JSON of any shape: what is missing or
 * of another type is shown as nothing.
 */
#include <stdlib.h>

#include "answer.h"
#include "top.h"
#include "util/clock.h"
#include "util/hmap.h"
#include "util/json.h"
#include "util/timefmt.h"

#define ACTIVE_MAX 1000 /* jobs at work whose workers are counted */

static const struct {
	const char *name, *method, *path, *body;
	bool needed; /* without it there is nothing to show */
} parts[TOP_PARTS] = {
	[PART_NODE] = { "cluster", "GET", "/api/v1/cluster/status", "", true },
	[PART_INFO] = { "info", "GET", "/api/v1/info", "", false },
	[PART_QUEUES] = { "queues", "GET", "/api/v1/queues", "", true },
	[PART_WORKERS] = { "workers", "GET", "/api/v1/workers", "", true },
	[PART_ACTIVE] = { "active", "POST", "/api/v1/jobs/search",
			  "{\"state\":[\"active\"],\"limit\":1000}", false },
	[PART_FAILURES] = { "failures", "POST", "/api/v1/jobs/search",
			    "{\"state\":[\"dead\",\"retrying\"],"
			    "\"sort\":\"started_at\",\"limit\":20}",
			    false },
	[PART_THROUGHPUT] = { "throughput", "GET", "/api/v1/metrics/throughput",
			      "", false },
	[PART_SCALE] = { "scale", "GET", "/api/v1/scale", "", false },
};

/* --- reading members --- */

static bool member(struct json v, const char *name, struct arena *a,
		   struct json *ret)
{
	return json_type_of(v) == JSON_OBJECT && json_member(v, name, a, ret);
}

static uint64_t number(struct json v, const char *name, struct arena *a)
{
	uint64_t n = 0;
	struct json m;

	if (member(v, name, a, &m))
		(void)json_u64(m, &n);
	return n;
}

static double decimal(struct json v, const char *name, struct arena *a)
{
	double d = 0;
	struct json m;

	if (member(v, name, a, &m))
		(void)json_double(m, &d);
	return d;
}

static struct str text(struct json v, const char *name, struct arena *a)
{
	struct json m;

	if (member(v, name, a, &m) && json_type_of(m) == JSON_STRING)
		return json_string(m, a);
	return STR_NULL;
}

static bool truth(struct json v, const char *name, struct arena *a)
{
	bool b = false;
	struct json m;

	return member(v, name, a, &m) && json_bool(m, &b) && b;
}

/* What was not told yet is no alarm. */
static bool is_denied(struct json v, const char *name, struct arena *a)
{
	struct json m;

	return member(v, name, a, &m) && !truth(v, name, a);
}

static uint64_t moment(struct json v, const char *name, struct arena *a)
{
	uint64_t ns = 0;

	return time_parse(text(v, name, a), &ns) ? ns : 0;
}

/* The answer's list: itself, or a member. An empty one when there is none. */
static struct json list_of(struct top_look *l, enum top_part part,
			   const char *name)
{
	static const struct json none = { { "[]", 2 } };
	struct json root;

	if (l->replies[part].n == 0)
		return none;
	root = json_root(buf_str(&l->replies[part]));
	if (name != NULL && !member(root, name, &l->mem, &root))
		return none;
	return json_type_of(root) == JSON_ARRAY ? root : none;
}

/* --- the parts --- */

static void read_node(struct top_look *l)
{
	struct json v = json_root(buf_str(&l->replies[PART_NODE])), recent;
	struct arena *a = &l->mem;

	l->node = text(v, "node_id", a);
	l->role = text(v, "state", a);
	l->uptime_s = number(v, "uptime_seconds", a);
	l->healthy = truth(v, "ready", a) && truth(v, "disk_ok", a);
	if (member(v, "recent", a, &recent)) {
		l->recent_s = number(recent, "seconds", a);
		l->recent_in = number(recent, "enqueued", a);
		l->recent_out = number(recent, "completed", a);
		l->recent_failed = number(recent, "failed", a);
	}
	if (l->replies[PART_INFO].n > 0)
		l->version = text(json_root(buf_str(&l->replies[PART_INFO])),
				  "server_version", a);
	if (l->replies[PART_FAILURES].n > 0)
		l->view_lag_ms =
		    number(json_root(buf_str(&l->replies[PART_FAILURES])),
			   "view_lag_ms", a);
}

static void read_nodes(struct top_look *l)
{
	struct json list = list_of(l, PART_NODE, "nodes"), v, m;
	struct json_iter it = json_iter(list);
	struct arena *a = &l->mem;

	l->nodes = arena_zalloc(a, json_count(list) * sizeof(*l->nodes));
	while (json_next_item(&it, &v)) {
		struct top_node *n = &l->nodes[l->nodes_n++];

		n->name = text(v, "id", a);
		n->role = text(v, "role", a);
		n->version = text(v, "version", a);
		n->alive = truth(v, "alive", a);
		n->disk_ok = !is_denied(v, "disk_ok", a);
		n->clock_ok = !is_denied(v, "clock_ok", a);
		n->lag = number(v, "lag_entries", a);
		n->lag_ms = number(v, "lag_ms", a);
		n->contact_ms = number(v, "last_contact_ms", a);
		n->disk_free = number(v, "disk_free_bytes", a);
		if (member(v, "clock_offset_ms", a, &m))
			(void)json_i64(m, &n->clock_ms);
	}
}

static void read_queues(struct top_look *l)
{
	struct json list = list_of(l, PART_QUEUES, NULL), v;
	struct json_iter it = json_iter(list);
	struct arena *a = &l->mem;

	l->queues = arena_zalloc(a, json_count(list) * sizeof(*l->queues));
	while (json_next_item(&it, &v)) {
		struct top_queue *q = &l->queues[l->queues_n++];

		q->name = text(v, "name", a);
		q->paused = truth(v, "paused", a);
		q->pending = number(v, "pending", a);
		q->active = number(v, "active", a);
		q->scheduled = number(v, "scheduled", a);
		q->retrying = number(v, "retrying", a);
		q->held = number(v, "held", a);
		q->dead = number(v, "dead", a);
		q->completed = number(v, "completed", a);
		q->ever = number(v, "enqueued", a);
		q->oldest_ns = moment(v, "oldest_pending_at", a);
	}
}

static struct top_queue *queue_of(const struct hmap *by_name, struct str name)
{
	return hmap_get(by_name, name);
}

/* Rates as the server counts them. */
static void read_scale(struct top_look *l, const struct hmap *by_name)
{
	struct json_iter it = json_iter(list_of(l, PART_SCALE, "queues"));
	struct json v;

	while (json_next_item(&it, &v)) {
		struct top_queue *q =
		    queue_of(by_name, text(v, "queue", &l->mem));

		if (q == NULL)
			continue;
		q->in = decimal(v, "rate_in", &l->mem);
		q->out = decimal(v, "rate_out", &l->mem);
		q->has_rates = true;
	}
}

static double rate(uint64_t now, uint64_t then, double seconds)
{
	return now > then ? (double)(now - then) / seconds : 0;
}

/* Rates from two looks, for a server that does not tell them. */
static void compare(struct top_look *l, const struct top_look *before,
		    const struct hmap *by_name)
{
	double seconds =
	    (double)(l->mono_ns - before->mono_ns) / (double)NS_PER_S;

	for (size_t i = 0; i < before->queues_n && seconds > 0; i++) {
		const struct top_queue *then = &before->queues[i];
		struct top_queue *q = queue_of(by_name, then->name);

		if (q == NULL || q->has_rates)
			continue;
		q->in = rate(q->ever, then->ever, seconds);
		q->out = rate(q->completed, then->completed, seconds);
		q->has_rates = true;
	}
}

static void read_rates(struct top_look *l, const struct top_look *before)
{
	struct hmap by_name = { 0 };

	for (size_t i = 0; i < l->queues_n; i++)
		(void)hmap_put(&by_name, l->queues[i].name, &l->queues[i]);
	read_scale(l, &by_name);
	if (before != NULL)
		compare(l, before, &by_name);
	hmap_done(&by_name);
}

static void count_active(struct top_look *l, const struct hmap *by_id)
{
	struct json_iter it = json_iter(list_of(l, PART_ACTIVE, "jobs"));
	struct json v;

	while (json_next_item(&it, &v)) {
		struct top_worker *w =
		    hmap_get(by_id, text(v, "worker_id", &l->mem));

		if (w != NULL)
			w->active++;
	}
}

static void read_workers(struct top_look *l)
{
	struct json list = list_of(l, PART_WORKERS, NULL), v;
	struct json_iter it = json_iter(list);
	struct hmap by_id = { 0 };

	l->workers =
	    arena_zalloc(&l->mem, json_count(list) * sizeof(*l->workers));
	while (json_next_item(&it, &v)) {
		struct top_worker *w = &l->workers[l->workers_n++];

		w->id = text(v, "id", &l->mem);
		w->hostname = text(v, "hostname", &l->mem);
		w->seen_ns = moment(v, "last_heartbeat", &l->mem);
		(void)hmap_put(&by_id, w->id, w);
	}
	count_active(l, &by_id);
	hmap_done(&by_id);
}

static int newer_first(const void *a, const void *b)
{
	const struct top_failure *x = a, *y = b;

	return (x->at_ns < y->at_ns) - (x->at_ns > y->at_ns);
}

static void read_failures(struct top_look *l)
{
	struct json list = list_of(l, PART_FAILURES, "jobs"), v;
	struct json_iter it = json_iter(list);
	struct arena *a = &l->mem;

	l->failures = arena_zalloc(a, json_count(list) * sizeof(*l->failures));
	while (json_next_item(&it, &v)) {
		struct top_failure *f = &l->failures[l->failures_n++];

		f->id = text(v, "id", a);
		f->queue = text(v, "queue", a);
		f->state = text(v, "state", a);
		f->error = text(v, "last_error", a);
		f->attempt = number(v, "attempt", a);
		f->at_ns = moment(v, "failed_at", a);
		if (f->at_ns == 0)
			f->at_ns = moment(v, "started_at", a);
	}
	qsort(l->failures, l->failures_n, sizeof(*l->failures), newer_first);
}

/* --- all of it --- */

/* An answer that is not needed may be missing. */
static int ask(const struct api *api, struct top_look *l, enum top_part part,
	       struct buf *why)
{
	_cleanup_(buf_done) struct buf ignored = BUF_INIT(0);
	int r = api_call(api, parts[part].method, parts[part].path,
			 str_from(parts[part].body), &l->replies[part],
			 parts[part].needed ? why : &ignored);

	if (r < 0)
		buf_clear(&l->replies[part]);
	return parts[part].needed ? r : 0;
}

/* Whose the jobs at work are is known of as many as one answer lists. */
static void ask_active(const struct api *api, struct top_look *l)
{
	uint64_t active = 0;

	for (size_t i = 0; i < l->queues_n; i++)
		active += l->queues[i].active;
	if (active > 0 && active < ACTIVE_MAX)
		(void)ask(api, l, PART_ACTIVE, NULL);
	l->has_active = active == 0 || l->replies[PART_ACTIVE].n > 0;
}

static void look_for_leader(struct top_look *l)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (answer_is_unled(json_root(buf_str(&l->replies[PART_NODE])), &why))
		l->unled = arena_copy(&l->mem, buf_str(&why));
}

/* One comes later, and what the leader would answer is left out without it. */
static bool is_asked(const struct top_look *l, enum top_part part)
{
	bool is_led = part == PART_WORKERS || part == PART_SCALE;

	return part != PART_ACTIVE && !(is_led && l->unled.n > 0);
}

int top_look_take(const struct api *api, const struct top_look *before,
		  struct top_look *ret, struct buf *why)
{
	*ret = (struct top_look){ .wall_ns = clock_wall_ns(),
				  .mono_ns = clock_mono_ns() };
	for (int i = 0; i < TOP_PARTS; i++) {
		int r = is_asked(ret, i) ? ask(api, ret, i, why) : 0;

		if (r < 0)
			return r;
		if (i == PART_NODE)
			look_for_leader(ret);
	}
	read_node(ret);
	read_nodes(ret);
	read_queues(ret);
	read_rates(ret, before);
	ask_active(api, ret);
	read_workers(ret);
	read_failures(ret);
	return 0;
}

void top_look_done(struct top_look *l)
{
	for (size_t i = 0; i < TOP_PARTS; i++)
		buf_done(&l->replies[i]);
	arena_done(&l->mem);
	*l = (struct top_look){ 0 };
}

void top_look_json(const struct top_look *l, struct buf *ret)
{
	struct json_writer w = JSON_WRITER(ret);

	jw_object(&w);
	for (size_t i = 0; i < TOP_PARTS; i++) {
		if (l->replies[i].n == 0)
			continue;
		jw_key(&w, parts[i].name);
		jw_raw(&w, str_trim(buf_str(&l->replies[i])));
	}
	jw_object_end(&w);
}
