#include "serve/throughput.h"

#define MINUTE_NS (60 * NS_PER_S)

/* Adds what the counters have grown by to the slot of that number. */
static void add_to(struct throughput_slot *s, uint64_t number,
		   const struct throughput *t, const struct fsm_counters *c)
{
	if (s->number != number)
		*s = (struct throughput_slot){ .number = number };
	s->enqueued += c->enqueued - t->enqueued;
	s->completed += c->completed - t->completed;
	s->failed += c->failed - t->failed;
}

void throughput_note(struct throughput *t, uint64_t at_ns,
		     const struct fsm_counters *c)
{
	uint64_t minute = at_ns / MINUTE_NS, second = at_ns / NS_PER_S;

	add_to(&t->minutes[minute % THROUGHPUT_MINUTES], minute, t, c);
	add_to(&t->seconds[second % THROUGHPUT_SECONDS], second, t, c);
	t->enqueued = c->enqueued;
	t->completed = c->completed;
	t->failed = c->failed;
}

void throughput_read(const struct throughput *t, uint64_t now_ns,
		     struct m_throughput_minute ret[THROUGHPUT_MINUTES])
{
	uint64_t last = now_ns / MINUTE_NS;

	for (uint64_t i = 0; i < THROUGHPUT_MINUTES; i++) {
		uint64_t minute = last - (THROUGHPUT_MINUTES - 1) + i;
		const struct throughput_slot *s =
		    &t->minutes[minute % THROUGHPUT_MINUTES];
		struct m_throughput_minute *m = &ret[i];
		bool hit = s->number == minute;

		*m = (struct m_throughput_minute){ 0 };
		MSG_SET(m, throughput_minute, minute, minute * MINUTE_NS);
		MSG_SET(m, throughput_minute, enqueued, hit ? s->enqueued : 0);
		MSG_SET(m, throughput_minute, completed,
			hit ? s->completed : 0);
		MSG_SET(m, throughput_minute, failed, hit ? s->failed : 0);
	}
}

void throughput_recent(const struct throughput *t, uint64_t now_ns,
		       uint64_t since_ns, struct m_node_recent *ret)
{
	uint64_t last = now_ns / NS_PER_S, first = since_ns / NS_PER_S;
	uint64_t enqueued = 0, completed = 0, failed = 0;

	CHECK(since_ns <= now_ns);
	first = MAX(first, last - MIN(last, THROUGHPUT_SECONDS - 1UL));
	for (size_t i = 0; i < THROUGHPUT_SECONDS; i++) {
		const struct throughput_slot *s = &t->seconds[i];

		if (s->number < first || s->number > last)
			continue;
		enqueued += s->enqueued;
		completed += s->completed;
		failed += s->failed;
	}
	*ret = (struct m_node_recent){ 0 };
	MSG_SET(ret, node_recent, seconds, last - first + 1);
	MSG_SET(ret, node_recent, enqueued, enqueued);
	MSG_SET(ret, node_recent, completed, completed);
	MSG_SET(ret, node_recent, failed, failed);
}
