/*
 * Expands errors.def into lookups by number. Numbers are few and only grow,
 * so a dense table indexed by them is the whole implementation.
 */
#include "proto/err.h"

#include "util/base.h"

struct err_row {
	const char *code;
	int status;
	const char *text;
	enum err_again again;
	enum rpc_code rpc;
};

static const struct err_row rows[] = {
#define ERR(name, number, status, again, rpc, text) \
	[number] = { #name, status, text, again, rpc },
#include "proto/defs/errors.def"
};

static const struct err_row *err_row(int e)
{
	if (e <= 0 || (size_t)e >= ARRAY_SIZE(rows) || rows[e].code == NULL)
		return &rows[ERR_INTERNAL_ERROR];
	return &rows[e];
}

const char *err_code(int e)
{
	return err_row(e)->code;
}

int err_of_code(struct str code)
{
	for (size_t i = 1; i < ARRAY_SIZE(rows); i++)
		if (rows[i].code != NULL && str_is(code, rows[i].code))
			return (int)i;
	return ERR_INTERNAL_ERROR;
}

int err_status(int e)
{
	return err_row(e)->status;
}

enum err_again err_again(int e)
{
	return err_row(e)->again;
}

const char *err_text(int e)
{
	return err_row(e)->text;
}

enum rpc_code err_rpc(int e)
{
	return err_row(e)->rpc;
}

const char *rpc_code_name(enum rpc_code c)
{
	static const char *const names[] = {
		[CODE_OK] = "ok",
		[CODE_CANCELED] = "canceled",
		[CODE_UNKNOWN] = "unknown",
		[CODE_INVALID_ARGUMENT] = "invalid_argument",
		[CODE_DEADLINE_EXCEEDED] = "deadline_exceeded",
		[CODE_NOT_FOUND] = "not_found",
		[CODE_ALREADY_EXISTS] = "already_exists",
		[CODE_PERMISSION_DENIED] = "permission_denied",
		[CODE_RESOURCE_EXHAUSTED] = "resource_exhausted",
		[CODE_FAILED_PRECONDITION] = "failed_precondition",
		[CODE_ABORTED] = "aborted",
		[CODE_OUT_OF_RANGE] = "out_of_range",
		[CODE_UNIMPLEMENTED] = "unimplemented",
		[CODE_INTERNAL] = "internal",
		[CODE_UNAVAILABLE] = "unavailable",
		[CODE_DATA_LOSS] = "data_loss",
		[CODE_UNAUTHENTICATED] = "unauthenticated",
	};

	return names[c];
}
