/*
 * Jobs of Scheduled-DB.
 */
#include "script.h"

static struct m_sdb_create job(const char *id, struct m_sdb_settings *set)
{
	struct m_sdb_create m = { 0 };

	MSG_SET(set, sdb_settings, history_retention, 720 * 3600 * SECOND);
	MSG_SET(set, sdb_settings, execution_timeout, 300 * SECOND);
	MSG_SET(set, sdb_settings, inprogress_timeout, 30 * SECOND);
	MSG_SET(set, sdb_settings, max_attempts, 3);
	MSG_SET(set, sdb_settings, concurrency, 100);
	MSG_SET(&m, sdb_create, id, str_from(id));
	MSG_SET(&m, sdb_create, webhook_url, STR("https://example.com/hook"));
	MSG_SET(&m, sdb_create, credentials, STR("me:secret"));
	MSG_SET(&m, sdb_create, payload, STR("{\"n\":1}"));
	MSG_SET(&m, sdb_create, limit_bytes, 1000000);
	MSG_SET(&m, sdb_create, limit_jobs, 1000);
	MSG_SET(&m, sdb_create, settings, set);
	return m;
}

static void fetch(struct script *s, struct m_fetched *ret)
{
	struct str queue = STR("scheduled-db");
	struct m_fetch m = { 0 };
	struct m_fetch_reply r = { 0 };

	MSG_SET_LIST(&m, fetch, queues, &queue, 1);
	MSG_SET(&m, fetch, worker_id, STR("push@node-1"));
	MSG_SET(&m, fetch, hostname, STR("node-1"));
	script_one(s, OP_FETCH, &m, &r);
	*ret = r.jobs[0];
}

static void recurring(struct script *s)
{
	struct m_sdb_settings set = { 0 };
	struct m_sdb_create m = job("sdb-every", &set);
	struct m_sdb_cancel gone = { 0 };

	MSG_SET(&m, sdb_create, type, SDB_RECURRING);
	MSG_SET(&m, sdb_create, cron_expression, STR("*/5 * * * *"));
	MSG_SET(&m, sdb_create, timezone, STR("UTC"));
	MSG_SET(&m, sdb_create, next_ns, s->now_ns + 100 * SECOND);
	MSG_SET(&m, sdb_create, last_date, s->now_ns + 1000 * SECOND);
	MSG_SET(&m, sdb_create, run_id, STR("sdb-run-1"));
	script_one(s, OP_SDB_CREATE, &m, NULL);
	MSG_SET(&m, sdb_create, id, STR("sdb-ended"));
	MSG_SET(&m, sdb_create, run_id, STR("sdb-run-2"));
	script_one(s, OP_SDB_CREATE, &m, NULL);
	MSG_SET(&gone, sdb_cancel, id, STR("sdb-ended"));
	MSG_SET(&gone, sdb_cancel, reason, STR("enough"));
	script_one(s, OP_SDB_CANCEL, &gone, NULL);
}

void script_sdb(struct script *s)
{
	struct m_sdb_settings set = { 0 };
	struct m_sdb_create m = job("sdb-later", &set);
	struct m_sdb_ref ref = { 0 };
	struct m_fail fail = { 0 };
	struct m_fetched got;

	MSG_SET(&m, sdb_create, timestamp, s->now_ns + 1000 * SECOND);
	script_one(s, OP_SDB_CREATE, &m, NULL);
	MSG_SET(&m, sdb_create, id, STR("sdb-gone"));
	script_one(s, OP_SDB_CREATE, &m, NULL);
	MSG_SET(&ref, sdb_ref, id, STR("sdb-gone"));
	script_one(s, OP_SDB_DELETE, &ref, NULL);
	MSG_SET(&m, sdb_create, id, STR("sdb-now"));
	MSG_SET(&m, sdb_create, timestamp, s->now_ns);
	script_one(s, OP_SDB_CREATE, &m, NULL);
	fetch(s, &got);
	MSG_SET(&fail, fail, job_id, STR("sdb-now"));
	MSG_SET(&fail, fail, error, STR("timeout: it took too long"));
	MSG_SET(&fail, fail, lease_token, got.lease_token);
	MSG_SET(&fail, fail, response, STR("{\"duration_ms\":7}"));
	script_one(s, OP_FAIL, &fail, NULL);
	recurring(s);
}
