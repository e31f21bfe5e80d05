/*
 * More of view_world.h: jobs of Scheduled-DB are made, run, cancelled and
 * deleted, also while they run.
 */
#include "proto/scheddb.h"
#include "view_world.h"

static const char *const ids[] = { "sa", "sb", "sc" };

static void create(struct world *w, struct str id)
{
	struct m_sdb_settings s = { 0 };
	struct m_sdb_create m = { 0 };

	MSG_SET(&s, sdb_settings, history_retention, 3600 * NS_PER_S);
	MSG_SET(&s, sdb_settings, execution_timeout, 10 * NS_PER_S);
	MSG_SET(&s, sdb_settings, inprogress_timeout, 30 * NS_PER_S);
	MSG_SET(&s, sdb_settings, max_attempts, 3);
	MSG_SET(&s, sdb_settings, concurrency, 100);
	MSG_SET(&m, sdb_create, id, id);
	MSG_SET(&m, sdb_create, webhook_url, STR("http://127.0.0.1/in"));
	MSG_SET(&m, sdb_create, timestamp, w->now_ns);
	MSG_SET(&m, sdb_create, settings, &s);
	world_apply(w, OP_SDB_CREATE, &msg_sdb_create, &m);
}

static void fetch(struct world *w)
{
	struct str queue = STR(SDB_QUEUE);
	struct m_fetch m = { 0 };

	MSG_SET_LIST(&m, fetch, queues, &queue, 1);
	MSG_SET(&m, fetch, worker_id, STR("pusher"));
	MSG_SET(&m, fetch, lease_duration, 20 * NS_PER_S);
	MSG_SET(&m, fetch, fetch_id, ++w->fetches);
	world_apply(w, OP_FETCH, &msg_fetch, &m);
}

void world_scheddb(struct world *w)
{
	struct str id = str_from(ids[rng_below(w->rng, ARRAY_SIZE(ids))]);
	uint64_t dice = rng_below(w->rng, 10);
	struct m_sdb_cancel cancel = { 0 };
	struct m_sdb_ref gone = { 0 };

	if (dice < 4) {
		create(w, id);
	} else if (dice < 7) {
		fetch(w);
	} else if (dice < 9) {
		MSG_SET(&cancel, sdb_cancel, id, id);
		world_apply(w, OP_SDB_CANCEL, &msg_sdb_cancel, &cancel);
	} else {
		MSG_SET(&gone, sdb_ref, id, id);
		world_apply(w, OP_SDB_DELETE, &msg_sdb_ref, &gone);
	}
}
