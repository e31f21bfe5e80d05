/*
 * Which operations are taken: what does not fit is refused before it is in
 * anybody's way. Loop thread.
 */
#include <inttypes.h>

#include "propose/proposer_impl.h"
#include "rt/file.h"
#include "rt/log.h"
#include "util/clock.h"

#define DISK_CHECK_NS       (100 * NS_PER_MS)
#define OVERLOAD_RETRY_TEXT "too many operations are waiting for the log"
#define LATE_TEXT           "this waited too long for the log and was withdrawn"

/*
 * Room for what may follow an accepted op: two log segments that libraft
 * prepares ahead, and the memtables RocksDB has yet to write. Refusing before
 * the disk is really full is what lets the node recover by itself; what frees
 * room may use half of this.
 */
void admission_look_at_disk(struct proposer *p)
{
	const struct settings *s = p->c.settings;
	uint64_t now = clock_mono_ns();
	uint64_t need = 2 * s->raft_segment_size + 3 * s->rocksdb_write_buffer;
	uint64_t free_bytes = 0;
	bool ok;

	if (p->disk_checked_ns != 0 && now - p->disk_checked_ns < DISK_CHECK_NS)
		return;
	p->disk_checked_ns = now;
	ok = dir_free_bytes(s->data_dir, &free_bytes) == 0;
	p->disk_may_free = ok && free_bytes >= need / 2;
	ok = ok && free_bytes >= need;
	if (ok != p->stats.disk_ok)
		log_warn(ok ? "disk space is back; taking writes again"
			    : "disk space is low; refusing writes need=%" PRIu64
			      " dir=%s",
			 need, s->data_dir);
	p->stats.disk_ok = ok;
}

/*
 * What the node itself has to do is taken also when clients are told to come
 * again: there is little of it at a time, and without it leases would not end
 * and nothing old would go.
 */
int admission_judge(struct proposer *p, const struct op *op,
		    const char **ret_text)
{
	const struct settings *s = p->c.settings;
	unsigned who = op_info(op->id)->who;

	if (p->draining) {
		*ret_text = err_text(ERR_SHUTTING_DOWN);
		return ERR_SHUTTING_DOWN;
	}
	if (admission_is_late(op, op->arrived_ns)) {
		*ret_text = LATE_TEXT;
		return ERR_LEADER_UNAVAILABLE;
	}
	if (!(who & OP_SERVER) &&
	    (p->stats.pending >= s->raft_max_pending ||
	     p->pending_bytes + op->body.n > s->raft_max_pending_bytes)) {
		*ret_text = OVERLOAD_RETRY_TEXT;
		p->stats.overload++;
		return ERR_OVERLOADED;
	}
	admission_look_at_disk(p);
	if (who & OP_FREES ? !p->disk_may_free : !p->stats.disk_ok) {
		*ret_text = err_text(ERR_STORAGE_FULL);
		return ERR_STORAGE_FULL;
	}
	return 0;
}

/* --- deadlines --- */

/* Whoever asked has been told, or will be, that it was not done. */
void admission_withdraw(struct proposer *p, struct op *op)
{
	pending_remove(p, op);
	p->stats.pending--;
	op_refuse(p, op, ERR_LEADER_UNAVAILABLE, LATE_TEXT);
}

void admission_on_late(void *ctx)
{
	struct proposer *p = ctx;
	uint64_t now_ns = clock_mono_ns();

	p->late_armed = false;
	LIST_FOREACH_SAFE (it, &p->pending) {
		struct op *op = list_entry(it, struct op, node);

		if (admission_is_late(op, now_ns))
			admission_withdraw(p, op);
	}
}
