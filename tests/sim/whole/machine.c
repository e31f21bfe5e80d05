#include "machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "clients.h"
#include "keeper.h"
#include "reader.h"
#include "rt/file.h"
#include "whole.h"
#include "wire.h"

#define EXIT_RESTART_NS (100 * NS_PER_MS)
#define SCHED_PERCENT   50      /* of crashes: corvo-sched begins anew, too */
#define EVENT_RETENTION 1000000 /* that nobody reaches */

struct parts *machine_parts(struct machine *m)
{
	/* struct raftd begins with them */
	return m->runs ? (struct parts *)m->d.state : NULL;
}

static void on_turn_end(void *ctx)
{
	struct machine *m = ctx;

	m->silent_ns = m->apply_turn_ns = 0;
	if (!m->runs || m->is_leaving)
		return;
	raftd_ops.turn_end(&m->d);
	whole_look(m);
}

static void load_settings(struct machine *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	char node[32], dir[96], advertise[64], bytes[48], events[48], join[64];
	char *argv[] = { node,
			 dir,
			 advertise,
			 bytes,
			 (char *)"--cluster",
			 (char *)"--op-timeout=5s", /* OP_TIMEOUT_NS */
			 (char *)"--rocksdb-write-buffer=1MiB",
			 events,
			 join };
	uint64_t kept = m->w->plan.event_retention;

	(void)snprintf(node, sizeof(node), "--node-id=%s", m->name);
	(void)snprintf(dir, sizeof(dir), "--data-dir=%s", m->dir);
	(void)snprintf(advertise, sizeof(advertise), "--raft-advertise=%s",
		       m->address);
	(void)snprintf(bytes, sizeof(bytes), "--snapshot-bytes=%" PRIu64,
		       m->w->plan.snapshot_bytes);
	(void)snprintf(events, sizeof(events), "--event-retention=%" PRIu64,
		       kept != 0 ? kept : EVENT_RETENTION);
	/* the first one makes the cluster */
	(void)snprintf(join, sizeof(join), "--join=%s",
		       m->w->machine[m->host.number == 0].address);
	if (settings_load((int)ARRAY_SIZE(argv) - (m->host.id == 1), argv,
			  &m->d.settings, &why) < 0)
		whole_fail(m->w, "settings: %.*s", STR_ARG(buf_str(&why)));
}

static void name(struct machine *m)
{
	m->host.id = m->host.place = ++m->w->last_id;
	(void)snprintf(m->name, sizeof(m->name), "%" PRIu64, m->host.id);
	host_address(m->host.place, m->address);
}

void machine_wipe(struct machine *m, bool is_renamed)
{
	disk_wipe(&m->host.disk);
	machine_store_wipe(m);
	(void)dir_remove(m->dir);
	CHECK(mkdir(m->dir, 0700) == 0);
	m->applied = 0;
	if (is_renamed)
		name(m);
	else
		m->host.id = ++m->w->last_id;
	reader_forget(m->reader);
	sim_note(m->w->sim, "empty", m->host.number, m->host.id, 0, 0, 0);
}

static void on_death(void *ctx);

void machine_make(struct whole *w, unsigned number)
{
	struct machine *m = &w->machine[number];
	struct sim_host *h = &m->host;

	m->w = w;
	h->sim = w->sim;
	h->number = number;
	h->net = &w->net;
	h->loop.sim = w->sim;
	h->loop.host = h;
	w->net.host[number] = h;
	disk_init(&h->disk, w->sim, &h->loop);
	name(m);
	(void)snprintf(m->dir, sizeof(m->dir), "%s/%u", w->dir, number);
	CHECK(mkdir(m->dir, 0700) == 0);
	list_init(&m->points);
	m->kv = kv_mem_new();
	m->room = ROOM_OK;
	loop_on_turn_end(&h->loop, on_turn_end, m);
	h->loop.death = on_death;
	h->loop.death_ctx = m;
	m->desk = desk_new(m);
	m->keeper = keeper_new(m);
	m->reader = reader_new(m);
}

static void end(struct machine *m, bool is_crash)
{
	struct loop *before = sim_enter(&m->host.loop);

	sim_note(m->w->sim, is_crash ? "crash" : "exit", m->host.number,
		 m->applied, (uint64_t)m->status, 0, 0);
	m->host.is_crash = is_crash;
	m->host.loop.still_ns = 0;
	m->is_leaving = true;
	raftd_ops.done(&m->d);
	m->runs = false;
	m->host.node = NULL;
	ipc_free(m->d.ipc);
	sim_work_end(&m->host.loop, is_crash);
	settings_done(&m->d.settings);
	sim_forget(m->w->sim, &m->exit);
	if (is_crash)
		machine_store_crash(m);
	(void)sim_enter(before);
}

