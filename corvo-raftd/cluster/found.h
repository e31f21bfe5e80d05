/*
 * Addresses at which other nodes may be; a bounded list without duplicates.
 */
#ifndef CORVO_FOUND_H
#define CORVO_FOUND_H

#include "cluster/hello.h"

struct found {
	size_t n;
	char at[LIMIT_FOUND][HELLO_ADDRESS_BYTES + 1];
};

/* What cannot be an address, is there already, or is too much is left out. */
void found_add(struct found *f, struct str address);
bool found_has(const struct found *f, struct str address);

#endif
