/*
 * The event log for all streams. See req/hub.h. raftd's answers are trusted as
 * far as they can be read; pages own the memory of their events.
 */
#include "req/hub.h"

#include <stdlib.h>

#include "req/event_json.h"
#include "rt/log.h"
#include "util/clock.h"

#define RING_BYTES  (8u << 20)
#define RING_PAGES  1024
#define RING_LIMIT  4096            /* events in one answer */
#define OWN_LIMIT   256             /* and in one for somebody who is behind */
#define OWN_ASKS    8               /* of those under way; others wait */
#define TURN_NS     (2 * NS_PER_MS) /* for events, of a turn of the loop */
#define ASK_WAIT_NS (30 * NS_PER_S)
#define RETRY_NS    NS_PER_S /* after an answer that was no page */
#define PAGE_BLOCK  1024

/* Events of one answer: dense, from `first` on. Frames are made when needed. */
struct page {
	struct list node;
	struct arena arena;
	struct m_event *events;
	struct str *frames;
	size_t n;
	uint64_t first;
	size_t bytes;
};

struct hub {
	struct httpd *h;
	struct list subs;
	struct list pages; /* the ring, oldest first */
	size_t pages_n, pages_bytes;
	uint64_t
	    dropped;   /* pages so far; a hint from before is worth nothing */
	uint64_t head; /* newest event the ring has or had */
	bool running;  /* head is known */
	struct rpc_call *call;
	size_t asking_n;   /* pages of their own that are asked for */
	struct list wants; /* those who want one */
	struct list late;  /* those who are told in a later turn */
	struct loop_timer *go_on;
	uint64_t turn, turn_ns; /* of the loop, and when it came here first */
	struct loop_timer *retry;
	bool retrying; /* it is armed */
	struct buf scratch;
};

struct hub_sub {
	struct list node;
	struct hub *hub;
	hub_wake_fn *wake;
	void *ctx;
	struct exchange *x; /* that holds what is read ahead; NULL: none */
	uint64_t pos;       /* last event given */
	uint64_t asked;     /* the log was asked for what comes after */
	struct page *own;   /* read from there; NULL: none */
	struct rpc_call *call;
	struct page *hint; /* page of the event before, while: */
	uint64_t hint_dropped;
	struct page *last; /* of the event given last, for hub_frame */
	struct list want;  /* in hub.wants, or in no list */
	struct list late;  /* in hub.late, or in no list */
	bool hungry;       /* hub_next had nothing */
	bool lost;
	bool failed; /* raftd refused; asked again later */
};

/* --- pages --- */

static void page_free(struct page *p)
{
	if (p == NULL)
		return;
	arena_done(&p->arena);
	free(p);
}

static bool page_has(const struct page *p, uint64_t seq)
{
	return p != NULL && seq >= p->first && seq - p->first < p->n;
}

/*
 * *ret: NULL when the answer holds no events; *m is what it says else. False
 * when it is a refusal, or cannot be read.
 */
static bool page_read(const struct rpc_reply *reply, struct m_events_reply *m,
		      struct page **ret)
{
	struct page *p;
	int r;

	*ret = NULL;
	if (reply->err != 0)
		return false;
	p = xcalloc(1, sizeof(*p));
	p->arena.block_size = PAGE_BLOCK;
	r = msg_decode(&msg_events_reply, arena_copy(&p->arena, reply->body),
		       &p->arena, m);
	if (r < 0 || m->events_n == 0) {
		page_free(p);
		return r == 0;
	}
	p->events = m->events;
	p->n = m->events_n;
	p->first = m->events[0].seq;
	p->frames = arena_zalloc(&p->arena, p->n * sizeof(*p->frames));
	/* with its frames, about */
	p->bytes = sizeof(*p) + PAGE_BLOCK + 3 * reply->body.n +
		   p->n * (sizeof(*p->events) + sizeof(*p->frames));
	*ret = p;
	return true;
}

static void ring_drop(struct hub *hub, struct page *p)
{
	list_remove(&p->node);
	hub->pages_n--;
	hub->pages_bytes -= p->bytes;
	hub->dropped++;
	page_free(p);
}

static void ring_clear(struct hub *hub)
{
	LIST_FOREACH_SAFE (it, &hub->pages)
		ring_drop(hub, list_entry(it, struct page, node));
}

static void ring_add(struct hub *hub, struct page *p)
{
	list_push_back(&hub->pages, &p->node);
	hub->pages_n++;
	hub->pages_bytes += p->bytes;
	hub->head = p->first + p->n - 1;
	while (hub->pages_n > 1 &&
	       (hub->pages_n > RING_PAGES || hub->pages_bytes > RING_BYTES))
		ring_drop(hub, list_entry(hub->pages.next, struct page, node));
}

static struct page *ring_find(const struct hub *hub, uint64_t seq)
{
	for (struct list *it = hub->pages.prev; it != &hub->pages;
	     it = it->prev) {
		struct page *p = list_entry(it, struct page, node);

		if (page_has(p, seq))
			return p;
		if (seq >= p->first)
			break;
	}
	return NULL;
}

