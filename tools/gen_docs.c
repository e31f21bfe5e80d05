/*
 * Writes docs/reference from the tables, or compares it with them:
 *
 *	gen_docs DIR          writes what has changed
 *	gen_docs --check DIR  exit 1 and names of the pages that have
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/openapi.h"
#include "gen.h"
#include "rpc/pb/pb.h"

#define PATH_BYTES 4096

/* openapi_write makes one line; a file is for reading. */
static void indent(struct buf *b, int depth)
{
	buf_putc(b, '\n');
	for (int i = 0; i < depth; i++)
		buf_puts(b, "  ");
}

static void gen_openapi(struct buf *b)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(0);
	bool in_text = false;
	int depth = 0;

	openapi_write(&line);
	for (size_t i = 0; i < line.n; i++) {
		char c = line.p[i];

		if (c == '"' && (i == 0 || line.p[i - 1] != '\\'))
			in_text = !in_text;
		if (!in_text && (c == '}' || c == ']'))
			indent(b, --depth);
		buf_putc(b, c);
		if (in_text)
			continue;
		if (c == '{' || c == '[')
			indent(b, ++depth);
		else if (c == ',')
			indent(b, depth);
		else if (c == ':')
			buf_putc(b, ' ');
	}
	buf_putc(b, '\n');
}

/* For those who make clients of it. */
static void gen_proto(struct buf *b)
{
	pb_file_text(&pb_file_worker, b);
}

static const struct {
	const char *name;
	void (*write)(struct buf *b);
} pages[] = {
	{ "http-api.md", gen_http_api }, { "ops.md", gen_ops },
	{ "queries.md", gen_queries },   { "events.md", gen_events },
	{ "errors.md", gen_errors },     { "settings.md", gen_settings },
	{ "metrics.md", gen_metrics },   { "messages.md", gen_messages },
	{ "openapi.json", gen_openapi }, { "worker.proto", gen_proto },
};

/* A file that is not there reads as empty. */
static int read_page(const char *path, struct buf *ret)
{
	FILE *f = fopen(path, "re");
	char part[4096];
	size_t n;
	int bad;

	if (f == NULL)
		return errno == ENOENT ? 0 : -1;
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		buf_append(ret, part, n);
	bad = ferror(f);
	fclose(f);
	return bad ? -1 : 0;
}

static int write_page(const char *path, struct str text)
{
	FILE *f = fopen(path, "we");
	bool ok;

	if (f == NULL)
		return -1;
	ok = fwrite(text.p, 1, text.n, f) == text.n;
	ok = fclose(f) == 0 && ok;
	return ok ? 0 : -1;
}

/* 0, 1 when the page differs (and check is set), -1 on failure. */
static int do_page(size_t i, const char *dir, bool check)
{
	_cleanup_(buf_done) struct buf want = BUF_INIT(0);
	_cleanup_(buf_done) struct buf have = BUF_INIT(0);
	char path[PATH_BYTES];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, pages[i].name) >=
	    sizeof(path)) {
		fprintf(stderr, "%s: the path is too long\n", dir);
		return -1;
	}
	pages[i].write(&want);
	if (read_page(path, &have) < 0) {
		fprintf(stderr, "cannot read %s: %m\n", path);
		return -1;
	}
	if (str_eq(buf_str(&want), buf_str(&have)))
		return 0;
	if (check) {
		fprintf(stderr, "%s is not what the tables say\n", path);
		return 1;
	}
	if (write_page(path, buf_str(&want)) < 0) {
		fprintf(stderr, "cannot write %s: %m\n", path);
		return -1;
	}
	printf("%s\n", path);
	return 0;
}

int main(int argc, char **argv)
{
	bool check = argc == 3 && strcmp(argv[1], "--check") == 0;
	int status = 0;

	if (argc != 2 && !check) {
		fprintf(stderr, "usage: gen_docs [--check] DIR\n");
		return 2;
	}
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
		int r = do_page(i, argv[argc - 1], check);

		if (r < 0)
			return 2;
		status |= r;
	}
	if (status != 0)
		fprintf(stderr, "run: cmake --build BUILD --target docs\n");
	return status;
}
