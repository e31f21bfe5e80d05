/*
 * Checks of what ties jobs to others and to requests: dependencies, unique
 * keys, answers kept for idempotency keys.
 */
#include "fsm/core/cluster.h"
#include "fsm_check.h"
#include "proto/job.h"

/* --- dependencies --- */

/* A dr| key that speaks for the children created up to seq. */
static bool is_to_be_told(struct check *c, struct str parent, uint64_t seq)
{
	struct kv_iter *it;
	struct key from, upto;
	bool found;

	key_release(&from, parent, seq);
	key_prefix_id(&upto, "dr|", parent);
	key_prefix_end(&upto, &upto);
	it = kv_iter_new(c->kv, key_str(&from), key_str(&upto));
	found = kv_iter_valid(it) && get_be64(kv_iter_value(it).p + 1) <= seq;
	kv_iter_free(it);
	return found;
}

/* What is kept of them is what comes first. */
void check_release(struct check *c, struct str key)
{
	const struct ended *e = &c->f->deps.ends;

	if (e->edge.p == NULL || str_cmp(key, e->edge) <= 0) {
		assert_true(c->keys_dr < e->kept);
		assert_true(str_eq(e->keys[c->keys_dr], key));
	}
	c->keys_dr++;
}

void check_releases_end(struct check *c)
{
	const struct ended *e = &c->f->deps.ends;

	assert_int_equal(c->keys_dr, e->n);
	assert_true(e->kept <= e->n && e->kept <= ENDED_KEPT);
	assert_true(e->edge.p != NULL || e->kept == e->n);
}

/* d|parent child: the child waits, and the parent will tell it. */
void check_dependent(struct check *c, struct str key)
{
	struct str parent, rest, child;
	struct m_job_live l = { 0 };
	struct m_job_doc d;
	struct tally *t;
	bool named = false;
	struct key k;

	c->keys_d++;
	assert_true(str_split(key, '\0', &parent, &rest));
	child = str_skip(rest, 8);
	key_job(&k, child);
	assert_true(check_read_msg(c, &k, &msg_job_doc, &d));
	assert_int_equal(d.seq, get_be64(rest.p));
	for (size_t i = 0; i < d.depends_on_n; i++)
		named |= str_eq(d.depends_on[i], parent);
	assert_true(named);
	t = hmap_get(&c->waiting, child);
	if (t == NULL) {
		t = arena_zalloc(&c->arena, sizeof(*t));
		hmap_put(&c->waiting, child, t);
	}
	t->counts[0]++;
	if (is_to_be_told(c, parent, d.seq))
		return;
	key_job(&k, parent);
	assert_true(check_read_msg(c, &k, &msg_job_doc, &d));
	check_read_live(c, parent, &d, &l);
	assert_true(l.dependents && !job_state_is_terminal(l.state));
}

/* As many d| keys as it waits for; d| stands before j|. */
void check_waiting(struct check *c, struct str id, const struct m_job_live *l)
{
	const struct tally *t = hmap_get(&c->waiting, id);
	uint64_t n = t == NULL ? 0 : t->counts[0];

	assert_int_equal(l->waiting_on, n);
	c->linked += n;
	if (n > 0)
		assert_true(l->state == JOB_BLOCKED || l->state == JOB_HELD);
	else
		assert_true(l->state != JOB_BLOCKED);
}

/* --- unique keys --- */

/* The job the lock of this key names; empty: there is none. */
static struct str holder_of(struct check *c, struct str queue, struct str key)
{
	struct buf b = BUF_INIT(0);
	struct str id = STR_NULL;
	struct key k;
	int r;

	key_unique(&k, SPACE_DEFAULT, queue, key);
	r = kv_get(c->kv, key_str(&k), &b);
	assert_true(r >= 0);
	if (r > 0)
		id = arena_copy(&c->arena, str_skip(buf_str(&b), 8));
	buf_done(&b);
	return id;
}

/*
 * A job that has not ended holds its key at least for its period: it took it
 * when it was created or later, which a clock that was set back may put before
 * that. A key that it lost does not come back with such a clock.
 */
void check_holds_key(struct check *c, struct str id, const struct m_job_doc *d)
{
	uint64_t period = d->unique_period ? d->unique_period : 3600 * NS_PER_S;

	if (!str_eq(holder_of(c, d->queue, d->unique_key), id) &&
	    c->latest_ns != 0 && /* not applied here */
	    d->created_at + period > c->latest_ns + c->back_ns)
		fail_msg("%.*s does not hold its key %.*s", STR_ARG(id),
			 STR_ARG(d->unique_key));
}

/* A lock names a job of that key and queue that has not ended. */
void check_lock(struct check *c, struct str key, struct str value)
{
	struct str id = str_skip(value, 8), queue, unique_key;
	struct m_job_live l;
	struct m_job_doc d;
	struct key k;

	assert_true(str_split(key, '\0', &queue, &unique_key));
	key_job(&k, id);
	assert_true(check_read_msg(c, &k, &msg_job_doc, &d));
	assert_true(str_eq(d.queue, queue));
	assert_true(str_eq(d.unique_key, unique_key));
	check_read_live(c, id, &d, &l);
	assert_false(job_state_is_terminal(l.state));
}

/* --- answers kept for idempotency keys: two keys each --- */

void check_kept_answer(struct check *c, struct str key, struct str value)
{
	struct m_idempotency_doc d;
	struct key k;

	c->keys_ik++;
	assert_int_equal(msg_decode(&msg_idempotency_doc,
				    arena_copy(&c->arena, value), &c->arena,
				    &d),
			 0);
	key_idempotency_end(&k, d.expires_at, SPACE_DEFAULT, key);
	assert_true(check_has_key(c, &k));
}

void check_answer_end(struct check *c, struct str key)
{
	c->keys_ie++;
	assert_true(c->f->keys_from <= get_be64(key.p));
}

void check_member(struct check *c, struct str key, struct str value)
{
	const struct m_member *in_memory;
	struct m_member m;

	assert_int_equal(key.n, 8);
	in_memory = cluster_find(c->f, get_be64(key.p));
	assert_non_null(in_memory);
	assert_int_equal(msg_decode(&msg_member, arena_copy(&c->arena, value),
				    &c->arena, &m),
			 0);
	assert_int_equal(m.raft_id, in_memory->raft_id);
	assert_true(str_eq(m.name, in_memory->name));
	assert_true(str_eq(m.address, in_memory->address));
	assert_int_equal(m.joined_at, in_memory->joined_at);
	c->keys_mb++;
}
