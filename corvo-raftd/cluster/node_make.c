/*
 * A log made by hand: a snapshot and nothing after it, as the library would
 * have left it. See node_make_log in node.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster/node_impl.h"
#include "proto/err.h"
#include "rt/file.h"
#include "util/clock.h"
#include "util/crc32.h"
#include "util/le.h"

#define FORMAT 1

static void put_word(struct buf *b, uint64_t v)
{
	char word[sizeof(v)];

	(void)put_le64(word, v);
	buf_append(b, word, sizeof(word));
}

static int write_file(const char *dir, const char *name, const struct buf *b,
		      struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int r;

	buf_printf(&path, "%s/%s", dir, name);
	buf_putc(&path, '\0');
	r = file_write(path.p, buf_str(b));
	if (r == 0)
		return 0;
	buf_printf(why, "cannot write %s: %s", path.p, strerror(-r));
	return r == -ENOSPC ? -ERR_STORAGE_FULL : -ERR_INTERNAL_ERROR;
}

/* The members: this node alone. */
static int put_members(const struct settings *s, raft_id id, struct buf *ret)
{
	struct raft_configuration conf;
	struct raft_buffer b;
	int r;

	raft_configuration_init(&conf);
	r = raft_configuration_add(&conf, id, settings_advertise(s),
				   RAFT_VOTER);
	if (r == 0)
		r = raft_configuration_encode(&conf, &b);
	raft_configuration_close(&conf);
	if (r != 0)
		return -ERR_INTERNAL_ERROR;
	buf_append(ret, b.base, b.len);
	raft_free(b.base);
	return 0;
}

static void put_meta(const struct node_install *i, struct buf *ret)
{
	_cleanup_(buf_done) struct buf rest = BUF_INIT(0);

	put_word(&rest, i->members_index);
	put_word(&rest, i->members.n);
	buf_put_str(&rest, i->members);
	put_word(ret, FORMAT);
	put_word(ret, crc32_add(0, buf_str(&rest)));
	buf_put_str(ret, buf_str(&rest));
}

/* The .meta file first: alone it is no snapshot. */
int node_make_snapshot(const char *dir, const struct node_install *i,
		       struct buf *why)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	char name[128];
	int n =
	    snprintf(name, sizeof(name),
		     "snapshot-%" PRIu64 "-%" PRIu64 "-%" PRIu64 ".meta",
		     i->term, i->manifest.index, clock_wall_ns() / NS_PER_MS);
	int r;

	put_meta(i, &b);
	r = write_file(dir, name, &b, why);
	if (r < 0)
		return r;
	name[n - (int)strlen(".meta")] = '\0';
	buf_clear(&b);
	manifest_put(&b, &i->manifest);
	return write_file(dir, name, &b, why);
}

int node_make_term(const char *dir, uint64_t term, struct buf *why)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	put_word(&b, FORMAT);
	put_word(&b, 1); /* version */
	put_word(&b, term);
	put_word(&b, 0); /* vote */
	return write_file(dir, "metadata1", &b, why);
}

int node_make_log(const struct settings *s, const char *dir, uint64_t index,
		  const struct entry_origin *o, struct buf *why)
{
	_cleanup_(buf_done) struct buf members = BUF_INIT(0);
	struct node_install i = {
		.manifest = { .index = index, .applied = index, .origin = *o },
		.term = o->term,
		.members_index = index,
	};
	uint64_t id;
	int r = node_identity(s, false, &id, why);

	if (r < 0)
		return r;
	r = put_members(s, id, &members);
	if (r < 0) {
		buf_puts(why, "cannot describe the cluster");
		return r;
	}
	i.members = buf_str(&members);
	r = node_make_snapshot(dir, &i, why);
	return r < 0 ? r : node_make_term(dir, o->term, why);
}
