/*
 * set_hook, delete_hook. What places and secrets must look like is checked by
 * who takes deliveries; here they are only kept.
 */
#include "fsm/ties/inbound.h"
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/ops/ops.h"

static int check(struct fsm *f, const struct m_set_hook *op,
		 const struct m_hook *old)
{
	if (!str_is_name(op->name, LIMIT_HOOK_NAME_BYTES))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "name: must be 1 to %d letters, digits, "
				  "dots, dashes and underscores",
				  LIMIT_HOOK_NAME_BYTES);
	if (old == NULL && f->inbound.n >= LIMIT_HOOKS)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "there are %d inbound webhooks, which is as "
				  "many as there may be; delete some",
				  LIMIT_HOOKS);
	return 0;
}

static void set_secrets(struct m_hook *ret, struct str secret,
			struct str previous)
{
	MSG_SET(ret, hook, secret, secret);
	MSG_SET(ret, hook, secrets, 1);
	if (previous.n == 0)
		return;
	MSG_SET(ret, hook, previous_secret, previous);
	MSG_SET(ret, hook, secrets, 2);
}

/* Nobody can read them back, so a change without any keeps what there is. */
static int take_secrets(struct fsm *f, const struct m_set_hook *op,
			const struct m_hook *old, struct m_hook *ret)
{
	if (op->verify == HOOK_VERIFY_NONE) {
		if (op->secret.n > 0 || op->previous_secret.n > 0)
			return fsm_refuse(f, ERR_VALIDATION_ERROR,
					  "secret: verify has to say what it "
					  "is for");
		return 0;
	}
	if (op->secret.n > 0) {
		set_secrets(ret, op->secret, op->previous_secret);
		return 0;
	}
	if (op->previous_secret.n > 0)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "previous_secret: must stand beside secret");
	if (old == NULL || old->verify != op->verify)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "secret: must be there to verify by %s",
				  enum_text(&enum_hook_verify, op->verify));
	set_secrets(ret, arena_copy(&f->item_arena, old->secret),
		    arena_copy(&f->item_arena, old->previous_secret));
	return 0;
}

#define TAKE(member)                                            \
	do {                                                    \
		if (MSG_HAS(op, set_hook, member))              \
			MSG_SET(ret, hook, member, op->member); \
	} while (0)

static void take_rest(const struct m_set_hook *op, struct m_hook *ret)
{
	MSG_SET(ret, hook, name, op->name);
	MSG_SET(ret, hook, queue, op->queue);
	MSG_SET(ret, hook, verify, op->verify);
	TAKE(token_header);
	TAKE(tolerance);
	TAKE(delivery_id);
	TAKE(payload);
	TAKE(unique_key);
	TAKE(unique_period);
	TAKE(as_numbers);
	TAKE(tags);
	TAKE(priority);
	TAKE(max_retries);
}

int apply_set_hook(struct fsm *f, const struct m_set_hook *op,
		   struct m_hook *ret)
{
	const struct m_hook *old = inbound_find(f, op->name);
	int r = check(f, op, old);

	if (r == 0)
		r = take_secrets(f, op, old, ret);
	if (r < 0)
		return r;
	take_rest(op, ret);
	MSG_SET(ret, hook, created_at,
		old != NULL ? old->created_at : f->now_ns);
	MSG_SET(ret, hook, updated_at, f->now_ns);
	inbound_save(f, ret);
	/* without the secrets, which are no members of its JSON */
	fsm_tell(f, EVENT_HOOK_SET, &msg_hook, ret);
	/* an answer is kept for a while: it needs no secrets */
	MSG_UNSET(ret, hook, secret);
	MSG_UNSET(ret, hook, previous_secret);
	return 0;
}

int apply_delete_hook(struct fsm *f, const struct m_hook_ref *op,
		      struct m_status_reply *ret)
{
	struct m_hook gone = { 0 };

	if (inbound_find(f, op->name) == NULL)
		return fsm_refuse(f, ERR_NOT_FOUND,
				  "there is no inbound webhook \"%.*s\"",
				  STR_ARG(op->name));
	inbound_remove(f, op->name);
	MSG_SET(&gone, hook, name, op->name);
	fsm_tell(f, EVENT_HOOK_DELETED, &msg_hook, &gone);
	MSG_SET(ret, status_reply, status, STR("deleted"));
	return 0;
}
