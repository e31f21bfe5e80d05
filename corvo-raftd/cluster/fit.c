#include "cluster/fit.h"

#include <inttypes.h>

static int on_entry(void *ctx, const struct log_entry *e)
{
	struct fit *f = ctx;

	/* what is no command was applied to no store */
	if (e->index == f->store.index) {
		f->has_entry = true;
		f->entry = e->is_command
			       ? e->origin
			       : (struct entry_origin){ .term = e->term };
	}
	return f->fn != NULL ? f->fn(f->ctx, e) : 0;
}

int fit_read(struct fit *f, const char *dir, struct buf *why)
{
	return log_check(&f->log, dir, on_entry, f, why);
}

void fit_done(struct fit *f)
{
	log_check_done(&f->log);
}

static bool judge_histories(const struct fit *f, struct buf *why)
{
	const struct history *log = &f->log.history;
	const struct history *store = &f->store.origin.history;

	if (history_is_none(log) || history_is_none(store) ||
	    history_eq(log, store))
		return true;
	buf_puts(why, "the store is of history ");
	history_put(why, store);
	buf_puts(why, ", the log of history ");
	history_put(why, log);
	return false;
}

static bool judge_indexes(const struct fit *f, struct buf *why)
{
	const struct log_check *log = &f->log;
	uint64_t store = f->store.index;

	if (log->is_new && store > 0)
		buf_printf(why,
			   "the store has applied entry %" PRIu64
			   ", but the log is empty",
			   store);
	else if (store >= log->next && store > log->snapshot.store)
		buf_printf(why,
			   "the store has applied entry %" PRIu64
			   ", but the log ends with entry %" PRIu64,
			   store, log->next - 1);
	else if (store < log->snapshot.applied)
		buf_printf(why,
			   "the store has applied entry %" PRIu64
			   ", but the log was cut after entry %" PRIu64
			   ", which it needs",
			   store, log->snapshot.applied);
	else
		return true;
	return false;
}

/* What the log says of the entry the store ends with; NULL: nothing. */
static const struct entry_origin *entry_of(const struct fit *f)
{
	if (f->has_entry)
		return &f->entry;
	if (f->store.index > 0 && f->store.index == f->log.snapshot.applied)
		return &f->log.snapshot.origin;
	if (f->store.index > 0 && f->store.index == f->log.snapshot.store)
		return &f->log.snapshot.store_origin;
	return NULL;
}

static bool judge_entry(const struct fit *f, struct buf *why)
{
	const struct entry_origin *log = entry_of(f);

	if (log == NULL || origin_fits(&f->store.origin, log))
		return true;
	buf_printf(why,
		   "the store has applied another entry %" PRIu64
		   " than the log has (term %" PRIu64 " and %" PRIu64 ")",
		   f->store.index, f->store.origin.term, log->term);
	return false;
}

bool fit_judge(const struct fit *f, struct buf *why)
{
	if (f->log.is_new && f->store.index == 0)
		return true;
	return judge_histories(f, why) && judge_indexes(f, why) &&
	       judge_entry(f, why);
}

bool fit_goes_on(const struct fit *f)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	uint64_t next = f->store.index + 1;

	return next >= f->log.first && next < f->log.next &&
	       (f->store.index == 0 || entry_of(f) != NULL) &&
	       judge_histories(f, &why) && judge_entry(f, &why);
}