/* --- asking raftd --- */

/* A raftd that goes away is asked again when it is back: no deadline. */
static struct rpc_call *ask(struct hub *hub, uint64_t after_seq, uint32_t limit,
			    uint64_t wait_ns, rpc_reply_fn *fn, void *ctx)
{
	struct m_events_ask m = { 0 };

	MSG_SET(&m, events_ask, after_seq, after_seq);
	MSG_SET(&m, events_ask, limit, limit);
	MSG_SET(&m, events_ask, wait_ns, wait_ns);
	buf_clear(&hub->scratch);
	msg_encode(&msg_events_ask, &m, &hub->scratch);
	return rpc_call(hub->h->raftd, QUERY_EVENTS, STR_NULL,
			buf_str(&hub->scratch), 0, ERR_LEADER_UNAVAILABLE, 0,
			fn, ctx);
}

static void on_ring_page(void *ctx, const struct rpc_reply *reply);

static void ask_ring(struct hub *hub)
{
	hub->call =
	    ask(hub, hub->head, RING_LIMIT, ASK_WAIT_NS, on_ring_page, hub);
}

/*
 * However many there are and however far they are behind: a turn has so long
 * for events, and who comes too late goes on in one of the next.
 */
static bool is_spent(struct hub *hub)
{
	uint64_t turn = loop_turn(hub->h->d->loop);

	if (hub->turn_ns == 0 || hub->turn != turn) {
		hub->turn = turn;
		hub->turn_ns = clock_mono_ns();
	}
	return clock_mono_ns() - hub->turn_ns >= TURN_NS;
}

static void be_late(struct hub_sub *s)
{
	if (list_empty(&s->late))
		list_push_back(&s->hub->late, &s->late);
	loop_timer_arm(s->hub->go_on, 0);
}

static void wake(struct hub_sub *s)
{
	if (!s->hungry)
		return;
	s->hungry = false;
	s->wake(s->ctx);
}

static void wake_all(struct hub *hub)
{
	LIST_FOREACH_SAFE (it, &hub->subs)
		wake(list_entry(it, struct hub_sub, node));
}

static void on_go_on(void *ctx)
{
	struct hub *hub = ctx;

	while (!list_empty(&hub->late) && !is_spent(hub)) {
		struct list *first = hub->late.next;

		list_remove(first);
		wake(list_entry(first, struct hub_sub, late));
	}
	if (!list_empty(&hub->late))
		loop_timer_arm(hub->go_on, 0);
}

static void retry_later(struct hub *hub, const struct rpc_reply *reply)
{
	struct str why = reply->body;

	if (hub->retrying)
		return;
	if (reply->err == 0)
		why = str_from(err_text(ERR_BAD_MESSAGE));
	log_warn("cannot read the event log: %.*s", STR_ARG(why));
	hub->retrying = true;
	loop_timer_arm(hub->retry, RETRY_NS);
}

/* Everybody finds out by itself whether it can go on. */
static void ring_stop(struct hub *hub)
{
	if (hub->call != NULL)
		rpc_cancel(hub->h->raftd, hub->call);
	hub->call = NULL;
	hub->running = false;
	ring_clear(hub);
}

static void on_ring_page(void *ctx, const struct rpc_reply *reply)
{
	struct hub *hub = ctx;
	struct m_events_reply m;
	struct page *p;

	hub->call = NULL;
	if (!page_read(reply, &m, &p)) {
		retry_later(hub, reply);
		return;
	}
	if (m.lost || (p != NULL && p->first != hub->head + 1)) {
		page_free(p);
		ring_stop(hub);
	} else if (p != NULL) {
		ring_add(hub, p);
	}
	/* a wake may end the last subscription, and with it the ring */
	if (hub->running)
		ask_ring(hub);
	if (p != NULL || !hub->running)
		wake_all(hub);
}

/* The first to arrive at the newest event begins the ring there. */
static void ring_start(struct hub *hub, uint64_t head)
{
	if (hub->running)
		return;
	hub->running = true;
	hub->head = head;
	ask_ring(hub);
}

/* NULL: it has none any more. */
static void set_own(struct hub_sub *s, struct page *p)
{
	page_free(s->own);
	s->own = p;
	if (s->x == NULL)
		return;
	s->x->ahead_n = p != NULL ? p->bytes : 0;
	exchange_count(s->x);
}

static void on_own_page(void *ctx, const struct rpc_reply *reply);

static void ask_own(struct hub_sub *s)
{
	struct hub *hub = s->hub;

	if (!list_empty(&s->want))
		return;
	if (hub->asking_n == OWN_ASKS) {
		list_push_back(&hub->wants, &s->want);
		return;
	}
	hub->asking_n++;
	s->asked = s->pos;
	s->call = ask(hub, s->pos, OWN_LIMIT, 0, on_own_page, s);
}

/* One of those under way is over. */
static void asked_own(struct hub *hub)
{
	struct list *first = hub->wants.next;

	CHECK(hub->asking_n > 0);
	hub->asking_n--;
	if (list_empty(&hub->wants))
		return;
	list_remove(first);
	ask_own(list_entry(first, struct hub_sub, want));
}

