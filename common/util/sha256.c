#include "util/sha256.h"

#include "util/turn.h"

#include <endian.h>

#define ROUNDS 64
#define IPAD   0x36
#define OPAD   0x5c

/* The first 32 bits of the fractions of the cube roots of the first primes. */
static const uint32_t k[ROUNDS] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static void schedule(const unsigned char *block, uint32_t w[ROUNDS])
{
	for (int i = 0; i < 16; i++) {
		memcpy(&w[i], block + 4 * i, sizeof(w[i]));
		w[i] = be32toh(w[i]);
	}
	for (int i = 16; i < ROUNDS; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];
		uint32_t s0 = rotr(a, 7) ^ rotr(a, 18) ^ a >> 3;
		uint32_t s1 = rotr(b, 17) ^ rotr(b, 19) ^ b >> 10;

		w[i] = w[i - 16] + s0 + w[i - 7] + s1;
	}
}

static void take_block(struct sha256 *s, const unsigned char *block)
{
	uint32_t w[ROUNDS], v[8];

	schedule(block, w);
	memcpy(v, s->h, sizeof(v));
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t a = v[0], e = v[4];
		uint32_t s1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
		uint32_t choice = (e & v[5]) ^ (~e & v[6]);
		uint32_t t1 = v[7] + s1 + choice + k[i] + w[i];
		uint32_t s0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
		uint32_t most = (a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]);

		memmove(v + 1, v, 7 * sizeof(v[0]));
		v[4] += t1;
		v[0] = t1 + s0 + most;
	}
	for (int i = 0; i < 8; i++)
		s->h[i] += v[i];
}

void sha256_init(struct sha256 *s)
{
	/* fractions of the square roots of the first primes */
	*s = (struct sha256){ .h = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372,
				     0xa54ff53a, 0x510e527f, 0x9b05688c,
				     0x1f83d9ab, 0x5be0cd19 } };
}

void sha256_add(struct sha256 *s, struct str bytes)
{
	while (bytes.n > 0) {
		size_t at = s->n % SHA256_BLOCK_BYTES;
		size_t n = MIN(bytes.n, SHA256_BLOCK_BYTES - at);

		memcpy(s->part + at, bytes.p, n);
		s->n += n;
		bytes = str_skip(bytes, n);
		if (at + n < SHA256_BLOCK_BYTES)
			break;
		take_block(s, s->part);
		(void)turn_step();
	}
}

/* Behind the bytes come a one, zeros, and their number of bits. */
void sha256_end(struct sha256 *s, unsigned char ret[SHA256_BYTES])
{
	static const char pad[SHA256_BLOCK_BYTES] = { (char)0x80 };
	uint64_t bits = htobe64(s->n * 8);
	size_t at = s->n % SHA256_BLOCK_BYTES;
	size_t room = SHA256_BLOCK_BYTES - sizeof(bits);

	sha256_add(s, str_of(pad, at < room ? room - at
					    : room + SHA256_BLOCK_BYTES - at));
	sha256_add(s, str_of(&bits, sizeof(bits)));
	for (int i = 0; i < 8; i++) {
		uint32_t word = htobe32(s->h[i]);

		memcpy(ret + 4 * i, &word, sizeof(word));
	}
}

static void begin_padded(struct sha256 *s, const unsigned char *key,
			 unsigned char with)
{
	unsigned char block[SHA256_BLOCK_BYTES];

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = key[i] ^ with;
	sha256_init(s);
	sha256_add(s, str_of(block, sizeof(block)));
}

void hmac_sha256_init(struct hmac_sha256 *m, struct str key)
{
	unsigned char block[SHA256_BLOCK_BYTES] = { 0 };

	if (key.n > sizeof(block)) {
		sha256_init(&m->inner);
		sha256_add(&m->inner, key);
		sha256_end(&m->inner, block);
	} else if (key.n > 0) {
		memcpy(block, key.p, key.n);
	}
	begin_padded(&m->inner, block, IPAD);
	begin_padded(&m->outer, block, OPAD);
}

void hmac_sha256_add(struct hmac_sha256 *m, struct str bytes)
{
	sha256_add(&m->inner, bytes);
}

void hmac_sha256_end(struct hmac_sha256 *m, unsigned char ret[SHA256_BYTES])
{
	unsigned char inner[SHA256_BYTES];

	sha256_end(&m->inner, inner);
	sha256_add(&m->outer, str_of(inner, sizeof(inner)));
	sha256_end(&m->outer, ret);
}

bool secret_eq(const void *a, const void *b, size_t n)
{
	const volatile unsigned char *x = a, *y = b;
	unsigned char diff = 0;

	for (size_t i = 0; i < n; i++)
		diff |= x[i] ^ y[i];
	return diff == 0;
}
