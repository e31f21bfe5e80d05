/*
 * A ring for jobs that come in order, which nearly all do, and a heap for
 * those that return to a place between them.
 */
#include "fsm/order/window.h"

#include <stdlib.h>

#define LOOK_MAX 64   /* jobs looked at for one that is as created */
#define CAP_MIN  4    /* of a group there may be one job */
#define CAP_KEEP 1024 /* memory of a larger ring goes when it is empty */

#ifdef CORVO_FAULTS
uint32_t window_jobs_max = 8192;
#endif

static struct window_job *ring_at(const struct window *w, uint32_t i)
{
	return &w->ring[(w->head + i) & (w->cap - 1)];
}

static void keep_doc(struct window *w, struct window_job *j, struct str doc)
{
	j->doc = xmalloc(doc.n);
	memcpy(j->doc, doc.p, doc.n);
	j->doc_n = (uint32_t)doc.n;
	w->doc_bytes += doc.n;
}

static void drop_doc(struct window *w, struct window_job *j)
{
	free(j->doc);
	w->doc_bytes -= j->doc_n;
	j->doc = NULL;
	j->doc_n = 0;
}

/* Only jobs as created have one, and those are in the ring. */
static void drop_docs(struct window *w)
{
	for (uint32_t i = 0; i < w->n && w->doc_bytes > 0; i++)
		drop_doc(w, ring_at(w, i));
}

void window_done(struct window *w)
{
	drop_docs(w);
	free(w->ring);
	free(w->heap);
	*w = (struct window){ 0 };
}

void window_reset(struct window *w, bool complete)
{
	drop_docs(w);
	if (w->cap > CAP_KEEP || w->heap_cap > CAP_KEEP)
		window_done(w);
	w->head = w->n = w->heap_n = 0;
	w->max_seq = w->frontier = 0;
	w->complete = complete;
}

static void window_job_set(struct window *w, struct window_job *j,
			   const struct pending *p)
{
	j->seq = p->seq;
	j->as_created = p->as_created;
	j->id_n = p->id.n <= WINDOW_ID_BYTES ? (uint8_t)p->id.n : 0;
	memcpy(j->id, p->id.p, j->id_n);
	j->doc = NULL;
	j->doc_n = 0;
	if (p->doc.n > 0)
		keep_doc(w, j, p->doc);
}

static struct window_job *ring_push(struct window *w)
{
	if (w->n == w->cap) {
		uint32_t cap = MAX(w->cap * 2, (uint32_t)CAP_MIN);
		struct window_job *ring = xmalloc(cap * sizeof(*ring));

		for (uint32_t i = 0; i < w->n; i++)
			ring[i] = *ring_at(w, i);
		free(w->ring);
		w->ring = ring;
		w->cap = cap;
		w->head = 0;
	}
	return ring_at(w, w->n++);
}

static void heap_push(struct window *w, const struct window_job *j)
{
	uint32_t i = w->heap_n++;

	if (w->heap_n > w->heap_cap) {
		w->heap_cap = MAX(w->heap_cap * 2, (uint32_t)CAP_MIN);
		w->heap = xrealloc(w->heap, w->heap_cap * sizeof(*w->heap));
	}
	for (; i > 0 && w->heap[(i - 1) / 2].seq > j->seq; i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = *j;
}

static void heap_drop_first(struct window *w)
{
	struct window_job last = w->heap[--w->heap_n];
	uint32_t i = 0;

	for (;;) {
		uint32_t kid = 2 * i + 1;

		if (kid >= w->heap_n)
			break;
		if (kid + 1 < w->heap_n &&
		    w->heap[kid + 1].seq < w->heap[kid].seq)
			kid++;
		if (w->heap[kid].seq >= last.seq)
			break;
		w->heap[i] = w->heap[kid];
		i = kid;
	}
	w->heap[i] = last;
}

static int job_cmp(const void *a, const void *b)
{
	uint64_t x = ((const struct window_job *)a)->seq;
	uint64_t y = ((const struct window_job *)b)->seq;

	return (x > y) - (x < y);
}

/*
 * A job that leaves otherwise than by being taken stays in its window, and is
 * there once more when it comes back to its place. All such copies are alike.
 */
static uint32_t drop_copies(struct window *w, struct window_job *all,
			    uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (kept > 0 && all[kept - 1].seq == all[i].seq)
			drop_doc(w, &all[i]);
		else
			all[kept++] = all[i];
	}
	return kept;
}

