/*
 * The keys of the store: prefix, '|', parts. Numbers are big-endian, so byte
 * order is numeric order. '\0' ends a queue name inside a key.
 *
 * Names that clients choose (queues, unique and idempotency keys, workers) live
 * in a namespace, and so do schedules, which are listed by it: its number, in
 * space:4, stands before the name. Ids are the server's own and unique without
 * it; they have room for a shard (util/id.h).
 *
 *   j|id                     job_doc    the part that never changes
 *   jl|id                    job_live   absent while the job is as created
 *   je|id\0 n:4              job_error
 *   p|space:4 queue\0 prio:1 seq:8   as_created:1 job id; pending jobs in the
 *                            order of fetch; 1: it has no jl|; 2, beside
 *                            that: its group and group_n:1 follow the id
 *   a|space:4 queue\0 id     lease_expires_ns:8 lease_token:8
 *   s|space:4 queue\0 ns:8 id   scheduled
 *   r|space:4 queue\0 ns:8 id   retrying
 *   x|ns:8 id                expiry of jobs that have one and have not ended
 *   h|space:4 queue\0 id     held
 *   bl|space:4 queue\0 id    blocked: waits for other jobs
 *   t|space:4 queue\0 ns:8 id   ended, by the time it ended
 *   d|id\0 seq:8 child       jobs that wait for job id, in the order of their
 *                            creation: seq is that of their job_doc
 *   dr|id\0 upto:8           outcome:1 from:8; job id has ended, and its
 *                            dependents with from <= seq <= upto are still to
 *                            be told; later ones wait for another end of it.
 *                            Then, if it was deleted with a queue or what
 *                            waits there, upto:8 queue: dependents there, up
 *                            to that place, are deleted with it
 *   u|space:4 queue\0 key    lock of a unique key: expires_ns:8 job id
 *   ik|space:4 key           idempotency_doc
 *   ie|ns:8 space:4 key      the same by the time they expire
 *   b|id                     batch_doc
 *   bp|id                    callback_payload of a batch that has not ended
 *   bt|ns:8 id               ended batches, by the time they ended
 *   bo|ns:8 id               open batches, by listed_at
 *   bk|id                    bulk: a bulk operation
 *   bi|id\0 n:4              job_ids: the n-th part of what it is to act on
 *   bc|id\0 job id           its canaries that have not ended
 *   l|id\0 n:4               log_line
 *   it|id\0 n:4              iteration, of an agent's job
 *   cp|id\0 n:4              a checkpoint that stands apart from its job: of
 *                            an agent the n-th iteration's, else n is 0
 *   sc|space:4 id            schedule
 *   group-jobs|space:4 queue\0 group\0 prio:1 seq:8   pending jobs that have
 *                            a group, as p|
 *   group-turn|space:4 queue\0 group   lane_doc
 *   rl|space:4 queue         limiter of a queue with a rate
 *   qc|space:4 queue         queue_doc
 *   qs|space:4 queue         counts of the queue by state
 *   wk|space:4 id            worker
 *   an|index:8               answers of one entry: raftd's fsm/core/answers.c
 *   ao|                      callers whose answers are not kept any more
 *   ev|seq:8                 events of one entry, seq is the last: event_pack.h
 *   m|                       applied raft index:8, last event seq:8,
 *                            last job seq:8, first event seq:8, and of the
 *                            entry at that index term:8 id:8 history:16
 *                            now:8
 *   mb|raft id:8             member: a node of the cluster
 *   cluster|                 cluster_doc: who leads, the feature level
 *   clock|                   clock_walk, while there is one
 *   format|                  format:4 of all this: format.h
 *   settings|                cluster_settings
 *   us|ns:8                  rows:8 of the hour that begins then
 *   us|ns:8 space:4 day:4 hash:8   usage_row: sums of that hour and local day
 *   uc|                      usage_settings
 *   so|id\0 n:4              score: the n-th of job id, from 1 on
 *   up|space:4 provider\0 model   price
 *   hk|space:4 name          hook
 *   wh|space:4 id            webhook: its settings
 *   ws|number:8              webhook_state
 *   wt|number:8 seq:8        webhook_try: a delivery that waits for another
 *   wl|number:8 n:8          delivery: a line of the log of a webhook
 *   pv|space:4 name          provider_doc
 *   sd|                      sdb_numbers: jobs of Scheduled-DB
 *   bg|space:4 scope:1 target   budget
 *   bw|space:4 scope:1 target   budget_counts
 *   ba|id\0 job id           jobs that the budget has set aside
 *   ap|space:4 id            policy
 *   al|                      link_secret
 *   hd|ns:8 id               held jobs with a deadline, by that
 */
#ifndef CORVO_KEY_H
#define CORVO_KEY_H

#include "proto/limits.h"
#include "util/str.h"

#define KEY_MAX (LIMIT_QUEUE_NAME_BYTES + LIMIT_GROUP_BYTES + 40)

struct key {
	size_t n;
	char p[KEY_MAX];
};

static inline struct str key_str(const struct key *k)
{
	return (struct str){ k->p, k->n };
}

