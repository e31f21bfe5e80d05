/*
 * Makes a store say that it is of another format, as a newer version would.
 *
 *	set_format DIRECTORY NUMBER
 */
#include <stdio.h>
#include <stdlib.h>

#include "store/key.h"
#include "store/kv.h"

int main(int argc, char **argv)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct kv_options o = { 0 };
	struct kv_batch *b;
	uint64_t format;
	struct kv *kv;
	struct key k;
	char v[4];

	if (argc != 3 || !str_parse_u64(str_from(argv[2]), &format)) {
		fprintf(stderr, "usage: set_format DIRECTORY NUMBER\n");
		return 2;
	}
	if (kv_rocks_open(argv[1], &o, &kv, &why) < 0) {
		fprintf(stderr, "%s: %.*s\n", argv[1], STR_ARG(buf_str(&why)));
		return 1;
	}
	key_format(&k);
	put_be32(v, (uint32_t)format);
	b = kv_batch_new(kv);
	kv_batch_put(b, key_str(&k), str_of(v, sizeof(v)));
	CHECK(kv_write(kv, b) == 0 && kv_flush(kv, &why) == 0);
	kv_batch_free(b);
	kv_close(kv);
	return 0;
}
