/*
 * The entries of our own log, judged by the same rules. See logcheck.h.
 */
#include <inttypes.h>

#include "cluster/logcheck_impl.h"
#include "cluster/ownlog.h"
#include "cluster/seglog/scan.h"

static bool on_entry(void *ctx, const struct segment_entry *e)
{
	struct log_check *c = ctx;

	if (log_on_entry(c, e))
		return true;
	c->next = e->index;
	return false;
}

static void judge(struct log_check *c, const struct seglog_scan *s)
{
	uint64_t cut = c->snapshot.index;

	if (s->damage.n > 0)
		log_damage(c, OWNLOG_FOLDER "/%.*s",
			   STR_ARG(buf_str(&s->damage)));
	c->first = s->next > s->first ? s->first : cut + 1;
	c->next = s->next > s->first ? s->next : cut + 1;
	if (c->first > cut + 1)
		log_damage(c,
			   "entries %" PRIu64 " to %" PRIu64
			   ", before those of " OWNLOG_FOLDER
			   "/%s, are missing",
			   cut + 1, c->first - 1, s->files[0].name);
}

int log_own_read(struct log_check *c, struct buf *why)
{
	_cleanup_(buf_done) struct buf dir = BUF_INIT(0);
	struct seglog_scan s;
	int r;

	ownlog_path(c->dir, &dir);
	r = seglog_scan(&s, dir.p, why);
	if (r == 0) {
		judge(c, &s);
		r = seglog_each(&s, on_entry, c, &c->at, why);
	}
	seglog_scan_done(&s);
	return r < 0 ? r : c->stopped;
}
