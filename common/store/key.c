/*
 * Writes the keys of key.h. Lengths of names and ids are the caller's promise
 * (the state machine refuses longer ones), so passing KEY_MAX is a bug.
 * Pure functions; nothing is owned.
 */
#include "store/key.h"

#include <endian.h>

static void key_add(struct key *k, const void *p, size_t n)
{
	CHECK(n <= KEY_MAX - k->n);
	if (n > 0)
		memcpy(k->p + k->n, p, n);
	k->n += n;
}

static void key_start(struct key *k, const char *kind)
{
	k->n = 0;
	key_add(k, kind, strlen(kind));
}

static void key_add_str(struct key *k, struct str s)
{
	key_add(k, s.p, s.n);
}

/* A text that something follows. */
static void key_add_part(struct key *k, struct str s)
{
	key_add_str(k, s);
	key_add(k, "", 1);
}

static void key_add_be32(struct key *k, uint32_t v)
{
	char b[4];

	put_be32(b, v);
	key_add(k, b, sizeof(b));
}

static void key_add_be64(struct key *k, uint64_t v)
{
	char b[8];

	put_be64(b, v);
	key_add(k, b, sizeof(b));
}

static void key_start_space(struct key *k, const char *kind, uint32_t space)
{
	key_start(k, kind);
	key_add_be32(k, space);
}

static void key_start_queue(struct key *k, const char *kind, uint32_t space,
			    struct str queue)
{
	key_start_space(k, kind, space);
	key_add_part(k, queue);
}

void key_job(struct key *k, struct str id)
{
	key_start(k, "j|");
	key_add_str(k, id);
}

void key_live(struct key *k, struct str id)
{
	key_start(k, "jl|");
	key_add_str(k, id);
}

static void key_numbered(struct key *k, const char *kind, struct str id,
			 uint32_t n)
{
	key_start(k, kind);
	key_add_part(k, id);
	key_add_be32(k, n);
}

void key_error(struct key *k, struct str id, uint32_t n)
{
	key_numbered(k, "je|", id, n);
}

void key_pending(struct key *k, uint32_t space, struct str queue, uint8_t prio,
		 uint64_t seq)
{
	key_start_queue(k, "p|", space, queue);
	key_add(k, &prio, 1);
	key_add_be64(k, seq);
}

void key_active(struct key *k, uint32_t space, struct str queue, struct str id)
{
	key_start_queue(k, "a|", space, queue);
	key_add_str(k, id);
}

void key_scheduled(struct key *k, uint32_t space, struct str queue, uint64_t ns,
		   struct str id)
{
	key_start_queue(k, "s|", space, queue);
	key_add_be64(k, ns);
	key_add_str(k, id);
}

void key_retrying(struct key *k, uint32_t space, struct str queue, uint64_t ns,
		  struct str id)
{
	key_start_queue(k, "r|", space, queue);
	key_add_be64(k, ns);
	key_add_str(k, id);
}

void key_expiry(struct key *k, uint64_t ns, struct str id)
{
	key_start(k, "x|");
	key_add_be64(k, ns);
	key_add_str(k, id);
}

void key_held(struct key *k, uint32_t space, struct str queue, struct str id)
{
	key_start_queue(k, "h|", space, queue);
	key_add_str(k, id);
}

void key_blocked(struct key *k, uint32_t space, struct str queue, struct str id)
{
	key_start_queue(k, "bl|", space, queue);
	key_add_str(k, id);
}

void key_ended(struct key *k, uint32_t space, struct str queue, uint64_t ns,
	       struct str id)
{
	key_start_queue(k, "t|", space, queue);
	key_add_be64(k, ns);
	key_add_str(k, id);
}

void key_dependent(struct key *k, struct str id, uint64_t seq, struct str child)
{
	key_start(k, "d|");
	key_add_part(k, id);
	key_add_be64(k, seq);
	key_add_str(k, child);
}

void key_release(struct key *k, struct str id, uint64_t upto)
{
	key_start(k, "dr|");
	key_add_part(k, id);
	key_add_be64(k, upto);
}

