/*
 * See lead.h. Each thing is proposed once in a leadership; when the disk is
 * full, with the first entry after that.
 */
#include "lead.h"

#include "rt/log.h"
#include "util/timefmt.h"

static void propose(struct lead *l, unsigned op, const void *m)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	msg_encode(op_info(op)->request, m, &b);
	proposer_submit_own(l->p->proposer, op, buf_str(&b));
}

/* --- settings of the cluster --- */

/* One of them: what the cluster has, and what this node was given. */
struct seed {
	enum setting_id id;
	uint64_t bit; /* in cluster_settings and settings_seed */
	uint64_t now, last, own;
	uint64_t *to, *seed; /* in the change being made */
};

struct seeding {
	struct lead *l;
	bool alone;
	struct m_cluster_settings m;
	struct m_settings_seed seeds;
};

static bool is_given(const struct settings *s, enum setting_id id)
{
	return s->source[id] >= SRC_FILE;
}

static const char *who_says(enum setting_source s)
{
	return s == SRC_FLAG ? "flag" : s == SRC_ENV ? "environment" : "file";
}

static void say(const struct lead *l, const struct seed *x)
{
	const struct settings *s = &l->p->d->settings;
	_cleanup_(buf_done) struct buf now = BUF_INIT(0);

	if (setting_info(x->id)->kind == SK_dur)
		duration_format(&now, x->now);
	else
		buf_put_u64(&now, x->now);
	log_warn("%s is %.*s in the cluster; the %s says %s, which only seeds "
		 "a new cluster; use corvo settings",
		 setting_info(x->id)->name, STR_ARG(buf_str(&now)),
		 who_says(s->source[x->id]), s->text[x->id]);
}

/*
 * The cluster has it: then it stays. But who runs one node and starts it with
 * another flag than the last time means that flag; it is taken over once, so
 * that what was changed by API since stays when nobody touches the flag.
 */
static bool is_wanted(const struct seeding *g, const struct seed *x)
{
	const struct m_cluster_settings *now = fsm_settings(g->l->p->fsm);
	const struct m_settings_seed *last = fsm_seeds(g->l->p->fsm);

	if ((now->has & x->bit) == 0)
		return true;
	return g->alone && is_given(&g->l->p->d->settings, x->id) &&
	       ((last->has & x->bit) == 0 || x->last != x->own);
}

static void look_at(struct seeding *g, const struct seed *x, bool may_change)
{
	if (may_change && is_wanted(g, x)) {
		*x->to = *x->seed = x->own;
		g->m.has |= x->bit;
		g->seeds.has |= x->bit;
	} else if (is_given(&g->l->p->d->settings, x->id) &&
		   (fsm_settings(g->l->p->fsm)->has & x->bit) != 0 &&
		   x->now != x->own) {
		say(g->l, x);
	}
}

static void look_at_settings(struct seeding *g, bool may_change)
{
	const struct m_cluster_settings *now = fsm_settings(g->l->p->fsm);
	const struct m_settings_seed *last = fsm_seeds(g->l->p->fsm);
	const struct settings *own = &g->l->p->d->settings;
	struct seed all[] = {
#define SEED(name)                                         \
	{ SETTING_##name, MSG_BIT(cluster_settings, name), \
	  now->name,      last->name,                      \
	  own->name,      &g->m.name,                      \
	  &g->seeds.name }
		SEED(lease_duration), SEED(retention),  SEED(event_retention),
		SEED(queue_idle),     SEED(max_queues),
#undef SEED
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		look_at(g, &all[i], may_change);
}

void lead_compare(struct lead *l)
{
	struct seeding g = { .l = l };

	look_at_settings(&g, false);
}

static void propose_settings(struct lead *l, const struct lead_voters *v)
{
	struct seeding g = { .l = l, .alone = v->n == 1 };

	look_at_settings(&g, true);
	if (g.m.has == 0)
		return;
	MSG_SET(&g.m, cluster_settings, seeds, &g.seeds);
	propose(l, OP_SET_SETTINGS, &g.m);
}

/* --- the cluster --- */

/* One that is alone leads always, which is no news. */
static void propose_leader(struct lead *l, const struct lead_voters *v)
{
	struct m_leader m = { 0 };
	struct node_info info;

	if (v->n <= 1)
		return;
	node_info(l->p->node, &info);
	MSG_SET(&m, leader, raft_id, v->self);
	MSG_SET(&m, leader, name, str_from(l->p->d->settings.node_id));
	MSG_SET(&m, leader, term, info.term);
	propose(l, OP_LEADER, &m);
}

static void propose_level(struct lead *l, const struct lead_voters *v)
{
	uint32_t level = fsm_level_for(l->p->fsm, v->ids, v->n, v->self);
	struct m_level m = { 0 };

	if (level <= MAX(fsm_level(l->p->fsm), l->level_asked))
		return;
	l->level_asked = level;
	MSG_SET(&m, level, level, level);
	propose(l, OP_SET_LEVEL, &m);
}

void lead_look(struct lead *l)
{
	struct lead_voters v = { 0 };
	bool has_room;

	/* in nearly all entries there is nothing to do */
	if (!l->leading || (l->told_settings && l->told_leader &&
			    fsm_level(l->p->fsm) == FEATURE_LEVEL))
		return;
	has_room = proposer_stats(l->p->proposer)->disk_ok;
	l->voters(l->ctx, &v);
	/* a shorter retention is what makes room */
	if (!l->told_settings &&
	    (has_room || fsm_settings(l->p->fsm)->has != 0)) {
		propose_settings(l, &v);
		l->told_settings = true;
	}
	if (!has_room)
		return;
	if (!l->told_leader)
		propose_leader(l, &v);
	l->told_leader = true;
	propose_level(l, &v);
}

void lead_begin(struct lead *l)
{
	l->leading = l->compared = true;
	l->told_settings = l->told_leader = false;
	l->level_asked = 0;
	lead_look(l);
}

void lead_end(struct lead *l)
{
	l->leading = false;
	if (l->compared || !node_is_whole(l->p->node))
		return;
	l->compared = true;
	lead_compare(l);
}

void lead_reload(struct lead *l)
{
	if (!l->leading) {
		lead_compare(l);
		return;
	}
	l->told_settings = false;
	lead_look(l);
}
