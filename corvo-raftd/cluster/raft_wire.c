#include "cluster/raft_wire.h"

#include <string.h>

#include "util/base.h"
#include "util/le.h"

/* As the library numbers them. */
enum {
	TYPE_APPEND = 1,
	TYPE_APPEND_RESULT,
	TYPE_VOTE,
	TYPE_VOTE_RESULT,
	TYPE_SNAPSHOT,
	TYPE_TIMEOUT_NOW
};
enum { ENTRY_COMMAND = 1, ENTRY_BARRIER, ENTRY_MEMBERS };

#define PREAMBLE_BYTES 16
#define APPEND_BYTES   40 /* before the entries */
#define ENTRY_BYTES    16
#define SNAPSHOT_BYTES 40 /* before the members */
#define UNUSED_BYTES   8
/* of a snapshot's header, beside the members */
#define SNAPSHOT_REST      (SNAPSHOT_BYTES + 8 + UNUSED_BYTES)
#define MEMBERS_FORMAT     1
#define MEMBERS_HEAD_BYTES 9
#define MEMBERS_BYTES_MAX \
	(MEMBERS_HEAD_BYTES + WIRE_SERVERS_MAX * (WIRE_ADDRESS_BYTES + 9) + 8)
#define ROLE_MAX 2

/* Takes bytes until `want` of them are in `to`, which has *n. */
static bool take_bytes(char *to, unsigned *n, struct str *s, unsigned want)
{
	size_t more = MIN((size_t)(want - *n), s->n);

	memcpy(to + *n, s->p, more);
	*n += (unsigned)more;
	*s = str_skip(*s, more);
	if (*n < want)
		return false;
	*n = 0;
	return true;
}

static bool collect(struct raft_wire *w, struct str *s, unsigned want)
{
	return take_bytes(w->part, &w->n, s, want);
}

static uint64_t number(const struct raft_wire *w, unsigned at)
{
	return get_le64(w->part + at);
}

/* --- members --- */

static bool take_number(struct wire_members *m, struct str *s, unsigned want)
{
	return take_bytes(m->number, &m->n, s, want);
}

static void next_server(struct wire_members *m)
{
	m->at = m->servers > 0 ? MEMBERS_ID : MEMBERS_PADDING;
}

static bool take_head(struct wire_members *m, struct str *s)
{
	if (!take_number(m, s, MEMBERS_HEAD_BYTES))
		return true;
	m->servers = get_le64(m->number + 1);
	next_server(m);
	return m->number[0] == MEMBERS_FORMAT && m->servers <= WIRE_SERVERS_MAX;
}

static bool take_address(struct wire_members *m, struct str *s)
{
	const char *end = memchr(s->p, '\0', s->n);
	size_t n = end != NULL ? (size_t)(end - s->p) + 1 : s->n;

	m->n += (unsigned)n;
	*s = str_skip(*s, n);
	if (m->n > WIRE_ADDRESS_BYTES)
		return false;
	if (end != NULL) {
		m->n = 0;
		m->at = MEMBERS_ROLE;
	}
	return true;
}

static bool take_role(struct wire_members *m, struct str *s)
{
	unsigned char role = (unsigned char)s->p[0];

	*s = str_skip(*s, 1);
	m->servers--;
	next_server(m);
	return role <= ROLE_MAX;
}

static bool take_padding(struct wire_members *m, struct str *s)
{
	m->n += (unsigned)s->n;
	*s = str_skip(*s, s->n);
	return m->n < sizeof(uint64_t);
}

static bool members_feed(struct wire_members *m, struct str s)
{
	bool ok = true;

	while (ok && s.n > 0)
		switch (m->at) {
		case MEMBERS_HEAD:
			ok = take_head(m, &s);
			break;
		case MEMBERS_ID:
			if (take_number(m, &s, sizeof(uint64_t)))
				m->at = MEMBERS_ADDRESS;
			break;
		case MEMBERS_ADDRESS:
			ok = take_address(m, &s);
			break;
		case MEMBERS_ROLE:
			ok = take_role(m, &s);
			break;
		case MEMBERS_PADDING:
			ok = take_padding(m, &s);
			break;
		}
	return ok;
}

/* At their last byte: nothing is missing. Ready for others after it. */
static bool members_end(struct wire_members *m)
{
	bool ok = m->at == MEMBERS_PADDING;

	*m = (struct wire_members){ 0 };
	return ok;
}

static const char bad_members[] = "members in it cannot be read";

/* --- the header --- */

/* Bytes that a header without a list has; both the older and later form. */
static bool is_fixed(uint64_t type, uint64_t bytes)
{
	switch (type) {
	case TYPE_APPEND_RESULT:
		return bytes == 24 || bytes == 32;
	case TYPE_VOTE:
		return bytes == 32 || bytes == 40;
	case TYPE_VOTE_RESULT:
		return bytes == 16 || bytes == 24;
	case TYPE_TIMEOUT_NOW:
		return bytes == 24;
	default:
		return false;
	}
}

static const char *on_preamble(struct raft_wire *w)
{
	uint64_t bytes = number(w, 8);

	w->type = number(w, 0);
	w->left = bytes;
	w->at = WIRE_NUMBERS;
	w->payload = w->passed = 0;
	w->about_n = w->about_at = 0;
	if (w->type == TYPE_APPEND)
		return bytes >= APPEND_BYTES + UNUSED_BYTES &&
			       bytes <= APPEND_BYTES + UNUSED_BYTES +
					    WIRE_ENTRIES_MAX * ENTRY_BYTES
			   ? NULL
			   : "the length of a list of entries cannot be";
	if (w->type == TYPE_SNAPSHOT)
		return bytes >= SNAPSHOT_REST + MEMBERS_HEAD_BYTES &&
			       bytes <= SNAPSHOT_REST + MEMBERS_BYTES_MAX
			   ? NULL
			   : "the length of a snapshot's header cannot be";
	return is_fixed(w->type, bytes) ? NULL
					: "it has a message of no known kind";
}

