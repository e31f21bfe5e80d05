#include "serve/standing.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "proto/err.h"
#include "rt/file.h"
#include "rt/log.h"

static const char *const names[] = {
	[STANDING_FOUNDER] = "founder",
	[STANDING_LEFT] = "left",
	[STANDING_RECOVERED] = "recovered",
};

static void put_path(const struct settings *s, enum standing what,
		     struct buf *ret)
{
	buf_printf(ret, "%s/%s", s->data_dir, names[what]);
	buf_putc(ret, '\0');
}

bool standing_is(const struct settings *s, enum standing what)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	put_path(s, what, &path);
	return access(path.p, F_OK) == 0;
}

int standing_set(const struct settings *s, enum standing what, struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	int r;

	put_path(s, what, &path);
	buf_printf(&text, "%s\n", s->node_id);
	r = file_write(path.p, buf_str(&text));
	if (r < 0)
		buf_printf(why, "cannot write %s: %s", path.p, strerror(-r));
	return r < 0 ? -ERR_INTERNAL_ERROR : 0;
}

void standing_clear(const struct settings *s, enum standing what)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	put_path(s, what, &path);
	if (unlink(path.p) < 0 && errno != ENOENT)
		log_warn("cannot remove %s: %s", path.p, strerror(errno));
}

int standing_check(const struct settings *s, struct buf *why)
{
	if (!standing_is(s, STANDING_LEFT))
		return 0;
	buf_printf(why,
		   "this node has left its cluster, and with what is in %s it "
		   "cannot come back; start with an empty --data-dir to join "
		   "again, or run `corvo cluster recover --data-dir=%s` to "
		   "make a cluster of its own of it",
		   s->data_dir, s->data_dir);
	return -ERR_CONFLICT;
}
