#include "propose/leases.h"

#include <stdlib.h>

#include "util/clock.h"
#include "util/hmap.h"

#define RENEW_PERIOD_NS (1 * NS_PER_S)
#define RENEW_OP_LEASES 10000 /* most leases in one op */
/* Ends one: the queues of workers, which are written with their renewals. */
#define RENEW_OP_BYTES (4u << 20)
#define RENEW_SMALL    512

/* What the leader told of a lease is in the log by then, or lost with it. */
#define TOLD_NS (5 * NS_PER_S)

/* The time of an entry is read after its renewals are put down. */
#define ENDING_NS (1 * NS_PER_S)
/* So many are looked at in a turn of the loop, and the next ones soon. */
#define FORGET_N  1000
#define FORGET_NS (10 * NS_PER_MS)

/* Less than that is no reason to write a lease down again. */
#define SHORT_NS (1 * NS_PER_MS)

struct renewal {
	uint64_t token;
	uint64_t granted_ns;
	uint64_t at_ns; /* monotonic: whatever becomes of the wall clock */
	bool is_kept;   /* its moment is remembered when it is written */
};

/*
 * Written by keep_what_ends, with the clock of that time for a moment long ago:
 * what the clock was at that moment does not lead back to it any more.
 */
struct kept {
	uint64_t token;
	uint64_t expires_ns; /* as it was written */
	uint64_t from_ns;    /* monotonic: it counts from there */
	uint64_t at_ns;      /* monotonic: it was written */
};

/* The end of a lease, by the leader's word. */
struct told {
	uint64_t token;
	uint64_t end_ns;
	uint64_t at_ns; /* monotonic */
};

struct leases {
	struct loop *loop;
	struct fsm *fsm;
	struct proposer *proposer;
	struct loop_timer *timer;
	struct hmap renewed; /* job id -> struct renewal */
	struct loop_timer *forget;
	struct hmap told;          /* job id -> struct told */
	struct hmap kept;          /* job id -> struct kept */
	size_t told_pos, kept_pos; /* looked at so far, to be forgotten */
	struct arena scratch;
	uint64_t count;
	bool more;        /* the last op had no room for all of them */
	uint64_t kept_ns; /* our time: those that end by then were looked at */
	uint64_t lead_ns; /* monotonic: grace counts from here; 0: never */
};

static void on_period(void *ctx)
{
	struct leases *l = ctx;

	if (l->renewed.n > 0)
		proposer_renew(l->proposer);
}

/* --- what another leader told --- */

/* True: all were looked at. */
static bool forget_told(struct leases *l, uint64_t now_ns)
{
	struct str key;
	void *v;

	for (size_t i = 0; i < FORGET_N; i++) {
		struct told *t;

		if (!hmap_next(&l->told, &l->told_pos, &key, &v)) {
			l->told_pos = 0;
			return true;
		}
		t = v;

		if (now_ns - t->at_ns < TOLD_NS)
			continue;
		hmap_remove(&l->told, key);
		free(t);
	}
	return false;
}

static bool is_as_kept(const struct kept *k, const struct fsm_lease *lease)
{
	return k->token == lease->token && k->expires_ns == lease->expires_ns;
}

/* Those that ended, or were renewed since. True: all were looked at. */
static bool forget_kept(struct leases *l, uint64_t now_ns)
{
	struct str key;
	void *v;

	for (size_t i = 0; i < FORGET_N; i++) {
		struct fsm_lease lease;
		struct kept *k;

		if (!hmap_next(&l->kept, &l->kept_pos, &key, &v)) {
			l->kept_pos = 0;
			return true;
		}
		k = v;
		if (now_ns - k->at_ns < TOLD_NS ||
		    (fsm_lease_find(l->fsm, key, &lease) &&
		     is_as_kept(k, &lease)))
			continue;
		hmap_remove(&l->kept, key);
		free(k);
	}
	return false;
}

static void on_forget(void *ctx)
{
	struct leases *l = ctx;
	uint64_t now_ns = clock_mono_ns();
	bool told = forget_told(l, now_ns), kept = forget_kept(l, now_ns);

	if (l->told.n + l->kept.n > 0)
		loop_timer_arm(l->forget, told && kept ? TOLD_NS : FORGET_NS);
}

