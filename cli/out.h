/*
 * What the user sees on stdout: tables and indented JSON. The values come
 * from a server and may hold anything; what a terminal takes for an order
 * (str_is_order) never reaches it as it is.
 */
#ifndef CORVO_CLI_OUT_H
#define CORVO_CLI_OUT_H

#include "util/buf.h"
#include "util/json.h"

/* Before any other. */
void out_open(void);

/* Appends what a cell shows of one object. */
typedef void out_cell_fn(struct buf *b, struct json object, const char *member);

struct out_column {
	const char *title;
	const char *member; /* of each object */
	bool right;         /* align to the right */
	out_cell_fn *cell;  /* NULL: out_text */
};

/* Texts unescaped, everything else as it is, nothing when absent or null. */
void out_text(struct buf *b, struct json object, const char *member);
/* The same of a text that may be a stack trace: its beginning, in one line. */
void out_brief(struct buf *b, struct json object, const char *member);
void out_time(struct buf *b, struct json object, const char *member);
void out_bytes(struct buf *b, struct json object, const char *member);
void out_seconds(struct buf *b, struct json object, const char *member);

/* One row for each object of a valid JSON array; others are left out. */
void out_table(struct json array, const struct out_column *columns, size_t n);

/* Valid JSON with two spaces of indentation and a newline at the end. */
void out_json(struct str json);
/* The same value without a newline, in as many lines as it has. */
void out_raw_json(struct str json);

/* A number of bytes for people: "512 B", "1.5 MiB". */
void out_put_bytes(struct buf *b, uint64_t bytes);
/* A duration for people, s >= 0: "1.5s", "2h05m", "3d04h". */
void out_put_seconds(struct buf *b, double s);

/* Appends text as buf_put_clean does, with its tabs. */
void out_put_clean(struct buf *b, struct str text);
/* One line of such text. */
void out_line(struct str text);
_printf_(1, 2) void out_linef(const char *fmt, ...);

/* Flushes; false when something could not be written. */
bool out_close(void);
/* Whether that was because nobody reads any more, as after `| head`. */
bool out_is_unread(void);

/* "WHAT: id (status: S)", of the answer to an enqueue. */
void out_new_job(const char *what, struct json reply);

#endif
