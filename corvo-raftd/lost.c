#include "lost.h"

#include <stdlib.h>

#include "rt/log.h"
#include "util/clock.h"

#define LOOK_NS NS_PER_S
#define LOST_NS (3 * NS_PER_S) /* without a leader, then it knocks */

struct lost {
	struct parts *p;
	struct port *port;
	lost_find_fn *find;
	void *ctx;
	struct loop_timer *timer;
	struct port_dial *dial; /* NULL: none */
	uint64_t led_ns;        /* when there was a leader */
	size_t next;            /* member to ask */
};

static void on_dialled(void *ctx, struct port_conn *c)
{
	struct lost *l = ctx;

	l->dial = NULL;
	if (c == NULL && port_dial_code(l->port) == HELLO_NO_MEMBER)
		l->p->removed = true;
	port_conn_free(c);
}

static void knock(struct lost *l)
{
	_cleanup_(buf_done) struct buf address = BUF_INIT(0);
	struct node_server all[NODE_SERVERS_MAX];
	size_t n = node_servers(l->p->node, all, ARRAY_SIZE(all));
	const struct node_server *s;
	struct port_target t;

	if (n == 0)
		return;
	s = &all[l->next++ % n];
	if (s->id == node_id(l->p->node))
		return;
	l->find(l->ctx, s->id, s->address, &address);
	buf_putc(&address, '\0');
	t = (struct port_target){ .raft_id = s->id, .address = address.p };
	l->dial = port_dial(l->port, PURPOSE_RPC, &t, on_dialled, l);
}

static void on_timer(void *ctx)
{
	struct lost *l = ctx;
	uint64_t now = clock_mono_ns();

	loop_timer_arm(l->timer, LOOK_NS);
	if (node_is_leader(l->p->node) || node_is_following(l->p->node)) {
		l->led_ns = now;
		l->p->removed = false;
	} else if (now - l->led_ns >= LOST_NS && l->dial == NULL &&
		   !l->p->removed) {
		knock(l);
	}
}

struct lost *lost_new(struct parts *p, struct port *port, lost_find_fn *find,
		      void *ctx)
{
	struct lost *l = xcalloc(1, sizeof(*l));

	l->p = p;
	l->port = port;
	l->find = find;
	l->ctx = ctx;
	l->led_ns = clock_mono_ns();
	l->timer = loop_timer_add(p->d->loop, on_timer, l);
	loop_timer_arm(l->timer, LOOK_NS);
	return l;
}

void lost_free(struct lost *l)
{
	if (l == NULL)
		return;
	if (l->dial != NULL)
		port_dial_cancel(l->dial);
	loop_timer_remove(l->timer);
	free(l);
}
