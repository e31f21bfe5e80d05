/*
 * set_settings: what clients change, and what a leader takes over from its
 * flags. What is not told to be changed stays.
 */
#include "fsm/core/settings.h"
#include "fsm/core/entry.h"
#include "fsm/ops/ops.h"
#include "util/json.h"

/* Those of cluster_settings before seeds, which settings_seed has as well. */
#define SETTINGS MF_settings_seed_MAX

#define SAME(name)                                        \
	_Static_assert((int)MF_cluster_settings_##name == \
			   (int)MF_settings_seed_##name,  \
		       "the same members in the same order: " #name)
SAME(lease_duration);
SAME(retention);
SAME(event_retention);
SAME(queue_idle);
SAME(max_queues);
#undef SAME
_Static_assert((int)MF_cluster_settings_seeds == (int)SETTINGS,
	       "and no others before seeds");

static size_t offset_of(const struct msg_desc *d, size_t i)
{
	CHECK(d->fields[i].kind == K_dur || d->fields[i].kind == K_u64);
	return d->fields[i].offset;
}

static uint64_t value_of(const struct msg_desc *d, const void *m, size_t i)
{
	uint64_t v;

	memcpy(&v, (const char *)m + offset_of(d, i), sizeof(v));
	return v;
}

static void set_value(const struct msg_desc *d, void *m, size_t i, uint64_t v)
{
	memcpy((char *)m + offset_of(d, i), &v, sizeof(v));
}

static void put_value(struct json_writer *w, size_t i, uint64_t v)
{
	if (msg_cluster_settings.fields[i].kind == K_dur)
		jw_duration(w, v);
	else
		jw_u64(w, v);
}

/* {"retention":{"from":"168h","to":"1h"}}: what had another value before. */
static bool put_changes(struct fsm *f, const struct m_cluster_settings *to)
{
	const struct msg_desc *d = &msg_cluster_settings;
	struct json_writer w = JSON_WRITER(&f->data);
	bool any = false;

	buf_clear(&f->data);
	jw_object(&w);
	for (size_t i = 0; i < SETTINGS; i++) {
		uint64_t before = value_of(d, &f->settings, i);
		uint64_t after = value_of(d, to, i);

		if ((f->settings.has >> i & 1) == 0 || before == after)
			continue;
		any = true;
		jw_key(&w, d->fields[i].name);
		jw_object(&w);
		jw_key(&w, "from");
		put_value(&w, i, before);
		jw_key(&w, "to");
		put_value(&w, i, after);
		jw_object_end(&w);
	}
	jw_object_end(&w);
	return any;
}

/* Takes over the members that `change` has. */
static void merge(const struct msg_desc *d, void *into, uint64_t *has,
		  const void *change, uint64_t change_has)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		if ((change_has >> i & 1) == 0)
			continue;
		set_value(d, into, i, value_of(d, change, i));
		*has |= 1ULL << i;
	}
}

static int set(struct fsm *f, const struct m_cluster_settings *op)
{
	struct m_cluster_settings to = f->settings;
	struct m_event e = { 0 };

	merge(&msg_cluster_settings, &to, &to.has, op, op->has);
	if (op->seeds != NULL)
		merge(&msg_settings_seed, &f->seeds, &f->seeds.has, op->seeds,
		      op->seeds->has);
	if (put_changes(f, &to)) {
		MSG_SET(&e, event, type, EVENT_SETTINGS_CHANGED);
		MSG_SET(&e, event, data, buf_str(&f->data));
		fsm_event(f, &e);
	}
	f->settings = to;
	cluster_settings_save(f);
	return 0;
}

/* The bounds of the flags: rt/config_check.c. */
static int check(struct fsm *f, const struct m_cluster_settings *op)
{
	if ((op->has & ((1ULL << SETTINGS) - 1)) == 0)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "name what to change: lease_duration, "
				  "retention, event_retention, queue_idle or "
				  "max_queues");
	if (MSG_HAS(op, cluster_settings, lease_duration) &&
	    (op->lease_duration < NS_PER_MS ||
	     op->lease_duration > LIMIT_LEASE_S * NS_PER_S))
		return fsm_refuse(
		    f, ERR_VALIDATION_ERROR,
		    "lease_duration: must be from 0.001 to %d seconds",
		    LIMIT_LEASE_S);
	if (MSG_HAS(op, cluster_settings, event_retention) &&
	    (op->event_retention < 1 ||
	     op->event_retention > LIMIT_EVENT_RETENTION))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "event_retention: must be from 1 to %llu",
				  LIMIT_EVENT_RETENTION);
	return 0;
}

int apply_set_settings(struct fsm *f, const struct m_cluster_settings *op,
		       struct m_cluster_settings *ret)
{
	int r = check(f, op);

	if (r == 0)
		r = set(f, op);
	if (r == 0)
		*ret = f->settings;
	return r;
}

int apply_set_limits(struct fsm *f, const struct m_limits *op,
		     struct m_nothing *ret _unused_)
{
	if (op->max_queues == f->settings.max_queues)
		return 0;
	MSG_SET(&f->settings, cluster_settings, max_queues, op->max_queues);
	cluster_settings_save(f);
	return 0;
}
