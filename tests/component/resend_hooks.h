/*
 * More of resend_gen.h: inbound webhooks.
 */
#ifndef CORVO_RESEND_HOOKS_H
#define CORVO_RESEND_HOOKS_H

#include "resend_gen.h"

static inline void make_set_hook(struct rw *w, struct m_set_hook *m)
{
	MSG_SET(m, set_hook, name, one_in(w, 2) ? STR("gh") : STR("st"));
	MSG_SET(m, set_hook, queue, some_queue(w));
	if (one_in(w, 2))
		return;
	MSG_SET(m, set_hook, verify, HOOK_VERIFY_GITHUB);
	MSG_SET(m, set_hook, secret, named(w, "s", rng_below(&w->r, 9)));
}

static inline void make_delete_hook(struct rw *w, struct m_hook_ref *m)
{
	MSG_SET(m, hook_ref, name, one_in(w, 2) ? STR("gh") : STR("st"));
}

#endif
