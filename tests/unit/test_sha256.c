#include "util/sha256.h"

#include "lib/testlib.h"

struct hex {
	char text[2 * SHA256_BYTES + 1];
};

static struct hex hex_of(const unsigned char *bytes)
{
	struct hex h;

	for (size_t i = 0; i < SHA256_BYTES; i++)
		(void)snprintf(h.text + 2 * i, 3, "%02x", bytes[i]);
	return h;
}

static struct hex digest(struct str s)
{
	unsigned char ret[SHA256_BYTES];
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, s);
	sha256_end(&h, ret);
	return hex_of(ret);
}

static struct hex hmac(struct str key, struct str s)
{
	unsigned char ret[SHA256_BYTES];
	struct hmac_sha256 m;

	hmac_sha256_init(&m, key);
	hmac_sha256_add(&m, s);
	hmac_sha256_end(&m, ret);
	return hex_of(ret);
}

/* FIPS 180-4 and NIST's examples. */
static void digests_known_to_nist(void **state _unused_)
{
	assert_string_equal(digest(STR_NULL).text,
			    "e3b0c44298fc1c149afbf4c8996fb924"
			    "27ae41e4649b934ca495991b7852b855");
	assert_string_equal(digest(STR("abc")).text,
			    "ba7816bf8f01cfea414140de5dae2223"
			    "b00361a396177a9cb410ff61f20015ad");
	assert_string_equal(
	    digest(STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnop"
		       "nopq"))
		.text,
	    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	assert_string_equal(
	    digest(STR("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghij"
		       "klmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrst"
		       "nopqrstu"))
		.text,
	    "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

static void a_million_letters(void **state _unused_)
{
	unsigned char ret[SHA256_BYTES];
	struct sha256 h;

	sha256_init(&h);
	for (int i = 0; i < 100000; i++)
		sha256_add(&h, STR("aaaaaaaaaa"));
	sha256_end(&h, ret);
	assert_string_equal(hex_of(ret).text,
			    "cdc76e5c9914fb9281a1c7e284d73e67"
			    "f1809a48a497200e046d39ccc7112cd0");
}

/* However the bytes come, around every end of a block. */
static void any_length_and_any_split(void **state _unused_)
{
	char bytes[200];
	struct rng r;

	test_rng(&r);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)rng_u64(&r);
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		struct str all = str_of(bytes, n);
		size_t half = rng_below(&r, n + 1);
		unsigned char ret[SHA256_BYTES];
		struct sha256 h;

		sha256_init(&h);
		sha256_add(&h, str_of(bytes, half));
		sha256_add(&h, str_skip(all, half));
		sha256_end(&h, ret);
		assert_string_equal(hex_of(ret).text, digest(all).text);
		if (n > 0) {
			struct hex before = digest(all);

			bytes[half % n] ^= 1;
			assert_string_not_equal(digest(all).text, before.text);
			bytes[half % n] ^= 1;
		}
	}
}

/* RFC 4231, all but the truncated one. */
static void hmacs_of_rfc_4231(void **state _unused_)
{
	char ones[131], key4[25], cd[50], dd[50], b0[20];

	memset(ones, 0xaa, sizeof(ones));
	memset(cd, 0xcd, sizeof(cd));
	memset(dd, 0xdd, sizeof(dd));
	memset(b0, 0x0b, sizeof(b0));
	for (size_t i = 0; i < sizeof(key4); i++)
		key4[i] = (char)(i + 1);
	assert_string_equal(
	    hmac(str_of(b0, 20), STR("Hi There")).text,
	    "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
	assert_string_equal(
	    hmac(STR("Jefe"), STR("what do ya want for nothing?")).text,
	    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	assert_string_equal(
	    hmac(str_of(ones, 20), str_of(dd, 50)).text,
	    "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
	assert_string_equal(
	    hmac(str_of(key4, 25), str_of(cd, 50)).text,
	    "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
	assert_string_equal(
	    hmac(str_of(ones, 131), STR("Test Using Larger Than Block-Size "
					"Key - Hash Key First"))
		.text,
	    "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
	assert_string_equal(
	    hmac(str_of(ones, 131),
		 STR("This is a test using a larger than block-size key and a "
		     "larger than block-size data. The key needs to be hashed "
		     "before being used by the HMAC algorithm."))
		.text,
	    "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

static void an_empty_key_is_a_key(void **state _unused_)
{
	assert_string_equal(
	    hmac(STR_NULL, STR_NULL).text,
	    "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void secrets_are_compared_to_the_last_bit(void **state _unused_)
{
	unsigned char a[SHA256_BYTES] = { 0 }, b[SHA256_BYTES] = { 0 };

	assert_true(secret_eq(a, b, sizeof(a)));
	assert_true(secret_eq(a, b, 0));
	for (size_t i = 0; i < sizeof(a) * 8; i++) {
		b[i / 8] ^= 1u << i % 8;
		assert_false(secret_eq(a, b, sizeof(a)));
		b[i / 8] ^= 1u << i % 8;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digests_known_to_nist),
		cmocka_unit_test(a_million_letters),
		cmocka_unit_test(any_length_and_any_split),
		cmocka_unit_test(hmacs_of_rfc_4231),
		cmocka_unit_test(an_empty_key_is_a_key),
		cmocka_unit_test(secrets_are_compared_to_the_last_bit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
