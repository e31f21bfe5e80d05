/*
 * A slow disk, and a full one, for tests: only in builds with CORVO_FAULTS.
 * While the file named by CORVO_FAULT_LOG_DELAY holds a number, the log says so
 * many milliseconds late that an entry is on the disk. While the one named by
 * CORVO_FAULT_NO_VOTE does, and it is not 0, there is no room for a term or a
 * vote.
 *
 * One node per process. Loop thread.
 */
#ifndef CORVO_NODE_FAULT_H
#define CORVO_NODE_FAULT_H

struct loop;
struct raft_io;

#ifdef CORVO_FAULTS
void node_fault_begin(struct raft_io *io, struct loop *l);
void node_fault_end(void); /* says all of them at once */
#else
static inline void node_fault_begin(struct raft_io *io, struct loop *l)
{
	(void)io;
	(void)l;
}

static inline void node_fault_end(void)
{
}
#endif

#endif
