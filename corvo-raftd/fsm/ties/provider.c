/*
 * See ties/provider.h. Names, latencies and errors come from workers.
 */
#include "fsm/ties/provider.h"

#include <stdlib.h>

#include "fsm/core/entry.h"
#include "fsm/core/scan.h"
#include "util/civil.h"
#include "util/json.h"
#include "util/nano.h"

#define SLOT_NS   (60 * NS_PER_S)
#define WINDOW_NS (LIMIT_PROVIDER_SLOTS * SLOT_NS)
#define OTHER     STR("(other)") /* all there is no place for */

/* From so many reports on one is judged. */
#define JUDGED_FROM 5
/* It fails when so many in a hundred do, and is degraded before that. */
#define FAILING_FROM  50
#define DEGRADED_FROM 10

/* What was reported in a minute. */
struct slot {
	uint64_t succeeded, failed;
	uint64_t timed, latency_ns, latency_max_ns;
};

struct fsm_provider {
	struct m_provider_doc m; /* without slots; texts are those below */
	struct list dirty;       /* in f->dirty_providers */
	char name[LIMIT_PROVIDER_BYTES];
	char error[LIMIT_PROVIDER_ERROR_BYTES];
	struct slot slots[LIMIT_PROVIDER_SLOTS]; /* by number modulo theirs */
};

/* --- sums of the window --- */

/* Those of the minutes that are in the window at that time. */
static struct slot sum_at(const struct fsm_provider *p, uint64_t now_ns)
{
	uint64_t newest = p->m.slot, now = MAX(now_ns / SLOT_NS, newest);
	struct slot sum = { 0 };

	for (uint64_t i = 0; i < LIMIT_PROVIDER_SLOTS && i <= newest; i++) {
		const struct slot *s =
		    &p->slots[(newest - i) % LIMIT_PROVIDER_SLOTS];

		if (now - (newest - i) >= LIMIT_PROVIDER_SLOTS)
			break;
		sum.succeeded += s->succeeded;
		sum.failed += s->failed;
		sum.timed += s->timed;
		sum.latency_ns = nano_add(sum.latency_ns, s->latency_ns);
		sum.latency_max_ns = MAX(sum.latency_max_ns, s->latency_max_ns);
	}
	return sum;
}

static enum provider_state judge(const struct slot *sum)
{
	uint64_t n = sum->succeeded + sum->failed;

	if (n < JUDGED_FROM)
		return PROVIDER_UNKNOWN;
	if (sum->failed * 100 >= n * FAILING_FROM)
		return PROVIDER_FAILING;
	return sum->failed * 100 >= n * DEGRADED_FROM ? PROVIDER_DEGRADED
						      : PROVIDER_OK;
}

enum provider_state provider_state_at(const struct fsm *f, struct str name,
				      uint64_t now_ns)
{
	const struct fsm_provider *p = hmap_get(&f->providers, name);
	struct slot sum;

	if (p == NULL)
		return PROVIDER_UNKNOWN;
	sum = sum_at(p, now_ns);
	return judge(&sum);
}

/* Clears the minutes nothing was reported in. A clock that was set back counts
 * on in the newest one. */
static struct slot *slot_now(struct fsm_provider *p, uint64_t now_ns)
{
	uint64_t now = now_ns / SLOT_NS;

	if (now > p->m.slot + LIMIT_PROVIDER_SLOTS)
		p->m.slot = now - LIMIT_PROVIDER_SLOTS;
	while (p->m.slot < now) {
		p->m.slot++;
		p->slots[p->m.slot % LIMIT_PROVIDER_SLOTS] = (struct slot){ 0 };
	}
	p->m.has |= MSG_BIT(provider_doc, slot);
	return &p->slots[p->m.slot % LIMIT_PROVIDER_SLOTS];
}

/* --- the store --- */

static void set_name(struct fsm_provider *p, struct str name)
{
	name = str_cut(name, sizeof(p->name));
	memcpy(p->name, name.p, name.n);
	MSG_SET(&p->m, provider_doc, name, str_of(p->name, name.n));
}

