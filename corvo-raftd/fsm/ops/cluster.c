/*
 * What the leader writes down of the cluster: set_member, forget_member,
 * leader, set_level. Each may come again and does nothing then.
 */
#include "fsm/core/cluster.h"
#include "fsm/core/entry.h"
#include "fsm/job/active.h"
#include "fsm/ops/ops.h"
#include "fsm/order/regroup.h"
#include "util/json.h"

/* With what f->data holds. */
static void emit(struct fsm *f, enum event_type type)
{
	struct m_event e = { 0 };

	MSG_SET(&e, event, type, type);
	MSG_SET(&e, event, data, buf_str(&f->data));
	fsm_event(f, &e);
}

/* --- nodes --- */

static void tell(struct fsm *f, enum event_type type, const struct m_member *m)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "node");
	jw_str(&w, m->name);
	jw_key(&w, "address");
	jw_str(&w, m->address);
	jw_key(&w, "version");
	jw_str(&w, m->version);
	jw_object_end(&w);
	emit(f, type);
}

/* What it is; the rest is how it fares. */
static bool is_same(const struct m_member *a, const struct m_member *b)
{
	return str_eq(a->name, b->name) && str_eq(a->address, b->address) &&
	       str_eq(a->http, b->http) && str_eq(a->version, b->version) &&
	       a->level_min == b->level_min && a->level_max == b->level_max;
}

static void tell_snapshot(struct fsm *f, enum event_type type, struct str name,
			  uint64_t index, bool installed)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "node");
	jw_str(&w, name);
	jw_key(&w, "index");
	jw_u64(&w, index);
	if (type == EVENT_SNAPSHOT_ENDED) {
		jw_key(&w, "installed");
		jw_bool(&w, installed);
	}
	jw_object_end(&w);
	emit(f, type);
}

static void tell_clock(struct fsm *f, const struct m_member *m)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "node");
	jw_str(&w, m->name);
	jw_object_end(&w);
	emit(f, m->clock_off ? EVENT_CLOCK_OFF : EVENT_CLOCK_RIGHT);
}

/* The entry at which it was found. */
static void tell_store(struct fsm *f, const struct m_member *m, uint64_t before)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "node");
	jw_str(&w, m->name);
	jw_key(&w, "index");
	jw_u64(&w, m->differs != 0 ? m->differs : before);
	jw_object_end(&w);
	emit(f, m->differs != 0 ? EVENT_STORE_DIFFERS : EVENT_STORE_AGREES);
}

/* How it fared before, and fares now; it was all zero for one that is new. */
static void tell_changes(struct fsm *f, const struct m_member *old,
			 const struct m_member *m)
{
	bool installed = m->installed != old->installed;

	if (m->fetching != 0 && old->fetching == 0)
		tell_snapshot(f, EVENT_SNAPSHOT_BEGUN, m->name, m->fetching,
			      false);
	if (installed || (m->fetching == 0 && old->fetching != 0))
		tell_snapshot(f, EVENT_SNAPSHOT_ENDED, m->name,
			      installed ? m->installed : old->fetching,
			      installed);
	if (m->clock_off != old->clock_off)
		tell_clock(f, m);
	if ((m->differs != 0) != (old->differs != 0))
		tell_store(f, m, old->differs);
}

static bool fares_the_same(const struct m_member *a, const struct m_member *b)
{
	return a->fetching == b->fetching && a->installed == b->installed &&
	       a->clock_off == b->clock_off && a->differs == b->differs;
}

static bool texts_fit(const struct m_member *m)
{
	return m->name.n > 0 && m->name.n <= LIMIT_NODE_NAME_BYTES &&
	       m->address.n <= LIMIT_ADDRESS_BYTES &&
	       m->http.n <= LIMIT_ADDRESS_BYTES &&
	       m->version.n <= LIMIT_VERSION_BYTES;
}

int apply_set_member(struct fsm *f, const struct m_member *op,
		     struct m_nothing *ret _unused_)
{
	const struct m_member *old = cluster_find(f, op->raft_id);
	struct m_member m = *op, before = { 0 };

