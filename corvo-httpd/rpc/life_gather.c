/*
 * What frames of one turn ask for, whosever they are, as one operation. See
 * rpc/life_parts.h.
 *
 * A worker or producer with one job a frame would otherwise pay for each what a
 * batch costs. When all is refused for what some of it is, or undone for what
 * some of it met, each frame asks by itself and hears of its own; one that was
 * alone hears it now. Large frames need no company.
 */
#include <stdlib.h>

#include "req/guarded.h"
#include "rpc/life_parts.h"
#include "util/clock.h"

#define GATHER_ITEMS 64
#define GATHER_BYTES (64u << 10)

/* Frames that go together. */
struct gather {
	struct lifecycles *all;
	enum gather_of of;
	struct list shares;
	size_t frames_n;
	size_t sent_n; /* they were so many when it was sent */
	size_t items_n, bytes;
	struct rpc_call *call; /* NULL: it gathers yet */
};

static const struct gather_kind *kinds[GATHER_KINDS] = {
	[GATHER_ACKS] = &gather_acks,
	[GATHER_JOBS] = &gather_jobs,
};

static struct share *share_of(struct list *node)
{
	return list_entry(node, struct share, node);
}

/* It has its answer, or needs none. */
static void take_out(struct share *s)
{
	list_remove(&s->node);
	s->g->frames_n--;
	s->g = NULL;
	s->f->open--;
}

/* --- the answer --- */

bool life_is_about_items(int err)
{
	return err_again(err) == AGAIN_NO ||
	       (err_rpc(err) == CODE_RESOURCE_EXHAUSTED &&
		err != ERR_OVERLOADED);
}

static bool is_undone(const struct rpc_reply *reply)
{
	return reply->err == ERR_INTERNAL_ERROR &&
	       str_is(reply->body, ERR_UNDONE_TEXT);
}

/* What came for all. */
struct told {
	const struct gather_kind *kind;
	const struct rpc_reply *reply;
	const void *m; /* NULL: it is an error, or could not be read */
	bool is_about_items;
	bool is_undone; /* nothing was done, so nothing is done twice */
	bool is_for_many;
	struct share *s; /* who is told */
};

static void tell_frame(_unused_ struct req *r, void *arg)
{
	const struct told *t = arg;
	struct life_frame *f = t->s->f;

	if (t->is_for_many && (t->is_about_items || t->is_undone))
		t->kind->alone(f);
	else if (t->is_about_items && t->kind->refused != NULL)
		t->kind->refused(f, t->reply);
	else if (t->m != NULL)
		t->kind->tell(f, t->s->at, t->m);
	else
		life_error(f, &(struct life_fault){
				  .part = t->kind->part,
				  .err = t->reply->err != 0 ? t->reply->err
							    : ERR_BAD_MESSAGE,
				  .text = t->reply->err != 0 ? t->reply->body
							     : STR_NULL });
	life_settle(f);
}

static void tell_all(struct gather *g, struct told *t)
{
	while (!list_empty(&g->shares)) {
		t->s = share_of(g->shares.next);
		take_out(t->s);
		req_guarded(t->s->f->l->r, tell_frame, t);
	}
}

static void on_gathered(void *ctx, const struct rpc_reply *reply)
{
	struct gather *g = ctx;
	const struct gather_kind *kind = kinds[g->of];
	struct httpd *h = g->all->h;
	struct arena a = { 0 };
	void *m = arena_alloc(&a, kind->reply->size);
	bool is_good = reply->err == 0 &&
		       msg_decode(kind->reply, reply->body, &a, m) == 0 &&
		       kind->answered(m) == g->items_n;
	struct told t = { .kind = kind,
			  .reply = reply,
			  .m = is_good ? m : NULL,
			  .is_about_items = life_is_about_items(reply->err),
			  .is_undone = is_undone(reply),
			  .is_for_many = g->sent_n > 1 };

	g->call = NULL;
	h->seq = MAX(h->seq, reply->seq);
	tell_all(g, &t);
	arena_done(&a);
	free(g);
}

