#include "proto/err.h"

#include "lib/testlib.h"

static void test_every_row(void **state _unused_)
{
#define ERR(name, number, http, again, rpc, message)        \
	assert_int_equal(err_again(ERR_##name), again);     \
	assert_int_equal(err_rpc(ERR_##name), rpc);         \
	assert_string_equal(err_code(ERR_##name), #name);   \
	assert_int_equal(ERR_##name, number);               \
	assert_int_equal(err_status(ERR_##name), http);     \
	assert_string_equal(err_text(ERR_##name), message); \
	assert_in_range(err_status(ERR_##name), 400, 599);
#include "proto/defs/errors.def"
}

/* What a status promises: 4xx, 503 and 507 were not carried out. */
static void test_again_fits_the_status(void **state _unused_)
{
#define ERR(name, number, http, again, rpc, message)   \
	if (http == 429 || http == 503 || http == 507) \
		assert_int_equal(again, AGAIN_AFTER);  \
	else if (http == 500 || http == 504)           \
		assert_int_equal(again, AGAIN_SAME);   \
	else                                           \
		assert_true(again == AGAIN_NO || again == AGAIN_NOW);
#include "proto/defs/errors.def"
}

/*
 * Clients of gRPC send a request again by themselves when it is UNAVAILABLE,
 * so it must have been refused.
 */
static void test_unavailable_was_not_carried_out(void **state _unused_)
{
#define ERR(name, number, http, again, rpc, message) \
	if (rpc == CODE_UNAVAILABLE)                 \
		assert_int_equal(http, 503);
#include "proto/defs/errors.def"
}

static void test_unknown_is_internal(void **state _unused_)
{
	static const int unknown[] = { 0,    -1,        -ERR_NOT_FOUND,
				       9999, INT32_MIN, INT32_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		assert_string_equal(err_code(unknown[i]), "INTERNAL_ERROR");
		assert_int_equal(err_status(unknown[i]), 500);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_row),
		cmocka_unit_test(test_again_fits_the_status),
		cmocka_unit_test(test_unavailable_was_not_carried_out),
		cmocka_unit_test(test_unknown_is_internal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
