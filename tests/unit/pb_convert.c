/*
 * Converts messages of rpc.def, for test_pb_compare.py. Each line of input is
 * "NAME p|j HEX": protobuf or JSON of that message; each is answered with "ok
 * HEX HEX", the same as protobuf and as JSON, or "no CODE text".
 *
 * With the argument "files": the descriptor of each file, in hex.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rpc/pb/pb.h"

static void put_hex(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		printf("%02x", (unsigned char)s.p[i]);
}

static void read_hex(const char *text, struct buf *out)
{
	unsigned v;

	for (; sscanf(text, "%2x", &v) == 1; text += 2)
		buf_putc(out, (char)v);
}

static const struct pb_desc *find(const char *name)
{
	const struct pb_desc *d;

	for (size_t i = 0; (d = pb_desc_at(i)) != NULL; i++)
		if (strcmp(d->name, name) == 0)
			return d;
	fprintf(stderr, "no message %s\n", name);
	exit(2);
}

static int read_message(const struct msg_reader *rd, const struct pb_desc *d,
			char form, struct str in, void *m)
{
	struct json_error e;

	if (form == 'p')
		return pb_read(rd, d, in, m);
	if (!json_validate(in, LIMIT_JSON_DEPTH, &e))
		return -ERR_PARSE_ERROR;
	return pb_read_json(rd, d, json_root(in), m);
}

static void convert(const char *name, char form, struct str in)
{
	const struct pb_desc *d = find(name);
	struct arena a = ARENA_INIT;
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	_cleanup_(buf_done) struct buf out = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&out);
	struct msg_reader rd = { .a = &a, .why = &why };
	void *m = arena_zalloc(&a, d->msg->size);
	int r = read_message(&rd, d, form, in, m);

	if (r < 0) {
		printf("no %s %.*s\n", err_code(-r), STR_ARG(buf_str(&why)));
	} else {
		pb_write(d, m, &out);
		printf("ok ");
		put_hex(buf_str(&out));
		buf_clear(&out);
		pb_write_json(d, m, &w);
		printf(" ");
		put_hex(buf_str(&out));
		printf("\n");
	}
	arena_done(&a);
}

int main(int argc, char **argv)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	char name[64], form;
	char *line = NULL;
	size_t cap = 0;
	int at;

	if (argc == 2 && strcmp(argv[1], "files") == 0) {
		for (size_t i = 0; pb_file_at(i) != NULL; i++) {
			buf_clear(&b);
			pb_file_bytes(pb_file_at(i), pb_file_at(i), &b);
			put_hex(buf_str(&b));
			printf("\n");
		}
		return 0;
	}
	while (getline(&line, &cap, stdin) > 0) {
		if (sscanf(line, "%63s %c %n", name, &form, &at) != 2)
			return 2;
		buf_clear(&b);
		read_hex(line + at, &b);
		convert(name, form, buf_str(&b));
	}
	free(line);
	return 0;
}
