#include "raftd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "cluster/install.h"
#include "faultlog.h"
#include "lead.h"
#include "peers.h"
#include "rt/file.h"
#include "rt/log.h"
#include "rt/room.h"
#include "serve/keep.h"
#include "serve/standing.h"
#include "serve/svc.h"
#include "skip.h"
#include "store/record.h"
#include "store_prepare.h"
#include "util/clock.h"

struct raftd {
	struct parts p;
	struct rpc_server *rpc;
	struct svc *svc;
	struct peers *peers;     /* NULL: there are no other nodes */
	struct loop_timer *room; /* looks at the disk */
	bool no_room;            /* the store was opened on a full disk */
	struct lead lead;
	bool leading;      /* grace was given for this leadership */
	bool unborn;       /* the disk knows of no entry yet */
	uint64_t replayed; /* entries applied since the start, or flushed */
	uint64_t shown_ns; /* that it lives, while it applies */
	bool handing_over; /* leadership, before the drain */
	bool draining;
	uint64_t drained_ns; /* since when */
	bool stopping;       /* the node is being closed */
	bool ended;          /* so is all of the process */
	bool failed;         /* a start that waited for room did */
};

#define WORKER_NICE 10 /* what runs there can wait for a turn of the loop */
#define ROOM_NS     NS_PER_S /* between looks at the disk */

/*
 * Changes that may gather before RocksDB gets them: enough for most of a short
 * job's life, little enough to be written without a noticeable pause.
 */
#define WRITE_BEHIND_BYTES (1u << 20)

/* --- the node calls --- */

static void note_damage(struct raftd *r, uint64_t raft_index)
{
	bool heals = settings_is_cluster(&r->p.d->settings);

	if (r->p.damage.n > 0)
		return;
	buf_printf(&r->p.damage,
		   "the store cannot apply entry %" PRIu64
		   " of the log: %s; nothing is written any more; %sput that "
		   "file back from a backup of this data directory, or mend "
		   "the disk, and restart the node: the log still has what "
		   "the store has not",
		   raft_index, kv_error_text(),
		   heals ? "the node fetches the leader's store by itself; "
			   "should that fail, "
			 : "");
	log_error("%.*s", STR_ARG(buf_str(&r->p.damage)));
}

static int on_rewind(void *ctx, uint64_t *ret_index)
{
	struct raftd *r = ctx;
	int e = fsm_rewind(r->p.fsm);

	*ret_index = fsm_applied_index(r->p.fsm);
	return e;
}

/*
 * The first entry of a node is on the disk before it is answered: a store that
 * knows of none would take a lost log for that of a new node.
 */
static void be_born(struct raftd *r)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (!r->unborn || !proposer_stats(r->p.proposer)->disk_ok)
		return;
	if (fsm_flush(r->p.fsm) < 0 || kv_flush(r->p.kv, &why) < 0)
		return; /* told by the store; the next entry tries again */
	r->unborn = false;
}

/*
 * Many entries may be applied in one turn of the loop, at a start or after an
 * absence. Each of them is bounded, and progress.
 */
static void show_life(struct raftd *r)
{
	uint64_t every_ns = r->p.d->notify.watchdog_ns;
	uint64_t now_ns = clock_mono_ns();

	if (every_ns == 0 || now_ns - r->shown_ns < every_ns)
		return;
	r->shown_ns = now_ns;
	daemon_beat(r->p.d);
}