/* To half of what it holds; what is dropped is at or above the new frontier. */
static void window_halve(struct window *w)
{
	uint32_t total = window_size(w), keep, unique;
	struct window_job *all = xmalloc(total * sizeof(*all));

	for (uint32_t i = 0; i < w->n; i++)
		all[i] = *ring_at(w, i);
	if (w->heap_n > 0)
		memcpy(all + w->n, w->heap, w->heap_n * sizeof(*all));
	qsort(all, total, sizeof(*all), job_cmp);
	unique = drop_copies(w, all, total);
	keep = MIN(total / 2, unique);
	CHECK(keep > 0);
	if (keep < unique) {
		w->frontier = all[keep].seq;
		w->complete = false;
	}
	w->max_seq = all[keep - 1].seq;
	w->head = w->n = w->heap_n = 0;
	for (uint32_t i = 0; i < unique; i++) {
		if (i < keep)
			*ring_push(w) = all[i];
		else
			drop_doc(w, &all[i]);
	}
	free(all);
}

void window_insert(struct window *w, const struct pending *p, uint32_t max)
{
	struct window_job j;

	if (!w->complete && p->seq >= w->frontier)
		return;
	if (window_size(w) >= max) {
		if (p->seq > w->max_seq) {
			w->complete = false;
			w->frontier = p->seq;
			return;
		}
		if (window_size(w) > 1)
			window_halve(w);
		if (!w->complete && p->seq >= w->frontier)
			return;
	}
	if (w->n == 0 || p->seq > ring_at(w, w->n - 1)->seq) {
		window_job_set(w, ring_push(w), p);
	} else {
		CHECK(p->doc.n == 0);
		window_job_set(w, &j, p);
		heap_push(w, &j);
	}
	w->max_seq = window_size(w) == 1 ? p->seq : MAX(w->max_seq, p->seq);
}

static bool first_is_in_heap(const struct window *w)
{
	return w->heap_n > 0 &&
	       (w->n == 0 || w->heap[0].seq < ring_at(w, 0)->seq);
}

const struct window_job *window_first(const struct window *w)
{
	if (first_is_in_heap(w))
		return &w->heap[0];
	return w->n > 0 ? ring_at(w, 0) : NULL;
}

const struct window_job *window_first_created(const struct window *w)
{
	for (uint32_t i = 0; i < MIN(w->n, (uint32_t)LOOK_MAX); i++)
		if (ring_at(w, i)->as_created)
			return ring_at(w, i);
	return NULL;
}

void window_pop(struct window *w, struct window_job *ret)
{
	const struct window_job *first = window_first(w);

	CHECK(first != NULL);
	*ret = *first;
	w->doc_bytes -= ret->doc_n;
	if (first_is_in_heap(w)) {
		heap_drop_first(w);
		return;
	}
	w->head = (w->head + 1) & (w->cap - 1);
	w->n--;
}

/*
 * Only the ring is searched: a job as created was enqueued after all that
 * were in the window then, so it is never in the heap.
 */
void window_changed(struct window *w, uint64_t seq)
{
	uint32_t from = 0, upto = w->n;

	while (from < upto) {
		uint32_t mid = from + (upto - from) / 2;

		if (ring_at(w, mid)->seq < seq)
			from = mid + 1;
		else
			upto = mid;
	}
	if (from < w->n && ring_at(w, from)->seq == seq) {
		ring_at(w, from)->as_created = false;
		drop_doc(w, ring_at(w, from));
	}
}

void window_fill(struct window *w, const struct pending *p)
{
	CHECK(w->n == 0 || p->seq > ring_at(w, w->n - 1)->seq);
	window_job_set(w, ring_push(w), p);
	w->max_seq = p->seq;
}

const struct window_job *window_filled_at(const struct window *w, uint32_t i)
{
	return i < w->n ? ring_at(w, i) : NULL;
}

void window_fill_doc(struct window *w, uint32_t i, struct str doc)
{
	struct window_job *j = ring_at(w, i);

	CHECK(i < w->n && j->as_created && j->doc == NULL && doc.n > 0);
	keep_doc(w, j, doc);
}

void window_filled(struct window *w, bool more)
{
	w->complete = !more;
	if (more)
		w->frontier = w->max_seq + 1;
}