/* The namespace that everything is in today. */
#define SPACE_DEFAULT   0u
#define KEY_SPACE_BYTES 4

void key_job(struct key *k, struct str id);
void key_live(struct key *k, struct str id);
void key_error(struct key *k, struct str id, uint32_t n);
void key_pending(struct key *k, uint32_t space, struct str queue, uint8_t prio,
		 uint64_t seq);
void key_active(struct key *k, uint32_t space, struct str queue, struct str id);
void key_scheduled(struct key *k, uint32_t space, struct str queue, uint64_t ns,
		   struct str id);
void key_retrying(struct key *k, uint32_t space, struct str queue, uint64_t ns,
		  struct str id);
void key_expiry(struct key *k, uint64_t ns, struct str id);
void key_held(struct key *k, uint32_t space, struct str queue, struct str id);
void key_blocked(struct key *k, uint32_t space, struct str queue,
		 struct str id);
void key_ended(struct key *k, uint32_t space, struct str queue, uint64_t ns,
	       struct str id);
void key_dependent(struct key *k, struct str id, uint64_t seq,
		   struct str child);
void key_release(struct key *k, struct str id, uint64_t upto);
void key_unique(struct key *k, uint32_t space, struct str queue,
		struct str unique_key);
void key_idempotency(struct key *k, uint32_t space, struct str idempotency_key);
void key_idempotency_end(struct key *k, uint64_t ns, uint32_t space,
			 struct str key);
void key_batch(struct key *k, struct str id);
void key_batch_payload(struct key *k, struct str id);
void key_batch_end(struct key *k, uint64_t ns, struct str id);
void key_batch_open(struct key *k, uint64_t ns, struct str id);
void key_bulk(struct key *k, struct str id);
void key_bulk_part(struct key *k, struct str id, uint32_t n);
void key_canary(struct key *k, struct str id, struct str job_id);
void key_aside(struct key *k, struct str id, struct str job_id);
void key_log(struct key *k, struct str id, uint32_t n);
void key_iteration(struct key *k, struct str id, uint32_t n);
void key_checkpoint(struct key *k, struct str id, uint32_t n);
void key_schedule(struct key *k, uint32_t space, struct str id);
void key_group_pending(struct key *k, uint32_t space, struct str queue,
		       struct str group, uint8_t prio, uint64_t seq);
void key_lane(struct key *k, uint32_t space, struct str queue,
	      struct str group);
void key_limiter(struct key *k, uint32_t space, struct str queue);
void key_queue(struct key *k, uint32_t space, struct str queue);
void key_counts(struct key *k, uint32_t space, struct str queue);
void key_worker(struct key *k, uint32_t space, struct str id);
void key_answers(struct key *k, uint64_t raft_index);
void key_event(struct key *k, uint64_t seq);
void key_meta(struct key *k);
void key_member(struct key *k, uint64_t raft_id);
void key_cluster(struct key *k);
void key_clock(struct key *k);
void key_format(struct key *k);
void key_settings(struct key *k);
void key_usage_count(struct key *k, uint64_t hour_ns);
void key_usage(struct key *k, uint64_t hour_ns, uint32_t space, uint32_t day,
	       uint64_t hash);
void key_score(struct key *k, struct str id, uint32_t n);
void key_usage_settings(struct key *k);
void key_provider(struct key *k, uint32_t space, struct str name);
void key_price(struct key *k, uint32_t space, struct str provider,
	       struct str model);

void key_hook(struct key *k, uint32_t space, struct str name);
void key_sdb(struct key *k);
void key_webhook(struct key *k, uint32_t space, struct str id);
void key_webhook_state(struct key *k, uint64_t number);
void key_webhook_try(struct key *k, uint64_t number, uint64_t seq);
void key_webhook_log(struct key *k, uint64_t number, uint64_t n);
void key_budget(struct key *k, uint32_t space, uint8_t scope,
		struct str target);
void key_budget_counts(struct key *k, uint32_t space, uint8_t scope,
		       struct str target);
void key_policy(struct key *k, uint32_t space, struct str id);
void key_link_secret(struct key *k);
void key_deadline(struct key *k, uint64_t ns, struct str id);

/*
 * All keys of a kind: "qc|"; of a kind and namespace; of those and a queue:
 * "s|" space queue \0; of a kind and an id: "d|" id \0.
 */
void key_prefix(struct key *k, const char *kind);
void key_prefix_space(struct key *k, const char *kind, uint32_t space);
void key_prefix_queue(struct key *k, const char *kind, uint32_t space,
		      struct str queue);
void key_prefix_id(struct key *k, const char *kind, struct str id);
/* Takes the namespace off what follows a kind; false: there is none. */
bool key_take_space(struct str *rest, uint32_t *ret);
/* The first key after all keys that start with k. */
void key_prefix_end(const struct key *k, struct key *ret);

void put_be64(char *p, uint64_t v);
uint64_t get_be64(const char *p);
void put_be32(char *p, uint32_t v);
uint32_t get_be32(const char *p);

#endif
