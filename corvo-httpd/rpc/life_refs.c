/*
 * Jobs of a frame that wait for others of it, by their places: "#0" is the
 * first one. See rpc/life_parts.h.
 *
 * Who waits for a job that is refused would wait for another one, or for ever:
 * so it is refused, too, and who waits for it.
 */
#include "rpc/life_parts.h"
#include "util/turn.h"

/* Who names whom: who[first[i]] up to who[first[i + 1]] name job i. */
struct refs {
	size_t *first, *who;
};

static bool read_ref(struct str id, size_t n, size_t *ret)
{
	uint64_t i;

	if (!str_starts(id, STR("#")) || !str_parse_u64(str_skip(id, 1), &i) ||
	    i >= n)
		return false;
	*ret = (size_t)i;
	return true;
}

typedef void ref_fn(struct refs *r, size_t named, size_t by);

/* False: nobody wants to know any more, and some are left out. */
static bool each_ref(const struct m_lifecycle *m, ref_fn *fn, struct refs *r)
{
	size_t named;

	for (size_t i = 0; i < m->enqueues_n; i++) {
		if (turn_step())
			return false;
		for (size_t k = 0; k < m->enqueues[i].depends_on_n; k++)
			if (read_ref(m->enqueues[i].depends_on[k],
				     m->enqueues_n, &named))
				fn(r, named, i);
	}
	return true;
}

static void count(struct refs *r, size_t named, _unused_ size_t by)
{
	r->first[named]++;
}

/* Filled from its end, so first comes to where it begins. */
static void put(struct refs *r, size_t named, size_t by)
{
	r->who[--r->first[named]] = by;
}

/* False: there are none, or nobody wants to know. */
static bool find_refs(struct life_frame *f, struct refs *r)
{
	size_t n = f->m.enqueues_n;

	r->first = arena_zalloc(&f->a, (n + 1) * sizeof(*r->first));
	if (!each_ref(&f->m, count, r))
		return false;
	for (size_t i = 1; i <= n; i++)
		r->first[i] += r->first[i - 1];
	if (r->first[n] == 0)
		return false;
	r->who = arena_alloc(&f->a, r->first[n] * sizeof(*r->who));
	return each_ref(&f->m, put, r);
}

static void refuse(struct life_frame *f, size_t i, size_t named)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	buf_printf(&why, "depends_on: #%zu is refused", named);
	life_refuse_item(f, LIFE_JOBS, i, ERR_VALIDATION_ERROR, buf_str(&why));
}

void life_refuse_refs(struct life_frame *f, bool *refused)
{
	size_t n = f->m.enqueues_n, todo_n = 0;
	size_t *todo = arena_alloc(&f->a, n * sizeof(*todo));
	struct refs r;

	if (!find_refs(f, &r))
		return;
	for (size_t i = 0; i < n; i++)
		if (refused[i])
			todo[todo_n++] = i;
	while (todo_n > 0) {
		size_t named = todo[--todo_n];

		for (size_t k = r.first[named]; k < r.first[named + 1]; k++) {
			size_t i = r.who[k];

			if (turn_step())
				return;
			if (refused[i])
				continue;
			refused[i] = true;
			refuse(f, i, named);
			todo[todo_n++] = i;
		}
	}
}

void life_move_refs(struct life_frame *f)
{
	const struct m_enqueue_batch *b = &f->batch;
	size_t n = f->m.enqueues_n, named;
	size_t *to = arena_alloc(&f->a, n * sizeof(*to));

	for (size_t i = 0; i < b->jobs_n; i++)
		to[f->places[i]] = i;
	for (size_t i = 0; i < b->jobs_n; i++) {
		struct m_enqueue *e = &b->jobs[i];

		for (size_t k = 0; k < e->depends_on_n; k++) {
			if (turn_step())
				return;
			if (!read_ref(e->depends_on[k], n, &named))
				continue;
			f->has_refs = true;
			e->depends_on[k] =
			    arena_printf(&f->a, "#%zu", to[named]);
		}
	}
}
