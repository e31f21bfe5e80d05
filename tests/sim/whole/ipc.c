/*
 * rt/ipc.h in a world: a path is a place where one end waits for the other.
 */
#include "rt/ipc.h"

#include <stdlib.h>
#include <string.h>

#include "wire.h"

#define RETRY_NS (10 * NS_PER_MS)

struct ipc {
	struct loop *loop;
};

struct ipc_link {
	struct sim_link l;
	struct list node; /* in places, of one that listens */
	bool listens;
	char *path;
	struct sim_event dial, up;
	struct wire *coming; /* that it is about to be attached to */
};

static struct list places = { &places, &places };

static struct ipc_link *of(struct sim_link *l)
{
	return container_of(l, struct ipc_link, l);
}

static struct ipc_link *find(const char *path)
{
	LIST_FOREACH (it, &places) {
		struct ipc_link *p = list_entry(it, struct ipc_link, node);

		if (strcmp(p->path, path) == 0 && p->l.wire == NULL &&
		    p->coming == NULL)
			return p;
	}
	return NULL;
}

static void on_up(void *ctx)
{
	struct ipc_link *p = ctx;
	struct wire *w = p->coming;

	p->coming = NULL;
	wire_attach(w, 1, &p->l);
}

static void on_dial(void *ctx)
{
	struct ipc_link *p = ctx, *other = find(p->path);
	struct sim *s = p->l.loop->sim;
	struct wire *w;

	if (other == NULL) {
		sim_after(s, &p->dial, p->l.loop, RETRY_NS, on_dial, p);
		return;
	}
	w = wire_new(p->l.loop, other->l.loop);
	other->coming = w;
	sim_after(s, &other->up, other->l.loop, 0, on_up, other);
	wire_attach(w, 0, &p->l);
}

static void on_lost(struct sim_link *l)
{
	struct ipc_link *p = of(l);

	if (!p->listens)
		sim_after(l->loop->sim, &p->dial, l->loop, RETRY_NS, on_dial,
			  p);
}

static void on_close(struct sim_link *l)
{
	struct ipc_link *p = of(l);

	sim_forget(l->loop->sim, &p->dial);
	sim_forget(l->loop->sim, &p->up);
	if (p->coming != NULL)
		wire_refuse(p->coming, 1);
	if (p->listens)
		list_remove(&p->node);
	free(p->path);
}

static int make(struct ipc *i, const char *path, bool listens,
		const struct link_ops *ops, void *ctx, struct link **ret)
{
	struct ipc_link *p = xcalloc(1, sizeof(*p));

	wire_link_init(&p->l, i->loop, ops, ctx);
	p->l.on_lost = on_lost;
	p->l.on_close = on_close;
	p->listens = listens;
	p->path = xstrdup(path);
	if (listens)
		list_push_back(&places, &p->node);
	else
		sim_after(i->loop->sim, &p->dial, i->loop, 0, on_dial, p);
	*ret = &p->l.link;
	return 0;
}

void ipc_abandon(struct loop *l)
{
	LIST_FOREACH_SAFE (it, &places) {
		struct ipc_link *p = list_entry(it, struct ipc_link, node);

		if (p->l.loop == l)
			list_remove(&p->node);
	}
}

int ipc_listen(struct ipc *i, const char *path, const struct link_ops *ops,
	       void *ctx, struct link **ret, struct buf *why)
{
	(void)why;
	return make(i, path, true, ops, ctx, ret);
}

int ipc_dial(struct ipc *i, const char *path, const struct link_ops *ops,
	     void *ctx, struct link **ret, struct buf *why)
{
	(void)why;
	return make(i, path, false, ops, ctx, ret);
}

struct ipc *ipc_new(struct loop *l)
{
	struct ipc *i = xcalloc(1, sizeof(*i));

	i->loop = l;
	return i;
}

void ipc_free(struct ipc *i)
{
	free(i);
}

struct loop *ipc_loop(struct ipc *i)
{
	return i->loop;
}
