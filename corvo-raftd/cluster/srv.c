#include "cluster/srv.h"

#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdlib.h>

#include "proto/err.h"

#define ANSWER_BYTES (64u << 10) /* the largest there is */
#define TRY_S        2           /* for an answer of one server */
#define TRIES        2
#define FIXED_BYTES  6 /* of a record: priority, weight and port */

static void add_record(const ns_msg *m, const ns_rr *rr, struct found *ret)
{
	_cleanup_(buf_done) struct buf address = BUF_INIT(0);
	const unsigned char *p = ns_rr_rdata(*rr);
	char host[NS_MAXDNAME];

	if (ns_rr_type(*rr) != ns_t_srv || ns_rr_rdlen(*rr) <= FIXED_BYTES ||
	    dn_expand(ns_msg_base(*m), ns_msg_end(*m), p + FIXED_BYTES, host,
		      sizeof(host)) < 0)
		return;
	/* a record with the root as its host says that there is none */
	if (host[0] == '\0' || strcmp(host, ".") == 0)
		return;
	buf_printf(&address, "%s:%u", host, ns_get16(p + 4));
	found_add(ret, buf_str(&address));
}

bool srv_read(const unsigned char *answer, size_t n, struct found *ret)
{
	ns_msg m;

	if (n > ANSWER_BYTES || ns_initparse(answer, (int)n, &m) < 0)
		return false;
	for (int i = 0; i < ns_msg_count(m, ns_s_an); i++) {
		ns_rr rr;

		if (ns_parserr(&m, ns_s_an, i, &rr) < 0)
			return false;
		add_record(&m, &rr, ret);
	}
	return true;
}

int srv_look_up(const char *name, struct found *ret, struct buf *why)
{
	struct __res_state state = { 0 };
	unsigned char *answer = xcalloc(1, ANSWER_BYTES);
	const char *bad = NULL;
	int n = res_ninit(&state);

	if (n == 0) {
		state.retrans = TRY_S;
		state.retry = TRIES;
		n = res_nsearch(&state, name, ns_c_in, ns_t_srv, answer,
				ANSWER_BYTES);
		if (n < 0)
			bad = hstrerror(state.res_h_errno);
		res_nclose(&state);
	} else {
		bad = "the resolver cannot be used";
	}
	if (bad == NULL && !srv_read(answer, (size_t)n, ret))
		bad = "the answer cannot be read";
	free(answer);
	if (bad == NULL)
		return 0;
	buf_printf(why, "the SRV records of %s cannot be found (%s)", name,
		   bad);
	return -ERR_NOT_FOUND;
}
