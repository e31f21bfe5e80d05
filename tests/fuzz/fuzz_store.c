/*
 * Keys and records of the store, as they are read back from a disk or from
 * another node: packs of events, names in keys, records of the feed.
 */
#include "fuzz.h"
#include "store/event_pack.h"
#include "store/key.h"
#include "store/record.h"

static void pack(struct str in)
{
	_cleanup_(buf_done) struct buf again = BUF_INIT(0);
	struct arena a = ARENA_INIT;
	struct event_pack p;
	struct m_event e;
	uint64_t seq, last = 0;
	struct str raw;
	int r;

	if (event_pack_open(&p, in)) {
		while ((r = event_pack_next(&p, &seq, &raw)) > 0) {
			CHECK(raw.n <= in.n && (last == 0 || seq == last + 1));
			last = seq;
			if (msg_decode(&msg_event, raw, &a, &e) == 0)
				event_pack_add(&again, seq, &e);
		}
		CHECK(r == 0 || r == -ERR_BAD_MESSAGE);
	}
	arena_done(&a);
}

/* A name is one part of a key: what follows it is found behind it. */
static void keys(struct str in)
{
	struct str queue = str_of(in.p, MIN(in.n / 2, LIMIT_QUEUE_NAME_BYTES));
	struct str id = str_skip(in, in.n / 2), rest;
	struct key k, prefix, end;
	uint32_t space;

	id.n = MIN(id.n, LIMIT_JOB_ID_BYTES);
	key_scheduled(&k, SPACE_DEFAULT, queue, 7, id);
	key_prefix_queue(&prefix, "s|", SPACE_DEFAULT, queue);
	key_prefix_end(&prefix, &end);
	CHECK(str_starts(key_str(&k), key_str(&prefix)));
	CHECK(str_cmp(key_str(&prefix), key_str(&k)) < 0);
	CHECK(str_cmp(key_str(&k), key_str(&end)) < 0);
	rest = str_skip(key_str(&k), 2);
	CHECK(key_take_space(&rest, &space) && space == SPACE_DEFAULT);
	rest = in;
	CHECK(key_take_space(&rest, &space) == (in.n >= KEY_SPACE_BYTES));
}

static void record(struct str in)
{
	struct arena a = ARENA_INIT;
	struct m_job_record rec;
	struct m_job job;

	if (msg_decode(&msg_job_record, in, &a, &rec) == 0)
		CHECK(record_restore(&rec, &a, &job) <= 0);
	arena_done(&a);
}

void fuzz_one(struct str in)
{
	switch (fuzz_choice(&in, 3)) {
	case 0:
		pack(in);
		break;
	case 1:
		keys(in);
		break;
	default:
		record(in);
	}
}

static void put_job_record(struct buf *out)
{
	_cleanup_(buf_done) struct buf doc = BUF_INIT(0);
	struct m_job_record rec = { 0 };
	struct m_job_doc d = { 0 };

	MSG_SET(&d, job_doc, queue, STR("q"));
	MSG_SET(&d, job_doc, payload, STR("{}"));
	msg_encode(&msg_job_doc, &d, &doc);
	MSG_SET(&rec, job_record, id, STR("job_1"));
	MSG_SET(&rec, job_record, doc, buf_str(&doc));
	msg_encode(&msg_job_record, &rec, out);
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	unsigned how = (unsigned)rng_below(rng, 3);
	struct m_event e = { 0 };

	buf_putc(out, (char)how);
	if (how == 0) {
		MSG_SET(&e, event, queue, STR("q"));
		for (uint64_t seq = 5; seq < 8; seq++)
			event_pack_add(out, seq, &e);
	} else if (how == 1) {
		buf_puts(out, "a queue.job_01M7RFCQ7P6CAY0GN1RGB7WQK0");
	} else {
		put_job_record(out);
	}
}
