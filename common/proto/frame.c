/*
 * The envelopes around messages. Bytes come from other processes and from
 * the raft log; a shape that is not exactly the one of frame.h is refused.
 * Only a hello may be longer than we know, so that a newer program can still
 * be told apart by its version.
 */
#include "proto/frame.h"

#include <limits.h>

#include "proto/mpk.h"

#define FRAME_VERSION 2

#define FRAME_LEN   4
#define ENTRY_LEN   5
#define ENTRY_LEN_1 4 /* of format 1 */
#define HELLO_LEN   6
#define REQUEST_LEN 7
#define FORWARD_LEN 9
#define REPLY_LEN   4
#define PART_LEN    2
#define CALLER_LEN  2
#define ITEM_LEN    5
#define ITEM_LEN_1  3

/* --- writing --- */

/* Both envelopes are [version, number, number, ..., items]. */
static void begin(struct buf *b, uint32_t len, uint64_t version, uint64_t first,
		  uint64_t second)
{
	buf_clear(b);
	mpk_array(b, len);
	mpk_u64(b, version);
	mpk_u64(b, first);
	mpk_u64(b, second);
}

static void begin_items(struct frame_writer *w, struct buf *b)
{
	*w = (struct frame_writer){ .b = b, .count_at = mpk_array_open(b) };
}

void frame_begin(struct frame_writer *w, struct buf *b, enum frame_kind kind,
		 uint64_t epoch)
{
	begin(b, FRAME_LEN, FRAME_VERSION, kind, epoch);
	begin_items(w, b);
}

void frame_add_hello(struct frame_writer *w, const struct frame_hello *h)
{
	mpk_array(w->b, HELLO_LEN);
	mpk_u64(w->b, h->proc);
	mpk_u64(w->b, h->number);
	mpk_u64(w->b, h->pid);
	mpk_u64(w->b, h->defs_hash);
	mpk_str(w->b, h->version);
	mpk_u64(w->b, h->origin);
	w->n++;
}

static void put_request(struct frame_writer *w, const struct frame_request *r,
			uint32_t len)
{
	mpk_array(w->b, len);
	mpk_u64(w->b, r->id);
	mpk_u64(w->b, r->op);
	mpk_u64(w->b, r->flags);
	mpk_u64(w->b, r->deadline_ns);
	mpk_u64(w->b, r->done);
	mpk_str(w->b, r->key);
	mpk_bin(w->b, r->body);
	w->n++;
}

void frame_add_request(struct frame_writer *w, const struct frame_request *r)
{
	put_request(w, r, REQUEST_LEN);
}

void frame_add_forward(struct frame_writer *w, const struct frame_request *r)
{
	put_request(w, r, FORWARD_LEN);
	mpk_u64(w->b, r->origin);
	mpk_u64(w->b, r->number);
}

void frame_add_cancel(struct frame_writer *w, uint64_t id)
{
	mpk_u64(w->b, id);
	w->n++;
}

void frame_add_reply_head(struct frame_writer *w, const struct frame_reply *r)
{
	mpk_array(w->b, REPLY_LEN);
	mpk_u64(w->b, r->id);
	mpk_i64(w->b, r->err);
	mpk_u64(w->b, r->seq);
	mpk_bin_head(w->b, r->body.n);
	w->n++;
}

void frame_add_reply(struct frame_writer *w, const struct frame_reply *r)
{
	frame_add_reply_head(w, r);
	if (r->body.n > 0)
		buf_put_str(w->b, r->body);
}

void frame_add_part(struct frame_writer *w, const struct frame_part *p)
{
	mpk_array(w->b, PART_LEN);
	mpk_u64(w->b, p->size);
	mpk_bin(w->b, p->bytes);
	w->n++;
}

void frame_end(struct frame_writer *w)
{
	mpk_array_close(w->b, w->count_at, w->n);
}

void entry_begin(struct frame_writer *w, struct buf *b, uint64_t now_ns,
		 uint64_t seed)
{
	entry_begin_for(w, b, now_ns, seed, NULL, 0);
}

void entry_begin_for(struct frame_writer *w, struct buf *b, uint64_t now_ns,
		     uint64_t seed, const struct entry_caller *callers,
		     size_t n)
{
	begin(b, ENTRY_LEN, STORED_FORMAT, now_ns, seed);
	mpk_array(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		mpk_array(b, CALLER_LEN);
		mpk_u64(b, callers[i].origin);
		mpk_u64(b, callers[i].done);
	}
	begin_items(w, b);
}

void entry_add(struct frame_writer *w, const struct entry_item *item)
{
	mpk_array(w->b, ITEM_LEN);
	mpk_u64(w->b, item->op);
	mpk_u64(w->b, item->flags);
	mpk_u64(w->b, item->caller);
	mpk_u64(w->b, item->id);
	mpk_bin(w->b, item->body);
	w->n++;
}

void entry_end(struct frame_writer *w)
{
	frame_end(w);
}

