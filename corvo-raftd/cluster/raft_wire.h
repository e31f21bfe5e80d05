/*
 * The messages of libraft 0.15 on a stream, read beside the library. It takes
 * every length in them as it comes: a wrong one costs it any amount of memory,
 * or has it read where nothing is. So the bytes are looked at before it sees
 * them, and a stream that could not be its own is ended.
 *
 *   message: type:8 header length:8, the header, what the header says follows
 *   votes, results, "timeout now": only numbers of 8 bytes
 *   entries: term:8 previous index:8 its term:8 commit:8 entries:8,
 *            for each term:8 type:1 unused:3 length:4, unused:8; their bytes
 *            follow
 *   snapshot: term:8 index:8 its term:8 index of the members:8 length:8,
 *             the members, length:8 unused:8; its bytes follow
 *   members: format:1 servers:8, for each id:8 address role:1, zeros up to 8
 *
 * What is in an entry is the state machine's; but one of members is the
 * library's, and looked at.
 */
#ifndef CORVO_RAFT_WIRE_H
#define CORVO_RAFT_WIRE_H

#include "proto/limits.h"
#include "util/str.h"

#define WIRE_ENTRIES_MAX   (1u << 18) /* in one message */
#define WIRE_MEMBERS_MAX   32         /* of them, those about members */
#define WIRE_PAYLOAD_MAX   (2u * LIMIT_MESSAGE_BYTES)
#define WIRE_SERVERS_MAX   256
#define WIRE_ADDRESS_BYTES 512
#define WIRE_MANIFEST_MAX  (1u << 20)

enum raft_wire_at {
	WIRE_PREAMBLE,
	WIRE_NUMBERS, /* at the begin of a header */
	WIRE_ENTRY,
	WIRE_SERVERS, /* of a snapshot */
	WIRE_SNAPSHOT,
	WIRE_UNUSED, /* at the end of a header with a list */
	WIRE_PAYLOAD,
};

/* How far the members in it were read. */
struct wire_members {
	enum {
		MEMBERS_HEAD,
		MEMBERS_ID,
		MEMBERS_ADDRESS,
		MEMBERS_ROLE,
		MEMBERS_PADDING
	} at;
	char number[9];
	unsigned n;       /* bytes in `number`, or of the address */
	uint64_t servers; /* that have yet to come */
};

struct raft_wire {
	enum raft_wire_at at;
	char part[40]; /* numbers that came, n bytes of them */
	unsigned n;
	uint64_t type;
	uint64_t left;      /* bytes of the header, or of the payload */
	uint64_t entries;   /* that have yet to come */
	uint64_t payload;   /* bytes that follow the header */
	uint64_t conf_left; /* bytes of members */
	struct wire_members members;
	/* Entries about members, by where they are in the payload. */
	struct {
		uint64_t from, bytes;
	} about[WIRE_MEMBERS_MAX];
	unsigned about_n, about_at;
	uint64_t passed; /* bytes of the payload */
};

/*
 * The next bytes of a stream; one begins with zeros in *w. NULL, or a clause
 * about what is wrong: then nothing of them is for the library, nor anything
 * after them.
 */
const char *raft_wire_feed(struct raft_wire *w, struct str bytes);

#endif
