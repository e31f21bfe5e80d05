/*
 * Approval policies, and signed links to decide about held jobs. Bodies come
 * from clients.
 */
#include "req/ask_view.h"
#include "routes/handlers.h"
#include "util/clock.h"
#include "util/rng.h"

#define LINK_PATH  "/api/v1/approvals/"
#define SALT_BYTES 32

/* --- POST /approval-policies --- */

void h_set_policy(struct req *r)
{
	struct m_policy *m = arena_zalloc(&r->arena, sizeof(*m));

	r->mistake_03 = ERR_POLICY_ERROR;
	if (req_read(r, &msg_policy, m))
		req_call_raftd(r, OP_SET_POLICY, STR_NULL, &msg_policy, m,
			       req_answer_op);
}

/* --- POST /approval-policies/dry-run --- */

static void on_trial(struct req *r, const struct rpc_reply *reply)
{
	struct m_policy_trial *m = req_reply(r, &msg_policy_trial, reply);

	if (m != NULL)
		ask_view_answer(r, &msg_policy_trial, m, m->lag_ns);
}

void h_try_policy(struct req *r)
{
	struct m_try_policy *m = arena_zalloc(&r->arena, sizeof(*m));

	r->mistake_03 = ERR_POLICY_ERROR;
	if (!req_read(r, &msg_try_policy, m))
		return;
	MSG_SET(m, try_policy, now_ns, clock_wall_ns());
	ask_view(r, &msg_try_policy, m, on_trial);
}

/* --- POST /jobs/{id}/approval-links --- */

static bool is_visible(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] >= 0x7f)
			return false;
	return true;
}

/* Empty, or without a slash at its end. */
static bool read_base(struct req *r, struct str *base)
{
	struct str rest;

	if (base->n == 0)
		return true;
	while (base->n > 0 && base->p[base->n - 1] == '/')
		base->n--;
	rest = str_skip(*base, str_starts(*base, STR("https://")) ? 8 : 7);
	if ((str_starts(*base, STR("http://")) ||
	     str_starts(*base, STR("https://"))) &&
	    rest.n > 0 && is_visible(*base))
		return true;
	req_fail(r, ERR_VALIDATION_ERROR,
		 "base_url: must be http:// or https:// and a host");
	return false;
}

static struct str link_text(struct req *r, struct str base, struct str token)
{
	return arena_printf(&r->arena, "%.*s" LINK_PATH "%.*s", STR_ARG(base),
			    STR_ARG(token));
}

static void on_links(struct req *r, const struct rpc_reply *reply)
{
	struct m_approval_links *m = req_reply(r, &msg_approval_links, reply);
	const struct m_make_links *asked = r->state;

	if (m == NULL)
		return;
	m->approve = link_text(r, asked->base_url, m->approve);
	m->reject = link_text(r, asked->base_url, m->reject);
	req_answer_message(r, &msg_approval_links, m, r->match.route->status);
}

/* As text, which is what messages carry. */
static struct str make_salt(struct req *r)
{
	unsigned char bytes[SALT_BYTES];
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	rng_system(bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		buf_printf(&b, "%02x", bytes[i]);
	return arena_copy(&r->arena, buf_str(&b));
}

void h_make_links(struct req *r)
{
	struct m_make_links *m = arena_zalloc(&r->arena, sizeof(*m));

	if (!req_read(r, &msg_make_links, m) || !read_base(r, &m->base_url))
		return;
	MSG_SET(m, make_links, salt, make_salt(r));
	r->state = m;
	req_call_raftd(r, OP_MAKE_LINKS, STR_NULL, &msg_make_links, m,
		       on_links);
}
