/*
 * The start of a node: its log, its cluster.
 */
#include "cluster/fit.h"
#include "cluster/node_base.h"
#include "cluster/node_fault.h"
#include "cluster/node_log.h"
#include "cluster/ownlog.h"
#include "proto/err.h"

#define HEARTBEAT_PART 6 /* of the election timeout */
/* Until a snapshot is offered again: it is only a manifest. */
#define INSTALL_TIMEOUT_MS 2000

int node_raft_failed(struct node *n, int rv, const char *what, struct buf *why)
{
	const char *text = n->opened ? raft_errmsg(&n->raft) : n->io.errmsg;

	if (text == NULL || text[0] == '\0')
		text = raft_strerror(rv);
	buf_printf(why, "raft: cannot %s: %s", what, text);
	return rv == RAFT_NOSPACE ? -ERR_STORAGE_FULL : -ERR_INTERNAL_ERROR;
}

const char *node_loose_text(const struct settings *s)
{
	return ownlog_is_wanted(s)
		   ? "--durable=false: writes are answered before they are on "
		     "the disk; a power failure loses what was answered in the "
		     "seconds before it, and the node may have to be recovered "
		     "then"
		   : "--durable=false needs --raft-store=segment: every write "
		     "is flushed before it is answered";
}

/* --- the log, before the library sees it --- */

static void refuse(const struct settings *s, const char *what,
		   const struct buf *clause, struct buf *why)
{
	buf_printf(why, "%s: %.*s; ", what, STR_ARG(buf_str(clause)));
	if (settings_is_cluster(s))
		buf_printf(why,
			   "when %s/raft and %s/rocks were only mixed up, put "
			   "back those of its last run; otherwise start with "
			   "an empty --data-dir, and the other nodes send this "
			   "one what they have; when there are no others, ",
			   s->data_dir, s->data_dir);
	else
		buf_printf(why,
			   "put back copies of %s/raft and %s/rocks that were "
			   "taken together, or ",
			   s->data_dir, s->data_dir);
	buf_printf(why, "run `corvo recover --node-id=%s --data-dir=%s`",
		   s->node_id, s->data_dir);
}

static int judge_log(struct fit *f, const struct settings *s, struct buf *why)
{
	_cleanup_(buf_done) struct buf clause = BUF_INIT(0);

	if (f->log.damage.n > 0) {
		refuse(s, "the raft log is damaged", &f->log.damage, why);
		return -ERR_CONFLICT;
	}
	if (!fit_judge(f, &clause)) {
		refuse(s, "the raft log and the store do not fit", &clause,
		       why);
		return -ERR_CONFLICT;
	}
	return log_check_mend(&f->log, why) < 0 ? -ERR_INTERNAL_ERROR : 0;
}

/* The entries from now on belong to the history there is. */
static void choose_history(struct node *n, const struct fit *f, bool joins)
{
	n->history = f->log.history;
	if (history_is_none(&n->history))
		n->history = f->store.origin.history;
	if (history_is_none(&n->history) && !joins)
		history_make(&n->history);
}

/* What is not flushed cannot be known to be there after a crash. */
static void begin_mark(struct node *n, const struct settings *s,
		       const char *dir, const struct mark *last)
{
	if (s->durable || !ownlog_is_wanted(s))
		node_mark_init(&n->mark, dir, last, &n->history);
}

static int node_look_at_log(struct node *n, const struct node_config *c,
			    const char *dir, bool *is_new, struct buf *why)
{
	struct fit f = { .store = { c->store_index, c->store_origin } };
	int r = fit_read(&f, dir, why);

	r = r < 0 ? -ERR_INTERNAL_ERROR : judge_log(&f, c->settings, why);
	if (r == 0) {
		choose_history(n, &f, c->joins);
		*is_new = f.log.is_new;
		if (*is_new && c->settings->bootstrap && !c->joins)
			log_check_forget(&f.log);
		n->applied = c->store_index;
		n->origin = c->store_origin;
		begin_mark(n, c->settings, dir, &f.log.mark);
		if (ownlog_convert(&f.log, c->settings, why) < 0)
			r = -ERR_INTERNAL_ERROR;
	}
	fit_done(&f);
	return r;
}

/* --- the library --- */

static void node_set_limits(struct node *n)
{
	unsigned election_ms = (unsigned)(n->election_ns / NS_PER_MS);

	raft_set_election_timeout(&n->raft, election_ms);
	raft_set_heartbeat_timeout(&n->raft, election_ms / HEARTBEAT_PART);
	raft_set_install_snapshot_timeout(&n->raft, INSTALL_TIMEOUT_MS);
	raft_set_snapshot_threshold(&n->raft, SNAPSHOT_NEVER);
	raft_set_snapshot_trailing(&n->raft, SNAPSHOT_TRAILING);
	raft_set_pre_vote(&n->raft, true);
}