static void set_error(struct fsm_provider *p, struct str error)
{
	error = str_cut(error, sizeof(p->error));
	if (error.n == 0)
		return;
	memcpy(p->error, error.p, error.n);
	MSG_SET(&p->m, provider_doc, last_error, str_of(p->error, error.n));
}

/* Once for an entry, however many reports it has. */
static void touch(struct fsm *f, struct fsm_provider *p)
{
	if (list_empty(&p->dirty))
		list_push_back(&f->dirty_providers, &p->dirty);
}

static void save(struct fsm *f, const struct fsm_provider *p)
{
	char raw[LIMIT_PROVIDER_SLOTS * sizeof(struct slot)];
	const uint64_t *numbers = (const uint64_t *)p->slots;
	struct m_provider_doc m = p->m;
	struct key k;

	for (size_t i = 0; i < sizeof(raw) / 8; i++)
		put_be64(raw + i * 8, numbers[i]);
	MSG_SET(&m, provider_doc, slots, str_of(raw, sizeof(raw)));
	key_provider(&k, SPACE_DEFAULT, p->m.name);
	fsm_put(f, &k, &msg_provider_doc, &m);
}

void providers_write_dirty(struct fsm *f)
{
	while (!list_empty(&f->dirty_providers)) {
		struct fsm_provider *p = list_entry(f->dirty_providers.next,
						    struct fsm_provider, dirty);

		list_remove(&p->dirty);
		save(f, p);
	}
}

static int keep(struct fsm *f, struct str name, struct str raw)
{
	struct fsm_provider *p = xcalloc(1, sizeof(*p));
	uint64_t *numbers = (uint64_t *)p->slots;
	struct str error;

	if (msg_decode(&msg_provider_doc, raw, &f->item_arena, &p->m) < 0 ||
	    p->m.slots.n != sizeof(p->slots)) {
		free(p);
		return -ERR_INTERNAL_ERROR;
	}
	for (size_t i = 0; i < sizeof(p->slots) / 8; i++)
		numbers[i] = get_be64(p->m.slots.p + i * 8);
	error = p->m.last_error;
	MSG_UNSET(&p->m, provider_doc, slots);
	set_name(p, name);
	set_error(p, error);
	free(hmap_put(&f->providers, name, p));
	return 0;
}

int providers_load(struct fsm *f)
{
	return load_all_named(f, "pv|", keep);
}

void providers_free(struct fsm *f)
{
	struct str key;
	size_t pos = 0;
	void *v;

	while (hmap_next(&f->providers, &pos, &key, &v))
		free(v);
	hmap_done(&f->providers);
}

/* --- which ones there are --- */

static void tell(struct fsm *f, enum event_type type, struct str name,
		 const char *from, const char *to)
{
	struct json_writer w = JSON_WRITER(&f->data);
	struct m_event e = { 0 };

	buf_clear(&f->data);
	jw_object(&w);
	jw_key(&w, "provider");
	jw_str(&w, name);
	if (to != NULL) {
		jw_key(&w, "from");
		jw_cstr(&w, from);
		jw_key(&w, "to");
		jw_cstr(&w, to);
	}
	jw_object_end(&w);
	MSG_SET(&e, event, type, type);
	MSG_SET(&e, event, data, buf_str(&f->data));
	fsm_event(f, &e);
}

static uint64_t heard_at(const struct fsm_provider *p)
{
	return MAX(p->m.last_success_at, p->m.last_failure_at);
}

/* The one nobody has spoken of for longest goes, when that is long enough;
 * of several the first by name. */
static bool make_room(struct fsm *f)
{
	struct fsm_provider *oldest = NULL;
	struct str key;
	struct key k;
	size_t pos = 0;
	void *v;

	if (f->providers.n < LIMIT_PROVIDERS)
		return true;
	while (hmap_next(&f->providers, &pos, &key, &v)) {
		struct fsm_provider *p = v;

		if (oldest == NULL || heard_at(p) < heard_at(oldest) ||
		    (heard_at(p) == heard_at(oldest) &&
		     str_cmp(p->m.name, oldest->m.name) < 0))
			oldest = p;
	}
	MUST(f, oldest != NULL); /* there are LIMIT_PROVIDERS */
	if (time_after(heard_at(oldest), WINDOW_NS) > f->now_ns)
		return false;
	tell(f, EVENT_PROVIDER_FORGOTTEN, oldest->m.name, NULL, NULL);
	key_provider(&k, SPACE_DEFAULT, oldest->m.name);
	fsm_delete(f, &k);
	list_remove(&oldest->dirty);
	free(hmap_remove(&f->providers, oldest->m.name));
	return true;
}

