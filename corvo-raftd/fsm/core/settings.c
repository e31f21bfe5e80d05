/*
 * The record of the cluster's settings. See core/settings.h.
 */
#include "fsm/core/settings.h"

#include "fsm/core/entry.h"

int cluster_settings_load(struct fsm *f)
{
	struct m_cluster_settings m;
	struct key k;
	int r;

	key_settings(&k);
	arena_reset(&f->item_arena);
	r = fsm_read(f, &k, &msg_cluster_settings, &m);
	if (r <= 0)
		return r;
	if (m.seeds != NULL)
		f->seeds = *m.seeds;
	MSG_UNSET(&m, cluster_settings, seeds);
	m.seeds = NULL; /* in the arena */
	f->settings = m;
	return 0;
}

void cluster_settings_save(struct fsm *f)
{
	struct m_cluster_settings m = f->settings;
	struct key k;

	if (f->seeds.has != 0)
		MSG_SET(&m, cluster_settings, seeds, &f->seeds);
	key_settings(&k);
	fsm_put(f, &k, &msg_cluster_settings, &m);
}
