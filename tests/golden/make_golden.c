/*
 * Writes the golden files of the version that is being made, in the folder
 * `next`; those of released ones are only read.
 *
 *	make_golden tests/golden
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "golden.h"

#define PATH_BYTES 512

static int failed(const char *what)
{
	perror(what);
	return 1;
}

static int write_next(const char *next)
{
	struct golden_lines log = { 0 }, store = { 0 }, half = { 0 };
	struct golden g;
	int r = 0;

	golden_init(&g, kv_mem_new());
	golden_script(&g, &log);
	golden_dump(g.kv, &store);
	golden_done(&g);
	golden_init(&g, kv_mem_new());
	golden_replay(&g, &log, 0, log.n / 2);
	golden_dump(g.kv, &half);
	golden_done(&g);
	if (!golden_write(next, "log", &log) ||
	    !golden_write(next, "store", &store) ||
	    !golden_write(next, "half", &half))
		r = failed(next);
	golden_lines_done(&log);
	golden_lines_done(&store);
	golden_lines_done(&half);
	return r;
}

/* What has become of a released one. */
static int write_from(const char *root, const char *next, const char *version)
{
	struct golden_lines from = { 0 };
	char dir[PATH_BYTES], name[PATH_BYTES];
	int r = 0;

	(void)snprintf(dir, sizeof(dir), "%s/%s", root, version);
	(void)snprintf(name, sizeof(name), "from-%s", version);
	if (!golden_from(dir, &from))
		r = failed(dir);
	else if (!golden_write(next, name, &from))
		r = failed(name);
	golden_lines_done(&from);
	return r;
}

int main(int argc, char **argv)
{
	char next[PATH_BYTES];
	struct dirent *e;
	DIR *d;
	int r;

	if (argc != 2) {
		fprintf(stderr, "usage: make_golden DIRECTORY\n");
		return 2;
	}
	(void)snprintf(next, sizeof(next), "%s/next", argv[1]);
	r = write_next(next);
	d = opendir(argv[1]);
	if (d == NULL)
		return failed(argv[1]);
	while (r == 0 && (e = readdir(d)) != NULL)
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9')
			r = write_from(argv[1], next, e->d_name);
	(void)closedir(d);
	return r;
}
