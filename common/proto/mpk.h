/*
 * msgpack: the only file that knows msgpack-c.
 *
 * Writing appends to a buf. Reading parses one whole value into a tree in an
 * arena-like zone owned by the reader; strings point into the input.
 */
#ifndef CORVO_MPK_H
#define CORVO_MPK_H

#include "util/buf.h"

void mpk_map(struct buf *b, uint32_t n);
void mpk_array(struct buf *b, uint32_t n);
/* An array head of fixed width whose count is patched later. */
size_t mpk_array_open(struct buf *b);
void mpk_array_close(struct buf *b, size_t at, uint32_t n);
void mpk_u64(struct buf *b, uint64_t v);
void mpk_i64(struct buf *b, int64_t v);
void mpk_f64(struct buf *b, double v);
void mpk_bool(struct buf *b, bool v);
void mpk_str(struct buf *b, struct str s);
void mpk_bin(struct buf *b, struct str s);
void mpk_bin_head(struct buf *b, size_t n); /* so many bytes follow */

enum mpk_type {
	MPK_NIL,
	MPK_BOOL,
	MPK_UINT,
	MPK_INT, /* negative */
	MPK_FLOAT,
	MPK_STR, /* str or bin */
	MPK_ARRAY,
	MPK_MAP,
	MPK_OTHER,
};

struct mpk_reader; /* reusable; one per thread that decodes */
struct mpk_node;   /* a value in the tree */

/* The calling thread's reader, made on first use. */
struct mpk_reader *mpk_reader_get(void);
/*
 * Parses exactly one value that fills `in`; NULL when it is malformed or
 * nested deeper than 32. The tree lives until the reader's next parse.
 */
const struct mpk_node *mpk_parse(struct mpk_reader *r, struct str in);

enum mpk_type mpk_type_of(const struct mpk_node *v);
bool mpk_get_bool(const struct mpk_node *v);
uint64_t mpk_get_u64(const struct mpk_node *v);
int64_t mpk_get_i64(const struct mpk_node *v);
double mpk_get_f64(const struct mpk_node *v);
struct str mpk_get_str(const struct mpk_node *v);
uint32_t mpk_count(const struct mpk_node *v); /* array items, map pairs */
const struct mpk_node *mpk_item(const struct mpk_node *v, uint32_t i);
const struct mpk_node *mpk_key(const struct mpk_node *v, uint32_t i);
const struct mpk_node *mpk_value(const struct mpk_node *v, uint32_t i);

#endif
