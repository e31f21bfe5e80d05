/*
 * What a store has under a key. For tests of stores.
 */
#ifndef CORVO_KV_ASSERT_H
#define CORVO_KV_ASSERT_H

#include "lib/testlib.h"

#include "store/kv.h"

/* NULL: nothing. */
static inline void assert_has(struct kv *kv, const char *key, const char *value)
{
	struct buf got = BUF_INIT(0);

	assert_int_equal(kv_get(kv, str_from(key), &got), value != NULL);
	if (value != NULL)
		assert_str_is(buf_str(&got), value);
	buf_done(&got);
}

#endif
