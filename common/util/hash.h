/*
 * Hashes of bytes: fast, not cryptographic.
 */
#ifndef CORVO_HASH_H
#define CORVO_HASH_H

#include "util/base.h"

/* The same in every process and version: it may be stored and compared. */
uint64_t hash_stable(const void *p, size_t n);

/*
 * For tables in memory, whose keys come from outside: without the secret of
 * this process nobody can find keys that collide. The seed makes one table
 * differ from the next.
 */
uint64_t hash_secret(uint64_t seed, const void *p, size_t n);
uint64_t hash_new_seed(void);

#endif
