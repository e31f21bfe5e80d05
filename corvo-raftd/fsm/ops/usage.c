/*
 * How usage is summed up, and the price list.
 */
#include "fsm/ties/usage.h"
#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/ops/ops.h"
#include "proto/msg_json.h"
#include "proto/units.h"
#include "util/json.h"

/* --- settings --- */

static int check_tags(struct fsm *f, const struct m_usage_settings *op)
{
	if (op->tags_n > LIMIT_USAGE_TAGS)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "tags: must be at most %d", LIMIT_USAGE_TAGS);
	for (size_t i = 0; i < op->tags_n; i++) {
		if (op->tags[i].n == 0)
			return fsm_refuse(f, ERR_VALIDATION_ERROR,
					  "tags[%zu]: must not be empty", i);
		for (size_t k = 0; k < i; k++)
			if (str_eq(op->tags[i], op->tags[k]))
				return fsm_refuse(f, ERR_VALIDATION_ERROR,
						  "tags[%zu]: is named twice",
						  i);
	}
	return 0;
}

static int check_settings(struct fsm *f, const struct m_usage_settings *op)
{
	uint64_t changes = MSG_BIT(usage_settings, tags) |
			   MSG_BIT(usage_settings, timezone) |
			   MSG_BIT(usage_settings, retention);

	if ((op->has & changes) == 0)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "name what to change: tags, timezone or "
				  "retention");
	return check_tags(f, op);
}

static void tell_settings(struct fsm *f)
{
	static const struct json_style style;
	struct json_writer w = JSON_WRITER(&f->data);
	struct m_event e = { 0 };

	buf_clear(&f->data);
	msg_to_json(&msg_usage_settings, &f->usage.set, &style, &w);
	MSG_SET(&e, event, type, EVENT_USAGE_CHANGED);
	MSG_SET(&e, event, data, buf_str(&f->data));
	fsm_event(f, &e);
}

int apply_set_usage(struct fsm *f, const struct m_usage_settings *op,
		    struct m_usage_settings *ret)
{
	struct m_usage_settings to = f->usage.set;
	int r = check_settings(f, op);

	if (r < 0)
		return r;
	if (MSG_HAS(op, usage_settings, tags))
		MSG_SET_LIST(&to, usage_settings, tags, op->tags, op->tags_n);
	if (MSG_HAS(op, usage_settings, timezone)) {
		MSG_SET(&to, usage_settings, timezone, op->timezone);
		MSG_SET_LIST(&to, usage_settings, offsets, op->offsets,
			     op->offsets_n);
	}
	if (MSG_HAS(op, usage_settings, retention))
		MSG_SET(&to, usage_settings, retention, op->retention);
	usage_settings_save(f, &to);
	tell_settings(f);
	*ret = f->usage.set;
	return 0;
}

/* --- the price list --- */

/* Names stand in a key, and \0 ends one there. */
static bool is_name(struct str s)
{
	return s.n > 0 && memchr(s.p, '\0', s.n) == NULL;
}

static int check_price(struct fsm *f, const struct m_price *op)
{
	if (!is_name(op->provider) || !is_name(op->model))
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "a provider or model must have a name "
				  "without control characters");
	buf_clear(&f->why);
	if (units_check(op->units, LIMIT_USAGE_COST, "units", &f->item_arena,
			&f->why) < 0)
		return -ERR_VALIDATION_ERROR;
	if (price_find(f, op->provider, op->model) == NULL &&
	    f->usage.prices.n >= LIMIT_PRICES)
		return fsm_refuse(f, ERR_VALIDATION_ERROR,
				  "the price list has %d models, which is as "
				  "many as it can have; delete some",
				  LIMIT_PRICES);
	return 0;
}

static void tell_price(struct fsm *f, enum event_type type,
		       const struct m_price *m)
{
	static const struct json_style style;
	struct json_writer w = JSON_WRITER(&f->data);
	struct m_event e = { 0 };

	buf_clear(&f->data);
	msg_to_json(&msg_price, m, &style, &w);
	MSG_SET(&e, event, type, type);
	MSG_SET(&e, event, data, buf_str(&f->data));
	fsm_event(f, &e);
}

int apply_set_price(struct fsm *f, const struct m_price *op,
		    struct m_price *ret)
{
	int r = check_price(f, op);

	if (r < 0)
		return r;
	*ret = *op;
	MSG_SET(ret, price, updated_at, f->now_ns);
	price_save(f, ret);
	tell_price(f, EVENT_PRICE_SET, ret);
	return 0;
}

int apply_delete_price(struct fsm *f, const struct m_price_ref *op,
		       struct m_status_reply *ret)
{
	const struct m_price *found = NULL;
	struct m_price gone;

	if (is_name(op->provider) && is_name(op->model))
		found = price_find(f, op->provider, op->model);
	if (found == NULL)
		return fsm_refuse(f, ERR_NOT_FOUND,
				  "there is no price of model \"%.*s\" of "
				  "provider \"%.*s\"",
				  STR_ARG(op->model), STR_ARG(op->provider));
	gone = (struct m_price){ 0 };
	MSG_SET(&gone, price, provider, op->provider);
	MSG_SET(&gone, price, model, op->model);
	price_remove(f, &gone);
	tell_price(f, EVENT_PRICE_DELETED, &gone);
	MSG_SET(ret, status_reply, status, STR("deleted"));
	return 0;
}
