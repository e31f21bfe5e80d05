/* Placeholders: each goes when its handler is built. */
#include "handlers.h"
#include "req.h"

void h_get_queue(struct req *r)
{
	req_fail_text(r, ERR_INTERNAL_ERROR, STR("not built yet"));
}

void h_set_queue(struct req *r)
{
	req_fail_text(r, ERR_INTERNAL_ERROR, STR("not built yet"));
}

void h_delete_queue(struct req *r)
{
	req_fail_text(r, ERR_INTERNAL_ERROR, STR("not built yet"));
}

void h_drain(struct req *r)
{
	req_fail_text(r, ERR_INTERNAL_ERROR, STR("not built yet"));
}

void h_clear_queue(struct req *r)
{
	req_fail_text(r, ERR_INTERNAL_ERROR, STR("not built yet"));
}

void h_set_concurrency(struct req *r)
{
	req_fail_text(r, ERR_INTERNAL_ERROR, STR("not built yet"));
}

void h_set_throttle(struct req *r)
{
	req_fail_text(r, ERR_INTERNAL_ERROR, STR("not built yet"));
}

void h_unset_throttle(struct req *r)
{
	req_fail_text(r, ERR_INTERNAL_ERROR, STR("not built yet"));
}
