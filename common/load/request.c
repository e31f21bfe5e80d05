/*
 * Requests and answers as HTTP and JSON. See request.h.
 */
#include "load/request.h"

#include <stdio.h>

#define NUMBER_KEY "bench"
#define MONTH_S    (30 * 86400u)

/* --- enqueue --- */

/* About 100 bytes; some words in every job, some in few, some in one. */
static void put_words(struct buf *b)
{
	static uint64_t made;
	uint64_t n = ++made;

	buf_printf(b,
		   "{\"to\":\"user%llu@example.com\","
		   "\"order\":%llu,\"template\":\"word%llu\",\"lines\":"
		   "[\"red shoes\",\"blue hat %llu\"],\"net\":%llu}",
		   (unsigned long long)(n * 2654435761 % 1000003),
		   (unsigned long long)(n * 40503 % 100000007),
		   (unsigned long long)(n % 50), (unsigned long long)(n % 997),
		   (unsigned long long)(n * 7919 % 100000));
}

/* An object of k->payload bytes, if that is not too few. */
static void put_filler(struct buf *b, const struct job_kind *k, uint64_t number)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
	size_t start = b->n, left;

	buf_putc(b, '{');
	if (k->numbered) {
		buf_puts(b, "\"" NUMBER_KEY "\":");
		buf_put_u64(b, number);
		buf_putc(b, ',');
	}
	buf_puts(b, "\"text\":\"");
	left = k->payload - MIN(k->payload, b->n - start + 2);
	while (left > 0) {
		size_t n = MIN(left, sizeof(letters) - 1);

		buf_append(b, letters, n);
		left -= n;
	}
	buf_puts(b, "\"}");
}

static void put_job(struct buf *b, const struct job_kind *k, uint64_t number)
{
	static unsigned made, scattered;

	buf_puts(b, "{\"queue\":\"");
	buf_puts(b, k->queue);
	buf_puts(b, "\",");
	if (k->groups > 0)
		buf_printf(b, "\"group\":\"g%u\",", made++ % k->groups);
	if (k->delay_s > 0)
		buf_printf(b, "\"delay\":%u,",
			   k->delay_s + scattered++ * 40503u % MONTH_S);
	buf_puts(b, "\"payload\":");
	if (k->words)
		put_words(b);
	else
		put_filler(b, k, number);
	buf_putc(b, '}');
}

void send_enqueue(struct conn *c, const struct job_kind *k, uint64_t number,
		  unsigned n, bool batch, answer_fn *fn)
{
	struct buf *b = &c->body;

	CHECK(n > 0 && (batch || n == 1));
	buf_clear(b);
	if (!batch) {
		put_job(b, k, number);
		client_send(c, PATH_ENQUEUE, b, fn);
		return;
	}
	buf_puts(b, "{\"jobs\":[");
	for (unsigned i = 0; i < n; i++) {
		if (i > 0)
			buf_putc(b, ',');
		put_job(b, k, number + i);
	}
	buf_puts(b, "]}");
	client_send(c, PATH_ENQUEUE_BATCH, b, fn);
}

/* Quoted ids, and between them what is none. */
struct str ids_of(const struct answer *a, bool batch)
{
	static const char list[] = "\"job_ids\":[";
	struct str ids, rest;
	const char *at;

	if (!batch)
		return body_text(a->body, "job_id", &ids)
			   ? str_of(ids.p - 1, ids.n + 2)
			   : STR_NULL;
	at = a->body.n > 0 ? memmem(a->body.p, a->body.n, list, strlen(list))
			   : NULL;
	if (at == NULL)
		return STR_NULL;
	ids = str_skip(a->body, (size_t)(at - a->body.p) + strlen(list));
	(void)str_split(ids, ']', &ids, &rest);
	return ids;
}

bool next_id(struct str *rest, struct str *ret)
{
	struct str before;

	return str_split(*rest, '"', &before, rest) &&
	       str_split(*rest, '"', ret, rest) && ret->n < ID_LEN_MAX;
}

/* --- fetch --- */

