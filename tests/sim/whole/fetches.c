#include "fetches.h"

#include <stdlib.h>

#include "util/arena.h"
#include "util/hash.h"
#include "util/hmap.h"
#include "whole.h"

#define GIVEN_MAX 4 /* answers with jobs that are known of a fetch */

/* One that comes again is told the same, but for what has ended meanwhile. */
struct given {
	uint64_t answers[GIVEN_MAX]; /* hashes of the last ones */
	size_t n;
	bool is_refused; /* its worker was told that nothing was done */
};

struct fetches {
	struct whole *w;
	struct hmap given; /* by fetch_id */
	struct arena arena;
};

struct fetches *fetches_new(struct whole *w)
{
	struct fetches *f = xcalloc(1, sizeof(*f));

	f->w = w;
	return f;
}

void fetches_free(struct fetches *f)
{
	struct str key;
	size_t pos = 0;
	void *v;

	while (hmap_next(&f->given, &pos, &key, &v))
		free(v);
	hmap_done(&f->given);
	arena_done(&f->arena);
	free(f);
}

static struct given *given_of(struct fetches *f, uint64_t fetch_id)
{
	struct str k = str_of(&fetch_id, sizeof(fetch_id));
	struct given *g = hmap_get(&f->given, k);

	if (g == NULL) {
		g = xcalloc(1, sizeof(*g));
		(void)hmap_put(&f->given, k, g);
	}
	return g;
}

static bool has_jobs(struct fetches *f, struct str answer)
{
	struct m_fetch_reply m;

	arena_reset(&f->arena);
	CHECK(msg_decode(&msg_fetch_reply, answer, &f->arena, &m) == 0);
	return m.jobs_n > 0;
}

void fetches_note(struct fetches *f, struct str request, struct str answer)
{
	struct m_fetch m;
	struct given *g;

	if (!has_jobs(f, answer))
		return;
	CHECK(msg_decode(&msg_fetch, request, &f->arena, &m) == 0);
	g = given_of(f, m.fetch_id);
	if (g->is_refused)
		whole_fail(f->w, "a fetch was refused, and is given jobs all "
				 "the same");
	g->answers[g->n++ % GIVEN_MAX] = hash_stable(answer.p, answer.n);
}

static bool was_given(const struct given *g, struct str answer)
{
	uint64_t hash = hash_stable(answer.p, answer.n);
	bool found = false;

	for (size_t i = 0; i < MIN(g->n, (size_t)GIVEN_MAX); i++)
		found = found || g->answers[i] == hash;
	return found;
}

void fetches_hear(struct fetches *f, uint64_t fetch_id,
		  const struct rpc_reply *r)
{
	struct given *g;

	if (r->err == ERR_OUTCOME_UNKNOWN ||
	    (r->err == 0 && !has_jobs(f, r->body)))
		return;
	g = given_of(f, fetch_id);
	if (r->err == 0 && !was_given(g, r->body))
		whole_fail(f->w, "a fetch is answered otherwise than it was in "
				 "the log");
	if (r->err != 0 && g->n > 0)
		whole_fail(f->w, "a fetch is refused (%s), and was given jobs",
			   err_code(r->err));
	g->is_refused |= r->err != 0;
}