static struct fsm_provider *get(struct fsm *f, struct str name, bool *ret_new)
{
	struct fsm_provider *p = hmap_get(&f->providers, name);

	if (p == NULL && !make_room(f)) {
		name = OTHER;
		p = hmap_get(&f->providers, name);
	}
	*ret_new = p == NULL;
	if (p != NULL)
		return p;
	p = xcalloc(1, sizeof(*p));
	set_name(p, name);
	MSG_SET(&p->m, provider_doc, created_at, f->now_ns);
	MSG_SET(&p->m, provider_doc, slot, f->now_ns / SLOT_NS);
	(void)hmap_put(&f->providers, p->m.name, p);
	return p;
}

/* --- reports --- */

int provider_check(struct fsm *f, bool has_latency, uint64_t latency_ns)
{
	if (!has_latency || latency_ns <= S_PER_DAY * NS_PER_S)
		return 0;
	return fsm_refuse(f, ERR_VALIDATION_ERROR,
			  "latency: must be at most 24h");
}

void provider_report(struct fsm *f, const struct provider_report *r)
{
	struct fsm_provider *p;
	enum provider_state state;
	struct slot *s, sum;
	bool is_new;

	if (r->provider.n == 0)
		return;
	p = get(f, r->provider, &is_new);
	s = slot_now(p, f->now_ns);
	if (r->failed) {
		s->failed++;
		MSG_SET(&p->m, provider_doc, last_failure_at, f->now_ns);
		set_error(p, r->error);
	} else {
		s->succeeded++;
		MSG_SET(&p->m, provider_doc, last_success_at, f->now_ns);
	}
	if (r->has_latency) {
		s->timed++;
		s->latency_ns = nano_add(s->latency_ns, r->latency_ns);
		s->latency_max_ns = MAX(s->latency_max_ns, r->latency_ns);
	}
	sum = sum_at(p, f->now_ns);
	state = judge(&sum);
	if (is_new || state != p->m.state)
		tell(f, EVENT_PROVIDER_CHANGED, p->m.name,
		     enum_text(&enum_provider_state, p->m.state),
		     enum_text(&enum_provider_state, state));
	MSG_SET(&p->m, provider_doc, state, state);
	touch(f, p);
}

/* --- showing --- */

static void show(const struct fsm_provider *p, uint64_t now_ns,
		 struct m_provider *ret)
{
	struct slot sum = sum_at(p, now_ns);
	uint64_t n = sum.succeeded + sum.failed;

	*ret = (struct m_provider){ 0 };
	MSG_SET(ret, provider, name, p->m.name);
	MSG_SET(ret, provider, state, judge(&sum));
	MSG_SET(ret, provider, window, WINDOW_NS);
	MSG_SET(ret, provider, succeeded, sum.succeeded);
	MSG_SET(ret, provider, failed, sum.failed);
	if (n > 0)
		MSG_SET(ret, provider, failure_rate,
			(double)sum.failed / (double)n);
	if (sum.timed > 0) {
		MSG_SET(ret, provider, latency, sum.latency_ns / sum.timed);
		MSG_SET(ret, provider, latency_max, sum.latency_max_ns);
	}
	if (p->m.last_success_at > 0)
		MSG_SET(ret, provider, last_success_at, p->m.last_success_at);
	if (p->m.last_failure_at > 0)
		MSG_SET(ret, provider, last_failure_at, p->m.last_failure_at);
	if (p->m.last_error.n > 0)
		MSG_SET(ret, provider, last_error, p->m.last_error);
	MSG_SET(ret, provider, created_at, p->m.created_at);
}

size_t providers_copy(const struct fsm *f, uint64_t now_ns,
		      struct m_provider *ret)
{
	struct str key;
	size_t pos = 0, n = 0;
	void *v;

	while (hmap_next(&f->providers, &pos, &key, &v))
		show(v, now_ns, &ret[n++]);
	return n;
}