static int on_apply(void *ctx, uint64_t raft_index, const void *tag,
		    const struct entry_origin *o, struct str entry)
{
	struct raftd *r = ctx;
	int e;

	fsm_set_origin(r->p.fsm, o);
	daemon_doing("applying entry ", raft_index);
	e = proposer_apply(r->p.proposer, raft_index, tag, entry);
	daemon_doing(NULL, 0);
	show_life(r);
	faultlog_tell(r->p.fsm);
	if (e == -ERR_STORAGE_ERROR)
		note_damage(r, raft_index);
	else if (e < 0 && entry_format(entry) > STORED_FORMAT)
		log_error("entry %" PRIu64
			  " of the raft log has format %" PRIu64
			  " and this version of Corvo knows formats up to %u; "
			  "start the version that wrote it",
			  raft_index, entry_format(entry), STORED_FORMAT);
	else if (e == -ERR_UNSUPPORTED)
		log_error("entry %" PRIu64
			  " of the raft log cannot be applied: %.*s",
			  raft_index, STR_ARG(fsm_stop_text(r->p.fsm)));
	throughput_note(&r->p.throughput, fsm_now_ns(r->p.fsm),
			fsm_counters(r->p.fsm));
	if (e == 0)
		be_born(r);
	if (e == 0 && fsm_take_compare(r->p.fsm))
		svc_compare(r->svc);
	r->replayed += !r->leading;
	lead_look(&r->lead);
	return e;
}

static int on_before_snapshot(void *ctx)
{
	struct raftd *r = ctx;

	if (!proposer_stats(r->p.proposer)->disk_ok)
		return -ERR_STORAGE_FULL;
	node_keep_log(r->p.node, keep_read_from(r->p.keep, clock_mono_ns()));
	return fsm_flush(r->p.fsm);
}

/*
 * Pool thread. The log may be cut only up to what a flushed checkpoint holds;
 * the checkpoint is hard links, and stays as the state to send to a follower.
 */
static int on_make_durable(void *ctx, uint64_t index, struct buf *why)
{
	struct raftd *r = ctx;
	uint64_t begin = clock_mono_ns();
	int e = keep_make(r->p.keep, r->p.kv, index, why);

	if (e == 0)
		log_info("snapshot taken index=%" PRIu64 " ms=%" PRIu64, index,
			 (clock_mono_ns() - begin) / NS_PER_MS);
	return e;
}

static void flush_work(void *ctx)
{
	struct raftd *r = ctx;
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (kv_flush(r->p.kv, &why) < 0)
		log_warn("flush: %.*s; the log has it all",
			 STR_ARG(buf_str(&why)));
}

static void on_replay_flushed(_unused_ void *ctx)
{
}

/* What was replayed need not be again, should this process be killed, too. */
static void flush_replayed(struct raftd *r)
{
	if (r->replayed == 0 || !proposer_stats(r->p.proposer)->disk_ok ||
	    fsm_flush(r->p.fsm) < 0)
		return;
	r->replayed = 0;
	worker_run(r->p.worker, flush_work, on_replay_flushed, r);
}

static void on_change(void *ctx)
{
	struct raftd *r = ctx;

	if (r->peers != NULL)
		peers_on_change(r->peers);
	if (node_is_up(r->p.node))
		daemon_ready(r->p.d);
	if (!node_is_ready(r->p.node)) {
		if (r->leading)
			leases_lead_no_more(r->p.leases);
		r->leading = false;
		lead_end(&r->lead);
		return;
	}
	if (r->leading)
		return;
	r->leading = true;
	leases_lead(r->p.leases, node_blind_ns(r->p.node));
	lead_begin(&r->lead);
	flush_replayed(r);
	log_info("ready index=%" PRIu64 " seq=%" PRIu64 " ms=%" PRIu64,
		 fsm_applied_index(r->p.fsm), fsm_last_seq(r->p.fsm),
		 (clock_mono_ns() - r->p.started_ns) / NS_PER_MS);
	daemon_ready(r->p.d);
}

static void on_install(void *ctx, const struct node_install *i)
{
	struct raftd *r = ctx;

	peers_on_install(r->peers, i); /* who else could offer one */
}

static void find_address(void *ctx, uint64_t raft_id, const char *configured,
			 struct buf *ret)
{
	peers_find(((struct raftd *)ctx)->peers, raft_id, configured, ret);
}