static void keep_told(struct leases *l, const struct m_beat_reply *b)
{
	struct told *t;
	struct fsm_lease lease;

	if (!MSG_HAS(b, beat_reply, lease_expires_at) ||
	    !fsm_lease_find(l->fsm, b->job_id, &lease))
		return;
	t = hmap_get(&l->told, b->job_id);
	if (t == NULL) {
		if (l->told.n + l->kept.n == 0)
			loop_timer_arm(l->forget, TOLD_NS);
		t = xcalloc(1, sizeof(*t));
		hmap_put(&l->told, b->job_id, t);
	}
	*t = (struct told){ lease.token, b->lease_expires_at, clock_mono_ns() };
}

void leases_told(struct leases *l, struct str reply)
{
	struct m_heartbeat_reply m;

	arena_reset(&l->scratch);
	if (msg_decode(&msg_heartbeat_reply, reply, &l->scratch, &m) < 0)
		return; /* who asked will see */
	for (size_t i = 0; i < m.jobs_n; i++)
		keep_told(l, &m.jobs[i]);
}

/* --- life --- */

struct leases *leases_new(struct loop *loop, struct fsm *f, struct proposer *p)
{
	struct leases *l = xcalloc(1, sizeof(*l));

	l->loop = loop;
	l->fsm = f;
	l->proposer = p;
	l->timer = loop_timer_add(loop, on_period, l);
	l->forget = loop_timer_add(loop, on_forget, l);
	return l;
}

static void free_all(struct hmap *all)
{
	size_t pos = 0;
	struct str key;
	void *v;

	while (hmap_next(all, &pos, &key, &v))
		free(v);
	hmap_done(all);
}

void leases_free(struct leases *l)
{
	if (l == NULL)
		return;
	free_all(&l->renewed);
	free_all(&l->told);
	free_all(&l->kept);
	loop_timer_remove(l->timer);
	loop_timer_remove(l->forget);
	arena_done(&l->scratch);
	free(l);
}

/* --- renewals --- */

static struct renewal *note(struct leases *l, struct str job_id,
			    const struct fsm_lease *lease, uint64_t at_ns)
{
	struct renewal *r = hmap_get(&l->renewed, job_id);

	if (r == NULL) {
		if (l->renewed.n == 0)
			loop_timer_arm(l->timer, RENEW_PERIOD_NS);
		r = xcalloc(1, sizeof(*r));
		hmap_put(&l->renewed, job_id, r);
	}
	r->token = lease->token;
	r->granted_ns = lease->granted_ns;
	r->at_ns = at_ns;
	return r;
}

/*
 * A monotonic moment on the clock of the entries. Of now mono_ns is read first:
 * should this process be held up in between, leases end later and not earlier.
 */
static uint64_t wall_of(uint64_t at_ns, uint64_t now_ns, uint64_t mono_ns)
{
	return now_ns - mono_ns + at_ns;
}

/*
 * The monotonic moment a lease counts from, as the log has it. When nobody has
 * spoken for it since this node leads, its worker may have, to the leader
 * before.
 */
static uint64_t counts_from(const struct leases *l, struct str job_id,
			    const struct fsm_lease *e)
{
	const struct kept *k = hmap_get(&l->kept, job_id);
	uint64_t since = e->expires_ns - MIN(e->expires_ns, e->granted_ns);

	if (k != NULL && is_as_kept(k, e))
		return MAX(k->from_ns, l->lead_ns);
	return MAX(proposer_mono_of(l->proposer, since), l->lead_ns);
}

/*
 * It lasts as long as it was granted for by the monotonic clock: one from
 * before this node led, or from before the wall clock was set forward, ends too
 * early in the log. Returns when it does end.
 */
static uint64_t true_end(const struct leases *l, struct str job_id,
			 const struct fsm_lease *e, uint64_t now_ns,
			 uint64_t mono_ns)
{
	uint64_t end_ns =
	    wall_of(counts_from(l, job_id, e), now_ns, mono_ns) + e->granted_ns;

	return l->lead_ns != 0 && end_ns > e->expires_ns + SHORT_NS
		   ? end_ns
		   : e->expires_ns;
}

struct ending {
	struct leases *l;
	uint64_t now_ns, mono_ns;
};

static void keep_one(void *ctx, struct str job_id,
		     const struct fsm_lease *lease)
{
	const struct ending *e = ctx;
	struct renewal *r = hmap_get(&e->l->renewed, job_id);
	uint64_t from_ns;

	if (true_end(e->l, job_id, lease, e->now_ns, e->mono_ns) ==
	    lease->expires_ns)
		return;
	from_ns = counts_from(e->l, job_id, lease);
	if (r == NULL || r->token != lease->token)
		r = note(e->l, job_id, lease, from_ns);
	else
		r->at_ns = MAX(r->at_ns, from_ns);
	r->is_kept = true;
}

