/*
 * What the log weighs in memory: the library keeps every entry since the last
 * snapshot there, and some behind it.
 */
#include "cluster/node_impl.h"
#include "util/clock.h"

/* What the library keeps for an entry beside its bytes. */
#define ENTRY_OVERHEAD (sizeof(struct raft_entry) + 64)

/* A log that has not grown for a while is cut sooner: a node at rest keeps
 * little in memory, and has little to read at its next start. */
#define REST_NS    (10 * NS_PER_S)
#define REST_BYTES (UINT64_C(4) << 20)

static uint64_t entry_bytes(const struct raft *r, uint64_t index)
{
	size_t at = r->log.front + (size_t)(index - r->log.offset - 1);

	return ENTRY_OVERHEAD + r->log.entries[at % r->log.size].buf.len;
}

static uint64_t last_index(const struct raft *r)
{
	size_t n = r->log.back - r->log.front;

	if (r->log.back < r->log.front)
		n += r->log.size;
	return r->log.offset + n;
}

/* Brings the sums up to date: cheap unless the log was cut. */
static const struct node_weight *weigh(struct node *n)
{
	const struct raft *r = &n->raft;
	struct node_weight *w = &n->weight;
	uint64_t last = last_index(r);

	if (n->stopping) /* the log is being given back */
		return w;
	if (w->offset != r->log.offset || last < w->last ||
	    w->snapshot != r->log.snapshot.last_index)
		*w = (struct node_weight){
			.offset = r->log.offset,
			.last = r->log.offset,
			.snapshot = r->log.snapshot.last_index,
		};
	if (w->last < last)
		n->grown_ns = clock_mono_ns();
	while (w->last < last) {
		uint64_t bytes = entry_bytes(r, ++w->last);

		w->bytes += bytes;
		if (w->last > w->snapshot)
			w->uncut += bytes;
	}
	return w;
}

uint64_t node_log_bytes(struct node *n)
{
	return weigh(n)->bytes;
}

bool node_cut_is_due(struct node *n)
{
	return weigh(n)->uncut >= n->snapshot_bytes;
}

static bool rests(struct node *n, uint64_t now_ns)
{
	/* it may have been seen to grow after now_ns was read */
	return weigh(n)->uncut >= REST_BYTES && now_ns >= n->grown_ns + REST_NS;
}

bool node_wants_entry(struct node *n)
{
	uint64_t now = clock_mono_ns();

	if (!(n->cut.wanted || node_cut_is_due(n) || rests(n, now)) ||
	    n->raft.snapshot.pending.term != 0 || node_cut_must_wait(n) ||
	    (n->cut_asked_ns != 0 && now - n->cut_asked_ns < CUT_RETRY_NS))
		return false;
	n->cut_asked_ns = now;
	raft_set_snapshot_threshold(&n->raft, 1);
	return true;
}

void node_keep_log(struct node *n, uint64_t index)
{
	n->kept_index = index;
}

unsigned node_trailing(const struct node *n)
{
	const struct raft *r = &n->raft;
	/* Who is behind needs all of the state when it needs an entry that is
	 * gone; without others it is only a matter of the next start. */
	bool has_others = r->configuration.n > 1;
	uint64_t max_bytes =
	    has_others ? n->trailing_bytes : n->snapshot_bytes / TRAILING_PART;
	unsigned max = has_others ? SNAPSHOT_NEVER : SNAPSHOT_TRAILING;
	uint64_t sum = 0;
	unsigned i = 0;

	for (; i < max && r->last_applied - i > r->log.offset; i++) {
		uint64_t index = r->last_applied - i;
		bool is_kept =
		    has_others && n->kept_index > 0 && index >= n->kept_index;

		sum += entry_bytes(r, index);
		if (sum > (is_kept ? MAX(n->kept_bytes, max_bytes) : max_bytes))
			break;
	}
	return MAX(i, 1u);
}
