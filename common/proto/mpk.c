/*
 * msgpack-c's packing and unpacking templates, expanded on our own types:
 * writers append to a struct buf without a callback, and the parser builds
 * 16-byte nodes in an arena.
 *
 * The library's msgpack_unpack() allocates what a header claims before a
 * single item is seen. Here every item a header claims is taken from a budget
 * of the input's length first, so memory stays within a factor of the input
 * whatever the bytes say. Input is hostile as far as peers are.
 *
 * A reader belongs to one thread; its tree lives until the next parse.
 */
#include "proto/mpk.h"

#include <msgpack/pack_define.h>
#include <msgpack/timestamp.h>
#include <msgpack/unpack.h>
#include <msgpack/unpack_define.h>
#include <pthread.h>

#include "util/arena.h"

#define READER_BLOCK_BYTES (64u << 10) /* most trees fit into one block */

/* --- writing --- */

/* buf_append for the few bytes of a head, without a call when there is room. */
static inline int put(struct buf *b, const void *p, size_t n)
{
	size_t end = b->max != 0 ? MIN(b->cap, b->max) : b->cap;

	if (LIKELY(!b->full && n <= end - b->n)) {
		memcpy(b->p + b->n, p, n);
		b->n += n;
	} else {
		buf_append(b, p, n);
	}
	return 0;
}

#define msgpack_pack_inline_func(name)      static inline int msgpack_pack##name
#define msgpack_pack_user                   struct buf *
#define msgpack_pack_append_buffer(b, p, n) return put(b, p, n)
#include <msgpack/pack_template.h>

void mpk_map(struct buf *b, uint32_t n)
{
	msgpack_pack_map(b, n);
}

void mpk_array(struct buf *b, uint32_t n)
{
	msgpack_pack_array(b, n);
}

size_t mpk_array_open(struct buf *b)
{
	static const unsigned char array32[5] = { 0xdd };

	put(b, array32, sizeof(array32));
	return b->n - sizeof(uint32_t);
}

void mpk_array_close(struct buf *b, size_t at, uint32_t n)
{
	uint32_t big_endian = htobe32(n);

	if (b->full) /* the head may be missing; the bytes are worthless */
		return;
	REQUIRE(at + sizeof(big_endian) <= b->n);
	memcpy(b->p + at, &big_endian, sizeof(big_endian));
}

void mpk_u64(struct buf *b, uint64_t v)
{
	msgpack_pack_uint64(b, v);
}

void mpk_i64(struct buf *b, int64_t v)
{
	msgpack_pack_int64(b, v);
}

void mpk_f64(struct buf *b, double v)
{
	msgpack_pack_double(b, v);
}

void mpk_bool(struct buf *b, bool v)
{
	if (v)
		msgpack_pack_true(b);
	else
		msgpack_pack_false(b);
}

void mpk_str(struct buf *b, struct str s)
{
	REQUIRE(s.n <= UINT32_MAX);
	msgpack_pack_str(b, s.n);
	if (s.n > 0)
		put(b, s.p, s.n);
}

void mpk_bin_head(struct buf *b, size_t n)
{
	REQUIRE(n <= UINT32_MAX);
	msgpack_pack_bin(b, n);
}

void mpk_bin(struct buf *b, struct str s)
{
	mpk_bin_head(b, s.n);
	if (s.n > 0)
		put(b, s.p, s.n);
}

/* --- reading --- */

struct mpk_node {
	union {
		bool boolean;
		uint64_t u64;
		int64_t i64;
		double f64;
		const char *p;          /* MPK_STR */
		struct mpk_node *items; /* of a map: key, value, key, ... */
	};
	uint32_t n; /* bytes, items or pairs */
	uint8_t type;
};

struct mpk_reader {
	struct arena arena;
	size_t budget; /* items the rest of the input can still hold */
};

/* The callbacks of the template; negative refuses the input. */

static inline struct mpk_node cb_root(struct mpk_reader **r)
{
	(void)r;
	return (struct mpk_node){ .type = MPK_NIL };
}

static inline int cb_nil(struct mpk_reader **r, struct mpk_node *o)
{
	(void)r;
	o->type = MPK_NIL;
	return 0;
}

static inline int cb_true(struct mpk_reader **r, struct mpk_node *o)
{
	(void)r;
	*o = (struct mpk_node){ .type = MPK_BOOL, .boolean = true };
	return 0;
}

static inline int cb_false(struct mpk_reader **r, struct mpk_node *o)
{
	(void)r;
	*o = (struct mpk_node){ .type = MPK_BOOL };
	return 0;
}

static inline int cb_uint64(struct mpk_reader **r, uint64_t v,
			    struct mpk_node *o)
{
	(void)r;
	o->type = MPK_UINT;
	o->u64 = v;
	return 0;
}

static inline int cb_int64(struct mpk_reader **r, int64_t v, struct mpk_node *o)
{
	(void)r;
	o->type = v >= 0 ? MPK_UINT : MPK_INT;
	o->i64 = v;
	return 0;
}

#define cb_uint8  cb_uint64
#define cb_uint16 cb_uint64
#define cb_uint32 cb_uint64
#define cb_int8   cb_int64
#define cb_int16  cb_int64
#define cb_int32  cb_int64

static inline int cb_double(struct mpk_reader **r, double v, struct mpk_node *o)
{
	(void)r;
	o->type = MPK_FLOAT;
	o->f64 = v;
	return 0;
}

#define cb_float cb_double

static inline int cb_str(struct mpk_reader **r, const char *base, const char *p,
			 unsigned n, struct mpk_node *o)
{
	(void)r;
	(void)base;
	o->type = MPK_STR;
	o->p = n > 0 ? p : ""; /* the template leaves p unset when n is 0 */
	o->n = n;
	return 0;
}