/*
 * That is written when a lease comes to its end, not for all of them when this
 * node begins to lead or the clock was set: most are acked or renewed before,
 * and a start shall not write a record for each of them. While ops with some
 * of them are under way the log does not know it yet: they are not looked for
 * with each of those ops.
 */
static void keep_what_ends(struct leases *l, uint64_t now_ns, uint64_t mono_ns)
{
	struct ending e = { .l = l, .now_ns = now_ns, .mono_ns = mono_ns };

	if (l->lead_ns == 0 || (l->more && now_ns + ENDING_NS / 2 < l->kept_ns))
		return;
	l->kept_ns = now_ns + ENDING_NS;
	fsm_each_lease_upto(l->fsm, l->kept_ns, keep_one, &e);
}

/* 0 or -ERR_*. */
static int judge(struct leases *l, const struct m_beat *b, struct str worker,
		 uint64_t now_ns, struct m_beat_reply *ret)
{
	enum fsm_lease_state s;
	struct fsm_lease lease;
	int r = fsm_lease_check(l->fsm, b, worker, &s, &lease);

	if (r < 0)
		return r;
	MSG_SET(ret, beat_reply, job_id, b->job_id);
	MSG_SET(ret, beat_reply, status,
		s == FSM_LEASE_OK ? STR("ok") : STR("cancel"));
	if (s == FSM_LEASE_LOST ||
	    (s == FSM_LEASE_ENDED && MSG_HAS(b, beat, lease_token)))
		MSG_SET(ret, beat_reply, code, STR("LEASE_LOST"));
	if (s == FSM_LEASE_UNKNOWN)
		MSG_SET(ret, beat_reply, unknown, true);
	if (s != FSM_LEASE_OK && s != FSM_LEASE_CANCEL)
		return 0;
	/* one that is to be cancelled lives on while its worker winds up */
	(void)note(l, b->job_id, &lease, clock_mono_ns());
	MSG_SET(ret, beat_reply, lease_expires_at, now_ns + lease.granted_ns);
	l->count++;
	return 0;
}

static uint64_t renewed_until(const struct renewal *r, uint64_t now_ns,
			      uint64_t mono_ns)
{
	return wall_of(r->at_ns, now_ns, mono_ns) + r->granted_ns;
}

/* As this node knows it by itself. */
static uint64_t own_end(const struct leases *l, struct str job_id,
			const struct fsm_lease *lease)
{
	const struct renewal *r = hmap_get(&l->renewed, job_id);
	uint64_t mono_ns = clock_mono_ns(), now_ns = proposer_now(l->proposer);
	uint64_t end_ns = true_end(l, job_id, lease, now_ns, mono_ns);

	if (r != NULL && r->token == lease->token)
		return MAX(end_ns, renewed_until(r, now_ns, mono_ns));
	return end_ns;
}

uint64_t leases_end(const struct leases *l, struct str job_id)
{
	const struct told *t = hmap_get(&l->told, job_id);
	struct fsm_lease lease;
	uint64_t end_ns;

	if (!fsm_lease_find(l->fsm, job_id, &lease))
		return 0;
	end_ns = own_end(l, job_id, &lease);
	return t != NULL && t->token == lease.token ? MAX(end_ns, t->end_ns)
						    : end_ns;
}

/*
 * A lease that has ended may be taken back by an entry that was made before
 * this was heard: only the log knows which comes first.
 */
static bool may_be_gone(const struct leases *l, const struct m_heartbeat *m)
{
	uint64_t upto_ns = proposer_reclaims_upto(l->proposer);
	struct fsm_lease lease;

	for (size_t i = 0; upto_ns > 0 && i < m->jobs_n; i++)
		if (fsm_lease_find(l->fsm, m->jobs[i].job_id, &lease) &&
		    own_end(l, m->jobs[i].job_id, &lease) <= upto_ns)
			return true;
	return false;
}