/* It has a reason to end that it may have. */
static bool may_exit(const struct machine *m)
{
	return m->is_drained || m->has_failed || m->host.disk.has_failed ||
	       m->incoming.kv != NULL || m->room != ROOM_OK;
}

static void exited(struct machine *m)
{
	bool may = may_exit(m);

	end(m, false);
	m->w->tally.exits++;
	if (change_is_of(m->w->change, m))
		return; /* it was removed */
	if (m->status == EXIT_NO_RETRY)
		whole_fail(m->w, "node %u refuses to go on", m->host.number);
	if (!may)
		whole_fail(m->w, "node %u ends with %d, without a reason",
			   m->host.number, m->status);
	machine_start_after(m, EXIT_RESTART_NS);
}

static void on_exit_event(void *ctx)
{
	exited(ctx);
}

void machine_start(struct machine *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct loop *before = sim_enter(&m->host.loop);
	int e;

	CHECK(!m->runs);
	sim_forget(m->w->sim, &m->restart);
	m->host.life++;
	m->host.is_crash = false;
	m->host.dies_in = m->dies_at_start;
	m->dies_at_start = 0;
	m->d = (struct daemon){ .proc = PROC_RAFTD,
				.loop = &m->host.loop,
				.ops = &raftd_ops };
	m->d.notify.supervisor_fd = m->d.notify.systemd_fd = -1;
	m->d.notify.watchdog_ns = m->watchdog_ns;
	load_settings(m);
	m->d.ipc = ipc_new(m->d.loop);
	m->is_ready = m->is_leaving = false;
	m->is_drained = m->has_failed = false;
	m->applied = 0;
	sim_note(m->w->sim, "start", m->host.number, m->host.id, 0, 0, 0);
	e = raftd_ops.init(&m->d, &why);
	if (e < 0 && !m->host.disk.has_failed && !m->has_failed)
		whole_fail(m->w, "node %u does not start: %.*s", m->host.number,
			   STR_ARG(buf_str(&why)));
	m->runs = true;
	m->host.node = machine_parts(m)->node;
	(void)sim_enter(before);
	if (e < 0) { /* its supervisor tries again */
		m->status = EXIT_FAILURE;
		exited(m);
	}
}

void machine_exits(struct machine *m, int status)
{
	if (sim_is_due(&m->exit))
		return;
	m->status = status;
	sim_after(m->w->sim, &m->exit, NULL, 0, on_exit_event, m);
}

void machine_crash(struct machine *m)
{
	end(m, true);
	m->w->tally.crashes++;
	if (!sim_chance(m->w->sim, SCHED_PERCENT))
		return;
	keeper_free(m->keeper);
	m->keeper = keeper_new(m);
}

/*
 * The process died in the middle of a turn. Its memory is no use to anybody,
 * and stays where it is; what others know of it goes.
 */
static void on_death(void *ctx)
{
	struct machine *m = ctx;
	struct loop *l = &m->host.loop;

	sim_note(m->w->sim, "death", m->host.number, m->applied, 0, 0, 0);
	m->w->tally.deaths++;
	m->w->tally.start_deaths += !m->runs;
	m->host.is_crash = true;
	m->host.loop.still_ns = 0;
	sim_forget_all(m->w->sim, l);
	wire_abandon(l);
	ipc_abandon(l);
	port_abandon(l);
	process_abandon(l);
	disk_abandon(&m->host.disk);
	net_abandon(&m->host);
	m->host.recv = NULL;
	m->host.node = NULL;
	disk_crash(&m->host.disk, m->host.lost_max);
	m->runs = false;
	m->d.state = NULL;
	settings_done(&m->d.settings);
	sim_forget(m->w->sim, &m->exit);
	machine_store_crash(m);
	if (!change_is_of(m->w->change, m))
		machine_start_after(m, EXIT_RESTART_NS);
}

void machine_drain(struct machine *m)
{
	struct loop *before = sim_enter(&m->host.loop);

	m->is_drained = true;
	raftd_ops.drain(&m->d);
	raftd_ops.turn_end(&m->d);
	(void)sim_enter(before);
}

static void on_restart(void *ctx)
{
	machine_start(ctx);
}

void machine_start_after(struct machine *m, uint64_t ns)
{
	sim_forget(m->w->sim, &m->restart);
	/* an event of its own: it may die in it */
	sim_after(m->w->sim, &m->restart, &m->host.loop, ns, on_restart, m);
}

void machine_stop(struct machine *m)
{
	sim_forget(m->w->sim, &m->restart);
	sim_forget(m->w->sim, &m->mended);
	if (m->runs)
		end(m, false);
}

void machine_done(struct machine *m)
{
	reader_free(m->reader);
	desk_free(m->desk);
	keeper_free(m->keeper);
	machine_store_done(m);
	disk_done(&m->host.disk);
	(void)dir_remove(m->dir);
}
