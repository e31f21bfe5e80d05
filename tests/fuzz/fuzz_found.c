/*
 * Where other nodes are, as name servers and other nodes answer: whatever they
 * say, what is kept is addresses.
 */
#include "cluster/api_ask.h"
#include "cluster/srv.h"
#include "fuzz.h"

void fuzz_one(struct str in)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct found found = { 0 };

	switch (fuzz_choice(&in, 3)) {
	case 0:
		(void)srv_read((const unsigned char *)in.p, in.n, &found);
		break;
	case 1:
		if (api_read_nodes(STR("n1.test:8080"), in, &found, &why) < 0)
			CHECK(why.n > 0);
		break;
	default:
		found_add(&found, api_authority(in));
		found_add(&found, in);
	}
	for (size_t i = 0; i < found.n; i++)
		CHECK(hello_address_ok(str_from(found.at[i])));
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	static const char answer[] =
	    "\0\7\x81\x80\0\1\0\1\0\0\0\0\6_corvo\4_tcp\4test\0\0\x21\0\1"
	    "\xc0\x0c\0\x21\0\1\0\0\0\0\0\x10\0\0\0\0\x24\xb8\2n1\4test";
	unsigned how = (unsigned)rng_below(rng, 3);

	buf_putc(out, (char)how);
	if (how == 0)
		buf_append(out, answer, sizeof(answer)); /* with a last \0 */
	else if (how == 1)
		buf_puts(out, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"
			      "{\"nodes\": [{\"id\": \"n1\", \"address\": "
			      "\"n1.test:9400\", \"raft_address\": \"a:1\"}]}");
	else
		buf_puts(out, "http://n1.test:8080/");
}
