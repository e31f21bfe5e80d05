/*
 * Digests: replicas that applied the same entries have the same one, whenever
 * they wrote to their stores and were started again; and no other ones do.
 */
#include "resend_hooks.h"
#include "resend_sdb.h"
#include "resend_webhooks.h"
#include "store/digest.h"

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fx_setup, fx_teardown)

#define ENTRIES 400
#define LOOK    40 /* entries between comparisons */

typedef void make_fn(struct rw *w, void *m);

#define OP(num, NAME, name, request, reply, who, level, doc) \
	static void make_any_##name(struct rw *w, void *m)   \
	{                                                    \
		make_##name(w, m);                           \
	}
#include "proto/defs/ops.def"

static const struct {
	enum op_id op;
	make_fn *make;
} kinds[] = {
#define OP(num, NAME, name, request, reply, who, level, doc) \
	{ OP_##NAME, make_any_##name },
#include "proto/defs/ops.def"
};

static struct digest_result take(struct kv *kv, size_t portion)
{
	struct digest *d = digest_new(kv);
	struct digest_result r;
	int more;

	while ((more = digest_step(d, portion)) > 0)
		;
	assert_int_equal(more, 0);
	digest_result(d, &r);
	digest_free(d);
	return r;
}

/* A replica that writes to its store seldom. */
struct late {
	struct kv *kv;
	struct fsm *f;
};

static void late_start(struct late *l)
{
	l->f = fsm_new(l->kv);
	fsm_write_behind(l->f, 1u << 20);
	assert_int_equal(fsm_load(l->f), 0);
}

static void add_some(struct rw *w)
{
	size_t k = rng_below(&w->r, ARRAY_SIZE(kinds));
	const struct call_info *info = op_info(kinds[k].op);
	void *m = arena_zalloc(&w->arena, info->request->size);

	kinds[k].make(w, m);
	fx_add(w->x, kinds[k].op, 0, m);
}

static void compare(struct fx *x, struct late *l)
{
	struct digest_result a, b, c;

	assert_int_equal(fsm_flush(l->f), 0);
	a = take(x->side[FX_MEM].kv, SIZE_MAX);
	b = take(x->side[FX_ROCKS].kv, 1000);
	c = take(l->kv, 1);
	assert_string_equal(a.text, b.text);
	assert_string_equal(a.text, c.text);
	assert_int_equal(a.index, x->raft_index);
	assert_int_equal(c.index, x->raft_index);
	assert_int_equal(a.seq, fsm_last_seq(x->side[FX_MEM].f));
	assert_int_equal(a.keys, c.keys);
	assert_int_equal(a.bytes, c.bytes);
}

static void test_replicas_have_the_same(void **state)
{
	struct fx *x = *state;
	struct late l = { .kv = kv_mem_new() };
	struct rw w = { .x = x };

	test_rng(&w.r);
	x->unchecked = true;
	late_start(&l);
	fx_raise_level(x);
	assert_int_equal(
	    fsm_apply(l.f, x->raft_index, buf_str(&x->entry), NULL, NULL), 0);
	for (int i = 1; i <= ENTRIES; i++) {
		x->now_ns += rng_below(&w.r, NS_PER_S);
		fx_begin(x);
		for (uint64_t n = 1 + rng_below(&w.r, 3); n > 0; n--)
			add_some(&w);
		fx_commit(x);
		arena_reset(&w.arena);
		assert_int_equal(fsm_apply(l.f, x->raft_index,
					   buf_str(&x->entry), NULL, NULL),
				 0);
		if (one_in(&w, 30)) {
			assert_int_equal(fsm_flush(l.f), 0);
			fsm_free(l.f);
			late_start(&l);
		}
		if (one_in(&w, 30))
			fx_restart(x, FX_ROCKS);
		if (i % LOOK == 0)
			compare(x, &l);
	}
	fsm_free(l.f);
	kv_close(l.kv);
	arena_done(&w.arena);
}

static void put(struct kv *kv, const char *key, const char *value)
{
	struct kv_batch *b = kv_batch_new(kv);

	kv_batch_put(b, str_from(key), str_from(value));
	assert_int_equal(kv_write(kv, b), 0);
	kv_batch_free(b);
}

static void test_any_difference_shows(void **state)
{
	static const char *const rows[][2] = {
		{ "j|1", "xy" },  { "j|1x", "y" }, { "j|1", "x" },
		{ "j|1", "" },    { "j|", "1xy" }, { "k|1", "xy" },
		{ "j|1", "xyz" },
	};
	struct digest_result first[ARRAY_SIZE(rows)];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct kv *kv = kv_mem_new();
		struct digest_result again;

		put(kv, rows[i][0], rows[i][1]);
		first[i] = take(kv, 1);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(first[i].text, first[k].text);
		put(kv, "format|", "1234"); /* each has its own */
		again = take(kv, 1);
		assert_string_equal(first[i].text, again.text);
		put(kv, "z|", "");
		again = take(kv, 1);
		assert_string_not_equal(first[i].text, again.text);
		kv_close(kv);
	}
}

static void test_an_empty_store_has_one_too(void **state)
{
	struct kv *kv = kv_mem_new();
	struct digest_result r = take(kv, 1);

	(void)state;
	assert_int_equal(r.index, 0);
	assert_int_equal(r.keys, 0);
	assert_int_equal(strlen(r.text), DIGEST_TEXT_LEN);
	kv_close(kv);
}

/* What is written after it began is not in it. */
static void test_it_is_of_one_moment(void **state)
{
	struct fx *x = *state;
	struct digest_result before, r;
	struct digest *d;

	for (char c = 'a'; c < 'z'; c++)
		fx_enqueue(x, (char[]){ 'j', c, '\0' }, "q");
	before = take(x->side[FX_ROCKS].kv, SIZE_MAX);
	d = digest_new(x->side[FX_ROCKS].kv);
	assert_int_equal(digest_step(d, 100), 1);
	fx_enqueue(x, "later", "q");
	fx_job_op(x, OP_DELETE, "jb", "deleted");
	assert_int_equal(digest_step(d, SIZE_MAX), 0);
	digest_result(d, &r);
	assert_string_equal(r.text, before.text);
	assert_int_equal(r.index, x->raft_index - 2);
	digest_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_replicas_have_the_same),
		cmocka_unit_test(test_any_difference_shows),
		cmocka_unit_test(test_an_empty_store_has_one_too),
		TEST(test_it_is_of_one_moment),
	};

	return cmocka_run_group_tests_name("fsm_digest", tests, NULL, NULL);
}
