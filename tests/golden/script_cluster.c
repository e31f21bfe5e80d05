/*
 * What the leader writes down of the cluster, and what all nodes share.
 */
#include "script.h"

static struct m_member member_of(uint64_t raft_id, const char *name,
				 const char *version)
{
	struct m_member m = { 0 };

	MSG_SET(&m, member, raft_id, raft_id);
	MSG_SET(&m, member, name, str_from(name));
	MSG_SET(&m, member, address, STR("10.0.0.1:9400"));
	MSG_SET(&m, member, http, STR("10.0.0.1:8080"));
	MSG_SET(&m, member, version, str_from(version));
	MSG_SET(&m, member, level_min, 1);
	MSG_SET(&m, member, level_max, 1);
	return m;
}

static void member(struct script *s, uint64_t raft_id, const char *name,
		   const char *version)
{
	struct m_member m = member_of(raft_id, name, version);

	script_one(s, OP_SET_MEMBER, &m, NULL);
}

/* The first node, as it fares. */
static void fares(struct script *s, uint64_t fetching, uint64_t installed,
		  bool clock_off)
{
	struct m_member m = member_of(1, "node-1", "0.5.1");

	MSG_SET(&m, member, fetching, fetching);
	MSG_SET(&m, member, installed, installed);
	MSG_SET(&m, member, clock_off, clock_off);
	script_one(s, OP_SET_MEMBER, &m, NULL);
}

static void settings(struct script *s)
{
	struct m_cluster_settings m = { 0 };
	struct m_settings_seed seeds = { 0 };

	MSG_SET(&m, cluster_settings, lease_duration, 60 * SECOND);
	MSG_SET(&m, cluster_settings, retention, 86400 * SECOND);
	MSG_SET(&m, cluster_settings, event_retention, 1000);
	MSG_SET(&m, cluster_settings, queue_idle, 3600 * SECOND);
	MSG_SET(&m, cluster_settings, max_queues, 2000);
	MSG_SET(&seeds, settings_seed, lease_duration, 60 * SECOND);
	MSG_SET(&seeds, settings_seed, max_queues, 2000);
	MSG_SET(&m, cluster_settings, seeds, &seeds);
	script_one(s, OP_SET_SETTINGS, &m, NULL);
	m = (struct m_cluster_settings){ 0 };
	MSG_SET(&m, cluster_settings, retention, 7200 * SECOND);
	script_one(s, OP_SET_SETTINGS, &m, NULL);
}

void script_cluster(struct script *s)
{
	struct m_member_ref gone = { 0 };
	struct m_leader leader = { 0 };
	struct m_level level = { 0 };

	member(s, 1, "node-1", "0.5.0");
	member(s, UINT64_MAX, "node-2", "0.5.0");
	member(s, 1, "node-1", "0.5.1");
	fares(s, 7, 0, true);
	fares(s, 0, 7, false);
	MSG_SET(&leader, leader, raft_id, 1);
	MSG_SET(&leader, leader, name, STR("node-1"));
	MSG_SET(&leader, leader, term, 7);
	script_one(s, OP_LEADER, &leader, NULL);
	MSG_SET(&gone, member_ref, raft_id, UINT64_MAX);
	script_one(s, OP_FORGET_MEMBER, &gone, NULL);
	MSG_SET(&level, level, level, FEATURE_LEVEL);
	script_one(s, OP_SET_LEVEL, &level, NULL);
	settings(s);
}
