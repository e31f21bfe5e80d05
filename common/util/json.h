/*
 * Strict JSON (RFC 8259): one validating pass over the whole text, then
 * navigation by raw slices of the validated bytes, and a writer.
 *
 * Reading: call json_validate on hostile text first. The other readers
 * expect validated text and CHECK that expectation cheaply.
 */
#ifndef CORVO_JSON_H
#define CORVO_JSON_H

#include "util/arena.h"
#include "util/buf.h"

enum json_type {
	JSON_NULL,
	JSON_BOOL,
	JSON_NUMBER,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
};

struct json_error {
	size_t pos;       /* byte offset of the first bad byte */
	const char *text; /* static, e.g. "expected ':'" */
};

/*
 * One value, white space around it, nothing after it; well-formed UTF-8;
 * \u escapes with paired surrogates; nesting at most depth_max. False fills
 * *ret_err. Uses no memory that grows with the input.
 */
bool json_validate(struct str text, unsigned depth_max,
		   struct json_error *ret_err);

/* A value inside validated text: raw bytes without surrounding space. */
struct json {
	struct str raw;
};

struct json json_root(struct str validated);
enum json_type json_type_of(struct json v);
const char *json_type_name(enum json_type t); /* "null", "a number", ... */

/* Walks the members of an object or the items of an array in order. */
struct json_iter {
	const char *p, *end;
};

struct json_iter json_iter(struct json v); /* v: array or object */
/* Key is decoded into `a` only if it has escapes, else it is a slice. */
bool json_next_member(struct json_iter *it, struct arena *a,
		      struct str *ret_key, struct json *ret_v);
bool json_next_item(struct json_iter *it, struct json *ret_v);
size_t json_count(struct json v); /* members or items */

/* First member with that name; false when absent. v: object. */
bool json_member(struct json v, const char *name, struct arena *a,
		 struct json *ret);

/* Unescapes a string value; a slice of the text when nothing is escaped. */
struct str json_string(struct json v, struct arena *a);
/*
 * All strings of a text at once, for looking at its words: copies it with the
 * escapes decoded wherever they stand. The text may be anything; what is no
 * whole escape is kept. ret has room for text.n bytes; returns how many.
 */
size_t json_unescape(struct str text, char *ret);
/* Numbers: false when it is no integer, out of range, or not a number. */
bool json_u64(struct json v, uint64_t *ret);
bool json_i64(struct json v, int64_t *ret);
bool json_double(struct json v, double *ret);
bool json_bool(struct json v, bool *ret);

/*
 * Writer: appends to a buf and puts the commas. Keys are NUL-terminated
 * and known to need no escaping.
 */
struct json_writer {
	struct buf *b;
	bool comma; /* the next value or key needs a comma first */
};

#define JSON_WRITER(buf_ptr) ((struct json_writer){ .b = (buf_ptr) })

void jw_object(struct json_writer *w); /* { */
void jw_object_end(struct json_writer *w);
void jw_array(struct json_writer *w);
void jw_array_end(struct json_writer *w);
void jw_key_len(struct json_writer *w, const char *key, size_t n);
static inline void jw_key(struct json_writer *w, const char *key)
{
	jw_key_len(w, key, strlen(key)); /* known when key is a literal */
}
void jw_key_str(struct json_writer *w, struct str key); /* escaped */
void jw_str(struct json_writer *w, struct str s);       /* escaped */
void jw_cstr(struct json_writer *w, const char *s);
void jw_u64(struct json_writer *w, uint64_t v);
void jw_i64(struct json_writer *w, int64_t v);
void jw_double(struct json_writer *w, double v);
void jw_bool(struct json_writer *w, bool v);
void jw_null(struct json_writer *w);
void jw_raw(struct json_writer *w, struct str json);  /* as it is */
void jw_time(struct json_writer *w, uint64_t ns);     /* "RFC 3339" */
void jw_duration(struct json_writer *w, uint64_t ns); /* "1m30s" */
void jw_nano(struct json_writer *w, uint64_t nano);   /* util/nano.h */

#endif