/* --- reading --- */

/*
 * Takes the members of one array in order. The first that does not fit
 * clears `ok`; the ones after it read as zero, so a caller tests once.
 */
struct cursor {
	const struct mpk_node *array;
	uint32_t i;
	bool ok;
};

static struct cursor cursor(const struct mpk_node *v, uint32_t len)
{
	bool ok = mpk_type_of(v) == MPK_ARRAY && mpk_count(v) == len;

	return (struct cursor){ .array = v, .ok = ok };
}

static const struct mpk_node *take(struct cursor *c, enum mpk_type type)
{
	const struct mpk_node *v;

	if (!c->ok)
		return NULL;
	v = mpk_item(c->array, c->i++);
	c->ok = mpk_type_of(v) == type;
	return c->ok ? v : NULL;
}

static uint64_t take_u64(struct cursor *c)
{
	const struct mpk_node *v = take(c, MPK_UINT);

	return v != NULL ? mpk_get_u64(v) : 0;
}

static uint32_t take_u32(struct cursor *c)
{
	uint64_t v = take_u64(c);

	c->ok = c->ok && v <= UINT32_MAX;
	return (uint32_t)v;
}

static int take_int(struct cursor *c)
{
	const struct mpk_node *v;
	int64_t number;

	if (!c->ok)
		return 0;
	v = mpk_item(c->array, c->i++);
	c->ok = mpk_type_of(v) == MPK_INT ||
		(mpk_type_of(v) == MPK_UINT && mpk_get_u64(v) <= INT_MAX);
	number = c->ok ? mpk_get_i64(v) : 0;
	c->ok = c->ok && number >= INT_MIN;
	return c->ok ? (int)number : 0;
}

static struct str take_str(struct cursor *c)
{
	const struct mpk_node *v = take(c, MPK_STR);

	return v != NULL ? mpk_get_str(v) : STR_NULL;
}

/* What an envelope begins with; the rest of it is read from the cursor. */
static struct cursor open_envelope(struct str in, uint64_t *version,
				   uint64_t *first, uint64_t *second)
{
	const struct mpk_node *root = mpk_parse(mpk_reader_get(), in);
	struct cursor c = { .ok = false };

	if (root == NULL)
		return c;
	c = (struct cursor){ .array = root,
			     .ok = mpk_type_of(root) == MPK_ARRAY &&
				   mpk_count(root) >= FRAME_LEN };
	*version = take_u64(&c);
	*first = take_u64(&c);
	*second = take_u64(&c);
	return c;
}

/* The last member, an array, of an envelope that has so many. */
static const struct mpk_node *take_last(struct cursor *c, uint32_t len)
{
	c->ok = c->ok && mpk_count(c->array) == len;
	return take(c, MPK_ARRAY);
}

static bool read_hello(const struct mpk_node *items, struct frame *ret)
{
	const struct mpk_node *v;
	struct cursor c;

	if (mpk_count(items) != 1)
		return false;
	v = mpk_item(items, 0);
	if (mpk_type_of(v) != MPK_ARRAY || mpk_count(v) < HELLO_LEN)
		return false;
	c = (struct cursor){ .array = v, .ok = true };
	ret->hello.proc = take_u32(&c);
	ret->hello.number = take_u32(&c);
	ret->hello.pid = take_u32(&c);
	ret->hello.defs_hash = take_u64(&c);
	ret->hello.version = take_str(&c);
	ret->hello.origin = take_u64(&c);
	return c.ok;
}

static bool read_requests(const struct mpk_node *items, struct arena *a,
			  uint32_t len, struct frame *ret)
{
	ret->requests = arena_alloc(a, ret->n * sizeof(*ret->requests));
	for (uint32_t i = 0; i < ret->n; i++) {
		struct cursor c = cursor(mpk_item(items, i), len);
		struct frame_request *r = &ret->requests[i];

		r->id = take_u64(&c);
		r->op = take_u32(&c);
		r->flags = take_u32(&c);
		r->deadline_ns = take_u64(&c);
		r->done = take_u64(&c);
		r->key = take_str(&c);
		r->body = take_str(&c);
		r->origin = len == FORWARD_LEN ? take_u64(&c) : 0;
		r->number = len == FORWARD_LEN ? take_u64(&c) : r->id;
		if (!c.ok)
			return false;
	}
	return true;
}

static bool read_cancels(const struct mpk_node *items, struct arena *a,
			 struct frame *ret)
{
	struct cursor c = { .array = items, .ok = true };

	ret->cancels = arena_alloc(a, ret->n * sizeof(*ret->cancels));
	for (uint32_t i = 0; i < ret->n; i++)
		ret->cancels[i] = take_u64(&c);
	return c.ok;
}