void key_unique(struct key *k, uint32_t space, struct str queue,
		struct str unique_key)
{
	key_start_queue(k, "u|", space, queue);
	key_add_str(k, unique_key);
}

void key_idempotency(struct key *k, uint32_t space, struct str idempotency_key)
{
	key_start_space(k, "ik|", space);
	key_add_str(k, idempotency_key);
}

void key_idempotency_end(struct key *k, uint64_t ns, uint32_t space,
			 struct str key)
{
	key_start(k, "ie|");
	key_add_be64(k, ns);
	key_add_be32(k, space);
	key_add_str(k, key);
}

void key_batch(struct key *k, struct str id)
{
	key_start(k, "b|");
	key_add_str(k, id);
}

void key_batch_payload(struct key *k, struct str id)
{
	key_start(k, "bp|");
	key_add_str(k, id);
}

void key_batch_end(struct key *k, uint64_t ns, struct str id)
{
	key_start(k, "bt|");
	key_add_be64(k, ns);
	key_add_str(k, id);
}

void key_batch_open(struct key *k, uint64_t ns, struct str id)
{
	key_start(k, "bo|");
	key_add_be64(k, ns);
	key_add_str(k, id);
}

void key_bulk(struct key *k, struct str id)
{
	key_start(k, "bk|");
	key_add_str(k, id);
}

void key_bulk_part(struct key *k, struct str id, uint32_t n)
{
	key_numbered(k, "bi|", id, n);
}

void key_canary(struct key *k, struct str id, struct str job_id)
{
	key_start(k, "bc|");
	key_add_part(k, id);
	key_add_str(k, job_id);
}

void key_aside(struct key *k, struct str id, struct str job_id)
{
	key_start(k, "ba|");
	key_add_part(k, id);
	key_add_str(k, job_id);
}

void key_log(struct key *k, struct str id, uint32_t n)
{
	key_numbered(k, "l|", id, n);
}

void key_iteration(struct key *k, struct str id, uint32_t n)
{
	key_numbered(k, "it|", id, n);
}

void key_checkpoint(struct key *k, struct str id, uint32_t n)
{
	key_numbered(k, "cp|", id, n);
}

void key_schedule(struct key *k, uint32_t space, struct str id)
{
	key_start_space(k, "sc|", space);
	key_add_str(k, id);
}

/*
 * The kinds of groups are long for RocksDB's insert hints, which it keeps per
 * first 12 bytes: so they stand before the group, and keys of many groups in
 * one batch still share a hint instead of making one each.
 */
void key_group_pending(struct key *k, uint32_t space, struct str queue,
		       struct str group, uint8_t prio, uint64_t seq)
{
	key_start_queue(k, "group-jobs|", space, queue);
	key_add_part(k, group);
	key_add(k, &prio, 1);
	key_add_be64(k, seq);
}

void key_lane(struct key *k, uint32_t space, struct str queue, struct str group)
{
	key_start_queue(k, "group-turn|", space, queue);
	key_add_str(k, group);
}

void key_limiter(struct key *k, uint32_t space, struct str queue)
{
	key_start_space(k, "rl|", space);
	key_add_str(k, queue);
}

void key_queue(struct key *k, uint32_t space, struct str queue)
{
	key_start_space(k, "qc|", space);
	key_add_str(k, queue);
}

void key_counts(struct key *k, uint32_t space, struct str queue)
{
	key_start_space(k, "qs|", space);
	key_add_str(k, queue);
}

void key_worker(struct key *k, uint32_t space, struct str id)
{
	key_start_space(k, "wk|", space);
	key_add_str(k, id);
}

void key_answers(struct key *k, uint64_t raft_index)
{
	key_start(k, "an|");
	key_add_be64(k, raft_index);
}

void key_event(struct key *k, uint64_t seq)
{
	key_start(k, "ev|");
	key_add_be64(k, seq);
}

void key_meta(struct key *k)
{
	key_start(k, "m|");
}

void key_member(struct key *k, uint64_t raft_id)
{
	key_start(k, "mb|");
	key_add_be64(k, raft_id);
}

void key_cluster(struct key *k)
{
	key_start(k, "cluster|");
}

void key_clock(struct key *k)
{
	key_start(k, "clock|");
}