static const struct node_ops node_ops = {
	.on_install = on_install,
	.address_of = find_address,
	.apply = on_apply,
	.before_snapshot = on_before_snapshot,
	.make_durable = on_make_durable,
	.rewind = on_rewind,
	.on_change = on_change,
};

static void pass_on(void *ctx, struct rpc_req req,
		    const struct frame_request *item)
{
	struct raftd *r = ctx;

	forward_submit(r->p.forward, req, item);
}

static bool take_renewals(void *ctx, struct buf *body, bool *more)
{
	struct raftd *r = ctx;

	return leases_take(r->p.leases, body, more);
}

/* --- start --- */

static int data_path(struct raftd *r, const char *name, struct buf *ret,
		     struct buf *why)
{
	int e;

	buf_printf(ret, "%s/%s", r->p.d->settings.data_dir, name);
	buf_putc(ret, '\0');
	e = dir_make(ret->p);
	if (e < 0)
		buf_printf(why, "cannot make %s: %s", ret->p, strerror(-e));
	return e < 0 ? -ERR_INTERNAL_ERROR : 0;
}

static int open_store(struct raftd *r, struct buf *why)
{
	const struct settings *s = &r->p.d->settings;
	struct kv_options o = {
		.write_buffer_bytes = s->rocksdb_write_buffer,
		.cache_bytes = s->rocksdb_cache,
		.no_room = r->no_room,
	};
	_cleanup_(buf_done) struct buf rocks = BUF_INIT(0);
	_cleanup_(buf_done) struct buf checkpoints = BUF_INIT(0);
	int e = data_path(r, "rocks", &rocks, why);

	if (e == 0)
		e = data_path(r, "checkpoints", &checkpoints, why);
	if (e == 0)
		e = kv_rocks_open(rocks.p, &o, &r->p.kv, why);
	if (e == 0)
		e = store_prepare(r->p.kv, &r->p.d->notify, rocks.p, why);
	if (e < 0)
		return e;
	r->p.kv = kv_behind_new(r->p.kv, s->rocksdb_write_buffer);
	kv_behind_on_wait(r->p.kv, daemon_beat, r->p.d);
	r->p.fsm = fsm_new(r->p.kv);
	fsm_write_behind(r->p.fsm, WRITE_BEHIND_BYTES);
	fsm_on_progress(r->p.fsm, daemon_beat, r->p.d);
	e = skips_load(s->data_dir, r->p.fsm, why);
	if (e < 0)
		return e;
	e = fsm_load(r->p.fsm);
	if (e == 0 && fsm_level(r->p.fsm) > FEATURE_LEVEL) {
		buf_printf(why,
			   "the state in %s uses feature level %u and this "
			   "version of Corvo knows levels up to %u; start the "
			   "version that wrote it, or a newer one",
			   rocks.p, fsm_level(r->p.fsm), FEATURE_LEVEL);
		return -ERR_CONFLICT;
	}
	r->unborn = e == 0 && fsm_applied_index(r->p.fsm) == 0;
	if (e < 0)
		buf_printf(why,
			   "cannot read the state in %s: %s; put the file back "
			   "from a backup of this data directory, or, in a "
			   "cluster, start this node with an empty one",
			   rocks.p,
			   e == -ERR_STORAGE_ERROR ? kv_error_text()
						   : err_text(-e));
	return e;
}

static int listen_all(struct raftd *r, struct buf *why)
{
	static const enum proc_id single[] = { PROC_VIEWD, PROC_SCHED };
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int e = 0;

	for (size_t i = 0; e == 0 && i < ARRAY_SIZE(single); i++) {
		daemon_link_path(r->p.d, PROC_RAFTD, single[i], 0, &path);
		e = rpc_server_listen(r->rpc, path.p, why);
	}
	for (unsigned i = 0; e == 0 && i < r->p.d->settings.httpd_processes;
	     i++) {
		daemon_link_path(r->p.d, PROC_RAFTD, PROC_HTTPD, i, &path);
		e = rpc_server_listen(r->rpc, path.p, why);
	}
	return e;
}