static bool read_replies(const struct mpk_node *items, struct arena *a,
			 struct frame *ret)
{
	ret->replies = arena_alloc(a, ret->n * sizeof(*ret->replies));
	for (uint32_t i = 0; i < ret->n; i++) {
		struct cursor c = cursor(mpk_item(items, i), REPLY_LEN);
		struct frame_reply *r = &ret->replies[i];

		r->id = take_u64(&c);
		r->err = take_int(&c);
		r->seq = take_u64(&c);
		r->body = take_str(&c);
		if (!c.ok)
			return false;
	}
	return true;
}

static bool read_part(const struct mpk_node *items, struct frame *ret)
{
	struct cursor c;

	if (ret->n != 1)
		return false;
	c = cursor(mpk_item(items, 0), PART_LEN);
	ret->part.size = take_u64(&c);
	ret->part.bytes = take_str(&c);
	return c.ok;
}

static bool read_items(const struct mpk_node *items, struct arena *a,
		       struct frame *ret)
{
	ret->n = mpk_count(items);
	switch (ret->kind) {
	case FRAME_HELLO:
		return read_hello(items, ret);
	case FRAME_REQUEST:
		return read_requests(items, a, REQUEST_LEN, ret);
	case FRAME_FORWARD:
		return read_requests(items, a, FORWARD_LEN, ret);
	case FRAME_BYE:
		return ret->n == 0;
	case FRAME_CANCEL:
		return read_cancels(items, a, ret);
	case FRAME_REPLY:
		return read_replies(items, a, ret);
	case FRAME_PART:
		return read_part(items, ret);
	}
	return false;
}

int frame_decode(struct str in, struct arena *a, struct frame *ret)
{
	const struct mpk_node *items;
	uint64_t version = 0, kind = 0;
	struct cursor c = open_envelope(in, &version, &kind, &ret->epoch);

	items = take_last(&c, FRAME_LEN);
	if (items == NULL || version != FRAME_VERSION || kind > FRAME_PART)
		return -ERR_BAD_MESSAGE;
	ret->kind = (enum frame_kind)kind;
	return read_items(items, a, ret) ? 0 : -ERR_BAD_MESSAGE;
}

static bool read_callers(const struct mpk_node *callers, struct arena *a,
			 struct entry *ret)
{
	ret->callers_n = callers != NULL ? mpk_count(callers) : 0;
	ret->callers = arena_alloc(a, ret->callers_n * sizeof(*ret->callers));
	for (uint32_t i = 0; i < ret->callers_n; i++) {
		struct cursor c = cursor(mpk_item(callers, i), CALLER_LEN);

		ret->callers[i].origin = take_u64(&c);
		ret->callers[i].done = take_u64(&c);
		if (!c.ok)
			return false;
	}
	return true;
}

static bool read_item(const struct mpk_node *v, const struct entry *e,
		      struct entry_item *ret)
{
	struct cursor c = cursor(v, e->format > 1 ? ITEM_LEN : ITEM_LEN_1);

	*ret = (struct entry_item){ .op = take_u32(&c) };
	ret->flags = take_u32(&c);
	if (e->format > 1) {
		ret->caller = take_u32(&c);
		ret->id = take_u64(&c);
	}
	ret->body = take_str(&c);
	return c.ok && ret->caller <= e->callers_n;
}

int entry_decode(struct str in, struct arena *a, struct entry *ret)
{
	const struct mpk_node *callers = NULL, *items;
	uint64_t format = 0;
	struct cursor c = open_envelope(in, &format, &ret->now_ns, &ret->seed);

	if (format > 1)
		callers = take(&c, MPK_ARRAY);
	items = take_last(&c, format > 1 ? ENTRY_LEN : ENTRY_LEN_1);
	if (items == NULL || format == 0 || format > STORED_FORMAT ||
	    !read_callers(callers, a, ret))
		return -ERR_BAD_MESSAGE;
	ret->format = (uint32_t)format;
	ret->n = mpk_count(items);
	ret->items = arena_alloc(a, ret->n * sizeof(*ret->items));
	for (uint32_t i = 0; i < ret->n; i++)
		if (!read_item(mpk_item(items, i), ret, &ret->items[i]))
			return -ERR_BAD_MESSAGE;
	return 0;
}

uint64_t entry_format(struct str in)
{
	const struct mpk_node *root = mpk_parse(mpk_reader_get(), in);
	struct cursor c = { .array = root };

	c.ok = root != NULL && mpk_type_of(root) == MPK_ARRAY &&
	       mpk_count(root) > 0;
	return take_u64(&c);
}

/* --- refusing --- */

int frame_refusal(const struct frame_request *r, int err)
{
	bool again = (r->flags & FRAME_RESEND) != 0;

	return again && op_info(r->op) == NULL && call_changes(r->op)
		   ? ERR_OUTCOME_UNKNOWN
		   : err;
}

int frame_late(const struct frame_request *r)
{
	return frame_refusal(r, call_changes(r->op) ? ERR_LEADER_UNAVAILABLE
						    : ERR_REQUEST_TIMEOUT);
}
