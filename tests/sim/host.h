/*
 * A machine of the simulation: what one node stands on.
 */
#ifndef CORVO_SIM_HOST_H
#define CORVO_SIM_HOST_H

#include <stdio.h>

#include "disk.h"

#define SIM_ADDRESS 32 /* bytes */

struct sim_net;

struct sim_host {
	struct sim *sim;
	unsigned number;
	struct loop loop;
	struct sim_disk disk;
	struct sim_net *net;
	uint64_t id;         /* raft's, of the node that is or was here */
	uint64_t place;      /* its address has this number; 0: that of id */
	struct node *node;   /* NULL: it does not run */
	unsigned life;       /* how often one was started */
	int64_t wall_off_ns; /* what its wall clock has been set by */
	int64_t wall_ppm;    /* and how much too fast it is */
	/* where its messages go, while it runs */
	struct raft_io *io;
	raft_io_recv_cb recv;
	bool is_crash;     /* it is being stopped by one */
	unsigned dies_in;  /* it dies before so many writes; 0: it does not */
	uint64_t lost_max; /* entries a crash may lose although told */
	unsigned early;    /* messages of a hundred: see send_early in base.c */
	/* snapshots, sends and work take up to that */
	uint64_t work_max_ns;
};

static inline struct sim_host *host_of(const struct loop *l)
{
	return l->host;
}

/* It is about to write something. */
static inline void host_writes(struct sim_host *h)
{
	if (h->dies_in > 0 && --h->dies_in == 0 && h->sim->here == &h->loop)
		sim_die(h->sim);
}

/* What host_address wants to know of it. */
static inline uint64_t host_place(const struct sim_host *h)
{
	return h->place != 0 ? h->place : h->id;
}

/* Of the node with that number. */
static inline void host_address(uint64_t id, char ret[SIM_ADDRESS])
{
	(void)snprintf(ret, SIM_ADDRESS, "n%llu:1", (unsigned long long)id);
}

#endif