void send_fetch(struct conn *c, const struct job_kind *k, unsigned n,
		bool batch, unsigned wait_s, answer_fn *fn)
{
	struct buf *b = &c->body;

	CHECK(n > 0 && (batch || n == 1));
	buf_clear(b);
	buf_printf(b,
		   "{\"queues\":[\"%s\"],\"worker_id\":\"%s\","
		   "\"timeout\":%u,\"lease_duration\":%.3f",
		   k->queue, k->worker, wait_s, (double)k->lease_ns / 1e9);
	if (batch)
		buf_printf(b, ",\"count\":%u", n);
	buf_putc(b, '}');
	client_send(c, batch ? PATH_FETCH_BATCH : PATH_FETCH, b, fn);
}

/* Each job has its id before its payload, and that before its token. */
bool next_held(struct conn *c, const struct job_kind *k, struct str *rest,
	       struct held *ret)
{
	struct str id;

	if (client_has_failed(c->cl) || !body_text(*rest, "job_id", &id))
		return false;
	*ret = (struct held){ .number = 0 };
	*rest = str_skip(*rest, (size_t)(id.p - rest->p));
	if (id.n >= sizeof(ret->id) ||
	    !body_number(*rest, "lease_token", &ret->token) ||
	    (k->numbered && !body_number(*rest, NUMBER_KEY, &ret->number))) {
		client_fail(c->cl,
			    "a job that was handed out has no id, "
			    "lease_token or payload of ours: %.*s",
			    (int)MIN(rest->n, (size_t)200), rest->p);
		return false;
	}
	memcpy(ret->id, id.p, id.n);
	return true;
}

/* --- ack --- */

#define MODELS     8
#define PROVIDERS  3
#define COST_PRIME 1000000007 /* billionths of a usd, and a bit */

/* Follows from the token, which no two jobs share. */
static void put_usage(struct buf *b, uint64_t token)
{
	uint64_t nano = token * 7919 % COST_PRIME;

	buf_printf(b,
		   ",\"usage\":{\"input_tokens\":%llu,"
		   "\"output_tokens\":%llu,\"model\":\"model-%llu\","
		   "\"provider\":\"provider-%llu\",\"cost_usd\":%llu.%09llu}",
		   (unsigned long long)(100 + token % 1901),
		   (unsigned long long)(10 + token % 491),
		   (unsigned long long)(token % MODELS),
		   (unsigned long long)(token % PROVIDERS),
		   (unsigned long long)(nano / NS_PER_S),
		   (unsigned long long)(nano % NS_PER_S));
}

static void put_token(struct buf *b, const struct job_kind *k, uint64_t token)
{
	buf_puts(b, "\"lease_token\":");
	buf_put_u64(b, token);
	if (k->usage)
		put_usage(b, token);
}

void send_ack(struct conn *c, const struct job_kind *k, const struct held *jobs,
	      unsigned n, bool batch, answer_fn *fn)
{
	struct buf *b = &c->body;
	char path[sizeof(PATH_ACK) + ID_LEN_MAX];

	CHECK(n > 0 && (batch || n == 1));
	buf_clear(b);
	if (!batch) {
		buf_putc(b, '{');
		put_token(b, k, jobs->token);
		buf_putc(b, '}');
		(void)snprintf(path, sizeof(path), PATH_ACK "%s", jobs->id);
		client_send(c, path, b, fn);
		return;
	}
	buf_puts(b, "{\"acks\":[");
	for (unsigned i = 0; i < n; i++) {
		buf_puts(b, i > 0 ? ",{\"job_id\":\"" : "{\"job_id\":\"");
		buf_puts(b, jobs[i].id);
		buf_puts(b, "\",");
		put_token(b, k, jobs[i].token);
		buf_putc(b, '}');
	}
	buf_puts(b, "]}");
	client_send(c, PATH_ACK_BATCH, b, fn);
}

bool check_acked(struct conn *c, const struct answer *a, unsigned n, bool batch)
{
	uint64_t acked = 0;

	if (!answer_expect(c, a, 200))
		return false;
	if (batch && (!body_number(a->body, "acked", &acked) || acked != n))
		client_fail(c->cl, "only %llu of %u jobs were acked: %.*s",
			    (unsigned long long)acked, n,
			    (int)MIN(a->body.n, (size_t)200), a->body.p);
	return !client_has_failed(c->cl);
}
