/*
 * Inbound webhooks: setting, changing and deleting them; that secrets are kept
 * and never told.
 */
#include "fsm/core/state.h"
#include "fsm_fixture.h"

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, fx_setup_level, fx_teardown)

static struct m_set_hook some(const char *name, uint32_t verify,
			      const char *secret)
{
	struct m_set_hook m = { 0 };

	MSG_SET(&m, set_hook, name, str_from(name));
	MSG_SET(&m, set_hook, queue, STR("q"));
	MSG_SET(&m, set_hook, verify, verify);
	if (secret != NULL)
		MSG_SET(&m, set_hook, secret, str_from(secret));
	return m;
}

static const struct m_hook *hook(struct fx *x, const char *name)
{
	return fsm_hook(x->side[FX_MEM].f, str_from(name));
}

static void test_set_change_delete(void **state)
{
	struct fx *x = *state;
	struct m_set_hook m = some("gh", HOOK_VERIFY_GITHUB, "hidden");
	struct m_hook_ref ref = { 0 };
	struct m_hook got;
	uint64_t first = x->now_ns;

	MSG_SET(&m, set_hook, tags, STR("{\"a\":\".body.a\"}"));
	MSG_SET(&m, set_hook, max_retries, 4);
	assert_int_equal(fx_do(x, OP_SET_HOOK, &m, &got), 0);
	assert_int_equal(got.secrets, 1);
	assert_false(MSG_HAS(&got, hook, secret));
	assert_int_equal(got.created_at, first);
	x->now_ns += NS_PER_S;
	m = some("gh", HOOK_VERIFY_GITHUB, NULL);
	assert_int_equal(fx_do(x, OP_SET_HOOK, &m, &got), 0);
	assert_int_equal(got.created_at, first);
	assert_int_equal(got.updated_at, first + NS_PER_S);
	assert_false(MSG_HAS(&got, hook, tags)); /* as a whole */
	assert_str_is(hook(x, "gh")->secret, "hidden");
	fx_restart(x, FX_MEM);
	assert_str_is(hook(x, "gh")->secret, "hidden");
	MSG_SET(&ref, hook_ref, name, STR("gh"));
	assert_int_equal(fx_do(x, OP_DELETE_HOOK, &ref, NULL), 0);
	assert_null(hook(x, "gh"));
	fx_refused(x, OP_DELETE_HOOK, &ref, ERR_NOT_FOUND,
		   "there is no inbound webhook \"gh\"");
}

static void test_two_secrets_while_senders_change_over(void **state)
{
	struct fx *x = *state;
	struct m_set_hook m = some("gh", HOOK_VERIFY_GITHUB, "new");

	MSG_SET(&m, set_hook, previous_secret, STR("old"));
	assert_int_equal(fx_do(x, OP_SET_HOOK, &m, NULL), 0);
	assert_int_equal(hook(x, "gh")->secrets, 2);
	m = some("gh", HOOK_VERIFY_GITHUB, NULL);
	assert_int_equal(fx_do(x, OP_SET_HOOK, &m, NULL), 0);
	assert_str_is(hook(x, "gh")->previous_secret, "old");
	m = some("gh", HOOK_VERIFY_GITHUB, "new");
	assert_int_equal(fx_do(x, OP_SET_HOOK, &m, NULL), 0);
	assert_int_equal(hook(x, "gh")->secrets, 1);
	m = some("gh", HOOK_VERIFY_NONE, NULL);
	assert_int_equal(fx_do(x, OP_SET_HOOK, &m, NULL), 0);
	assert_int_equal(hook(x, "gh")->secrets, 0);
	assert_int_equal(hook(x, "gh")->secret.n, 0);
}

static void test_what_cannot_be_is_refused(void **state)
{
	struct fx *x = *state;
	struct m_set_hook m = some("gh", HOOK_VERIFY_STRIPE, NULL);

	fx_refused(x, OP_SET_HOOK, &m, ERR_VALIDATION_ERROR,
		   "secret: must be there to verify by stripe");
	MSG_SET(&m, set_hook, previous_secret, STR("old"));
	fx_refused(x, OP_SET_HOOK, &m, ERR_VALIDATION_ERROR,
		   "previous_secret: must stand beside secret");
	m = some("gh", HOOK_VERIFY_NONE, "s");
	fx_refused(x, OP_SET_HOOK, &m, ERR_VALIDATION_ERROR,
		   "secret: verify has to say what it is for");
	m = some("a b", HOOK_VERIFY_NONE, NULL);
	fx_refused(x, OP_SET_HOOK, &m, ERR_VALIDATION_ERROR,
		   "name: must be 1 to 100 letters, digits, dots, dashes and "
		   "underscores");
	m = some("gh", HOOK_VERIFY_STRIPE, "s");
	assert_int_equal(fx_do(x, OP_SET_HOOK, &m, NULL), 0);
	/* another scheme is another secret */
	m = some("gh", HOOK_VERIFY_SLACK, NULL);
	fx_refused(x, OP_SET_HOOK, &m, ERR_VALIDATION_ERROR,
		   "secret: must be there to verify by slack");
	assert_int_equal(hook(x, "gh")->verify, HOOK_VERIFY_STRIPE);
}

static void test_there_are_so_many_at_most(void **state)
{
	struct fx *x = *state;
	struct m_set_hook m;
	char name[16];

	x->unchecked = true;
	for (int i = 0; i < LIMIT_HOOKS; i++) {
		(void)snprintf(name, sizeof(name), "h%d", i);
		m = some(name, HOOK_VERIFY_NONE, NULL);
		assert_int_equal(fx_do(x, OP_SET_HOOK, &m, NULL), 0);
	}
	x->unchecked = false;
	m = some("one", HOOK_VERIFY_NONE, NULL);
	fx_refused(x, OP_SET_HOOK, &m, ERR_VALIDATION_ERROR,
		   "there are 1000 inbound webhooks, which is as many as there "
		   "may be; delete some");
	m = some("h7", HOOK_VERIFY_NONE, NULL);
	assert_int_equal(fx_do(x, OP_SET_HOOK, &m, NULL), 0);
}

/* Only the record of the webhook has it. */
static void test_a_secret_stands_in_one_place(void **state)
{
	struct fx *x = *state;
	struct m_set_hook m = some("gh", HOOK_VERIFY_GITHUB, "wordless-42");
	_cleanup_(buf_done) struct buf all = BUF_INIT(0);
	struct m_hook_list list = { 0 };
	const struct str secret = STR("wordless-42");
	const char *at, *end;
	size_t n = 0;

	assert_int_equal(fx_do(x, OP_SET_HOOK, &m, NULL), 0);
	fx_dump(x->side[FX_MEM].kv, &all);
	end = all.p + all.n;
	for (at = all.p;
	     (at = memmem(at, (size_t)(end - at), secret.p, secret.n)) != NULL;
	     at++)
		n++;
	assert_int_equal(n, 1);
	fsm_hooks(x->side[FX_MEM].f, &x->arena, &list);
	assert_int_equal(list.hooks_n, 1);
	assert_false(MSG_HAS(&list.hooks[0], hook, secret));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_set_change_delete),
		TEST(test_two_secrets_while_senders_change_over),
		TEST(test_what_cannot_be_is_refused),
		TEST(test_there_are_so_many_at_most),
		TEST(test_a_secret_stands_in_one_place),
	};

	return cmocka_run_group_tests_name("fsm_inbound", tests, NULL, NULL);
}