void key_format(struct key *k)
{
	key_start(k, "format|");
}

void key_settings(struct key *k)
{
	key_start(k, "settings|");
}

void key_usage_count(struct key *k, uint64_t hour_ns)
{
	key_start(k, "us|");
	key_add_be64(k, hour_ns);
}

void key_usage(struct key *k, uint64_t hour_ns, uint32_t space, uint32_t day,
	       uint64_t hash)
{
	key_usage_count(k, hour_ns);
	key_add_be32(k, space);
	key_add_be32(k, day);
	key_add_be64(k, hash);
}

void key_score(struct key *k, struct str id, uint32_t n)
{
	key_numbered(k, "so|", id, n);
}

void key_usage_settings(struct key *k)
{
	key_start(k, "uc|");
}

void key_provider(struct key *k, uint32_t space, struct str name)
{
	key_start_space(k, "pv|", space);
	key_add_str(k, name);
}

void key_price(struct key *k, uint32_t space, struct str provider,
	       struct str model)
{
	key_start_space(k, "up|", space);
	key_add_part(k, provider);
	key_add_str(k, model);
}

void key_hook(struct key *k, uint32_t space, struct str name)
{
	key_start_space(k, "hk|", space);
	key_add_str(k, name);
}

void key_sdb(struct key *k)
{
	key_start(k, "sd|");
}

void key_webhook(struct key *k, uint32_t space, struct str id)
{
	key_start_space(k, "wh|", space);
	key_add_str(k, id);
}

void key_webhook_state(struct key *k, uint64_t number)
{
	key_start(k, "ws|");
	key_add_be64(k, number);
}

void key_webhook_try(struct key *k, uint64_t number, uint64_t seq)
{
	key_start(k, "wt|");
	key_add_be64(k, number);
	key_add_be64(k, seq);
}

void key_webhook_log(struct key *k, uint64_t number, uint64_t n)
{
	key_start(k, "wl|");
	key_add_be64(k, number);
	key_add_be64(k, n);
}

static void add_target(struct key *k, uint8_t scope, struct str target)
{
	key_add(k, &scope, 1);
	key_add_str(k, target);
}

void key_budget(struct key *k, uint32_t space, uint8_t scope, struct str target)
{
	key_start_space(k, "bg|", space);
	add_target(k, scope, target);
}

void key_budget_counts(struct key *k, uint32_t space, uint8_t scope,
		       struct str target)
{
	key_start_space(k, "bw|", space);
	add_target(k, scope, target);
}

void key_policy(struct key *k, uint32_t space, struct str id)
{
	key_start_space(k, "ap|", space);
	key_add_str(k, id);
}

void key_link_secret(struct key *k)
{
	key_start(k, "al|");
}

void key_deadline(struct key *k, uint64_t ns, struct str id)
{
	key_start(k, "hd|");
	key_add_be64(k, ns);
	key_add_str(k, id);
}

void key_prefix(struct key *k, const char *kind)
{
	key_start(k, kind);
}

void key_prefix_space(struct key *k, const char *kind, uint32_t space)
{
	key_start_space(k, kind, space);
}

void key_prefix_queue(struct key *k, const char *kind, uint32_t space,
		      struct str queue)
{
	key_start_queue(k, kind, space, queue);
}

void key_prefix_id(struct key *k, const char *kind, struct str id)
{
	key_start(k, kind);
	key_add_part(k, id);
}

bool key_take_space(struct str *rest, uint32_t *ret)
{
	if (rest->n < KEY_SPACE_BYTES)
		return false;
	*ret = get_be32(rest->p);
	*rest = str_skip(*rest, KEY_SPACE_BYTES);
	return true;
}

void key_prefix_end(const struct key *k, struct key *ret)
{
	size_t n = k->n;

	while (n > 0 && (unsigned char)k->p[n - 1] == 0xff)
		n--;
	CHECK(n > 0);
	memcpy(ret->p, k->p, n);
	ret->p[n - 1]++;
	ret->n = n;
}

void put_be64(char *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, sizeof(v));
}

uint64_t get_be64(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

void put_be32(char *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

uint32_t get_be32(const char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}