	if (op->raft_id == 0 || !texts_fit(op))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "a node needs a number, a name of 1 to %d "
				  "bytes, and addresses of at most %d",
				  LIMIT_NODE_NAME_BYTES, LIMIT_ADDRESS_BYTES);
	/* it asks all nodes alike, and is no part of the state */
	f->compare |= op->compare;
	m.compare = false;
	MSG_UNSET(&m, member, compare);
	if (old != NULL && op->installed == 0 && old->installed != 0)
		MSG_SET(&m, member, installed, old->installed);
	if (old != NULL && is_same(old, op) && fares_the_same(old, &m))
		return 0;
	if (old == NULL && f->cluster.members_n == LIMIT_MEMBERS)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "the cluster has %d nodes, and there may be "
				  "no more; remove one first",
				  LIMIT_MEMBERS);
	MSG_SET(&m, member, joined_at,
		old != NULL ? old->joined_at : f->now_ns);
	if (old != NULL)
		before = *old;
	if (old == NULL || !is_same(old, op))
		tell(f,
		     old != NULL ? EVENT_MEMBER_CHANGED : EVENT_MEMBER_JOINED,
		     &m);
	tell_changes(f, &before, &m);
	cluster_put(f, &m);
	return 0;
}

int apply_forget_member(struct fsm *f, const struct m_member_ref *op,
			struct m_nothing *ret _unused_)
{
	const struct m_member *old = cluster_find(f, op->raft_id);

	if (old == NULL)
		return 0;
	tell(f, EVENT_MEMBER_LEFT, old);
	cluster_remove(f, op->raft_id);
	return 0;
}

/* --- leader --- */

static void tell_leader(struct fsm *f, const struct m_leader *l)
{
	struct json_writer w = JSON_WRITER(&f->data);

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "node");
	jw_str(&w, l->name);
	jw_key(&w, "term");
	jw_u64(&w, l->term);
	jw_object_end(&w);
	emit(f, EVENT_LEADER_CHANGED);
}

int apply_leader(struct fsm *f, const struct m_leader *op,
		 struct m_nothing *ret _unused_)
{
	const struct fsm_cluster *c = &f->cluster;
	struct m_leader l = *op;

	if (op->raft_id == 0 || op->name.n > LIMIT_NODE_NAME_BYTES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "a leader needs a number, and a name of at "
				  "most %d bytes",
				  LIMIT_NODE_NAME_BYTES);
	/* one that was overtaken, or comes again */
	if (c->leader_id != 0 && op->term <= c->leader_term)
		return 0;
	MSG_SET(&l, leader, since, f->now_ns);
	cluster_set_leader(f, &l);
	cluster_save(f);
	tell_leader(f, &l);
	return 0;
}

/* --- the feature level --- */

int apply_set_level(struct fsm *f, const struct m_level *op,
		    struct m_nothing *ret _unused_)
{
	struct m_event e = { 0 };
	struct str name;
	size_t pos = 0;
	void *q;

	if (op->level <= f->cluster.level)
		return 0;
	if (op->level > FEATURE_LEVEL)
		return fsm_stop(f,
				"the cluster begins to use feature level "
				"%u and this version of Corvo knows levels "
				"up to %u; start a newer one",
				op->level, FEATURE_LEVEL);
	f->cluster.level = op->level;
	cluster_save(f);
	while (hmap_next(&f->queues, &pos, &name, &q))
		regroup_begin(f, q,
			      false); /* groups have less lanes, not more */
	active_regroup(f, NULL);
	MSG_SET(&e, event, type, EVENT_LEVEL_RAISED);
	MSG_SET(&e, event, data, fsm_event_number(f, "level", op->level));
	fsm_event(f, &e);
	return 0;
}

#ifdef CORVO_EXTRA_OP
int apply_set_note(struct fsm *f, const struct m_note *op, struct m_note *ret)
{
	struct m_cluster_doc m = { 0 };
	struct m_leader leader;
	struct key k;

	if (cluster_leader(f, &leader))
		MSG_SET(&m, cluster_doc, leader, &leader);
	MSG_SET(&m, cluster_doc, level, f->cluster.level);
	MSG_SET(&m, cluster_doc, note, op->note);
	key_cluster(&k);
	fsm_put(f, &k, &msg_cluster_doc, &m);
	*ret = *op;
	return 0;
}
#endif
