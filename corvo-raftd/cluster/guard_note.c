/*
 * The file that says that a node has diverged: see guard_applied.c.
 */
#include <errno.h>
#include <string.h>

#include "cluster/node_impl.h"
#include "proto/err.h"
#include "rt/file.h"
#include "rt/log.h"

#define NAME     "diverged" /* beside the log, and gone when that is */
#define TEXT_MAX 4096

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
			   "cluster; " GUARD_HELPS,
			   path.p);
	return -ERR_CONFLICT;
}

void guard_note(const struct node *n, struct str text)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf dir = BUF_INIT(0);
	int r;

	buf_printf(&dir, "%s/raft", n->data_dir);
	buf_putc(&dir, '\0');
	put_path(dir.p, &path);
	r = file_write(path.p, text);
	if (r == 0)
		r = dir_sync(dir.p);
	if (r < 0)
		log_error("cannot write %s: %s", path.p, strerror(-r));
}
