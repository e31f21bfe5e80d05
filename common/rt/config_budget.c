/*
 * Settings that are memory, as shares of the memory of the node.
 */
#include "rt/config.h"
#include "rt/config_impl.h"
#include "rt/log.h"

#define MIB (1ULL << 20)

/* Of the memory: more than this in budgets leaves too little. */
#define BUDGETS_MANY(memory) ((memory) / 4 * 3)

static const struct {
	enum setting_id id;
	uint64_t per_gib; /* MiB */
	unsigned copies;
	uint64_t min; /* MiB */
} rows[BUDGET_MAX] = {
#define BUDGET(setting, per_gib, copies, min) \
	[BUDGET_##setting] = { SETTING_##setting, per_gib, copies, min },
#include "proto/defs/budgets.def"
};

enum {
#define BUDGET(setting, per_gib, copies, min) +(per_gib) * (copies)
	BUDGETS_PER_GIB = 0
#include "proto/defs/budgets.def"
};
_Static_assert(BUDGETS_PER_GIB <= 512, "at most half of the memory");

static void derive(struct settings *s, enum setting_id id, uint64_t share)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	if (s->source[id] != SRC_DEFAULT || share >= setting_number(s, id))
		return;
	setting_put_value(&text, SK_size, share);
	CHECK(setting_store(s, id, SRC_MEMORY, buf_str(&text)));
}

void settings_derive(struct settings *s)
{
	if (s->memory_limit != 0)
		s->memory = (struct memory_limit){
			.bytes = s->memory_limit,
			.from = "the setting memory_limit",
		};
	else
		memory_limit_read(&s->memory);
	if (s->memory.bytes == 0) /* nothing tells: the defaults */
		return;
	for (size_t i = 0; i < BUDGET_MAX; i++) {
		uint64_t mib = s->memory.bytes / MIB * rows[i].per_gib / 1024;

		derive(s, rows[i].id, MAX(mib, rows[i].min) * MIB);
	}
}

void settings_budgets(const struct settings *s, struct budget ret[BUDGET_MAX])
{
	for (size_t i = 0; i < BUDGET_MAX; i++)
		ret[i] =
		    (struct budget){ .id = rows[i].id,
				     .bytes = setting_number(s, rows[i].id),
				     .copies = rows[i].copies };
}

static void warn_if_more_than_there_is(const struct settings *s)
{
	struct memory_limit real;

	memory_limit_read(&real);
	if (s->memory_limit != 0 && real.bytes != 0 &&
	    real.bytes < s->memory_limit)
		log_warn("memory_limit is %lluMiB, but %s has %lluMiB: the "
			 "node may be killed",
			 (unsigned long long)(s->memory_limit / MIB), real.from,
			 (unsigned long long)(real.bytes / MIB));
}

void settings_log_budgets(const struct settings *s)
{
	_cleanup_(buf_done) struct buf list = BUF_INIT(0);
	struct budget all[BUDGET_MAX];
	uint64_t total = 0;

	settings_budgets(s, all);
	for (size_t i = 0; i < BUDGET_MAX; i++) {
		buf_printf(&list, " %s=", setting_info(all[i].id)->name);
		setting_put_value(&list, SK_size, all[i].bytes);
		total += all[i].bytes * all[i].copies;
	}
	if (s->memory.bytes == 0) {
		log_warn("the memory of the machine cannot be read; "
			 "budgets:%.*s",
			 STR_ARG(buf_str(&list)));
		return;
	}
	log_info("memory=%lluMiB (%s); budgets:%.*s",
		 (unsigned long long)(s->memory.bytes / MIB), s->memory.from,
		 STR_ARG(buf_str(&list)));
	warn_if_more_than_there_is(s);
	if (total > BUDGETS_MANY(s->memory.bytes))
		log_warn("these budgets may take %lluMiB, which leaves little "
			 "of %lluMiB (%s) for all else: the node may be "
			 "killed; set less, or give it more memory",
			 (unsigned long long)(total / MIB),
			 (unsigned long long)(s->memory.bytes / MIB),
			 s->memory.from);
}
