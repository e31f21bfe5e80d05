/*
 * Bodies of the requests load sends, and what it takes from answers.
 */
#include <stdio.h>

#include "load_modes.h"

/* About 100 bytes; some words in every job, some in few, some in one. */
static void put_words(struct buf *b)
{
	static uint64_t made;
	uint64_t n = ++made;

	buf_printf(b,
		   "\"payload\":{\"to\":\"user%llu@example.com\","
		   "\"order\":%llu,\"template\":\"word%llu\",\"lines\":"
		   "[\"red shoes\",\"blue hat %llu\"],\"net\":%llu}}",
		   (unsigned long long)(n * 2654435761 % 1000003),
		   (unsigned long long)(n * 40503 % 100000007),
		   (unsigned long long)(n % 50), (unsigned long long)(n % 997),
		   (unsigned long long)(n * 7919 % 100000));
}

static void put_job(struct buf *b, const struct options *o)
{
	static unsigned made;

	buf_printf(b, "{\"queue\":\"%s\",", o->queue);
	if (o->groups > 0)
		buf_printf(b, "\"group\":\"g%u\",", made++ % o->groups);
	if (o->words > 0) {
		put_words(b);
		return;
	}
	buf_puts(b, "\"payload\":{\"text\":\"");
	for (unsigned i = 0; i + 11 < o->payload; i++)
		buf_putc(b, (char)('a' + i % 26));
	buf_puts(b, "\"}}");
}

void body_job(struct buf *b, const struct options *o)
{
	buf_clear(b);
	put_job(b, o);
}

void body_jobs(struct buf *b, const struct options *o, unsigned n)
{
	buf_clear(b);
	buf_puts(b, "{\"jobs\":[");
	for (unsigned i = 0; i < n; i++) {
		if (i > 0)
			buf_putc(b, ',');
		put_job(b, o);
	}
	buf_puts(b, "]}");
}

static void put_fetch(struct buf *b, const struct options *o, unsigned wait_s)
{
	buf_clear(b);
	buf_printf(b,
		   "{\"queues\":[\"%s\"],\"worker_id\":\"load\","
		   "\"timeout\":%u,\"lease_duration\":%.3f",
		   o->queue, wait_s, (double)o->lease_ns / 1e9);
}

void body_fetch(struct buf *b, const struct options *o, unsigned wait_s)
{
	put_fetch(b, o, wait_s);
	buf_putc(b, '}');
}

void body_fetch_batch(struct buf *b, const struct options *o, unsigned wait_s)
{
	put_fetch(b, o, wait_s);
	buf_printf(b, ",\"count\":%u}", o->batch);
}

void send_ack(struct hconn *c, const struct answer *fetched, answer_fn *fn)
{
	char path[128];
	uint64_t token;
	struct str id;

	if (!answer_text(fetched, "job_id", &id) ||
	    !answer_number(fetched, "lease_token", &token) || id.n > 64)
		die("no job: %.*s", STR_ARG(fetched->body));
	(void)snprintf(path, sizeof(path), PATH_ACK "%.*s", STR_ARG(id));
	buf_clear(&c->body);
	buf_printf(&c->body, "{\"lease_token\":%llu}",
		   (unsigned long long)token);
	http_send(c, path, &c->body, fn);
}

unsigned send_acks(struct hconn *c, const struct answer *fetched, answer_fn *fn)
{
	struct answer rest = *fetched;
	uint64_t token;
	struct str id;
	unsigned n = 0;

	buf_clear(&c->body);
	buf_puts(&c->body, "{\"acks\":[");
	/* Each job has its id before its token. */
	while (answer_text(&rest, "job_id", &id)) {
		rest.body = str_skip(rest.body, (size_t)(id.p - rest.body.p));
		if (!answer_number(&rest, "lease_token", &token))
			die("no token: %.*s", STR_ARG(rest.body));
		buf_printf(&c->body,
			   "%s{\"job_id\":\"%.*s\","
			   "\"lease_token\":%llu}",
			   n++ > 0 ? "," : "", STR_ARG(id),
			   (unsigned long long)token);
	}
	buf_puts(&c->body, "]}");
	if (n > 0)
		http_send(c, PATH_ACK_BATCH, &c->body, fn);
	return n;
}
