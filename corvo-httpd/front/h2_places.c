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
#include "front/late.h"
#include "front/server.h"
#include "front/slow.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "util/clock.h"

#define PROBES_MAX       32
#define PROBE_BODY_BYTES 1024             /* more is no question about health */
#define REFUSED_MIN      LIMIT_H2_STREAMS /* that are told, or 1/8 of all */
#define STALLED_NS       NS_PER_S
#define SHED_TRIES       64 /* that seem to be stalled are looked at */

void h2_places_init(struct h2s *all)
{
	list_init(&all->coming);
	list_init(&all->sending);
	list_init(&all->probes);
	list_init(&all->refused);
}

void h2_place_new(struct h2_stream *st)
{
	list_init(&st->coming);
	list_init(&st->sending);
	list_init(&st->probe);
	list_init(&st->refused);
}

static size_t places_max(const struct h2s *all)
{
	return server_conns(all->server)->max;
}

static void take_place(struct h2_stream *st)
{
	st->has_place = true;
	st->h->owner->places_n++;
}

static void take_probe(struct h2_stream *st)
{
	struct h2s *all = st->h->owner;

	list_push_back(&all->probes, &st->probe);
	all->probes_n++;
}

/* A place of its own, one among all, or one to be told that there is none. */
static void give_back(struct h2_stream *st)
{
	struct h2s *all = st->h->owner;

	all->places_n -= st->has_place;
	all->probes_n -= !list_empty(&st->probe);
	all->refused_n -= !list_empty(&st->refused);
	st->has_place = false;
	list_remove(&st->probe);
	list_remove(&st->refused);
}

void h2_place_end(struct h2_stream *st)
{
	give_back(st);
	list_remove(&st->coming);
	list_remove(&st->sending);
}

void h2_place_coming(struct h2_stream *st)
{
	list_push_back(&st->h->owner->coming, &st->coming);
}

void h2_place_came(struct h2_stream *st)
{
	list_remove(&st->coming);
}

/* To end one that is refused makes no room for anybody. */
void h2_place_moved(struct h2_stream *st)
{
	if (st->is_cut)
		return;
	st->moved_ns = clock_mono_ns();
	list_remove(&st->sending);
	if (list_empty(&st->refused))
		list_push_back(&st->h->owner->sending, &st->sending);
}

void h2_place_rests(struct h2_stream *st)
{
	list_remove(&st->sending);
}

/* --- who reads --- */

void h2_place_look(struct h2 *h, uint64_t now_ns)
{
	uint64_t n;

	if (!conn_acked(h->conn, &n) || n == h->acked_n)
		return;
	h->acked_n = n;
	h->acked_ns = now_ns;
}

/*
 * Nothing of it has gone into the socket, and its client has read nothing of
 * what is before it there: the kernel may hold so much that it takes no more
 * for seconds from who reads steadily. One that was taken to its end waits for
 * what its connection sends.
 */
static bool is_stalled(struct h2_stream *st, uint64_t now_ns)
{
	struct h2 *h = st->h;

	if (now_ns - st->moved_ns < STALLED_NS)
		return false;
	if (st->is_over)
		st->moved_ns = MAX(st->moved_ns, h->blocked_ns);
	if (h->rest.n > 0 || st->sent_to > h->acked_n) {
		h2_place_look(h, now_ns);
		st->moved_ns = MAX(st->moved_ns, h->acked_ns);
	}
	return now_ns - st->moved_ns >= STALLED_NS;
}

static void cut_connection(struct h2 *h)
{
	struct list *const lists[] = { &h->streams, &h->done };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		LIST_FOREACH (it, lists[i]) {
			struct h2_stream *st =
			    list_entry(it, struct h2_stream, node);

			if (!list_empty(&st->sending))
				give_back(st);
			list_remove(&st->sending);
		}
	h2_cut(h);
}

/* Nothing can be said of it to a client that does not read. Its place is free
 * at once, though it ends only with the turn. */
static void end_stalled(struct h2_stream *st)
{
	give_back(st);
	list_remove(&st->sending);
	if (st->is_over)
		cut_connection(st->h);
	else
		slow_cut_reader(st->x);
}

