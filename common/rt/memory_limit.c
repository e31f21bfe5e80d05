/*
 * See memory_limit.h. A limit of any group above ours is one for us too, so
 * the tree is walked from our group up. In a container the path in
 * /proc/self/cgroup may be the machine's while only our part of the tree is
 * mounted: folders that are not there are passed, and the walk ends at the
 * mounted root, whose limit is the container's.
 */
#include "rt/memory_limit.h"

#include <stdio.h>
#include <sys/resource.h>

#include "rt/file.h"

#define CGROUP_BYTES (64u << 10) /* /proc/self/cgroup: a line per hierarchy */
#define FILE_BYTES   4096u       /* of all others */

static void take(struct memory_limit *m, uint64_t bytes, const char *what,
		 struct str name)
{
	if (bytes == 0 || (m->bytes != 0 && bytes >= m->bytes))
		return;
	m->bytes = bytes;
	(void)snprintf(m->from, sizeof(m->from), "%s%.*s", what, STR_ARG(name));
}

/* "max" and what else is no number is no limit. */
static void take_file(struct memory_limit *m, const char *mount,
		      struct str group, const char *file)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	uint64_t v;

	buf_printf(&path, "%s%.*s/%s", mount, STR_ARG(group), file);
	buf_putc(&path, '\0');
	if (file_read(path.p, FILE_BYTES, &text) == 0 &&
	    str_parse_u64(str_trim(buf_str(&text)), &v))
		take(m, v, "the control group ",
		     group.n > 0 ? group : STR("/"));
}

static struct str parent(struct str group)
{
	do
		group.n--;
	while (group.n > 0 && group.p[group.n] != '/');
	return group;
}

static void walk_up(struct memory_limit *m, const char *root, const char *tree,
		    struct str group, const char *const files[2])
{
	_cleanup_(buf_done) struct buf mount = BUF_INIT(0);

	buf_printf(&mount, "%s/sys/fs/cgroup%s", root, tree);
	buf_putc(&mount, '\0');
	for (;;) {
		for (unsigned i = 0; i < 2 && files[i] != NULL; i++)
			take_file(m, mount.p, group, files[i]);
		if (group.n == 0)
			return;
		group = parent(group);
	}
}

/* Lines are "NUMBER:CONTROLLERS:PATH"; version 2 is number 0 without any. */
static void take_line(struct memory_limit *m, const char *root, struct str line)
{
	static const char *const v1[2] = { "memory.limit_in_bytes", NULL };
	static const char *const v2[2] = { "memory.max", "memory.high" };
	struct str number, rest, controllers, path, one;

	if (!str_split(line, ':', &number, &rest) ||
	    !str_split(rest, ':', &controllers, &path) ||
	    !str_starts(path, STR("/")))
		return;
	if (path.n == 1)
		path.n = 0;
	if (controllers.n == 0 && str_is(number, "0")) {
		walk_up(m, root, "", path, v2);
		walk_up(m, root, "/unified", path, v2);
	}
	while (controllers.n > 0) {
		(void)str_split(controllers, ',', &one, &controllers);
		if (str_is(one, "memory"))
			walk_up(m, root, "/memory", path, v1);
	}
}

static bool read_under(const char *root, const char *name, size_t max,
		       struct buf *ret)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	buf_printf(&path, "%s%s", root, name);
	buf_putc(&path, '\0');
	return file_read(path.p, max, ret) == 0;
}

/* "MemTotal:       24682992 kB", the first line. */
static void take_machine(struct memory_limit *m, const char *root)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct str word, rest;
	uint64_t kb;

	if (!read_under(root, "/proc/meminfo", FILE_BYTES, &b) ||
	    !str_split(buf_str(&b), ':', &word, &rest) ||
	    !str_is(word, "MemTotal"))
		return;
	(void)str_split(rest, '\n', &rest, &word);
	(void)str_split(str_trim(rest), ' ', &rest, &word);
	if (str_parse_u64(rest, &kb) && kb <= UINT64_MAX >> 10)
		take(m, kb << 10, "the machine", STR_NULL);
}

void memory_limit_find(const char *root, uint64_t address_space,
		       struct memory_limit *ret)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct str text, line;

	*ret = (struct memory_limit){ 0 };
	take_machine(ret, root);
	if (read_under(root, "/proc/self/cgroup", CGROUP_BYTES, &b)) {
		text = buf_str(&b);
		while (text.n > 0) {
			(void)str_split(text, '\n', &line, &text);
			take_line(ret, root, line);
		}
	}
	if (address_space != UINT64_MAX)
		take(ret, address_space, "RLIMIT_AS", STR_NULL);
}

void memory_limit_read(struct memory_limit *ret)
{
	struct rlimit r = { .rlim_cur = RLIM_INFINITY };

	(void)getrlimit(RLIMIT_AS, &r);
	memory_limit_find(
	    "", r.rlim_cur == RLIM_INFINITY ? UINT64_MAX : r.rlim_cur, ret);
}
