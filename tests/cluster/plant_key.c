/*
 * plant_key DIR: puts a record into the store of a node that is stopped, which
 * no other node has. For tests of how that is found.
 */
#include <stdio.h>

#include "store/kv.h"

int main(int argc, char **argv)
{
	struct kv_options o = { .write_buffer_bytes = 1u << 20,
				.cache_bytes = 1u << 20 };
	struct buf why = BUF_INIT(0);
	struct kv_batch *b;
	struct kv *kv;

	if (argc != 2 || kv_rocks_open(argv[1], &o, &kv, &why) < 0) {
		(void)fprintf(stderr, "plant_key: %.*s\n",
			      STR_ARG(buf_str(&why)));
		return 1;
	}
	b = kv_batch_new(kv);
	kv_batch_put(b, STR("zz|planted"), STR("by a test"));
	if (kv_write(kv, b) < 0 || kv_flush(kv, &why) < 0)
		return 1;
	kv_batch_free(b);
	kv_close(kv);
	buf_done(&why);
	return 0;
}