/* --- refusals --- */

/* It would wait for its client like any answer. */
static bool take_refusal(struct h2_stream *st)
{
	struct h2s *all = st->h->owner;
	size_t max = MAX(places_max(all) / 8, (size_t)REFUSED_MIN);

	if (all->refused_n >= max) {
		struct h2_stream *first =
		    list_entry(all->refused.next, struct h2_stream, refused);

		if (!is_stalled(first, clock_mono_ns()))
			return false;
		end_stalled(first);
	}
	list_push_back(&all->refused, &st->refused);
	all->refused_n++;
	return true;
}

/* Nothing of it has been done: it may be sent again, unless it is bad. */
static void end_untold(struct h2_stream *st, int err, struct str text)
{
	struct exchange *x = st->x;

	st->cut_code = err == ERR_OVERLOADED ? NGHTTP2_REFUSED_STREAM
					     : NGHTTP2_PROTOCOL_ERROR;
	if (!x->answered) {
		exchange_refused(x, err, text);
		x->waiting = false;
	}
	x->coming = false;
	late_remove(x);
	exchange_cut(x);
	x->front->cut(x);
}

void h2_place_refuse(struct h2_stream *st, int err, struct str text)
{
	give_back(st);
	list_remove(&st->coming);
	list_remove(&st->sending);
	if (take_refusal(st))
		h2_refuse(st->x, err, text);
	else
		end_untold(st, err, text);
}

static void refuse_crowded(struct h2_stream *st)
{
	h2_place_refuse(st, ERR_OVERLOADED,
			STR("this node has as many requests as max_connections "
			    "allows; try again after retry_after_ms"));
}

/* --- making room --- */

static void end_coming(struct h2_stream *st)
{
	h2_place_refuse(st, ERR_OVERLOADED,
			STR("this node has as many requests as max_connections "
			    "allows, and this one had not come completely"));
}

/* Of a stream of messages the answer may have begun. */
static bool is_coming(const struct h2_stream *st)
{
	const struct exchange *x = st->x;

	return !list_empty(&st->coming) && x != NULL && x->coming &&
	       (!x->answered || x->stream != NULL) && !st->is_over;
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
 * a request sends the rest of it, or can ask again. Probes have none to give.
 */
static bool shed_coming(struct h2s *all)
{
	LIST_FOREACH_SAFE (it, &all->coming) {
		struct h2_stream *st = list_entry(it, struct h2_stream, coming);

		if (!is_coming(st)) {
			list_remove(&st->coming);
		} else if (st->has_place) {
			end_coming(st);
			return true;
		}
	}
	return false;
}

static bool shed_probe(struct h2s *all)
{
	uint64_t now_ns = clock_mono_ns();

	LIST_FOREACH (it, &all->probes) {
		struct h2_stream *st = list_entry(it, struct h2_stream, probe);

		if (is_coming(st))
			end_coming(st);
		else if (!list_empty(&st->sending) && is_stalled(st, now_ns))
			end_stalled(st);
		else
			continue;
		return true;
	}
	return false;
}

/* --- finding a place --- */

static bool find_place(struct h2s *all)
{
	while (all->places_n >= places_max(all))
		if (!shed_stalled(all) && !shed_coming(all))
			return false;
	return true;
}

static void find_or_refuse(struct h2_stream *st)
{
	if (find_place(st->h->owner))
		take_place(st);
	else
		refuse_crowded(st);
}

static void find_probe(struct h2_stream *st)
{
	struct h2s *all = st->h->owner;

	if (all->probes_n < PROBES_MAX)
		take_probe(st);
	else if (all->places_n < places_max(all))
		take_place(st);
	else if (shed_probe(all))
		take_probe(st);
	else
		refuse_crowded(st);
}

void h2_place_find(struct h2_stream *st)
{
	if (intake_is_probe(st->x->path))
		find_probe(st);
	else
		find_or_refuse(st);
}

bool h2_place_body(struct h2_stream *st)
{
	if (list_empty(&st->probe) || st->x->came_n <= PROBE_BODY_BYTES)
		return true;
	give_back(st);
	find_or_refuse(st);
	return st->x->coming;
}
