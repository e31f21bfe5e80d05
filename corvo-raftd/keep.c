#include "keep.h"

#include <errno.h>
#include <stdio.h>

#include "proto/err.h"
#include "rt/file.h"

static void path_of(const char *data_dir, const char *name, struct buf *ret)
{
	buf_printf(ret, "%s/checkpoints/%s", data_dir, name);
	buf_putc(ret, '\0');
}

void keep_path(const char *data_dir, struct buf *ret)
{
	path_of(data_dir, "snapshot", ret);
}

static int failed(int e, const char *what, const char *path, struct buf *why)
{
	buf_printf(why, "cannot %s %s: %s", what, path, strerror(-e));
	return e == -ENOSPC ? -ERR_STORAGE_FULL : -ERR_INTERNAL_ERROR;
}

int keep_make(struct kv *kv, const char *data_dir, struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf next = BUF_INIT(0);
	int e;

	path_of(data_dir, "snapshot", &path);
	path_of(data_dir, "snapshot.new", &next);
	e = dir_remove(next.p);
	if (e < 0)
		return failed(e, "remove", next.p, why);
	e = kv_checkpoint(kv, next.p, why);
	if (e < 0)
		return e;
	e = dir_remove(path.p);
	if (e < 0)
		return failed(e, "remove", path.p, why);
	if (rename(next.p, path.p) < 0)
		return failed(-errno, "rename", next.p, why);
	return 0;
}
