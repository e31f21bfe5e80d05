/*
 * CRC-32 with the polynomial 0x04c11db7, highest bit first, no inversion: the
 * checksum of libraft's files. Eight bytes a step.
 */
#ifndef CORVO_CRC32_H
#define CORVO_CRC32_H

#include "util/str.h"

/* Goes on from `crc`; 0 to begin. Safe on any thread. */
uint32_t crc32_add(uint32_t crc, struct str bytes);

#endif
