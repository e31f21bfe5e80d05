#include "cluster/log_file.h"

#include "rt/file.h"

#define BYTES_MAX (1u << 31)

int log_file_read(const char *dir, const char *name, struct buf *ret,
		  struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int r;

	buf_printf(&path, "%s/%s", dir, name);
	buf_putc(&path, '\0');
	buf_clear(ret);
	r = file_read(path.p, BYTES_MAX, ret);
	if (r < 0)
		buf_printf(why, "cannot read %s: %s", path.p, strerror(-r));
	return r;
}