static void on_own_page(void *ctx, const struct rpc_reply *reply)
{
	struct hub_sub *s = ctx;
	struct m_events_reply m;
	struct page *p;

	s->call = NULL;
	asked_own(s->hub);
	if (!page_read(reply, &m, &p)) {
		s->failed = true;
		retry_later(s->hub, reply);
		return;
	}
	set_own(s, p);
	/* the ring may have brought it further meanwhile */
	s->lost = s->pos == s->asked &&
		  (m.lost || (s->own != NULL && s->own->first != s->pos + 1));
	if (s->own == NULL && !s->lost)
		ring_start(s->hub, s->asked);
	if (s->own != NULL || s->lost || s->pos < s->hub->head)
		wake(s);
}

static void on_retry(void *ctx)
{
	struct hub *hub = ctx;

	hub->retrying = false;
	if (hub->running && hub->call == NULL)
		ask_ring(hub);
	LIST_FOREACH (it, &hub->subs) {
		struct hub_sub *s = list_entry(it, struct hub_sub, node);

		if (s->failed)
			ask_own(s);
		s->failed = false;
	}
}

/* --- subscriptions --- */

struct hub *hub_new(struct httpd *h)
{
	struct hub *hub = xcalloc(1, sizeof(*hub));

	hub->h = h;
	list_init(&hub->subs);
	list_init(&hub->pages);
	list_init(&hub->wants);
	list_init(&hub->late);
	hub->go_on = loop_timer_add(h->d->loop, on_go_on, hub);
	hub->retry = loop_timer_add(h->d->loop, on_retry, hub);
	return hub;
}

void hub_free(struct hub *hub)
{
	if (hub == NULL)
		return;
	CHECK(list_empty(&hub->subs) && hub->call == NULL);
	loop_timer_remove(hub->go_on);
	loop_timer_remove(hub->retry);
	buf_done(&hub->scratch);
	free(hub);
}

struct hub_sub *hub_subscribe(struct hub *hub, uint64_t after_seq,
			      hub_wake_fn *wake_fn, void *ctx)
{
	struct hub_sub *s = xcalloc(1, sizeof(*s));

	s->hub = hub;
	s->wake = wake_fn;
	s->ctx = ctx;
	s->pos = after_seq;
	list_init(&s->want);
	list_init(&s->late);
	list_push_back(&hub->subs, &s->node);
	return s;
}

void hub_charge(struct hub_sub *s, struct exchange *x)
{
	s->x = x;
}

void hub_unsubscribe(struct hub_sub *s)
{
	struct hub *hub = s->hub;

	if (s->call != NULL) {
		rpc_cancel(hub->h->raftd, s->call);
		asked_own(hub);
	}
	set_own(s, NULL);
	list_remove(&s->want);
	list_remove(&s->late);
	list_remove(&s->node);
	free(s);
	if (list_empty(&hub->subs))
		ring_stop(hub);
}

static struct page *find(struct hub_sub *s, uint64_t seq)
{
	struct hub *hub = s->hub;

	if (page_has(s->own, seq))
		return s->own;
	set_own(s, NULL);
	if (s->hint_dropped != hub->dropped || !page_has(s->hint, seq))
		s->hint = ring_find(hub, seq);
	s->hint_dropped = hub->dropped;
	return s->hint;
}

int hub_next(struct hub_sub *s, struct m_event *ret)
{
	struct page *p;

	if (is_spent(s->hub)) {
		s->hungry = true;
		be_late(s);
		return 0;
	}
	p = find(s, s->pos + 1);
	s->last = p;
	if (s->lost)
		return -ERR_EVENTS_LOST;
	if (p != NULL) {
		s->pos++;
		*ret = p->events[s->pos - p->first];
		return 1;
	}
	s->hungry = true;
	/* not behind: the ring's next page is what it waits for */
	if (s->hub->running && s->pos >= s->hub->head)
		return 0;
	if (s->call == NULL && !s->failed)
		ask_own(s);
	return 0;
}

void hub_rest(struct hub_sub *s)
{
	set_own(s, NULL);
	s->last = NULL;
}

struct str hub_frame(struct hub_sub *s)
{
	struct page *p = s->last;
	size_t i = s->pos - p->first;

	if (p->frames[i].n == 0) {
		buf_clear(&s->hub->scratch);
		event_frame(&s->hub->scratch, &p->events[i]);
		p->frames[i] = arena_copy(&p->arena, buf_str(&s->hub->scratch));
	}
	return p->frames[i];
}

bool hub_place(struct req *r, const struct rpc_reply *reply, bool resumed,
	       uint64_t *pos)
{
	const struct m_events_reply *m = req_reply(r, &msg_events_reply, reply);

	if (m == NULL)
		return false;
	if (resumed && m->lost) {
		req_fail_text(r, ERR_EVENTS_LOST, STR_NULL);
		return false;
	}
	if (!resumed)
		*pos = m->head_seq;
	return true;
}