static void make_parts(struct raftd *r)
{
	struct proposer_config c = {
		.loop = r->p.d->loop,
		.settings = &r->p.d->settings,
		.fsm = r->p.fsm,
		.take_renewals = take_renewals,
		.pass_on =
		    settings_is_cluster(&r->p.d->settings) ? pass_on : NULL,
		.ctx = r,
	};

	if (settings_is_cluster(c.settings))
		r->p.address = settings_advertise(c.settings);
	r->p.proposer = proposer_new(&c);
	r->p.leases = leases_new(r->p.d->loop, r->p.fsm, r->p.proposer);
	r->p.keep = keep_new(r->p.d->settings.data_dir);
	r->p.worker = worker_new(r->p.d->loop, "reader", WORKER_NICE);
	r->p.prompt = worker_new(r->p.d->loop, "reader-prompt", 0);
	r->lead =
	    (struct lead){ .p = &r->p, .voters = peers_voters, .ctx = &r->p };
	r->svc = svc_new(&r->p);
	r->rpc = rpc_server_new(r->p.d->ipc, PROC_RAFTD, &svc_ops, r->svc);
}

static int start(struct raftd *r, struct buf *why)
{
	const struct settings *s = &r->p.d->settings;
	struct node_config c = { .settings = s, .joins = peers_joins(s) };
	int e;

	r->p.installed = install_index(s, &r->p.healed);
	e = standing_check(s, why);
	if (e == 0)
		e = install_finish(s, why);
	if (e < 0)
		return e;
	r->no_room = room_look(c.settings, ROOM_NONE) != ROOM_OK;
	e = open_store(r, why);
	if (e < 0)
		return e;
	room_reserve(c.settings); /* what opening has left of it */
	make_parts(r);
	c.store_index = fsm_applied_index(r->p.fsm);
	c.store_origin = *fsm_origin(r->p.fsm);
	if (settings_is_cluster(s)) {
		e = peers_open(&r->p, r->svc, &r->peers, why);
		if (e < 0)
			return e;
		c.port = peers_port(r->peers);
	}
	e = node_start(r->p.d->loop, &c, &node_ops, r, &r->p.node, why);
	if (e == 0 && r->peers == NULL)
		e = node_stands_alone(r->p.node, why);
	if (e < 0)
		return e;
	proposer_set_node(r->p.proposer, r->p.node);
	if (r->peers != NULL)
		peers_start(r->peers);
	return listen_all(r, why);
}

/* There was no room to open the store. */
static void start_later(struct raftd *r)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	int e;

	if (!room_to_open(&r->p.d->settings))
		return;
	e = start(r, &why);
	if (e == 0)
		return;
	r->failed = true;
	log_error("cannot start: %.*s", STR_ARG(buf_str(&why)));
	daemon_exit(r->p.d, e == -ERR_CONFLICT ? EXIT_NO_RETRY : EXIT_FAILURE);
}

static void use_room(struct raftd *r)
{
	const struct settings *s = &r->p.d->settings;

	if (!proposer_stats(r->p.proposer)->disk_ok)
		return;
	room_reserve(s);
	if (r->no_room &&
	    kv_set_write_buffer(r->p.kv, s->rocksdb_write_buffer) == 0)
		r->no_room = false;
}

static void on_room(void *ctx)
{
	struct raftd *r = ctx;

	loop_timer_arm(r->room, ROOM_NS);
	if (r->rpc == NULL)
		start_later(r);
	else
		use_room(r);
}

