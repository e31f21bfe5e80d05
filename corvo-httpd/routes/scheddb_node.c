/*
 * Scheduled-DB: health, the cluster, and nodes that join it.
 */
#include <strings.h>

#include "proto/scheddb.h"
#include "routes/handlers.h"
#include "routes/scheddb.h"
#include "rt/log.h"
#include "rt/scheddb_limit.h"
#include "rt/secret.h"
#include "util/clock.h"

#define DEGRADED_PERCENT 90
#define ENOUGH_JOBS      10  /* that ended, for a share of them to say much */
#define UNHEALTHY_RATE   0.5 /* with too little memory left as well */

static const struct m_nothing nothing;

static void ask(struct req *r, unsigned query, req_reply_fn *then)
{
	req_call_raftd(r, query, STR_NULL, &msg_nothing, &nothing, then);
}

/* Raft address of the node that leads, as this one knows it. */
static struct str leader_address(const struct m_node_status *m)
{
	for (size_t i = 0; i < m->nodes_n; i++)
		if (str_eq(m->nodes[i].id, m->leader_id))
			return m->nodes[i].address;
	return STR_NULL;
}

/* --- GET /health --- */

static struct m_sdb_memory memory_of(const struct settings *set,
				     const struct m_sdb_numbers *n)
{
	uint64_t limit = scheddb_memory_limit(set);
	struct m_sdb_memory m = { 0 };

	MSG_SET(&m, sdb_memory, current_bytes, n->bytes);
	MSG_SET(&m, sdb_memory, limit_bytes, limit);
	MSG_SET(&m, sdb_memory, available_bytes, limit - MIN(limit, n->bytes));
	MSG_SET(&m, sdb_memory, utilization_percent,
		scheddb_percent(n->bytes, limit));
	return m;
}

static struct m_sdb_room room_of(const struct settings *set,
				 const struct m_sdb_numbers *n)
{
	uint64_t limit = set->scheddb_job_limit;
	struct m_sdb_room m = { 0 };

	MSG_SET(&m, sdb_room, count, n->jobs);
	MSG_SET(&m, sdb_room, limit, limit);
	MSG_SET(&m, sdb_room, available, limit - MIN(limit, n->jobs));
	return m;
}

static uint64_t failed(const struct m_sdb_numbers *n)
{
	return n->failed + n->timeout;
}

static uint64_t finished(const struct m_sdb_numbers *n)
{
	return n->completed + failed(n);
}

/* A recurrente waits for its time beside its runs. */
static struct m_sdb_counts counts_of(const struct m_sdb_numbers *n)
{
	struct m_sdb_counts m = { 0 };
	uint64_t pending = n->pending + n->recurring;

	MSG_SET(&m, sdb_counts, pending, pending);
	MSG_SET(&m, sdb_counts, in_progress, n->in_progress);
	MSG_SET(&m, sdb_counts, completed, n->completed);
	MSG_SET(&m, sdb_counts, failed, n->failed);
	MSG_SET(&m, sdb_counts, cancelled, n->cancelled);
	MSG_SET(&m, sdb_counts, timeout, n->timeout);
	MSG_SET(&m, sdb_counts, total,
		pending + n->in_progress + finished(n) + n->cancelled);
	if (n->last_executed_at != 0)
		MSG_SET(&m, sdb_counts, last_executed_at,
			n->last_executed_at / NS_PER_S);
	MSG_SET(&m, sdb_counts, failure_rate,
		finished(n) > 0 ? (double)failed(n) / (double)finished(n) : 0);
	return m;
}

static const char *judge(const struct settings *set,
			 const struct m_sdb_numbers *n, double percent,
			 double rate)
{
	bool full = percent > DEGRADED_PERCENT;
	bool fails = finished(n) >= ENOUGH_JOBS &&
		     rate * 100 > (double)set->scheddb_health_failure_percent;

	if (full && rate > UNHEALTHY_RATE)
		return "unhealthy";
	return full || fails ? "degraded" : "ok";
}

static void on_health(struct req *r, const struct rpc_reply *reply)
{
	const struct settings *set = r->h->set;
	const struct m_node_status *node =
	    sdb_reply(r, &msg_node_status, reply);
	const struct m_sdb_numbers *n = r->state;
	struct m_sdb_memory memory = memory_of(set, n);
	struct m_sdb_room room = room_of(set, n);
	struct m_sdb_counts counts = counts_of(n);
	struct m_sdb_health m = { 0 };
	const char *status =
	    judge(set, n, memory.utilization_percent, counts.failure_rate);

	if (node == NULL)
		return;
	r->x.seq = 0;
	MSG_SET(&m, sdb_health, status, str_from(status));
	MSG_SET(&m, sdb_health, role,
		node->leader ? STR("leader") : STR("follower"));
	if (!node->leader && leader_address(node).n > 0)
		MSG_SET(&m, sdb_health, leader, leader_address(node));
	MSG_SET(&m, sdb_health, node_id, node->node_id);
	MSG_SET(&m, sdb_health, memory, &memory);
	MSG_SET(&m, sdb_health, jobs, &room);
	MSG_SET(&m, sdb_health, execution, &counts);
	req_answer_message(r, &msg_sdb_health, &m,
			   strcmp(status, "unhealthy") == 0 ? 503 : 200);
}

