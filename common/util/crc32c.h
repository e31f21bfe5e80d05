/*
 * CRC-32C (Castagnoli), lowest bit first, inverted before and after: what
 * iSCSI, ext4 and most logs of our time use, since processors have it built in.
 */
#ifndef CORVO_CRC32C_H
#define CORVO_CRC32C_H

#include "util/str.h"

/* Goes on from `crc`; 0 to begin. Safe on any thread. */
uint32_t crc32c_add(uint32_t crc, struct str bytes);

/* The same without the processor's help, eight bytes a step: what the other
 * falls back to. */
uint32_t crc32c_add_soft(uint32_t crc, struct str bytes);

#endif