static int raftd_init(struct daemon *d, struct buf *why)
{
	struct raftd *r = xcalloc(1, sizeof(*r));

	d->state = r;
	r->p.d = d;
	r->p.started_ns = clock_mono_ns();
	if (!d->settings.durable)
		log_warn("%s", node_loose_text(&d->settings));
	r->room = loop_timer_add(d->loop, on_room, r);
	loop_timer_arm(r->room, ROOM_NS);
	if (room_to_open(&d->settings))
		return start(r, why);
	log_error("there is no room on the disk to open the store; waiting for "
		  "it dir=%s",
		  d->settings.data_dir);
	return 0;
}

/* Not while there is no room to, nor when it came to nothing. */
static bool has_started(const struct raftd *r)
{
	return r->rpc != NULL && !r->failed;
}

static void raftd_reload(struct daemon *d)
{
	struct raftd *r = d->state;

	if (has_started(r))
		lead_reload(&r->lead);
}

/* --- stop --- */

static void on_node_stopped(void *ctx)
{
	struct raftd *r = ctx;

	daemon_exit(r->p.d, 0);
}

static void flush_done(void *ctx)
{
	struct raftd *r = ctx;

	node_stop(r->p.node, on_node_stopped, r);
}

static void drain_now(struct raftd *r)
{
	r->draining = true;
	r->drained_ns = clock_mono_ns();
	proposer_drain(r->p.proposer);
	svc_drain(r->svc);
}

static void on_transferred(void *ctx, int err)
{
	struct raftd *r = ctx;

	if (err < 0)
		log_warn("no other node took the lead in time; stopping "
			 "without");
	r->handing_over = false;
	if (!r->ended)
		drain_now(r);
}

/* A leader hands over first: then others wait for no election. */
static void raftd_drain(struct daemon *d)
{
	struct raftd *r = d->state;

	if (!has_started(r)) {
		r->draining = true;
		daemon_exit(d, EXIT_SUCCESS);
	} else if (r->peers != NULL && !r->handing_over &&
		   peers_hand_over(r->peers, on_transferred, r)) {
		r->handing_over = true;
	} else if (!r->handing_over) {
		drain_now(r);
	}
}

/* The last entries are applied: flush, so that the next start is quick. */
static void maybe_stop(struct raftd *r)
{
	if (!r->draining || r->stopping || !proposer_is_idle(r->p.proposer) ||
	    (r->p.forward != NULL &&
	     !forward_is_over(r->p.forward, r->drained_ns)))
		return;
	r->stopping = true;
	if (fsm_flush(r->p.fsm) < 0)
		log_warn("the last changes are in the log only");
	worker_run(r->p.worker, flush_work, flush_done, r);
}

static void raftd_turn_end(struct daemon *d)
{
	struct raftd *r = d->state;

	if (!has_started(r))
		return;
	if (!r->stopping) {
		node_turn(r->p.node);
		proposer_pump(r->p.proposer);
	}
	maybe_stop(r);
	svc_turn_end(r->svc);
	if (r->peers != NULL)
		peers_turn_end(r->peers);
	rpc_server_flush(r->rpc);
}

static void raftd_done(struct daemon *d)
{
	struct raftd *r = d->state;

	if (r == NULL)
		return;
	loop_timer_remove(r->room);
	r->ended = true;
	if (r->svc != NULL)
		svc_end_work(r->svc);
	worker_free(r->p.worker);
	worker_free(r->p.prompt);
	node_free(r->p.node); /* ends what is under way in the proposer */
	leases_free(r->p.leases);
	proposer_free(r->p.proposer);
	peers_free(r->peers);
	rpc_server_free(r->rpc);
	svc_free(r->svc);
	keep_free(r->p.keep);
	fsm_free(r->p.fsm);
	kv_close(r->p.kv);
	buf_done(&r->p.damage);
	free(r);
	d->state = NULL;
}

const struct daemon_ops raftd_ops = {
	.proc = PROC_RAFTD,
	.single = true,
	.init = raftd_init,
	.reload = raftd_reload,
	.drain = raftd_drain,
	.done = raftd_done,
	.turn_end = raftd_turn_end,
};
