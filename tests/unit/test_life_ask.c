/*
 * A frame asks for more than a message may be: that is a mistake of ours, for
 * which its stream ends. The frame counts nothing that is not under way, or it
 * could not be freed with it, and all of corvo-httpd would end.
 */
#include <stdlib.h>

#include "lib/testlib.h"
#include "rpc/life_parts.h"
#include "util/guard.h"

static void never(_unused_ struct life_frame *f, _unused_ struct part *p,
		  _unused_ const struct rpc_reply *reply)
{
	fail();
}

static void ask(void *frame)
{
	static char payload[RPC_BODY_BYTES];
	struct life_frame *f = frame;
	struct m_enqueue m = { 0 };

	MSG_SET(&m, enqueue, payload, str_of(payload, sizeof(payload)));
	life_change(f, &f->enqueue, OP_ENQUEUE, STR_NULL, &msg_enqueue, &m,
		    never);
}

static void test_what_could_not_be_asked_is_not_counted(void **state _unused_)
{
	struct httpd *h = xcalloc(1, sizeof(*h));
	struct lifecycle l = { .h = h };
	struct life_frame *f = xcalloc(1, sizeof(*f));
	struct settings set = { 0 };
	struct guard_fault why;

	h->set = &set;
	f->l = &l;
	assert_false(guard_call(ask, f, &why));
	assert_string_equal(why.what, "key.n + body.n <= RPC_BODY_BYTES");
	assert_null(f->enqueue.call);
	assert_int_equal(f->open, 0);
	assert_int_equal(l.asking, 0);
	buf_done(&h->scratch);
	free(f);
	free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_could_not_be_asked_is_not_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
