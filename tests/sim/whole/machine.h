/*
 * A machine of the simulation, with a whole corvo-raftd and one process beside
 * it that stands for corvo-httpd. What survives a crash is here.
 */
#ifndef CORVO_SIM_MACHINE_H
#define CORVO_SIM_MACHINE_H

#include "raftd.h"
#include "rt/room.h"
#include "serve/parts.h"
#include "sim/net.h"

struct whole;
struct desk;   /* clients.h */
struct keeper; /* keeper.h */
struct reader; /* reader.h */

/* A checkpoint: a copy of the store, and which entry it is named by. */
struct point {
	struct list node;
	uint64_t index;
	struct kv *kv;
};

/* A snapshot that came, until the next start puts it in place. */
struct incoming {
	struct kv *kv; /* NULL: none */
	struct node_install i;
	struct buf members;
};

struct machine {
	struct whole *w;
	struct sim_host host; /* its loop is corvo-raftd's */
	char name[16], address[SIM_ADDRESS], dir[64];
	/* the disk */
	struct kv *kv;
	struct list points; /* struct point; newest last */
	struct incoming incoming;
	enum room room;
	/* corvo-raftd, while it runs */
	struct daemon d;
	bool runs, is_ready, is_leaving;
	bool has_led; /* it was ready to, at some time */
	int status;   /* it exits with */
	struct sim_event exit, restart, mended;
	uint64_t watchdog_ns; /* from its next start on; 0: nobody watches */
	uint64_t apply_ns;    /* an entry takes; a turn takes no time else */
	uint64_t silent_ns;   /* applying, since it was seen to live */
	uint64_t silent_max_ns, apply_max_ns; /* the latter: in one turn */
	uint64_t apply_turn_ns;               /* in this one */
	/* what was seen of it last */
	uint64_t applied;
	/* the clients of this machine */
	struct desk *desk;
	struct keeper *keeper;
	struct reader *reader;
	uint32_t read_fails, write_fails; /* so many of its store do */
	bool has_failed;                  /* one did, in this life */
	bool is_drained;                  /* it is asked to end */
	unsigned dies_at_start; /* before so many writes of it; 0: not so */
};

static inline struct machine *machine_of(struct daemon *d)
{
	return container_of(d, struct machine, d);
}

static inline struct machine *machine_of_settings(const struct settings *s)
{
	return container_of((struct settings *)s, struct machine, d.settings);
}

static inline struct machine *machine_of_loop(const struct loop *l)
{
	return container_of(l->host, struct machine, host);
}

/* The parts of its corvo-raftd; NULL: it does not run. */
struct parts *machine_parts(struct machine *m);

/* number: its place among the others; it knows who the voters are. */
void machine_make(struct whole *w, unsigned number);
void machine_start(struct machine *m);
/* The process ends this moment, and loses what it had not flushed. */
void machine_crash(struct machine *m);
/* As the supervisor asks it to end. */
void machine_drain(struct machine *m);
void machine_start_after(struct machine *m, uint64_t ns);
/* Ends at once, and loses nothing. */
void machine_stop(struct machine *m);
void machine_done(struct machine *m); /* it was stopped */
/* It has an empty disk now, and its node is another one: with a name and an
 * address of its own, or with those the machine had. */
void machine_wipe(struct machine *m, bool is_renamed);
/* It ends by itself, when this event is over. */
void machine_exits(struct machine *m, int status);

/* --- process.c --- */

/* Its process is dead. */
void process_abandon(struct loop *l);

/* --- store.c: what it has on its disk but for the log --- */

void machine_store_crash(struct machine *m);
void machine_store_wipe(struct machine *m);
void machine_store_done(struct machine *m);

#endif