static int node_open(struct node *n, const struct node_config *c, bool *is_new,
		     struct buf *why)
{
	_cleanup_(buf_done) struct buf dir = BUF_INIT(0);
	const struct settings *s = c->settings;
	uint64_t id;
	int r;

	r = node_identity(s, c->joins, &id, why);
	if (r < 0)
		return r;
	r = node_folder(s, &dir, why);
	if (r == 0)
		r = guard_refuse(dir.p, why);
	if (r == 0)
		r = node_look_at_log(n, c, dir.p, is_new, why);
	if (r < 0)
		return r;
	r = node_base_open(n, s, dir.p);
	if (r != 0)
		return node_raft_failed(n, r, "open the log", why);
	node_wire_close(n);
	if (ownlog_is_wanted(s))
		node_log_wire(n, s, dir.p);
	guard_wire(n);
	node_fault_begin(&n->io, n->loop);
	if (n->port != NULL) {
		node_watch_appends(n);
		node_pieces_start(n);
	}
	node_watch_terms(n);
	node_watch_snapshots(n);
	node_wire_sends(n);
	node_watch_installs(n);
	guard_vote_wire(n);
	r = raft_init(&n->raft, &n->io, &n->fsm, id, settings_advertise(s));
	if (r != 0) {
		node_raft_failed(n, r, "open the log", why);
		node_base_close(n);
		return -ERR_INTERNAL_ERROR;
	}
	n->opened = true;
	node_set_limits(n);
	return n->log != NULL ? node_log_open(n, dir.p, why) : 0;
}

static int node_bootstrap(struct node *n, const struct node_config *c,
			  struct buf *why)
{
	struct raft_configuration conf;
	int r;

	raft_configuration_init(&conf);
	r = raft_configuration_add(&conf, n->raft.id,
				   settings_advertise(c->settings), RAFT_VOTER);
	if (r == 0)
		r = raft_bootstrap(&n->raft, &conf);
	raft_configuration_close(&conf);
	if (r != 0)
		return node_raft_failed(n, r, "bootstrap", why);
	return 0;
}

/* Without members it would wait for a leader that cannot come. */
static int node_has_cluster(struct node *n, const struct node_config *c,
			    struct buf *why)
{
	if (n->raft.configuration.n > 0 || c->joins)
		return 0;
	buf_printf(why,
		   "%s holds no cluster yet and --bootstrap=false forbids to "
		   "make one; start with --join=host:port to join one, without "
		   "--bootstrap=false, or with the --data-dir of a node",
		   c->settings->data_dir);
	return -ERR_CONFLICT;
}

static void node_wire(struct node *n)
{
	n->fsm =
	    (struct raft_fsm){ .version = 3, .data = n, .apply = node_apply };
	node_wire_snapshots(n);
}

int node_start(struct loop *l, const struct node_config *c,
	       const struct node_ops *ops, void *ctx, struct node **ret,
	       struct buf *why)
{
	struct node *n = xcalloc(1, sizeof(*n));
	bool is_new = false;
	uint64_t seed;
	int r;

	n->loop = l;
	n->ops = ops;
	n->ctx = ctx;
	n->port = c->port;
	n->data_dir = c->settings->data_dir;
	n->election_ns = c->settings->election_timeout;
	n->mark.fd = -1;
	rng_system(&seed, sizeof(seed));
	rng_seed(&n->rng, seed);
	/* half is for what comes while a snapshot is taken */
	n->snapshot_bytes = MIN(c->settings->snapshot_bytes,
				c->settings->raft_max_pending_bytes / 2);
	/* and a quarter for those who are a little behind */
	n->trailing_bytes =
	    MIN(n->snapshot_bytes, c->settings->raft_max_pending_bytes / 4);
	/* while one fetches a snapshot there is the quarter left that remains
	 * for what comes */
	n->kept_bytes =
	    c->settings->raft_max_pending_bytes / 4 * 3 - n->snapshot_bytes;
	node_wire(n);
	*ret = n;
	r = node_open(n, c, &is_new, why);
	if (r == 0 && is_new && c->settings->bootstrap && !c->joins)
		r = node_bootstrap(n, c, why);
	if (r < 0)
		return r;
	r = raft_start(&n->raft);
	if (r != 0)
		return node_raft_failed(n, r, "start", why);
	guard_started(n);
	r = node_has_cluster(n, c, why);
	if (r == 0)
		r = node_confirm(n, c->settings, why);
	if (r < 0)
		return r;
	node_watch(n);
	return 0;
}

int node_stands_alone(const struct node *n, struct buf *why)
{
	size_t members = n->raft.configuration.n;
	struct node_server self;

	if (members == 0 ||
	    (members == 1 && node_server_find(n, n->raft.id, &self)))
		return 0;
	buf_printf(why,
		   "%s is that of a node of a cluster of %zu; start it with "
		   "--cluster, as it was before, or run `corvo cluster recover "
		   "--data-dir=%s` to make it a cluster of its own",
		   n->data_dir, members, n->data_dir);
	return -ERR_CONFLICT;
}
