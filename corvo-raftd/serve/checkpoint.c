/*
 * Checkpoints of the store for the view: hard links, made on the worker and
 * named to viewd, which tells when it has read them. There is one at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "rt/file.h"
#include "rt/log.h"
#include "serve/svc_impl.h"
#include "store/record.h"

struct checkpoint_job {
	struct rpc_req req;
	struct svc *s;
	struct m_checkpoint_ref ref;
	struct buf path;
	struct buf why;
	int err;
};

static void checkpoint_work(void *ctx)
{
	struct checkpoint_job *j = ctx;
	struct record_meta meta;
	int r = -j->err;

	if (r == 0)
		r = record_meta_read(j->s->p->kv, &meta);
	if (r == 0) {
		MSG_SET(&j->ref, checkpoint_ref, seq, meta.last_seq);
		dir_remove(j->path.p);
		r = kv_checkpoint(j->s->p->kv, j->path.p, &j->why);
	}
	j->err = r < 0 ? -r : 0;
}

static void checkpoint_done(void *ctx)
{
	struct checkpoint_job *j = ctx;

	if (j->err != 0) {
		log_error("checkpoint for the view: %.*s",
			  STR_ARG(buf_str(&j->why)));
		svc_reply_error(j->req, j->err);
	} else {
		MSG_SET(&j->ref, checkpoint_ref, path, str_from(j->path.p));
		svc_reply(j->s, j->req, &msg_checkpoint_ref, &j->ref);
	}
	buf_done(&j->path);
	buf_done(&j->why);
	free(j);
}

static void checkpoint_path(const struct svc *s, struct buf *ret)
{
	buf_printf(ret, "%s/checkpoints/view", s->p->d->settings.data_dir);
	buf_putc(ret, '\0');
}

void q_checkpoint(struct svc *s, struct rpc_req req, const struct m_nothing *m)
{
	struct checkpoint_job *j;

	(void)m;
	if (!proposer_stats(s->p->proposer)->disk_ok) {
		svc_reply_error(req, ERR_STORAGE_FULL);
		return;
	}
	j = xcalloc(1, sizeof(*j));
	j->req = req;
	j->s = s;
	checkpoint_path(s, &j->path);
	j->err = -fsm_flush(s->p->fsm);
	worker_run(s->p->worker, checkpoint_work, checkpoint_done, j);
}

void q_checkpoint_done(struct svc *s, struct rpc_req req,
		       const struct m_checkpoint_ref *m)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct m_nothing nothing = { 0 };
	int r;

	(void)m; /* there is only one such checkpoint, and we know where */
	checkpoint_path(s, &path);
	r = dir_remove(path.p);
	if (r < 0)
		log_warn("cannot remove %s: %s", path.p, strerror(-r));
	svc_reply(s, req, &msg_nothing, &nothing);
}
