#include "rt/secret.h"

#include <unistd.h>

#include "lib/testlib.h"
#include "proto/err.h"
#include "rt/file.h"

static char path[] = "/tmp/corvo-secret-XXXXXX";

static int read_from(const char *content, size_t n, struct buf *ret,
		     const char *expected)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	int r;

	assert_int_equal(file_write(path, str_of(content, n)), 0);
	r = secret_read(path, ret, &why);
	buf_putc(&why, '\0');
	if (strstr(why.p, expected) == NULL)
		fail_msg("got \"%s\", expected \"%s\"", why.p, expected);
	return r;
}

static void a_newline_at_the_end_does_not_matter(void **state _unused_)
{
	_cleanup_(buf_done) struct buf with = BUF_INIT(0);
	_cleanup_(buf_done) struct buf without = BUF_INIT(0);

	assert_int_equal(read_from("0123456789abcdef\n", 17, &with, ""), 0);
	assert_int_equal(read_from("0123456789abcdef", 16, &without, ""), 0);
	assert_str_is(buf_str(&with), "0123456789abcdef");
	assert_true(str_eq(buf_str(&with), buf_str(&without)));
}

static void what_is_no_secret_is_refused(void **state _unused_)
{
	_cleanup_(buf_done) struct buf ret = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	char big[4096];

	memset(big, 'x', sizeof(big));
	assert_int_equal(read_from("", 0, &ret, "has 0 bytes"),
			 -ERR_VALIDATION_ERROR);
	assert_int_equal(read_from("0123456789abcde\n\n\n", 18, &ret,
				   "has 15 bytes; it takes 16 to 1024"),
			 -ERR_VALIDATION_ERROR);
	assert_int_equal(read_from(big, 1024, &ret, ""), 0);
	buf_clear(&ret);
	assert_int_equal(read_from(big, 1025, &ret, "has 1025 bytes"),
			 -ERR_VALIDATION_ERROR);
	assert_int_equal(read_from(big, 4096, &ret, "has more than 2048 bytes"),
			 -ERR_VALIDATION_ERROR);
	assert_int_equal(ret.n, 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(secret_read(path, &ret, &why), -ERR_VALIDATION_ERROR);
	buf_putc(&why, '\0');
	assert_non_null(strstr(why.p, "cannot read the secret /tmp/corvo"));
	assert_non_null(strstr(why.p, "No such file"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_newline_at_the_end_does_not_matter),
		cmocka_unit_test(what_is_no_secret_is_refused),
	};
	int fd = mkstemp(path);
	int r;

	if (fd < 0)
		return 1;
	(void)close(fd);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(path);
	return r;
}
