/*
 * A node by itself, in a folder of its own, and a snapshot of another node
 * that is ready to take the place of what it has.
 */
#ifndef CORVO_INSTALL_WORLD_H
#define CORVO_INSTALL_WORLD_H

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/entry.h"
#include "cluster/fit.h"
#include "cluster/install.h"
#include "cluster/node_impl.h"
#include "lib/testlib.h"
#include "proto/err.h"
#include "rt/file.h"
#include "util/le.h"

#define OLD_INDEX 40
#define INDEX     1000 /* of the snapshot */
#define APPLIED   999
#define STORE     1003 /* entries its store has applied */
#define TERM      7
#define LATER     12 /* of what follows it */
#define OTHER     2  /* raft id of the leader */

struct world {
	char dir[64];
	struct settings s;
	struct loop *loop;
	struct node *node;
	struct node_install i;
	struct raft_buffer members;
	struct loop_timer *tick;
	bool (*until)(struct world *w);
	uint64_t sent; /* index of the last entry the leader sent */
	/* what the node told */
	unsigned offers;
	struct manifest offered;
	uint64_t offered_term, offered_leader, offered_members_index;
	struct buf offered_members;
	uint64_t applied[16]; /* indexes */
	uint64_t known[16];   /* n->applied when they were */
	unsigned applied_n;
	uint64_t snapshots[4]; /* of make_durable */
	unsigned snapshots_n;
};

static struct buf why = BUF_INIT(0);

/* The last refusal had these words. */
static inline bool said(const char *words)
{
	buf_putc(&why, '\0');
	return strstr(why.p, words) != NULL;
}

/* --- files --- */

static inline const char *in_dir(const struct world *w, const char *name)
{
	static char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", w->dir, name);
	return path;
}

static inline bool has(const struct world *w, const char *name)
{
	return access(in_dir(w, name), F_OK) == 0;
}

static inline void put(const struct world *w, const char *name,
		       struct str bytes)
{
	FILE *f = fopen(in_dir(w, name), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes.p, 1, bytes.n, f), bytes.n);
	assert_int_equal(fclose(f), 0);
}

/* How many names in the folder begin with that. */
static inline unsigned count(const struct world *w, const char *folder,
			     const char *prefix)
{
	DIR *d = opendir(in_dir(w, folder));
	unsigned n = 0;

	for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
		n += e->d_name[0] != '.' &&
		     str_starts(str_from(e->d_name), str_from(prefix));
	if (d != NULL)
		(void)closedir(d);
	return n;
}

/* --- a node, and a snapshot that is ready for it --- */

static inline void put_votes(const struct world *w, uint64_t term,
			     uint64_t vote)
{
	char words[32];

	(void)put_le64(words, 1);
	(void)put_le64(words + 8, 5); /* version */
	(void)put_le64(words + 16, term);
	(void)put_le64(words + 24, vote);
	put(w, "raft/metadata1", str_of(words, sizeof(words)));
}

static inline void make_node(struct world *w, uint64_t term, uint64_t vote)
{
	struct entry_origin o = { .term = 1, .id = 5 };

	history_make(&o.history);
	dir_remove(w->dir);
	assert_int_equal(dir_make(in_dir(w, "raft")), 0);
	assert_int_equal(
	    node_make_log(&w->s, in_dir(w, "raft"), OLD_INDEX, &o, &why), 0);
	put_votes(w, term, vote);
	put(w, "raft/acked", STR("whatever it says"));
	put(w, "raft/open-1", STR(""));
	assert_int_equal(dir_make(in_dir(w, "rocks")), 0);
	put(w, "rocks/OLD", STR("old"));
	assert_int_equal(dir_make(in_dir(w, "checkpoints/snapshot-40")), 0);
}

static inline void make_ready(struct world *w)
{
	assert_int_equal(dir_make(in_dir(w, "incoming/1000")), 0);
	assert_int_equal(dir_make(in_dir(w, "incoming/990")), 0);
	put(w, "incoming/1000/NEW", STR("new"));
	assert_int_equal(install_ready(&w->s, &w->i, &why), 0);
}

static inline void encode_members(struct world *w)
{
	struct raft_configuration c;

	raft_configuration_init(&c);
	assert_int_equal(raft_configuration_add(&c, raft_digest("node-1", 0),
						"127.0.0.1:1", RAFT_VOTER),
			 0);
	assert_int_equal(
	    raft_configuration_add(&c, OTHER, "127.0.0.1:2", RAFT_VOTER), 0);
	assert_int_equal(raft_configuration_encode(&c, &w->members), 0);
	raft_configuration_close(&c);
}

static inline int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct entry_origin o = { .term = TERM, .id = 0xabc };

	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/corvo-install-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	assert_int_equal(settings_load(0, NULL, &w->s, &why), 0);
	w->s.data_dir = w->dir;
	w->s.raft_segment_size = 64 * 1024;
	encode_members(w);
	history_make(&o.history);
	w->i = (struct node_install){
		.manifest = { .index = INDEX,
			      .applied = APPLIED,
			      .origin = o,
			      .store = STORE,
			      .store_origin = o },
		.term = TERM,
		.members_index = 3,
		.members = str_of(w->members.base, w->members.len),
		.leader = OTHER,
	};
	w->i.manifest.store_origin.id = 0xdef;
	w->i.manifest.store_origin.term = LATER;
	*state = w;
	return 0;
}

static inline int teardown(void **state)
{
	struct world *w = *state;

	raft_free(w->members.base);
	buf_done(&w->offered_members);
	settings_done(&w->s);
	dir_remove(w->dir);
	free(w);
	return 0;
}

/* --- the node --- */

static inline int on_apply(void *ctx, uint64_t raft_index,
			   const void *tag _unused_,
			   const struct entry_origin *o, struct str entry)
{
	struct world *w = ctx;

	(void)o;
	(void)entry;
	assert_true(w->applied_n < ARRAY_SIZE(w->applied));
	w->known[w->applied_n] = w->node->applied;
	w->applied[w->applied_n++] = raft_index;
	return 0;
}

static inline int on_before_snapshot(void *ctx)
{
	(void)ctx;
	return 0;
}

static inline int on_make_durable(void *ctx, uint64_t index, struct buf *text)
{
	struct world *w = ctx;

	(void)text;
	w->snapshots[w->snapshots_n++ % ARRAY_SIZE(w->snapshots)] = index;
	return 0;
}

static inline void on_change(void *ctx)
{
	(void)ctx;
}

static inline void on_install(void *ctx, const struct node_install *i)
{
	struct world *w = ctx;

	w->offers++;
	w->offered = i->manifest;
	w->offered_term = i->term;
	w->offered_leader = i->leader;
	w->offered_members_index = i->members_index;
	buf_clear(&w->offered_members);
	buf_put_str(&w->offered_members, i->members);
}

static const struct node_ops ops = {
	.apply = on_apply,
	.before_snapshot = on_before_snapshot,
	.make_durable = on_make_durable,
	.on_change = on_change,
	.on_install = on_install,
};

/* 0, or what the start said. */
static inline int start_node(struct world *w, uint64_t store,
			     const struct entry_origin *o)
{
	struct node_config c = { .settings = &w->s,
				 .store_index = store,
				 .store_origin = *o };

	w->loop = loop_new();
	buf_clear(&why);
	return node_start(w->loop, &c, &ops, w, &w->node, &why);
}

static inline void end_node(struct world *w)
{
	node_free(w->node);
	loop_free(w->loop);
	w->node = NULL;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
