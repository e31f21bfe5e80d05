/*
 * The files beside the log: by which number the cluster knows this node.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cluster/node_impl.h"
#include "proto/err.h"
#include "rt/file.h"

#define NODE_FILE_BYTES 4096

/* "NAME NUMBER" and the end of the line. */
static bool node_file_parse(struct str text, struct str *ret_name,
			    uint64_t *ret_id)
{
	struct str line, number, rest;

	return str_split(text, '\n', &line, &rest) && rest.n == 0 &&
	       str_split(line, ' ', ret_name, &number) && ret_name->n > 0 &&
	       str_parse_u64(number, ret_id) && *ret_id != 0;
}

static int node_file_refuse(const char *path, const char *data_dir,
			    struct str text, struct buf *why)
{
	struct str name;
	uint64_t id;

	if (node_file_parse(text, &name, &id))
		buf_printf(why,
			   "%s belongs to node %.*s; start with that --node-id "
			   "or use another --data-dir",
			   data_dir, STR_ARG(name));
	else
		buf_printf(why,
			   "the file %s is damaged: it should hold one line, "
			   "the node's name and a number; put it back from a "
			   "backup, or, when you are sure which node this data "
			   "belongs to, remove it and start with that "
			   "--node-id",
			   path);
	return -ERR_CONFLICT;
}

/*
 * Whoever begins a cluster has the number of its name. Who joins one makes a
 * new number: with an empty data directory it may be a node that has voted
 * before and does not know it any more, so it must not be taken for that.
 */
static raft_id make_id(const struct settings *s, bool joins)
{
	uint64_t random = 0;

	if (joins)
		rng_system(&random, sizeof(random));
	return raft_digest(s->node_id, random);
}

static void node_file_path(const struct settings *s, struct buf *ret)
{
	buf_printf(ret, "%s/node", s->data_dir);
	buf_putc(ret, '\0');
}

static int node_file_write(const struct settings *s, uint64_t id,
			   struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	int r;

	node_file_path(s, &path);
	buf_printf(&text, "%s %" PRIu64 "\n", s->node_id, id);
	r = file_write(path.p, buf_str(&text));
	if (r == 0)
		return 0;
	buf_printf(why, "cannot write %s: %s", path.p, strerror(-r));
	return -ERR_INTERNAL_ERROR;
}

/* The file is written before the log is begun: it was there once. */
static bool node_has_log(const struct settings *s)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct dirent *e;
	bool found = false;
	DIR *dir;

	buf_printf(&path, "%s/raft", s->data_dir);
	buf_putc(&path, '\0');
	dir = opendir(path.p);
	while (dir != NULL && !found && (e = readdir(dir)) != NULL)
		found = e->d_name[0] != '.';
	if (dir != NULL)
		(void)closedir(dir);
	return found;
}

/*
 * A data directory belongs to one node name for ever: the raft id is made once
 * and the log refers to it. Without the file, but with a log, it can only be
 * that of one that began a cluster: node_confirm looks whether it is.
 */
int node_identity(const struct settings *s, bool joins, uint64_t *ret_id,
		  struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf old = BUF_INIT(0);
	struct str name;
	uint64_t id;
	bool has_log;
	int r;

	node_file_path(s, &path);
	r = file_read(path.p, NODE_FILE_BYTES, &old);
	if (r == 0 && node_file_parse(buf_str(&old), &name, &id) &&
	    str_eq(name, str_from(s->node_id))) {
		*ret_id = id;
		return 0;
	}
	if (r == 0 || r == -EFBIG)
		return node_file_refuse(path.p, s->data_dir, buf_str(&old),
					why);
	if (r != -ENOENT) {
		buf_printf(why, "cannot read %s: %s", path.p, strerror(-r));
		return -ERR_INTERNAL_ERROR;
	}
	has_log = node_has_log(s);
	*ret_id = make_id(s, joins && !has_log);
	return has_log ? 0 : node_file_write(s, *ret_id, why);
}

/* With a number that is not its own it would be another node to the others,
 * with the votes this one gave forgotten. */
int node_confirm(struct node *n, const struct settings *s, struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct node_server found;

	node_file_path(s, &path);
	if (access(path.p, F_OK) == 0)
		return 0;
	if (node_server_find(n, n->raft.id, &found))
		return node_file_write(s, n->raft.id, why);
	buf_printf(why,
		   "the file %s is missing: it holds the number by which the "
		   "cluster knows this node, and the log does not know it by "
		   "the name %s; put the file back from a backup, or start "
		   "with an empty --data-dir and --join=host:port, as a node "
		   "with a new disk does",
		   path.p, s->node_id);
	return -ERR_CONFLICT;
}

int node_folder(const struct settings *s, struct buf *ret, struct buf *why)
{
	int r;

	buf_printf(ret, "%s/raft", s->data_dir);
	buf_putc(ret, '\0');
	r = dir_make(ret->p);
	if (r == 0)
		return 0;
	buf_printf(why, "cannot make %s: %s", ret->p, strerror(-r));
	return -ERR_INTERNAL_ERROR;
}