static void end_header(struct raft_wire *w)
{
	w->at = w->payload > 0 ? WIRE_PAYLOAD : WIRE_PREAMBLE;
	w->left = w->payload;
}

static const char *on_append(struct raft_wire *w)
{
	w->entries = number(w, 32);
	if (w->entries > WIRE_ENTRIES_MAX ||
	    w->left != APPEND_BYTES + UNUSED_BYTES + w->entries * ENTRY_BYTES)
		return "a list of entries is not as long as it says";
	w->at = w->entries == 0 ? WIRE_UNUSED : WIRE_ENTRY;
	return NULL;
}

/* The library takes the next entry from a multiple of 8 on. */
static const char *on_entry(struct raft_wire *w)
{
	unsigned char type = (unsigned char)w->part[8];
	uint64_t bytes = get_le32(w->part + 12);

	if (type < ENTRY_COMMAND || type > ENTRY_MEMBERS || bytes % 8 != 0 ||
	    bytes == 0)
		return "it has an entry of no known kind or length";
	if (type == ENTRY_MEMBERS) {
		if (w->about_n == WIRE_MEMBERS_MAX || bytes > MEMBERS_BYTES_MAX)
			return "it has too much about members in one message";
		w->about[w->about_n].from = w->payload;
		w->about[w->about_n++].bytes = bytes;
	}
	w->payload += bytes;
	if (w->payload > WIRE_PAYLOAD_MAX)
		return "it has a message that is too large";
	if (--w->entries == 0)
		w->at = WIRE_UNUSED;
	return NULL;
}

static const char *on_snapshot(struct raft_wire *w)
{
	w->conf_left = number(w, 32);
	if (w->conf_left != w->left - SNAPSHOT_REST)
		return "a snapshot's header is not as long as it says";
	w->at = WIRE_SERVERS;
	return NULL;
}

static const char *on_snapshot_bytes(struct raft_wire *w)
{
	w->payload = number(w, 0);
	if (w->payload == 0 || w->payload > WIRE_MANIFEST_MAX)
		return "it has a snapshot that is too large";
	w->at = WIRE_UNUSED;
	return NULL;
}

/* --- the bytes that follow --- */

static const char *feed_snapshot_members(struct raft_wire *w, struct str *s)
{
	size_t n = (size_t)MIN(w->conf_left, (uint64_t)s->n);
	bool ok = members_feed(&w->members, str_of(s->p, n));

	*s = str_skip(*s, n);
	w->conf_left -= n;
	if (w->conf_left == 0) {
		ok = members_end(&w->members) && ok;
		w->at = WIRE_SNAPSHOT;
	}
	return ok ? NULL : bad_members;
}

/* Of n bytes of the payload, those that are about members. */
static bool feed_members(struct raft_wire *w, const char *p, uint64_t n)
{
	uint64_t at = w->passed, end = w->passed + n;
	bool ok = true;

	while (ok && w->about_at < w->about_n) {
		uint64_t from = w->about[w->about_at].from;
		uint64_t upto = from + w->about[w->about_at].bytes;
		uint64_t a = MAX(from, at), b = MIN(upto, end);

		if (a >= b)
			break;
		ok = members_feed(&w->members,
				  str_of(p + (a - at), (size_t)(b - a)));
		if (b < upto)
			break;
		ok = members_end(&w->members) && ok;
		w->about_at++;
	}
	return ok;
}

static const char *feed_payload(struct raft_wire *w, struct str *s)
{
	size_t n = (size_t)MIN(w->left, (uint64_t)s->n);
	bool ok = feed_members(w, s->p, n);

	*s = str_skip(*s, n);
	w->passed += n;
	w->left -= n;
	if (w->left == 0)
		w->at = WIRE_PREAMBLE;
	return ok ? NULL : bad_members;
}

/* The numbers a header begins with, or all that it has. */
static const char *feed_numbers(struct raft_wire *w, struct str *s)
{
	bool is_list = w->type == TYPE_APPEND || w->type == TYPE_SNAPSHOT;

	if (!collect(w, s, is_list ? APPEND_BYTES : (unsigned)w->left))
		return NULL;
	if (w->type == TYPE_APPEND)
		return on_append(w);
	if (w->type == TYPE_SNAPSHOT)
		return on_snapshot(w);
	end_header(w);
	return NULL;
}

static const char *feed_one(struct raft_wire *w, struct str *s)
{
	switch (w->at) {
	case WIRE_PREAMBLE:
		return collect(w, s, PREAMBLE_BYTES) ? on_preamble(w) : NULL;
	case WIRE_NUMBERS:
		return feed_numbers(w, s);
	case WIRE_ENTRY:
		return collect(w, s, ENTRY_BYTES) ? on_entry(w) : NULL;
	case WIRE_SERVERS:
		return feed_snapshot_members(w, s);
	case WIRE_SNAPSHOT:
		return collect(w, s, 8) ? on_snapshot_bytes(w) : NULL;
	case WIRE_UNUSED:
		if (collect(w, s, UNUSED_BYTES))
			end_header(w);
		return NULL;
	case WIRE_PAYLOAD:
		return feed_payload(w, s);
	}
	CHECK(false);
}

const char *raft_wire_feed(struct raft_wire *w, struct str bytes)
{
	const char *why = NULL;

	while (why == NULL && bytes.n > 0)
		why = feed_one(w, &bytes);
	return why;
}
