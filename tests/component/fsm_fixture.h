/*
 * The state machine on the store in memory and on RocksDB at once. Every entry
 * goes to both; replies must be the same to the byte, and after it both stores
 * must hold the same and be consistent in themselves.
 */
#ifndef CORVO_FSM_FIXTURE_H
#define CORVO_FSM_FIXTURE_H

#include "lib/testlib.h"

#include "fsm/fsm.h"
#include "store/record.h"
#include "util/hmap.h"

#define FX_START_NS (1700000000 * NS_PER_S)

enum fx_side_id { FX_MEM, FX_ROCKS, FX_SIDES };

struct fx_side {
	struct kv *kv;
	struct fsm *f;
	uint64_t latest_ns; /* the latest time there was */
	uint64_t back_ns;   /* that the clock was set back in all */
};

struct fx_reply {
	int err;
	uint64_t seq;
	struct str body;
};

struct twins;

struct fx {
	struct fx_side side[FX_SIDES];
	char dir[64];
	uint64_t raft_index;
	uint64_t now_ns;  /* of the next entry */
	uint64_t last_ns; /* of the last one; 0: none */
	bool unchecked;   /* leaves out the checks after each entry */
	bool breaks;      /* what is stored, or in memory: checks may fail */
	uint64_t budget;  /* of an entry; 0: as usual */
	/* All requests come from one caller; it may ask for the answers of the
	 * last few again. */
	uint64_t calls, keep;
	struct hmap sent; /* op and body -> number of the last such request */
	struct frame_writer w;
	struct buf entry;
	struct arena arena;  /* what was read since the last entry */
	struct twins *twins; /* of the side in memory (fsm_twin.h); or NULL */
	struct fx_reply *replies;
	size_t n; /* items added, then replies */
};

/* For cmocka: *state is a struct fx. */
int fx_setup(void **state);
int fx_setup_level(void **state); /* and all may be used */
int fx_teardown(void **state);

/* A new state machine, loaded from the store; RocksDB is opened anew. */
void fx_restart(struct fx *x, enum fx_side_id side);

/* Entries may do less than usual, also after a restart. */
void fx_set_budget(struct fx *x, uint64_t bytes);

/* An entry: begin, add items, commit; then x->replies. */
void fx_begin(struct fx *x);
void fx_add(struct fx *x, enum op_id op, uint32_t flags, const void *request);
void fx_commit(struct fx *x);
/* Hands the bytes of an entry to both sides. */
void fx_apply(struct fx *x, struct str entry);

/*
 * An entry of one item. Returns 0 with *reply decoded (if not NULL), or the
 * ERR_ number; then the text is in x->replies[0].body.
 */
int fx_do(struct fx *x, enum op_id op, const void *request, void *reply);
/* The last request of that op and content comes again, in an entry of its own;
 * one that never came comes late. */
#define FX_KEEP 50 /* of x->keep, at first */
int fx_resend(struct fx *x, enum op_id op, const void *request, void *reply);
/* As fx_add, with an encoded request; returns its number, 0: it has none. */
uint64_t fx_add_raw(struct fx *x, enum op_id op, uint32_t flags,
		    struct str body);
/* The request of that number comes again. */
void fx_add_again(struct fx *x, enum op_id op, uint64_t id, struct str body);

/* The same as release 0.4.0 wrote it, with these flags: format 1. */
int fx_do_old(struct fx *x, enum op_id op, uint32_t flags, const void *request);

/* Refused with this code and text, and nothing changed. */
void fx_refused(struct fx *x, enum op_id op, const void *request, int err,
		const char *text);

/* --- short forms --- */

/* All that this version knows may be used. */
void fx_raise_level(struct fx *x);

struct m_enqueue fx_new(const char *id, const char *queue);
void fx_enqueue(struct fx *x, const char *id, const char *queue);
void fx_cap(struct fx *x, const char *queue, uint64_t max_backlog);
/*
 * A job of queue "q" in that state, by the ways a job gets there; expires in an
 * hour. Nothing else may be pending there.
 */
void fx_make(struct fx *x, const char *id, enum job_state s);
/* Takes one job of the queue as worker "w1"; false: there was none. */
bool fx_fetch(struct fx *x, const char *queue, struct m_fetched *ret);
/* Takes one and says which. */
void fx_expect(struct fx *x, const char *queue, const char *id);
void fx_expect_none(struct fx *x, const char *queue);
/* promote, reclaim or expire; returns the count. */
uint32_t fx_maintain(struct fx *x, enum op_id op, uint32_t limit, bool *more);
void fx_job_op(struct fx *x, enum op_id op, const char *id, const char *status);
void fx_queue_op(struct fx *x, enum op_id op, const char *queue);

/* The job as clients see it; fails the test when it is absent. */
const struct m_job *fx_job(struct fx *x, const char *id);
bool fx_job_exists(struct fx *x, const char *id);
/* Its timeline as "enqueued started ...". */
void fx_timeline(struct fx *x, const char *id, const char *expected);
void fx_expect_state(struct fx *x, const char *id, enum job_state s);

/* --- checks (fsm_check.c) --- */

/* All keys and values in one text. */
void fx_dump(struct kv *kv, struct buf *ret);
/* Without the applied index and the answers that are kept. */
void fx_dump_state(struct kv *kv, struct buf *ret);
/* Both sides hold the same. */
void fx_check_same(struct fx *x);
/* Each job is in the index its state says and in no other, counts are true,
 * events are dense; the working set agrees with the store. */
void fx_check_side(struct fx_side *s);
/* Counts of batches against their jobs (fsm_check_batch.c). */
void fx_check_batches(const struct fx_side *side);
/* Schedules, in memory and in the store. */
void fx_check_schedules(const struct fx_side *side);
void fx_check_bulks(const struct fx_side *side);
/* Sums of usage and prices (fsm_check_usage.c). */
bool fx_is_usage_key(struct str key);
void fx_check_usage(const struct fx_side *side);
size_t fx_count_keys(const struct fx_side *side, const char *kind);
/* Budgets (fsm_check_purse.c). */
bool fx_is_purse_key(struct str key);
void fx_check_purses(const struct fx_side *side);
/* Inbound webhooks (fsm_check_inbound.c). */
void fx_check_hooks(const struct fx_side *side);
/* Numbers of Scheduled-DB (fsm_check_sdb.c). */
void fx_check_sdb(const struct fx_side *side);
/* Webhooks (fsm_check_webhook.c). */
void fx_check_webhooks(const struct fx_side *side);
void fx_check_policies(const struct fx_side *side);

#endif
