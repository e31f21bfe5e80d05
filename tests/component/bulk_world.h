/*
 * A bulk operation and what is done to it, for tests on the fixture.
 */
#ifndef CORVO_BULK_WORLD_H
#define CORVO_BULK_WORLD_H

#include "fsm/core/state.h"
#include "fsm_fixture.h"

#define ID "bulk_1"

static inline struct m_bulk_create create_of(enum bulk_action a)
{
	struct m_bulk_create m = { 0 };

	MSG_SET(&m, bulk_create, bulk_id, STR(ID));
	MSG_SET(&m, bulk_create, action, a);
	return m;
}

static inline struct m_bulk_add add_of(uint32_t page, struct str *ids, size_t n,
				       bool last)
{
	struct m_bulk_add m = { 0 };

	MSG_SET(&m, bulk_add, bulk_id, STR(ID));
	MSG_SET(&m, bulk_add, page, page);
	MSG_SET_LIST(&m, bulk_add, job_ids, ids, n);
	MSG_SET(&m, bulk_add, last, last);
	return m;
}

/* The operation as both sides have it. */
static inline struct m_bulk bulk_now(struct fx *x)
{
	struct m_bulk a, b;

	assert_int_equal(fsm_bulk(x->side[FX_MEM].f, STR(ID), &x->arena, &a),
			 1);
	assert_int_equal(fsm_bulk(x->side[FX_ROCKS].f, STR(ID), &x->arena, &b),
			 1);
	assert_int_equal(a.status, b.status);
	assert_int_equal(a.processed, b.processed);
	return a;
}

static inline void expect_bulk(struct fx *x, enum bulk_status status,
			       uint64_t affected, uint64_t skipped)
{
	struct m_bulk b = bulk_now(x);

	assert_string_equal(enum_text(&enum_bulk_status, b.status),
			    enum_text(&enum_bulk_status, status));
	assert_int_equal(b.affected, affected);
	assert_int_equal(b.skipped, skipped);
}

static inline void begin(struct fx *x, const struct m_bulk_create *c,
			 struct str *ids, size_t n)
{
	struct m_bulk_add add = add_of(0, ids, n, true);

	assert_int_equal(fx_do(x, OP_BULK_CREATE, c, NULL), 0);
	assert_int_equal(fx_do(x, OP_BULK_ADD, &add, NULL), 0);
}

static inline void step_from(struct fx *x, uint64_t processed, uint32_t max)
{
	struct m_bulk_step m = { 0 };

	MSG_SET(&m, bulk_step, bulk_id, STR(ID));
	MSG_SET(&m, bulk_step, processed, processed);
	MSG_SET(&m, bulk_step, max, max);
	assert_int_equal(fx_do(x, OP_BULK_STEP, &m, NULL), 0);
}

static inline void step(struct fx *x, uint32_t max)
{
	step_from(x, bulk_now(x).processed, max);
}

static inline struct m_bulk_control control_of(enum bulk_status s)
{
	struct m_bulk_control m = { 0 };

	MSG_SET(&m, bulk_control, bulk_id, STR(ID));
	MSG_SET(&m, bulk_control, status, s);
	return m;
}

static inline void control(struct fx *x, enum bulk_status s)
{
	struct m_bulk_control m = control_of(s);

	assert_int_equal(fx_do(x, OP_BULK_CONTROL, &m, NULL), 0);
}

static inline void restart(struct fx *x)
{
	fx_restart(x, FX_MEM);
	fx_restart(x, FX_ROCKS);
}

/* n dead jobs; their ids are the test's arena's. */
static inline struct str *make_dead(struct fx *x, size_t n)
{
	struct str *ids = xcalloc(n, sizeof(*ids));

	for (size_t i = 0; i < n; i++) {
		char id[32];

		(void)snprintf(id, sizeof(id), "job_%03zu", i);
		fx_make(x, id, JOB_DEAD);
		ids[i] = str_of(xstrndup(id, sizeof(id)), strlen(id));
	}
	return ids;
}

static inline void free_ids(struct str *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((char *)ids[i].p);
	free(ids);
}

static inline uint64_t due(struct fx *x)
{
	struct m_due_reply m = { 0 };

	fsm_due(x->side[FX_ROCKS].f, &m);
	return m.bulk_ns;
}

#endif
