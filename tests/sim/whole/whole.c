#include "whole.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/node_impl.h"
#include "old.h"
#include "reader.h"
#include "rt/file.h"

#define QUIET_NS     (120 * NS_PER_S) /* virtual: all is done by then */
#define COMPARE_MEAN 1000             /* turns in which something was applied */
#define HEAP_MAX     ((size_t)24 << 20) /* of a node, when all is at rest */
#define LOG_PARTS    4 /* that a log may have of snapshot_bytes */

void whole_fail(struct whole *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(w->verdict, WHOLE_VERDICT_BYTES, fmt, ap);
	va_end(ap);
	sim_show(w->sim);
	(void)fprintf(stderr, "CORVO_TEST_SEED=%" PRIu64 ": %s\n", w->sim->seed,
		      w->verdict);
	_Exit(EXIT_FAILURE);
}

static unsigned place_of(unsigned call)
{
	unsigned place =
	    call < QUERY_FIRST ? call : WHOLE_OPS + call - QUERY_FIRST;

	CHECK(place < WHOLE_CALLS && (place < WHOLE_OPS) == (call < WHOLE_OPS));
	return place;
}

void whole_count(struct whole *w, unsigned call, int err)
{
	struct whole_count *c = &w->counts[place_of(call)];

	if (err == 0)
		c->done++;
	else
		c->refused++;
}

const char *whole_call(unsigned place)
{
	const struct call_info *i =
	    place < WHOLE_OPS ? op_info(place)
			      : query_info(place - WHOLE_OPS + QUERY_FIRST);

	return i != NULL ? i->name : NULL;
}

struct machine *whole_of_id(struct whole *w, uint64_t id)
{
	for (unsigned i = 0; i < w->plan.machines; i++)
		if (w->machine[i].host.id == id)
			return &w->machine[i];
	return NULL;
}

bool whole_is_open(const struct machine *from, const struct machine *to)
{
	unsigned a = from->host.number, b = to->host.number;

	return from->w->net.cut[a][b] == CUT_NONE &&
	       from->w->net.cut[b][a] == CUT_NONE;
}

struct machine *whole_leader(struct whole *w)
{
	struct machine *found = NULL;

	for (unsigned i = 0; i < w->plan.machines; i++) {
		struct machine *m = &w->machine[i];

		if (m->host.node != NULL && node_is_ready(m->host.node) &&
		    (found == NULL ||
		     m->host.node->term > found->host.node->term))
			found = m;
	}
	return found;
}

/* --- what has to be true after each turn --- */

static struct state_at *state_at(struct whole *w, uint64_t index)
{
	size_t n = w->states_n;

	if (index >= n) {
		w->states_n = MAX(2 * n, (size_t)index + 1024);
		w->states =
		    xrealloc(w->states, w->states_n * sizeof(*w->states));
		memset(w->states + n, 0,
		       (w->states_n - n) * sizeof(*w->states));
	}
	return &w->states[index];
}

/* Equal index, equal state: of each moment the cheap part, and all of it at
 * the end. */
static void compare(struct machine *m, struct fsm *f, uint64_t index)
{
	struct state_at now = { fsm_last_seq(f), fsm_now_ns(f),
				fsm_origin(f)->id };
	struct state_at *first = state_at(m->w, index);

	if (first->seq == 0 && first->now_ns == 0 && first->id == 0)
		*first = now;
	if (first->seq != now.seq || first->now_ns != now.now_ns ||
	    first->id != now.id)
		whole_fail(m->w,
			   "node %u is another one at entry %" PRIu64
			   ": event %" PRIu64 " beside %" PRIu64,
			   m->host.number, index, now.seq, first->seq);
}

