/*
 * The head of a request, whichever front has read it. See front/head.h.
 */
#include "front/head.h"

#include <strings.h>

#include "front/exchange.h"
#include "front/front.h"

static const struct str NAMES[HEAD_NAMES_MAX] = {
#define X(name, text) [HEAD_##name] = { text, sizeof(text) - 1 },
	HEAD_NAMES(X)
#undef X
};

void head_note(struct head *h, struct str name, const char *value)
{
	for (size_t i = 0; i < HEAD_NAMES_MAX; i++) {
		if (NAMES[i].n != name.n || h->value[i] != NULL ||
		    strncasecmp(NAMES[i].p, name.p, name.n) != 0)
			continue;
		h->value[i] = value;
		break;
	}
}

void head_each(const struct exchange *x, head_header_fn *fn, void *ctx)
{
	x->front->each_header(x, fn, ctx);
}

struct header_list {
	const char *name;
	struct buf *out;
};

static void on_header(void *ctx, const char *name, const char *value)
{
	struct header_list *l = ctx;

	if (strcasecmp(name, l->name) == 0)
		buf_printf(l->out, "%s%s", l->out->n > 0 ? "," : "", value);
}

void head_values(const struct exchange *x, const char *name, struct buf *out)
{
	struct header_list l = { name, out };

	head_each(x, on_header, &l);
}

const char *head_argument(const struct exchange *x, const char *name)
{
	return x->front->argument(x, name);
}

void head_each_argument(const struct exchange *x, head_name_fn *fn, void *ctx)
{
	x->front->each_argument(x, fn, ctx);
}