static void on_numbers(struct req *r, const struct rpc_reply *reply)
{
	r->state = sdb_reply(r, &msg_sdb_numbers, reply);
	if (r->state != NULL)
		ask(r, QUERY_NODE_STATUS, on_health);
}

void h_sdb_health(struct req *r)
{
	ask(r, QUERY_SDB_NUMBERS, on_numbers);
}

/* --- GET /debug/cluster --- */

static void on_cluster(struct req *r, const struct rpc_reply *reply)
{
	const struct m_node_status *node =
	    sdb_reply(r, &msg_node_status, reply);
	const struct m_sdb_numbers *n = r->state;
	struct m_sdb_server *servers;
	struct m_sdb_cluster m = { 0 };

	if (node == NULL)
		return;
	r->x.seq = 0;
	servers =
	    arena_zalloc(&r->arena, (node->nodes_n + 1) * sizeof(*servers));
	for (size_t i = 0; i < node->nodes_n; i++) {
		MSG_SET(&servers[i], sdb_server, id, node->nodes[i].id);
		MSG_SET(&servers[i], sdb_server, address,
			node->nodes[i].address);
	}
	MSG_SET(&m, sdb_cluster, node_id, node->node_id);
	MSG_SET(&m, sdb_cluster, is_leader, node->leader);
	MSG_SET(&m, sdb_cluster, leader, leader_address(node));
	MSG_SET(&m, sdb_cluster, raft_state, node->state);
	MSG_SET_LIST(&m, sdb_cluster, servers, servers, node->nodes_n);
	MSG_SET(&m, sdb_cluster, job_count, n->jobs);
	req_answer_message(r, &msg_sdb_cluster, &m, 200);
}

static void on_cluster_numbers(struct req *r, const struct rpc_reply *reply)
{
	r->state = sdb_reply(r, &msg_sdb_numbers, reply);
	if (r->state != NULL)
		ask(r, QUERY_NODE_STATUS, on_cluster);
}

void h_sdb_cluster(struct req *r)
{
	ask(r, QUERY_SDB_NUMBERS, on_cluster_numbers);
}

/* --- POST /join --- */

/* In a time that says nothing of how much of it was right. */
static bool is_same_secret(struct str a, struct str b)
{
	unsigned char diff = a.n != b.n;

	for (size_t i = 0; i < a.n && i < b.n; i++)
		diff |= (unsigned char)(a.p[i] ^ b.p[i]);
	return diff == 0;
}

/* The file is read each time: a token that was changed holds at once. */
static bool is_known(struct req *r)
{
	_cleanup_(buf_done) struct buf token = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	const char *path = r->h->set->scheddb_auth_token_file;
	struct str given = str_from(req_header(r, HEAD_AUTHORIZATION));
	static const char scheme[] = "Bearer ";

	if (path[0] == '\0')
		return true;
	if (secret_read(path, &token, &why) < 0) {
		log_warn("nobody can join: %.*s", STR_ARG(buf_str(&why)));
		return false;
	}
	if (given.n < sizeof(scheme) - 1 ||
	    strncasecmp(given.p, scheme, sizeof(scheme) - 1) != 0)
		return false;
	return is_same_secret(str_skip(given, sizeof(scheme) - 1),
			      buf_str(&token));
}

static void on_joined(struct req *r, const struct rpc_reply *reply)
{
	const struct m_cluster_add_reply *a;
	struct m_sdb_joined m = { 0 };

	if (reply->err != 0) {
		log_warn("a node could not join: %.*s", STR_ARG(reply->body));
		req_fail(r, ERR_INTERNAL_ERROR, "Failed to join cluster: %.*s",
			 STR_ARG(reply->body));
		return;
	}
	a = sdb_reply(r, &msg_cluster_add_reply, reply);
	if (a == NULL)
		return;
	MSG_SET(&m, sdb_joined, success, true);
	MSG_SET(&m, sdb_joined, message,
		arena_printf(&r->arena, "Node %.*s successfully joined cluster",
			     STR_ARG(a->node_id)));
	req_answer_message(r, &msg_sdb_joined, &m, 200);
}

static void on_may_join(struct req *r, const struct rpc_reply *reply)
{
	const struct m_node_status *node =
	    sdb_reply(r, &msg_node_status, reply);
	const struct m_sdb_join *j = r->state;
	struct m_cluster_add m = { 0 };

	if (node == NULL)
		return;
	r->x.seq = 0;
	if (!node->leader) {
		req_fail_text(r, ERR_NOT_LEADER, STR_NULL);
		return;
	}
	MSG_SET(&m, cluster_add, addr, j->address);
	MSG_SET(&m, cluster_add, node_id, j->node_id);
	req_call_raftd(r, QUERY_CLUSTER_ADD, STR_NULL, &msg_cluster_add, &m,
		       on_joined);
}

void h_sdb_join(struct req *r)
{
	struct m_sdb_join *m = arena_zalloc(&r->arena, sizeof(*m));

	if (!is_known(r)) {
		req_fail_text(r, ERR_UNAUTHORIZED, STR_NULL);
		return;
	}
	if (!req_read(r, &msg_sdb_join, m))
		return;
	r->state = m;
	ask(r, QUERY_NODE_STATUS, on_may_join);
}