void whole_look(struct machine *m)
{
	struct parts *p = machine_parts(m);
	uint64_t index;

	m->host.node = p->node;
	if (p->node == NULL) /* it waits for room */
		return;
	m->has_led |= node_is_ready(p->node);
	index = fsm_applied_index(p->fsm);
	if (node_is_dead(p->node) && !m->host.disk.has_failed)
		whole_fail(m->w, "node %u has given up", m->host.number);
	/* half of an entry may be done in the memory of one that is frozen */
	if (index == m->applied || node_is_frozen(p->node))
		return;
	if (index < m->applied)
		whole_fail(m->w,
			   "node %u goes back from entry %" PRIu64
			   " to %" PRIu64,
			   m->host.number, m->applied, index);
	m->applied = index;
	m->w->tally.entries = MAX(m->w->tally.entries, index);
	sim_note(m->w->sim, "applied", m->host.number, index,
		 fsm_last_seq(p->fsm), 0, 0);
	compare(m, p->fsm, index);
	if (sim_below(m->w->sim, COMPARE_MEAN) == 0 &&
	    witness_compare(m->w->witness, m))
		m->w->tally.agreed++;
}

/* --- one run --- */

static void on_fail(void *ctx, const char *what)
{
	whole_fail(ctx, "%s", what);
}

void whole_begin(struct whole *w, struct sim *s, char *verdict, char *dir)
{
	*w = (struct whole){ .sim = s, .verdict = verdict };
	s->fail = on_fail;
	s->fail_ctx = w;
	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/corvo-sim-XXXXXX");
	CHECK(mkdtemp(w->dir) != NULL);
	(void)snprintf(dir, WHOLE_DIR_BYTES, "%s", w->dir);
	net_init(&w->net, s);
	w->witness = witness_new(w);
	whole_plan_make(w);
	for (unsigned i = 0; i < w->plan.machines; i++)
		machine_make(w, i);
	if (w->plan.is_upgraded) {
		old_begin(&w->machine[0]);
		/* while it makes the store one of today, too */
		w->machine[0].dies_at_start = (unsigned)sim_below(s, 6);
		witness_begin_with(w->witness, old_store());
	}
	for (unsigned i = 0; i < w->plan.machines; i++)
		machine_start_after(&w->machine[i], 0);
	clients_begin(&w->clients, w);
	w->strangers = strangers_new(w);
	for (size_t i = 0; i < WHOLE_STREAMS; i++)
		w->stream[i] = stream_new(w);
	w->change = change_new(w);
	whole_storm_begin(w);
}

static bool are_readers_done(const struct whole *w)
{
	for (unsigned i = 0; i < w->plan.machines; i++)
		if (!reader_is_done(w->machine[i].reader))
			return false;
	return true;
}

static bool are_streams_done(const struct whole *w)
{
	for (size_t i = 0; i < WHOLE_STREAMS; i++)
		if (!stream_is_done(w->stream[i]))
			return false;
	return true;
}

/* Each machine has a vote, and nobody else: whoever was given up is gone, and
 * whoever came in its place has caught up. */
static bool do_all_vote(struct whole *w)
{
	struct node_server all[NODE_SERVERS_MAX];
	const struct machine *leader = whole_leader(w);

	return leader != NULL &&
	       node_servers(leader->host.node, all, ARRAY_SIZE(all)) ==
		   w->plan.machines &&
	       node_voters(leader->host.node) == w->plan.machines;
}

static bool is_same_everywhere(struct whole *w)
{
	const struct machine *leader = whole_leader(w);

	if (leader == NULL)
		return false;
	for (unsigned i = 0; i < w->plan.machines; i++)
		if (!w->machine[i].runs ||
		    w->machine[i].applied != leader->applied)
			return false;
	return true;
}

/* Cut when it weighs snapshot_bytes, to what others may still need of it: as
 * much. While a snapshot is made it grows, by no more in a calm. */
static void check_log(struct machine *m)
{
	struct node *n = m->host.node;
	uint64_t bytes = node_log_bytes(n);

	/* until the next try, when one has failed */
	if (n->cut.failures > 0 || bytes <= LOG_PARTS * n->snapshot_bytes)
		return;
	whole_fail(m->w,
		   "the log of node %u weighs %" PRIu64 " bytes, and should be "
		   "cut at %" PRIu64,
		   m->host.number, bytes, n->snapshot_bytes);
}

static void compare_all(struct whole *w)
{
	witness_check(w->witness);
	for (unsigned i = 0; i < w->plan.machines; i++)
		check_log(&w->machine[i]);
	for (unsigned i = 0; i < w->plan.machines; i++)
		if (!witness_compare(w->witness, &w->machine[i]))
			whole_fail(w, "node %u is behind", i);
	/* one of them: it takes a while */
	witness_check_node(w->witness,
			   &w->machine[sim_below(w->sim, w->plan.machines)]);
	for (unsigned i = 0; i < w->plan.machines; i++) {
		reader_check(w->machine[i].reader);
		desk_check(w->machine[i].desk);
	}
	clients_check(&w->clients);
}

