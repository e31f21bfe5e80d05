/*
 * What is applied stays. An entry that was committed is in the log of every
 * later leader, so one who has another in its place is proof that the promise
 * was broken before, here or there. The library stops at that, and says so to
 * nobody; and after a start it does not know any more what was committed, and
 * cuts off entries that the store has applied. From then on store and cluster
 * differ, silently and for good.
 *
 * So such a node says what it met, writes it down, and takes part in nothing
 * any more, also after a start: its store is not the cluster's.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cluster/node_impl.h"
#include "proto/err.h"
#include "rt/file.h"
#include "rt/log.h"

#define NAME     "diverged" /* beside the log, and gone when that is */
#define TEXT_MAX 4096
#define WHAT_HELPS                                                      \
	"start it with an empty --data-dir and --join=host:port, as a " \
	"node with a new disk, to get what the cluster has"

static void put_path(const char *dir, struct buf *ret)
{
	buf_printf(ret, "%s/" NAME, dir);
	buf_putc(ret, '\0');
}

int guard_refuse(const char *dir, struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	size_t before = why->n;
	int r;

	put_path(dir, &path);
	r = file_read(path.p, TEXT_MAX, why);
	if (r == -ENOENT)
		return 0;
	if (why->n == before)
		buf_printf(why,
			   "%s says that this node has diverged from its "
			   "cluster; " WHAT_HELPS,
			   path.p);
	return -ERR_CONFLICT;
}

static void diverge(struct node *n, uint64_t index, uint64_t theirs)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	_cleanup_(buf_done) struct buf dir = BUF_INIT(0);
	int r;

	if (n->guard.diverged)
		return;
	n->guard.diverged = true;
	buf_printf(&text,
		   "this node has applied entry %" PRIu64 " of term %" PRIu64
		   " and the cluster has another one in its place",
		   index, node_term_of(n, index));
	if (theirs != 0)
		buf_printf(&text, ", of term %" PRIu64, theirs);
	buf_puts(&text, ": consensus was violated, and what this node has is "
			"not what the cluster has; " WHAT_HELPS);
	buf_printf(&dir, "%s/raft", n->data_dir);
	buf_putc(&dir, '\0');
	put_path(dir.p, &path);
	r = file_write(path.p, buf_str(&text));
	if (r == 0)
		r = dir_sync(dir.p);
	if (r < 0)
		log_error("cannot write %s: %s", path.p, strerror(-r));
	log_error("%.*s", STR_ARG(buf_str(&text)));
}

static uint64_t applied_upto(const struct node *n)
{
	return MAX(n->applied, n->raft.commit_index);
}

bool guard_applied_fits(struct node *n, const struct raft_append_entries *a)
{
	uint64_t upto = applied_upto(n);

	if (!guard_is_on(GUARD_APPLIED) || a->term < n->raft.current_term)
		return true;
	for (unsigned i = 0; i <= a->n_entries; i++) {
		uint64_t index = a->prev_log_index + i;
		uint64_t theirs =
		    i == 0 ? a->prev_log_term : a->entries[i - 1].term;
		uint64_t mine;

		if (index > upto)
			break;
		mine = index > 0 ? node_term_of(n, index) : 0;
		if (mine == 0 || mine == theirs)
			continue;
		diverge(n, index, theirs);
		return false;
	}
	return true;
}

bool guard_applied_stays(struct node *n, uint64_t index)
{
	if (!guard_is_on(GUARD_APPLIED) || index > applied_upto(n))
		return true;
	diverge(n, index, 0);
	return false;
}
