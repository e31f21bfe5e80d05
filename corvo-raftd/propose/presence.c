/*
 * Who is there. See propose/presence.h. A fetch of a known worker costs one
 * lookup, and no memory while it asks for the same queues.
 */
#include "propose/presence.h"

#include <stdlib.h>

#include "proto/limits.h"

void presence_init(struct presence *p)
{
	*p = (struct presence){ 0 };
	list_init(&p->silent);
}

static void forget(struct presence *p, struct present *w)
{
	CHECK(w->open == 0 && hmap_remove(&p->workers, w->id) == w);
	list_remove(&w->node);
	free((char *)w->id.p);
	free((char *)w->hostname.p);
	free(w->queues);
	free(w);
}

void presence_done(struct presence *p)
{
	LIST_FOREACH_SAFE (it, &p->silent)
		forget(p, list_entry(it, struct present, node));
	CHECK(p->workers.n == 0);
	hmap_done(&p->workers);
}

/* NULL: all there may be have an open fetch. */
static struct present *longest_silent(struct presence *p)
{
	if (list_empty(&p->silent))
		return NULL;
	return list_entry(p->silent.next, struct present, node);
}

void presence_forget(struct presence *p, struct presence_time now)
{
	struct present *w;

	while ((w = longest_silent(p)) != NULL &&
	       now.mono_ns - w->last.mono_ns >= LIMIT_WORKER_IDLE_S * NS_PER_S)
		forget(p, w);
}

static struct str own(struct str s)
{
	char *c = xmalloc(s.n);

	if (s.n > 0)
		memcpy(c, s.p, s.n);
	return str_of(c, s.n);
}

static struct present *add(struct presence *p, struct str id,
			   struct presence_time now)
{
	struct present *w;

	presence_forget(p, now);
	if (p->workers.n >= LIMIT_WORKERS) {
		w = longest_silent(p);
		if (w == NULL)
			return NULL;
		forget(p, w);
	}
	w = xcalloc(1, sizeof(*w));
	list_init(&w->node);
	w->id = own(id);
	w->first = now;
	CHECK(hmap_put(&p->workers, w->id, w) == NULL);
	CHECK(p->workers.n <= LIMIT_WORKERS);
	return w;
}

static struct present *seen(struct presence *p, struct str id,
			    struct presence_time now)
{
	struct present *w;

	if (id.n == 0 || id.n > LIMIT_WORKER_ID_BYTES)
		return NULL;
	w = hmap_get(&p->workers, id);
	if (w == NULL)
		w = add(p, id, now);
	if (w == NULL)
		return NULL;
	w->last = now;
	list_remove(&w->node);
	if (w->open == 0)
		list_push_back(&p->silent, &w->node);
	return w;
}

bool presence_next_queue(const struct present *w, size_t *pos, struct str *ret)
{
	if (*pos >= w->queues_n)
		return false;
	*ret = str_of(w->queues + *pos + 1, (unsigned char)w->queues[*pos]);
	*pos += 1 + ret->n;
	return true;
}

/* How many of the names are kept, and the bytes they take. */
static size_t that_fit(const struct m_fetch *m, size_t *ret_bytes)
{
	size_t n = 0;

	*ret_bytes = 0;
	while (n < m->queues_n && m->queues[n].n <= LIMIT_QUEUE_NAME_BYTES &&
	       *ret_bytes + 1 + m->queues[n].n <= LIMIT_WORKER_QUEUES)
		*ret_bytes += 1 + m->queues[n++].n;
	return n;
}

static bool asks_for_the_same(const struct present *w, const struct m_fetch *m,
			      size_t n, size_t bytes)
{
	struct str name;
	size_t pos = 0;

	if (bytes != w->queues_n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!presence_next_queue(w, &pos, &name) ||
		    !str_eq(name, m->queues[i]))
			return false;
	return true;
}

static void keep_queues(struct present *w, const struct m_fetch *m)
{
	size_t bytes, n = that_fit(m, &bytes);
	char *to;

	if (asks_for_the_same(w, m, n, bytes))
		return;
	free(w->queues);
	to = w->queues = xmalloc(bytes);
	w->queues_n = bytes;
	for (size_t i = 0; i < n; i++) {
		*to++ = (char)m->queues[i].n;
		memcpy(to, m->queues[i].p, m->queues[i].n);
		to += m->queues[i].n;
	}
	CHECK(to == w->queues + bytes);
}

struct present *presence_ask(struct presence *p, const struct m_fetch *m,
			     struct presence_time now)
{
	struct present *w = seen(p, m->worker_id, now);

	if (w == NULL)
		return NULL;
	keep_queues(w, m);
	if (m->hostname.n <= LIMIT_HOSTNAME_BYTES &&
	    !str_eq(w->hostname, m->hostname)) {
		free((char *)w->hostname.p);
		w->hostname = own(m->hostname);
	}
	w->open++;
	list_remove(&w->node);
	return w;
}

void presence_leave(struct presence *p, struct present *w,
		    struct presence_time now)
{
	CHECK(w->open > 0);
	w->open--;
	w->last = now;
	if (w->open == 0)
		list_push_back(&p->silent, &w->node);
}

void presence_heard(struct presence *p, struct str id, struct presence_time now)
{
	(void)seen(p, id, now);
}
