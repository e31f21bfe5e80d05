/*
 * Places of streams: of all connections of HTTP/2 together there are as many as
 * max_connections allows. See front/h2_parts.h.
 *
 * While all are taken, somebody makes room for a newcomer: who reads nothing of
 * an answer, then who has sent a head and not the rest. Probes have a few
 * places of their own, and make room for each other in the same way.
 */
#include "front/conn.h"
#include "front/exchange.h"
#include "front/h2_parts.h"
#include "front/intake.h"
#include "front/server.h"
#include "front/slow.h"
#include "proto/err.h"
#include "util/clock.h"

#define PROBES_MAX       32
#define PROBE_BODY_BYTES 1024 /* more is no question about health */
#define STALLED_NS       NS_PER_S
#define SHED_TRIES       8 /* that seem to be stalled are looked at */

void h2_places_init(struct h2s *all)
{
	list_init(&all->coming);
	list_init(&all->sending);
	list_init(&all->probes);
}

void h2_place_new(struct h2_stream *st)
{
	list_init(&st->coming);
	list_init(&st->sending);
	list_init(&st->probe);
	st->h->owner->streams_n++;
}

static void take_probe(struct h2_stream *st)
{
	struct h2s *all = st->h->owner;

	list_push_back(&all->probes, &st->probe);
	all->probes_n++;
}

static void drop_probe(struct h2_stream *st)
{
	if (list_empty(&st->probe))
		return;
	list_remove(&st->probe);
	st->h->owner->probes_n--;
}

void h2_place_end(struct h2_stream *st)
{
	drop_probe(st);
	list_remove(&st->coming);
	list_remove(&st->sending);
	st->h->owner->streams_n--;
}

void h2_place_coming(struct h2_stream *st)
{
	list_push_back(&st->h->owner->coming, &st->coming);
}

void h2_place_came(struct h2_stream *st)
{
	list_remove(&st->coming);
}

void h2_place_moved(struct h2_stream *st)
{
	if (st->is_cut)
		return;
	st->moved_ns = clock_mono_ns();
	list_remove(&st->sending);
	list_push_back(&st->h->owner->sending, &st->sending);
}

void h2_place_rests(struct h2_stream *st)
{
	list_remove(&st->sending);
}

/* --- making room --- */

static void end_coming(struct h2_stream *st)
{
	list_remove(&st->coming);
	h2_refuse(st->x, ERR_OVERLOADED,
		  STR("this node has as many requests as max_connections "
		      "allows, and this one had not come completely"));
}

static bool is_coming(const struct h2_stream *st)
{
	return !list_empty(&st->coming) && st->x != NULL && st->x->coming &&
	       !st->is_over;
}

/* One that was taken to its end waits for what its connection sends. */
static bool is_stalled(struct h2_stream *st, uint64_t now_ns)
{
	if (list_empty(&st->sending))
		return false;
	if (st->is_over)
		st->moved_ns = MAX(st->moved_ns, st->h->blocked_ns);
	return now_ns - st->moved_ns >= STALLED_NS;
}

/* Nothing can be said of it to a client that does not read. */
static void end_stalled(struct h2_stream *st)
{
	list_remove(&st->sending);
	if (st->is_over)
		h2_cut(st->h);
	else
		slow_cut_reader(st->x);
}

static bool shed_stalled(struct h2s *all)
{
	uint64_t now_ns = clock_mono_ns();

	for (int i = 0; i < SHED_TRIES && !list_empty(&all->sending); i++) {
		struct h2_stream *st =
		    list_entry(all->sending.next, struct h2_stream, sending);

		if (now_ns - st->moved_ns < STALLED_NS)
			return false;
		if (is_stalled(st, now_ns)) {
			end_stalled(st);
			return true;
		}
		list_remove(&st->sending); /* its connection moves */
		list_push_back(&all->sending, &st->sending);
	}
	return false;
}

/*
 * The one that has been coming for longest makes room: who has sent the head of
 * a request sends the rest of it, or can ask again.
 */
static bool shed_coming(struct h2s *all)
{
	while (!list_empty(&all->coming)) {
		struct h2_stream *st =
		    list_entry(all->coming.next, struct h2_stream, coming);

		if (is_coming(st)) {
			end_coming(st);
			return true;
		}
		list_remove(&st->coming);
	}
	return false;
}

static bool shed_probe(struct h2s *all)
{
	uint64_t now_ns = clock_mono_ns();

	LIST_FOREACH (it, &all->probes) {
		struct h2_stream *st = list_entry(it, struct h2_stream, probe);
		bool comes = is_coming(st);

		if (!comes && !is_stalled(st, now_ns))
			continue;
		drop_probe(st);
		if (comes)
			end_coming(st);
		else
			end_stalled(st);
		return true;
	}
	return false;
}

/* --- finding a place --- */

/* Those that are refused are over when they have been told so. */
static bool find_place(struct h2s *all)
{
	size_t max = server_conns(all->server)->max;
	size_t n = all->streams_n - all->probes_n;

	if (n <= max)
		return true;
	return (shed_stalled(all) || shed_coming(all)) && n <= max + max / 8;
}

bool h2_place_find(struct h2_stream *st)
{
	struct h2s *all = st->h->owner;
	size_t max = server_conns(all->server)->max;

	if (!intake_is_probe(st->x->path))
		return find_place(all);
	if (all->probes_n >= PROBES_MAX) {
		if (all->streams_n - all->probes_n <= max)
			return true;
		if (!shed_probe(all))
			return false;
	}
	take_probe(st);
	return true;
}

bool h2_place_body(struct h2_stream *st)
{
	if (list_empty(&st->probe) || st->x->came_n <= PROBE_BODY_BYTES)
		return true;
	drop_probe(st);
	return find_place(st->h->owner);
}