bool leases_heartbeat(struct leases *l, struct rpc_req req,
		      const struct frame_request *item)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);
	struct m_heartbeat m;
	struct m_heartbeat_reply reply = { 0 };
	struct m_beat_reply *answers;
	uint64_t now_ns = proposer_now(l->proposer);
	int r = 0;

	arena_reset(&l->scratch);
	if (msg_decode(&msg_heartbeat, item->body, &l->scratch, &m) < 0)
		return false; /* apply refuses it */
	proposer_heard(l->proposer, m.worker_id);
	for (size_t i = 0; i < m.jobs_n; i++)
		if (MSG_HAS(&m.jobs[i], beat, progress) ||
		    MSG_HAS(&m.jobs[i], beat, checkpoint) ||
		    MSG_HAS(&m.jobs[i], beat, usage) ||
		    MSG_HAS(&m.jobs[i], beat, response) || m.jobs[i].logs_n > 0)
			return false;
	if (may_be_gone(l, &m))
		return false;
	answers = arena_zalloc(&l->scratch, (m.jobs_n + 1) * sizeof(*answers));
	for (size_t i = 0; r == 0 && i < m.jobs_n; i++)
		r = judge(l, &m.jobs[i], m.worker_id, now_ns, &answers[i]);
	if (r < 0) { /* a job that cannot be read is not one that is gone */
		rpc_reply(req, -r, 0, str_from(err_text(-r)));
		return true;
	}
	MSG_SET_LIST(&reply, heartbeat_reply, jobs, answers, m.jobs_n);
	msg_encode(&msg_heartbeat_reply, &reply, &out);
	rpc_reply(req, 0, fsm_last_seq(l->fsm), buf_str(&out));
	return true;
}

static void remember(struct leases *l, struct str job_id,
		     const struct renewal *r, uint64_t expires_ns)
{
	struct kept *k = hmap_get(&l->kept, job_id);

	if (k == NULL) {
		if (l->told.n + l->kept.n == 0)
			loop_timer_arm(l->forget, TOLD_NS);
		k = xcalloc(1, sizeof(*k));
		hmap_put(&l->kept, job_id, k);
	}
	*k = (struct kept){ r->token, expires_ns, r->at_ns, clock_mono_ns() };
}

/* Each worker is written once; what is small is not worth a look. */
static size_t worker_bytes(const struct leases *l, struct str job_id,
			   struct hmap *counted)
{
	struct str worker;
	size_t n = fsm_renewal_bytes(l->fsm, job_id, &worker);

	if (n < RENEW_SMALL || hmap_put(counted, worker, counted) != NULL)
		return 0;
	return n;
}

bool leases_take(struct leases *l, struct buf *body, bool *more)
{
	struct m_renewal *items;
	struct m_renew m = { 0 };
	uint64_t mono_ns = clock_mono_ns(), now_ns = proposer_now(l->proposer);
	size_t n = 0, max, pos = 0, bytes = 0;
	struct hmap counted = { 0 };
	struct str key;
	void *v;

	keep_what_ends(l, now_ns, mono_ns);
	max = MIN(l->renewed.n, (size_t)RENEW_OP_LEASES);
	if (max == 0)
		return false;
	arena_reset(&l->scratch);
	items = arena_zalloc(&l->scratch, max * sizeof(*items));
	while (n < max && bytes < RENEW_OP_BYTES &&
	       hmap_next(&l->renewed, &pos, &key, &v)) {
		struct renewal *r = v;
		uint64_t until = renewed_until(r, now_ns, mono_ns);

		bytes += worker_bytes(l, key, &counted);

		MSG_SET(&items[n], renewal, job_id,
			arena_copy(&l->scratch, key));
		MSG_SET(&items[n], renewal, lease_token, r->token);
		MSG_SET(&items[n], renewal, lease_expires_at, until);
		if (r->is_kept)
			remember(l, items[n].job_id, r, until);
		hmap_remove(&l->renewed, items[n].job_id);
		free(r);
		n++;
	}
	hmap_done(&counted);
	*more = l->more = l->renewed.n > 0;
	MSG_SET_LIST(&m, renew, leases, items, n);
	msg_encode(&msg_renew, &m, body);
	return true;
}

/* What was heard in an earlier leadership says nothing in this one: workers
 * have spoken to others since. */
static void forget_renewals(struct leases *l)
{
	free_all(&l->renewed);
	free_all(&l->kept);
	l->more = false;
	loop_timer_disarm(l->timer);
}

void leases_lead(struct leases *l, uint64_t blind_ns)
{
	forget_renewals(l);
	l->lead_ns = clock_mono_ns() + blind_ns;
}

void leases_lead_no_more(struct leases *l)
{
	forget_renewals(l);
	l->lead_ns = 0;
}

uint64_t leases_renewed(const struct leases *l)
{
	return l->count;
}
