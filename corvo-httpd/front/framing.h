/*
 * Where requests begin and end in the bytes of a connection (RFC 9112), and
 * whether they are well-formed. The server library forgives much: a name with
 * a space behind it is another header to it, and what another proxy took for
 * a body becomes a request. So it is shown nothing that has not passed here.
 *
 * Strict where the RFC leaves a choice: a line ends with CR LF, nothing is
 * folded, a length is told once. Bytes are looked at as they come and are not
 * kept: a head that never ends costs no memory. No I/O.
 */
#ifndef CORVO_FRAMING_H
#define CORVO_FRAMING_H

#include "util/base.h"

#define FRAMING_NAME_MAX  18 /* of a header that means something here */
#define FRAMING_VALUE_MAX 24

enum framing_state {
	FRAMING_START, /* between requests */
	FRAMING_START_LF,
	FRAMING_METHOD,
	FRAMING_TARGET,
	FRAMING_VERSION,
	FRAMING_LINE_LF,
	FRAMING_NAME_START,
	FRAMING_NAME,
	FRAMING_VALUE,
	FRAMING_VALUE_LF,
	FRAMING_HEAD_LF,
	FRAMING_BODY,
	FRAMING_CHUNK_SIZE,
	FRAMING_CHUNK_EXT,
	FRAMING_CHUNK_LF,
	FRAMING_CHUNK_DATA,
	FRAMING_DATA_CR,
	FRAMING_DATA_LF,
	FRAMING_STATES,
};

/* What is asked for, and of whom. */
enum framing_target {
	FRAMING_PATH,      /* /path?query */
	FRAMING_STAR,      /* the server itself */
	FRAMING_SCHEME,    /* http://host/path, the first bytes of it */
	FRAMING_AUTHORITY, /* the host of it */
};

/* How far an extension of a chunk is: ;name=value */
enum framing_ext {
	FRAMING_EXT_NONE,
	FRAMING_EXT_NAME_START,
	FRAMING_EXT_NAME,
	FRAMING_EXT_VALUE_START,
	FRAMING_EXT_VALUE,
	FRAMING_EXT_QUOTED,
	FRAMING_EXT_ESCAPED,
	FRAMING_EXT_UNQUOTED, /* behind the closing quote */
};

/* What a header is to the framing. */
enum framing_header {
	FRAMING_OTHER,
	FRAMING_HOST,
	FRAMING_LENGTH,
	FRAMING_CODING,
	FRAMING_COOKIE,
};

/* Zeroed: a connection on which nothing has come yet. */
struct framing {
	enum framing_state state;
	uint64_t whole; /* requests that have come completely */

	/* of the request that is coming */
	size_t head_n;    /* bytes, as LIMIT_HEAD_BYTES counts them */
	size_t target_n;  /* of the request line */
	size_t line_n;    /* of the word or the chunk line that is coming */
	uint64_t left;    /* bytes of the body, or of the chunk */
	unsigned empty_n; /* lines before it */
	enum framing_target target;
	enum framing_header header;
	enum framing_ext ext;
	char name[FRAMING_NAME_MAX];
	char value[FRAMING_VALUE_MAX];
	size_t name_n, value_n;
	bool value_over; /* white space has come behind it */
	bool is_1_0, has_query;
	bool has_host, has_length, is_chunked, in_trailer;
	bool is_head_good; /* it is refused for its length alone */

	const char *why; /* a sentence about what was refused */
};

/*
 * Takes the next bytes. 0, or -ERR_ of what the request that is coming gets;
 * nothing more may be fed then. ret_good: so many of the bytes belong to
 * requests that are whole; after an error to those before the bad one, or to
 * its head if that is good: who reads it knows whom to tell in which form.
 */
int framing_feed(struct framing *f, const void *bytes, size_t n,
		 size_t *ret_good);

#endif
