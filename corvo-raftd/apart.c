#include "apart.h"

#include <stdlib.h>

#include "cluster/discover.h"
#include "rt/log.h"
#include "rt/notify.h"
#include "serve/standing.h"

/* Until it looks again, twice as long each time. */
#define AGAIN_NS     (10 * NS_PER_S)
#define AGAIN_MAX_NS (600 * NS_PER_S)

struct apart {
	struct daemon *d;
	struct port *port;
	struct history own;
	struct discover *discover;
	struct loop_timer *again;
	uint64_t pause_ns;    /* until then */
	struct found members; /* to be asked, and which is next */
	size_t next;
	struct port_dial *dial; /* NULL: none */
	const char *other;      /* where another cluster is; NULL: nowhere */
	bool unknown;           /* somebody could not be asked */
};

static void look_later(struct apart *a)
{
	loop_timer_arm(a->again, a->pause_ns);
	a->pause_ns = MIN(2 * a->pause_ns, AGAIN_MAX_NS);
}

static void tell(struct apart *a)
{
	const struct settings *s = &a->d->settings;

	if (standing_is(s, STANDING_RECOVERED)) {
		log_warn("%s is in another cluster than this node, be it the "
			 "one before the recovery: it is to be started with an "
			 "empty --data-dir to come back",
			 a->other);
	} else if (a->unknown) {
		log_warn("%s is in another cluster than this node, and the "
			 "others that --join names cannot all be asked",
			 a->other);
		look_later(a);
	} else {
		log_error("this node has data of one cluster, and --join "
			  "names %s, which is in another: to make it a member "
			  "there, start it with an empty --data-dir; to go on "
			  "with its data, start it without --join",
			  a->other);
		daemon_exit(a->d, EXIT_NO_RETRY);
	}
}

static void ask_next(struct apart *a);

/* One address of the own cluster is enough: another one may be a mistake. */
static void on_dialled(void *ctx, struct port_conn *c)
{
	struct apart *a = ctx;
	bool known = c != NULL && !history_is_none(&c->peer.cluster);
	bool own = known && history_eq(&c->peer.cluster, &a->own);

	a->dial = NULL;
	if (c == NULL)
		a->unknown |= port_dial_code(a->port) != HELLO_SAME_NODE;
	else
		a->unknown |= !known;
	port_conn_free(c);
	if (known && !own)
		a->other = a->members.at[a->next - 1];
	if (!own)
		ask_next(a);
}

static void ask_next(struct apart *a)
{
	struct port_target t = { 0 };

	if (a->next == a->members.n) {
		if (a->other != NULL)
			tell(a);
		else if (a->unknown)
			look_later(a);
		return;
	}
	t.address = a->members.at[a->next++];
	a->dial = port_dial(a->port, PURPOSE_JOIN, &t, on_dialled, a);
}

static void on_looked(void *ctx, const struct found *f, struct str why)
{
	struct apart *a = ctx;
	const char *own = settings_advertise(&a->d->settings);

	a->members.n = 0;
	a->next = 0;
	a->other = NULL;
	a->unknown = why.n > 0;
	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->at[i], own) != 0)
			found_add(&a->members, str_from(f->at[i]));
	ask_next(a);
}

static void look(void *ctx)
{
	struct apart *a = ctx;

	discover_look(a->discover, on_looked, a);
}

struct apart *apart_new(struct daemon *d, struct port *port,
			const struct history *own)
{
	struct apart *a;

	if (d->settings.join[0] == '\0' || history_is_none(own))
		return NULL;
	a = xcalloc(1, sizeof(*a));
	a->d = d;
	a->port = port;
	a->pause_ns = AGAIN_NS;
	a->own = *own;
	a->discover = discover_new(d->loop, &d->settings);
	a->again = loop_timer_add(d->loop, look, a);
	look(a);
	return a;
}

void apart_free(struct apart *a)
{
	if (a == NULL)
		return;
	if (a->dial != NULL)
		port_dial_cancel(a->dial);
	loop_timer_remove(a->again);
	discover_free(a->discover);
	free(a);
}