/* --- going --- */

static void send_one(struct lifecycles *all, enum gather_of of)
{
	const struct gather_kind *kind = kinds[of];
	struct gather *g = all->gathers[of];
	struct httpd *h = all->h;
	size_t size = kind->item->size, n = 0;
	struct str key;
	char *items;

	if (g == NULL)
		return;
	all->gathers[of] = NULL;
	g->sent_n = g->frames_n;
	items = xmalloc(g->items_n * size);
	LIST_FOREACH (it, &g->shares) {
		struct share *s = share_of(it);

		s->f->l->gathers &= ~(1u << of);
		s->at = n;
		memcpy(items + n * size, kind->items(s->f), s->n * size);
		n += s->n;
	}
	CHECK(n == g->items_n && n > 0);
	buf_clear(&h->scratch);
	key = kind->encode(items, n, &h->scratch);
	CHECK(!h->scratch.full);
	g->call = rpc_call(h->raftd, kind->op, key, buf_str(&h->scratch),
			   clock_mono_ns() + h->set->op_timeout,
			   ERR_LEADER_UNAVAILABLE, RPC_CHANGES | RPC_KEEP,
			   on_gathered, g);
	free(items);
}

void life_gather_send(struct lifecycles *all)
{
	for (unsigned i = 0; i < GATHER_KINDS; i++)
		send_one(all, i);
}

/* --- coming --- */

bool life_may_gather(const struct life_frame *f, size_t n)
{
	return n <= GATHER_ITEMS / 2 && f->bytes_n <= GATHER_BYTES / 2;
}

static bool has_room_for(const struct gather *g, const struct life_frame *f,
			 size_t n)
{
	const struct gather_kind *kind = kinds[g->of];

	if (g->items_n + n > GATHER_ITEMS ||
	    g->bytes + f->bytes_n > GATHER_BYTES)
		return false;
	if (kind->goes_with == NULL)
		return true;
	LIST_FOREACH (it, &g->shares)
		if (!kind->goes_with(f, n, share_of(it)))
			return false;
	return true;
}

static struct gather *gather_for(struct life_frame *f, enum gather_of of,
				 size_t n)
{
	struct lifecycles *all = f->l->all;
	struct gather *g = all->gathers[of];

	if (g != NULL && has_room_for(g, f, n))
		return g;
	send_one(all, of);
	g = all->gathers[of] = xcalloc(1, sizeof(*g));
	g->all = all;
	g->of = of;
	list_init(&g->shares);
	return g;
}

void life_gather(struct life_frame *f, enum gather_of of, size_t n)
{
	struct gather *g = gather_for(f, of, n);
	struct share *s = &f->shares[of];

	CHECK(s->g == NULL && n > 0);
	*s = (struct share){ .f = f, .g = g, .n = n };
	list_push_back(&g->shares, &s->node);
	f->open++;
	f->l->gathers |= 1u << of;
	g->frames_n++;
	g->items_n += n;
	g->bytes += f->bytes_n;
	if (g->items_n < GATHER_ITEMS)
		return;
	/* the log need not wait for the rest of the turn */
	send_one(g->all, of);
	rpc_client_flush(f->l->h->raftd);
}

static void drop(struct share *s)
{
	struct gather *g = s->g;

	if (g == NULL)
		return;
	take_out(s);
	if (g->call == NULL) {
		g->items_n -= s->n;
		g->bytes -= s->f->bytes_n;
	}
	if (g->frames_n > 0)
		return;
	if (g->call != NULL)
		rpc_cancel(g->all->h->raftd, g->call);
	else
		g->all->gathers[g->of] = NULL;
	free(g);
}

void life_gather_drop(struct life_frame *f)
{
	for (unsigned i = 0; i < GATHER_KINDS; i++)
		drop(&f->shares[i]);
}
