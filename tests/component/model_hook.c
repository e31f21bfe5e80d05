/*
 * Inbound webhooks: which there are, and which secrets they have. See model.h
 * and model_run.h.
 */
#include "fsm_fixture.h"
#include "model.h"
#include "model_run.h"

static struct model_hook *find(struct model *m, struct str name)
{
	for (size_t i = 0; i < MODEL_HOOKS; i++)
		if (m->hooks[i].used && str_eq(m->hooks[i].name, name))
			return &m->hooks[i];
	return NULL;
}

static struct model_hook *find_free(struct model *m)
{
	for (size_t i = 0; i < MODEL_HOOKS; i++)
		if (!m->hooks[i].used)
			return &m->hooks[i];
	fail_msg("there are more webhooks than there are names");
	return NULL;
}

/* Whether it can be, and whether the secrets of before stay. */
static bool is_good(struct model *m, const struct m_set_hook *op,
		    const struct model_hook *old, bool *ret_keeps)
{
	bool any = op->secret.n > 0 || op->previous_secret.n > 0;

	*ret_keeps = op->verify != HOOK_VERIFY_NONE && !any && old != NULL &&
		     old->verify == op->verify;
	if (op->verify == HOOK_VERIFY_NONE ? !any
					   : *ret_keeps || op->secret.n > 0)
		return true;
	model_refuse(m, ERR_VALIDATION_ERROR);
	return false;
}

static void model_set_hook(struct model *m, const struct m_set_hook *op)
{
	struct model_hook *h = find(m, op->name);
	bool keeps;

	if (!is_good(m, op, h, &keeps))
		return;
	if (h == NULL) {
		h = find_free(m);
		*h = (struct model_hook){ .created_at = m->now };
	}
	h->used = true;
	h->name = model_copy(m, op->name);
	h->queue = model_copy(m, op->queue);
	h->verify = op->verify;
	if (keeps)
		return;
	h->secret = model_copy(m, op->secret);
	h->previous = model_copy(m, op->previous_secret);
}

static void model_delete_hook(struct model *m, const struct m_hook_ref *op)
{
	struct model_hook *h = find(m, op->name);

	if (h == NULL)
		model_refuse(m, ERR_NOT_FOUND);
	else
		h->used = false;
}

void model_compare_hooks(struct model *m, struct fx *x)
{
	const struct fsm *f = x->side[FX_MEM].f;
	struct m_hook_list list = { 0 };
	size_t n = 0;

	fsm_hooks(f, &x->arena, &list);
	for (size_t i = 0; i < MODEL_HOOKS; i++) {
		const struct model_hook *h = &m->hooks[i];
		const struct m_hook *r;

		if (!h->used)
			continue;
		n++;
		r = fsm_hook(f, h->name);
		assert_non_null(r);
		assert_true(str_eq(r->queue, h->queue));
		assert_int_equal(r->verify, h->verify);
		assert_true(str_eq(r->secret, h->secret));
		assert_true(str_eq(r->previous_secret, h->previous));
		assert_int_equal(r->secrets,
				 (h->secret.n > 0) + (h->previous.n > 0));
		assert_int_equal(r->created_at, h->created_at);
	}
	assert_int_equal(list.hooks_n, n);
}

/* --- some --- */

static struct str some_name(struct run *n)
{
	static const char *const names[MODEL_HOOKS] = { "gh", "st", "sl" };

	return str_from(names[run_below(n, MODEL_HOOKS)]);
}

void run_hook(struct run *n)
{
	struct m_set_hook op = { 0 };
	struct m_hook_ref gone = { 0 };

	if (run_chance(n, 25)) {
		MSG_SET(&gone, hook_ref, name, some_name(n));
		model_delete_hook(n->m, &gone);
		(void)run_do(n, OP_DELETE_HOOK, &gone, NULL);
		return;
	}
	MSG_SET(&op, set_hook, name, some_name(n));
	MSG_SET(&op, set_hook, queue, run_queue(n));
	if (run_chance(n, 80))
		MSG_SET(&op, set_hook, verify, (uint32_t)run_below(n, 3));
	if (run_chance(n, 50))
		MSG_SET(&op, set_hook, secret,
			run_chance(n, 50) ? STR("s1") : STR("s2"));
	if (run_chance(n, 30))
		MSG_SET(&op, set_hook, previous_secret, STR("s0"));
	model_set_hook(n->m, &op);
	(void)run_do(n, OP_SET_HOOK, &op, NULL);
}
