/*
 * Lanes: the pending jobs of a queue, apart by group where that matters. A
 * group has a lane of its own if its queue has fairness or limits of groups, or
 * the group has settings of its own: then the lane exists while the group has
 * pending or active jobs, or while something is still to be remembered of it.
 * All other jobs stand in the queue's base lane, in the order of their places:
 * groups that nothing is set for cost nothing. Nodes of feature level 1 have a
 * lane for every group.
 *
 * When settings change, jobs go from the base lane to lanes of their own or
 * come back from there, some with each entry: order/regroup.h.
 *
 * Which lane is next does not depend on what its windows hold: a lane stands
 * in the heap of its queue by a bound that is never too high, and is put right
 * when it is met. A lane that may not hand out now (paused, at its limit) is
 * in no heap of turns; one that only waits for its rate is in q->waiting.
 *
 * A queue with only its base lane and no limits is `plain`: its heaps are
 * empty and nothing here is asked about it.
 */
#ifndef CORVO_FSM_LANE_H
#define CORVO_FSM_LANE_H

#include "fsm/order/limiter.h"
#include "fsm/order/window.h"
#include "util/heap.h"
#include "util/hmap.h"
#include "util/list.h"

#define PRIORITIES 3

struct fsm;
struct fsm_queue;
struct key;

/* Empty lanes that are kept of a queue, since they had more turns. */
#ifdef CORVO_FAULTS
extern size_t lanes_idle_max; /* for tests, of all state machines */
#else
#define lanes_idle_max ((size_t)65536)
#endif

struct fsm_lane {
	struct str group; /* behind the struct; empty: the base lane */
	struct fsm_queue *q;
	struct window windows[PRIORITIES];
	struct heap_node turn[PRIORITIES]; /* in q->turns */
	uint64_t pending;
	uint64_t active;         /* of a group; the base lane does not count */
	uint64_t open;           /* jobs it may hand out, when last looked at */
	uint64_t pass;           /* fairness: lower goes first */
	struct limiter *limiter; /* NULL: nothing counted */
	const struct m_group_limit *own; /* in q->set, or NULL */
	struct heap_node wait;           /* in q->waiting */
	struct heap_node idle;           /* in f->idle, or q's by pass */
	bool idle_by_pass;
	struct heap_node leave; /* in q->leaving: it is not wanted any more */
	struct list dirty;      /* in f->dirty_lanes */
	bool stored;            /* has a record */
};

/* What a queue keeps of its lanes; a member of struct fsm_queue. */
struct lanes {
	struct fsm_lane base;
	bool plain;
	bool wide;    /* every group has a lane of its own */
	bool mixed;   /* jobs of groups may stand in the base lane; stored */
	bool parting; /* some of them shall leave it: it hands out nothing */
	uint8_t part_prio; /* how far that is; stored */
	uint64_t part_seq;
	uint64_t regroups;  /* portions that changed their lanes; stored */
	struct hmap groups; /* name -> struct fsm_lane */
	struct heap turns[PRIORITIES]; /* lanes that may hand out */
	struct heap waiting;           /* lanes by the moment they may again */
	struct heap idle;              /* empty lanes that are ahead, by pass */
	struct heap leaving;     /* lanes whose jobs go to the base lane */
	uint64_t open;           /* of all lanes */
	uint64_t time;           /* fairness: pass handed out last */
	struct limiter *limiter; /* of the queue */
	bool limiter_dirty;
	struct heap_node look;    /* in f->looks: when to look at it again */
	struct heap_node regroup; /* in f->regroup: parting, or some leave */
	struct list crowd; /* in f->crowds: an entry made too many idle */
};

/* A name that can stand in a key. */
bool group_name_fits(struct str group);

/* By queue and group: the order of lanes that may go at the same moment. */
int lane_cmp_idle(const struct heap_node *a, const struct heap_node *b);
/*
 * Of a lane without jobs. It is remembered while its rate still counts
 * something, and while it had more turns than the queue's time says: so many of
 * them and no more, or groups that come once would stay for ever.
 */
void lane_place_idle(struct fsm *f, struct fsm_lane *l);
void lane_leave_idle(struct fsm *f, struct fsm_lane *l);
/* The queue's time went on: lanes it passed need no remembering for it. */
void lanes_pass_idle(struct fsm *f, struct fsm_queue *q);
/* A lane of it is settled, and may be one more than are kept. */
void lanes_note_crowd(struct fsm *f, struct fsm_queue *q);
/* The end of an entry: what needs no remembering is forgotten. */
void lanes_forget(struct fsm *f);

void lanes_init(struct fsm *f, struct fsm_queue *q);
void lanes_done(struct fsm_queue *q);
/* One without jobs goes; of the base lane only what is stored. */
void lane_delete(struct fsm *f, struct fsm_lane *l);
/*
 * The queue goes, its jobs are gone: removes every trace of its lanes. 1: all
 * are gone; 0: the budget is spent before that; -ERR_*.
 */
