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
};

static const struct err_row rows[] = {
#define ERR(name, number, status, again, text) \
	[number] = { #name, status, text, again },
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