/* What each node takes itself for. */
static void tell_nodes(struct whole *w, struct buf *ret)
{
	for (unsigned i = 0; i < w->plan.machines; i++) {
		struct machine *m = &w->machine[i];
		struct node_info info;

		if (m->host.node == NULL) {
			buf_printf(
			    ret, "; node %u (%" PRIu64 ") %s%s", i, m->host.id,
			    m->runs ? "waits for room" : "does not run",
			    change_is_of(w->change, m) ? ", given up" : "");
			continue;
		}
		node_info(m->host.node, &info);
		buf_printf(ret,
			   "; node %u (%" PRIu64 ") is a %s of %zu in term "
			   "%" PRIu64 ", applied %" PRIu64 "%s%s",
			   i, m->host.id, info.state, node_voters(m->host.node),
			   info.term, info.applied_index,
			   node_is_frozen(m->host.node) ? ", frozen" : "",
			   change_is_of(w->change, m) ? ", given up" : "");
	}
}

/* After each event: what looks at every job comes last. */
static bool is_at_rest(struct whole *w)
{
	return is_same_everywhere(w) && do_all_vote(w) && are_streams_done(w) &&
	       are_readers_done(w) && clients_are_done(&w->clients);
}

static void calm_down(struct whole *w)
{
	_cleanup_(buf_done) struct buf missing = BUF_INIT(0);
	uint64_t end = w->sim->now_ns + QUIET_NS;
	bool is_done = false;

	while (w->sim->now_ns < end && !is_done && sim_step(w->sim))
		is_done = is_at_rest(w);
	if (is_done)
		return;
	clients_tell(&w->clients, &missing);
	tell_nodes(w, &missing);
	whole_fail(w, "it does not come to rest, %s" WHOLE_DETAILS "%.*s",
		   whole_leader(w) == NULL  ? "nobody leads"
		   : !is_same_everywhere(w) ? "nodes are behind"
		   : !do_all_vote(w)        ? "not all vote"
		   : !are_readers_done(w)   ? "views are behind"
		   : !are_streams_done(w)   ? "streams are behind"
					    : "all nodes are equal",
		   STR_ARG(buf_str(&missing)));
}

void whole_run(struct whole *w)
{
	uint64_t end = w->sim->now_ns + w->plan.storm_ns;

	while (w->sim->now_ns < end && sim_step(w->sim))
		;
	whole_storm_end(w);
	clients_calm(&w->clients);
	strangers_calm(w->strangers);
	for (unsigned i = 0; i < w->plan.machines; i++)
		reader_calm(w->machine[i].reader);
	calm_down(w);
	probe_run(w);
	calm_down(w);
	compare_all(w);
}

/* What a corvo-raftd has in memory at the end, and gives back; its store is in
 * memory, too, and stays. 0 where nobody counts it, as with a sanitizer. */
static size_t stop_counted(struct machine *m)
{
	size_t before = mallinfo2().uordblks, after;

	machine_stop(m);
	after = mallinfo2().uordblks;
	return before - MIN(before, after);
}

static void stop_all(struct whole *w)
{
	size_t most = 0;

	for (unsigned i = 0; i < w->plan.machines; i++) {
		size_t bytes = stop_counted(&w->machine[i]);

		most = MAX(most, bytes);
	}
	w->tally.heap_kib = most >> 10;
	if (most > HEAP_MAX)
		whole_fail(w,
			   "a node has %zu MiB in memory when all is at rest",
			   most >> 20);
}

void whole_end(struct whole *w)
{
	strangers_free(w->strangers);
	for (size_t i = 0; i < WHOLE_STREAMS; i++)
		stream_free(w->stream[i]);
	change_free(w->change);
	clients_end(&w->clients);
	stop_all(w);
	for (unsigned i = 0; i < w->plan.machines; i++)
		machine_done(&w->machine[i]);
	net_done(&w->net);
	witness_free(w->witness);
	free(w->states);
	(void)dir_remove(w->dir);
}