int lanes_delete(struct fsm *f, struct fsm_queue *q);
/* q->set or the level is another; also after loading. */
void lanes_settings_changed(struct fsm *f, struct fsm_queue *q);
/* Writes touched lanes and forgets those nobody needs; ends each entry. */
void lanes_write_dirty(struct fsm *f);
/* When would time alone let the queue hand out more? For f->looks. */
void lanes_look(struct fsm *f, struct fsm_queue *q);
/* The limiter of the queue, if it counted in this entry. */
void lanes_write_limiter(struct fsm *f, struct fsm_queue *q);
/* Lanes whose rate allows jobs again take part again. */
void lanes_release(struct fsm *f, struct fsm_queue *q);
/* Jobs a fetch could take at that moment. */
uint64_t lanes_takeable(const struct fsm_queue *q, uint64_t now);
/* False: at a limit of the queue itself. */
bool lanes_queue_is_open(const struct fsm_queue *q, uint64_t now);

/* What is set for the queue, and for a group: 0 where there is no limit. */
struct rate lanes_rate(const struct fsm_queue *q);
struct rate lane_rate(const struct fsm_lane *l);
uint64_t lane_concurrency(const struct fsm_lane *l);

/* What is set for the group alone; NULL: nothing. */
const struct m_group_limit *lane_own(const struct fsm_queue *q,
				     struct str group);
/* With these settings every group has a lane of its own. */
bool lanes_are_wide(const struct fsm *f, const struct m_set_queue *s);
/* Jobs of the group stand in a lane of its own, or shall. */
bool lanes_want(const struct fsm_queue *q, struct str group);
/* The lane of a group, or NULL; an empty group always has one. */
struct fsm_lane *lane_find(struct fsm_queue *q, struct str group);
/* Finds or creates it. */
struct fsm_lane *lane_get(struct fsm *f, struct fsm_queue *q, struct str group);
/* Where a job of the group that becomes pending goes. */
struct fsm_lane *lane_to_join(struct fsm *f, struct fsm_queue *q,
			      struct str group);
/* Which lane counts active jobs of the group; may create it. */
struct fsm_lane *lane_of_active(struct fsm *f, struct fsm_queue *q,
				struct str group);
/* The lane a pending job stands in. */
struct fsm_lane *lane_of_pending(struct fsm *f, struct fsm_queue *q,
				 struct str group, uint8_t prio, uint64_t seq);
/* A pending job came to it or left it; the queue's count is right already. */
void lane_count_pending(struct fsm *f, struct fsm_lane *l, int change);
/* The same of a job in a worker's hands. */
void lane_count_active(struct fsm *f, struct fsm_lane *l, int change);
/* A job of it was handed out: counts for rates and turns. */
void lane_handed_out(struct fsm *f, struct fsm_lane *l);
/* What is stored of it has changed. */
void lane_touch(struct fsm *f, struct fsm_lane *l);
/* Its jobs go where those of groups without settings are, or stay. */
void lane_set_leaving(struct fsm_lane *l);
/* lanes.parting or lanes.leaving has changed. */
void lanes_note_regroup(struct fsm *f, struct fsm_queue *q);
/* Puts its place among the others right after any change. */
void lane_refresh(struct fsm *f, struct fsm_lane *l);
/* The lane whose turn it is, its window not dry; NULL: none. Not plain. */
struct fsm_lane *lane_next(struct fsm *f, struct fsm_queue *q, uint8_t prio);

/* --- order/lane_window.c --- */

/* The key under which a pending job of the lane stands. */
void lane_key(struct key *k, const struct fsm_lane *l, uint8_t prio,
	      uint64_t seq);
/* What stands under it: as_created, id, and in the base lane the group. */
void lane_value(struct str value, struct pending *ret);
/* Reads on in the store when a window is dry; 0 or -ERR_*. */
int lane_fill(struct fsm *f, struct fsm_lane *l, uint8_t prio);
/* What its windows hold is not all any more: they are filled when asked. */
void lane_forget(struct fsm *f, struct fsm_lane *l);
/* No pending jobs are left: what the windows hold is stale. */
void lane_clear(struct fsm *f, struct fsm_lane *l);
/* The key of a pending job; is_new: the store does not have it. */
void lane_write(struct fsm *f, const struct fsm_lane *l, uint8_t prio,
		const struct pending *p, bool is_new);
/* A pending job came: its key, and its place in the window. */
void lane_insert(struct fsm *f, struct fsm_lane *l, uint8_t prio,
		 const struct pending *p);
/* A pending job came from another lane of its queue. */
void lane_adopt(struct fsm *f, struct fsm_lane *l, uint8_t prio,
		const struct pending *p);
/* A job in the window is not as created any more, or has left. */
void lane_changed(struct fsm *f, struct fsm_lane *l, uint8_t prio,
		  uint64_t seq);
/* Takes the first job off; ret->doc is the caller's to free. */
void lane_pop(struct fsm *f, struct fsm_lane *l, uint8_t prio,
	      struct window_job *ret);

/* A job that was taken off stays where it was after all. */
void lane_put_back(struct fsm *f, struct fsm_lane *l, uint8_t prio,
		   const struct pending *p);

/* --- order/lane_load.c --- */

/* Lanes and limiters from the store, after queues and counts. */
int lanes_load(struct fsm *f);

#endif
