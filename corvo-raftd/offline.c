/*
 * See offline.h.
 */
#include "offline.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/err.h"
#include "rt/file.h"
#include "store/record.h"

static int check_owner(const char *dir, struct buf *why)
{
	struct stat st;

	if (stat(dir, &st) < 0) {
		buf_printf(why, "there is no data directory %s: %s", dir,
			   strerror(errno));
		return -ERR_CONFLICT;
	}
	if (st.st_uid == geteuid())
		return 0;
	buf_printf(why,
		   "%s belongs to user %u: run this as that user, or the node "
		   "could not read what it makes",
		   dir, (unsigned)st.st_uid);
	return -ERR_CONFLICT;
}

static int take_lock(const char *dir, const char *name, int *ret_fd,
		     struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int holder = 0;

	buf_printf(&path, "%s/%s", dir, name);
	buf_putc(&path, '\0');
	*ret_fd = file_lock(path.p, &holder);
	if (*ret_fd >= 0)
		return 0;
	if (*ret_fd == -EWOULDBLOCK)
		buf_printf(why,
			   "%s is in use by process %d: stop the node first",
			   dir, holder);
	else
		buf_printf(why, "cannot lock %s: %s", path.p,
			   strerror(-*ret_fd));
	return -ERR_CONFLICT;
}

int offline_begin(struct offline *o, const char *data_dir, struct buf *why)
{
	int e = check_owner(data_dir, why);

	*o = (struct offline){ .is_begun = true, .lock = { -1, -1 } };
	if (e == 0)
		e = take_lock(data_dir, "corvo.lock", &o->lock[0], why);
	if (e == 0)
		e = take_lock(data_dir, "raftd.lock", &o->lock[1], why);
	return e;
}

void offline_end(struct offline *o)
{
	for (size_t i = 0; o->is_begun && i < ARRAY_SIZE(o->lock); i++)
		if (o->lock[i] >= 0)
			(void)close(o->lock[i]);
}

int offline_read(struct kv *kv, struct store_state *ret, struct buf *why)
{
	struct record_meta m;
	int e = record_meta_read(kv, &m);

	if (e < 0) {
		buf_puts(why, kv_error_text());
		return e;
	}
	*ret = (struct store_state){ m.applied_index, m.origin };
	return 0;
}

int offline_look(const char *path, struct store_state *ret, struct buf *why)
{
	_cleanup_(buf_done) struct buf current = BUF_INIT(0);
	struct kv_options o = { .read_only = true };
	struct kv *kv;
	int e;

	*ret = (struct store_state){ 0 };
	buf_printf(&current, "%s/CURRENT", path);
	buf_putc(&current, '\0');
	if (access(current.p, F_OK) < 0)
		return 0;
	e = kv_rocks_open(path, &o, &kv, why);
	if (e < 0)
		return e;
	e = offline_read(kv, ret, why);
	kv_close(kv);
	return e;
}