#define cb_bin cb_str

static inline int cb_ext(struct mpk_reader **r, const char *base, const char *p,
			 unsigned n, struct mpk_node *o)
{
	(void)r;
	(void)base;
	(void)p;
	if (n == 0) /* a length of 2^32 - 1 has wrapped in the template */
		return -1;
	o->type = MPK_OTHER;
	return 0;
}

static int container(struct mpk_reader *r, unsigned n, size_t per_item,
		     struct mpk_node *o)
{
	if (n > r->budget / per_item)
		return -1;
	r->budget -= n * per_item;
	o->n = 0; /* counted up as the items come */
	o->items = NULL;
	if (n > 0)
		o->items =
		    arena_alloc(&r->arena, n * per_item * sizeof(*o->items));
	return 0;
}

static inline int cb_array(struct mpk_reader **r, unsigned n,
			   struct mpk_node *o)
{
	o->type = MPK_ARRAY;
	return container(*r, n, 1, o);
}

static inline int cb_array_item(struct mpk_reader **r, struct mpk_node *c,
				struct mpk_node o)
{
	(void)r;
	c->items[c->n++] = o;
	return 0;
}

static inline int cb_map(struct mpk_reader **r, unsigned n, struct mpk_node *o)
{
	o->type = MPK_MAP;
	return container(*r, n, 2, o);
}

static inline int cb_map_item(struct mpk_reader **r, struct mpk_node *c,
			      struct mpk_node key, struct mpk_node value)
{
	struct mpk_node *pair = c->items + 2 * (size_t)c->n++;

	(void)r;
	pair[0] = key;
	pair[1] = value;
	return 0;
}

/* Nesting is bounded by the template: MSGPACK_EMBED_STACK_SIZE (32). */
#define msgpack_unpack_struct(name)    struct parse##name
#define msgpack_unpack_func(ret, name) static ret parse##name
#define msgpack_unpack_callback(name)  cb##name
#define msgpack_unpack_object          struct mpk_node
#define msgpack_unpack_user            struct mpk_reader *
#include <msgpack/unpack_template.h>

const struct mpk_node *mpk_parse(struct mpk_reader *r, struct str in)
{
	struct parse_context ctx;
	struct mpk_node *root;
	size_t off = 0;

	if (in.n == 0)
		return NULL;
	arena_reset(&r->arena);
	r->budget = in.n - 1; /* a head is a byte and no item of its own */
	parse_init(&ctx);
	ctx.user = r;
	if (parse_execute(&ctx, in.p, in.n, &off) != 1 || off != in.n)
		return NULL;
	root = arena_alloc(&r->arena, sizeof(*root));
	*root = parse_data(&ctx);
	return root;
}

/* --- one reader per thread --- */

static __thread struct mpk_reader *thread_reader;
static pthread_key_t reader_key;
static pthread_once_t reader_once = PTHREAD_ONCE_INIT;

static void reader_free(void *p)
{
	struct mpk_reader *r = p;

	if (r == NULL)
		return;
	arena_done(&r->arena);
	free(r);
	thread_reader = NULL;
}

static void reader_init_key(void)
{
	CHECK(pthread_key_create(&reader_key, reader_free) == 0);
}

/* A key's destructors do not run for the thread that ends the process. */
__attribute__((destructor)) static void reader_free_last(void)
{
	if (thread_reader == NULL)
		return;
	CHECK(pthread_setspecific(reader_key, NULL) == 0);
	reader_free(thread_reader);
}

struct mpk_reader *mpk_reader_get(void)
{
	struct mpk_reader *r = thread_reader;

	if (LIKELY(r != NULL))
		return r;
	CHECK(pthread_once(&reader_once, reader_init_key) == 0);
	r = xcalloc(1, sizeof(*r));
	r->arena.block_size = READER_BLOCK_BYTES;
	CHECK(pthread_setspecific(reader_key, r) == 0);
	thread_reader = r;
	return r;
}

/* --- nodes --- */

enum mpk_type mpk_type_of(const struct mpk_node *v)
{
	return v->type;
}

bool mpk_get_bool(const struct mpk_node *v)
{
	REQUIRE(v->type == MPK_BOOL);
	return v->boolean;
}

uint64_t mpk_get_u64(const struct mpk_node *v)
{
	REQUIRE(v->type == MPK_UINT);
	return v->u64;
}

int64_t mpk_get_i64(const struct mpk_node *v)
{
	REQUIRE(v->type == MPK_INT ||
		(v->type == MPK_UINT && v->u64 <= INT64_MAX));
	return v->i64;
}

double mpk_get_f64(const struct mpk_node *v)
{
	REQUIRE(v->type == MPK_FLOAT);
	return v->f64;
}

struct str mpk_get_str(const struct mpk_node *v)
{
	REQUIRE(v->type == MPK_STR);
	return str_of(v->p, v->n);
}

uint32_t mpk_count(const struct mpk_node *v)
{
	REQUIRE(v->type == MPK_ARRAY || v->type == MPK_MAP);
	return v->n;
}

const struct mpk_node *mpk_item(const struct mpk_node *v, uint32_t i)
{
	REQUIRE(v->type == MPK_ARRAY && i < v->n);
	return v->items + i;
}

const struct mpk_node *mpk_key(const struct mpk_node *v, uint32_t i)
{
	REQUIRE(v->type == MPK_MAP && i < v->n);
	return v->items + 2 * (size_t)i;
}

const struct mpk_node *mpk_value(const struct mpk_node *v, uint32_t i)
{
	REQUIRE(v->type == MPK_MAP && i < v->n);
	return v->items + 2 * (size_t)i + 1;
}
