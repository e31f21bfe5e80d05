/*
 * What a message costs: ns per encode and decode of a typical enqueue, of a
 * frame of 16 of them, and of the way from JSON.
 *
 *	msg_bench [milliseconds per line]
 */
#include <stdio.h>

#include "proto/frame.h"
#include "proto/msg_json.h"
#include "proto/route.h"
#include "util/clock.h"

#define FRAME_ITEMS 16

struct bench {
	struct buf body;  /* an encoded enqueue */
	struct buf frame; /* FRAME_ITEMS of it */
	struct buf out;
	struct arena a;
	struct m_enqueue m;
	struct str json;
	uint64_t sum; /* keeps results alive */
};

static void enqueue_encode(struct bench *b)
{
	buf_clear(&b->out);
	msg_encode(&msg_enqueue, &b->m, &b->out);
	b->sum += b->out.n;
}

static void enqueue_decode(struct bench *b)
{
	struct m_enqueue m;

	CHECK(msg_decode(&msg_enqueue, buf_str(&b->body), &b->a, &m) == 0);
	b->sum += m.payload.n;
}

static void frame_write(struct bench *b)
{
	struct frame_request r = { .op = OP_ENQUEUE,
				   .key = STR("mail"),
				   .body = buf_str(&b->body) };
	struct frame_writer w;

	frame_begin(&w, &b->out, FRAME_REQUEST, 1);
	for (r.id = 0; r.id < FRAME_ITEMS; r.id++)
		frame_add_request(&w, &r);
	frame_end(&w);
	b->sum += b->out.n;
}

static void frame_read(struct bench *b)
{
	struct frame f;

	CHECK(frame_decode(buf_str(&b->frame), &b->a, &f) == 0);
	b->sum += f.n;
	arena_reset(&b->a);
}

static void json_read(struct bench *b)
{
	struct m_enqueue m = { 0 };
	struct json_error err;
	struct buf why = BUF_INIT(0);

	CHECK(json_validate(b->json, LIMIT_JSON_DEPTH, &err));
	CHECK(msg_from_json(&(struct msg_reader){ .a = &b->a, .why = &why },
			    &msg_enqueue, json_root(b->json), &m) == 0);
	b->sum += m.queue.n;
	arena_reset(&b->a);
}

static void json_write(struct bench *b)
{
	struct json_style style = { 0 };
	struct json_writer w = JSON_WRITER(&b->out);

	buf_clear(&b->out);
	msg_to_json(&msg_enqueue, &b->m, &style, &w);
	b->sum += b->out.n;
}

static void route(struct bench *b)
{
	struct route_match m;

	route_find(HTTP_POST, STR("/api/v1/ack/job_01HX7Y2K3MABCDEFGHJKMNPQ"),
		   &m);
	b->sum += m.n;
}

static void run(struct bench *b, const char *name, void (*fn)(struct bench *),
		uint64_t budget_ns, unsigned items)
{
	uint64_t start = clock_mono_ns(), n = 0, took;

	do {
		for (int i = 0; i < 1000; i++)
			fn(b);
		n += 1000;
		took = clock_mono_ns() - start;
	} while (took < budget_ns);
	printf("%-28s %8.1f ns", name, (double)took / (double)n);
	if (items > 1)
		printf("  %6.1f ns per item", (double)took / (double)n / items);
	printf("\n");
}

int main(int argc, char **argv)
{
	struct bench b = { .json =
			       STR("{\"queue\":\"mail\",\"priority\":\"high\","
				   "\"max_retries\":5,\"payload\":{\"to\":"
				   "\"someone@example.org\",\"subject\":"
				   "\"Hello\",\"body\":\"Good morning, this is "
				   "a text of one line.\"},"
				   "\"tags\":{\"tenant\":\"acme\"}}") };
	struct buf why = BUF_INIT(0);
	uint64_t ms = 300;

	if (argc > 1 && !str_parse_u64(str_from(argv[1]), &ms)) {
		fprintf(stderr, "usage: msg_bench [milliseconds]\n");
		return 2;
	}
	CHECK(msg_from_json(&(struct msg_reader){ .a = &b.a, .why = &why },
			    &msg_enqueue, json_root(b.json), &b.m) == 0);
	MSG_SET(&b.m, enqueue, job_id, STR("job_01HX7Y2K3MABCDEFGHJKMNPQRS"));
	msg_encode(&msg_enqueue, &b.m, &b.body);
	frame_write(&b);
	buf_append(&b.frame, b.out.p, b.out.n);
	printf("enqueue: %zu bytes of JSON, %zu of msgpack; frame of %d: %zu\n",
	       b.json.n, b.body.n, FRAME_ITEMS, b.frame.n);

	run(&b, "enqueue encode", enqueue_encode, ms * NS_PER_MS, 1);
	run(&b, "enqueue decode", enqueue_decode, ms * NS_PER_MS, 1);
	run(&b, "frame encode", frame_write, ms * NS_PER_MS, FRAME_ITEMS);
	run(&b, "frame decode", frame_read, ms * NS_PER_MS, FRAME_ITEMS);
	run(&b, "enqueue from JSON", json_read, ms * NS_PER_MS, 1);
	run(&b, "enqueue to JSON", json_write, ms * NS_PER_MS, 1);
	run(&b, "route", route, ms * NS_PER_MS, 1);
	buf_done(&b.body);
	buf_done(&b.frame);
	buf_done(&b.out);
	arena_done(&b.a);
	return b.sum == 0;
}
