/*
 * Secrets that are kept in files.
 */
#ifndef CORVO_SECRET_H
#define CORVO_SECRET_H

#include "util/buf.h"

#define SECRET_BYTES_MIN 16
#define SECRET_BYTES_MAX 1024

/*
 * The content of the file without white space at both ends, so that an editor's
 * last newline does not matter. -ERR_VALIDATION_ERROR with a sentence in `why`
 * when it cannot be read, or is too short or too long.
 */
int secret_read(const char *path, struct buf *ret, struct buf *why);

#endif
