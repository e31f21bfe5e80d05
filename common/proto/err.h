/*
 * The one error convention: functions that can fail return int, 0 or
 * -ERR_NAME. errors.def gives number, HTTP status and default text.
 */
#ifndef CORVO_ERR_H
#define CORVO_ERR_H

#include "util/str.h"

enum err {
#define ERR(name, number, status, again, rpc, text) ERR_##name = number,
#include "proto/defs/errors.def"
};

/* Whether a request that got the error may be sent again as it is. */
enum err_again {
	AGAIN_NO,
	AGAIN_NOW,
	AGAIN_AFTER, /* Retry-After */
	AGAIN_SAME,  /* with the same Idempotency-Key or lease_token only */
};

/* Codes of remote calls, as gRPC numbers them. */
enum rpc_code {
	CODE_OK = 0,
	CODE_CANCELED = 1,
	CODE_UNKNOWN = 2,
	CODE_INVALID_ARGUMENT = 3,
	CODE_DEADLINE_EXCEEDED = 4,
	CODE_NOT_FOUND = 5,
	CODE_ALREADY_EXISTS = 6,
	CODE_PERMISSION_DENIED = 7,
	CODE_RESOURCE_EXHAUSTED = 8,
	CODE_FAILED_PRECONDITION = 9,
	CODE_ABORTED = 10,
	CODE_OUT_OF_RANGE = 11,
	CODE_UNIMPLEMENTED = 12,
	CODE_INTERNAL = 13,
	CODE_UNAVAILABLE = 14,
	CODE_DATA_LOSS = 15,
	CODE_UNAUTHENTICATED = 16,
};

/*
 * With ERR_INTERNAL_ERROR: the operation failed a check of the state machine
 * and was undone, so nothing of it was done, on no node.
 */
#define ERR_UNDONE_TEXT                                                   \
	"the operation failed a check of the server and was undone; its " \
	"log says which"

/* All take the positive number; an unknown one reads as INTERNAL_ERROR. */
const char *err_code(int e);      /* "NOT_FOUND" */
int err_of_code(struct str code); /* an unknown one: ERR_INTERNAL_ERROR */
int err_status(int e);            /* 404 */
const char *err_text(int e);
enum err_again err_again(int e);
enum rpc_code err_rpc(int e);
const char *rpc_code_name(enum rpc_code c); /* "not_found" */

#endif
