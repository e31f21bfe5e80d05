/*
 * SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), for handshakes: small and
 * plain rather than fast. No state beside what is passed in.
 */
#ifndef CORVO_SHA256_H
#define CORVO_SHA256_H

#include "util/str.h"

#define SHA256_BYTES       32
#define SHA256_BLOCK_BYTES 64

struct sha256 {
	uint32_t h[8];
	uint64_t n; /* bytes so far */
	unsigned char part[SHA256_BLOCK_BYTES];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, struct str bytes);
/* Once; then it is to be begun anew. */
void sha256_end(struct sha256 *s, unsigned char ret[SHA256_BYTES]);

struct hmac_sha256 {
	struct sha256 inner, outer;
};

/* A key may have any length, none too. */
void hmac_sha256_init(struct hmac_sha256 *m, struct str key);
void hmac_sha256_add(struct hmac_sha256 *m, struct str bytes);
void hmac_sha256_end(struct hmac_sha256 *m, unsigned char ret[SHA256_BYTES]);

/* Takes the same time wherever they differ, so that nobody learns from it. */
bool secret_eq(const void *a, const void *b, size_t n);

#endif
