/*
 * The one error convention: functions that can fail return int, 0 or
 * -ERR_NAME. errors.def gives number, HTTP status and default text.
 */
#ifndef CORVO_ERR_H
#define CORVO_ERR_H

enum err {
#define ERR(name, number, status, again, text) ERR_##name = number,
#include "proto/defs/errors.def"
};

/* Whether a request that got the error may be sent again as it is. */
enum err_again {
	AGAIN_NO,
	AGAIN_NOW,
	AGAIN_AFTER, /* Retry-After */
	AGAIN_SAME,  /* with the same Idempotency-Key or lease_token only */
};

/* All take the positive number; an unknown one reads as INTERNAL_ERROR. */
const char *err_code(int e); /* "NOT_FOUND" */
int err_status(int e);       /* 404 */
const char *err_text(int e);
enum err_again err_again(int e);

#endif
