#include "serve/throughput.h"

#define MINUTE_NS (60 * NS_PER_S)

static struct throughput_slot *slot_of(struct throughput *t, uint64_t minute)
{
	struct throughput_slot *s = &t->slots[minute % THROUGHPUT_MINUTES];

	if (s->minute != minute)
		*s = (struct throughput_slot){ .minute = minute };
	return s;
}

void throughput_note(struct throughput *t, uint64_t at_ns,
		     const struct fsm_counters *c)
{
	struct throughput_slot *s = slot_of(t, at_ns / MINUTE_NS);

	s->enqueued += c->enqueued - t->enqueued;
	s->completed += c->completed - t->completed;
	s->failed += c->failed - t->failed;
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
		    &t->slots[minute % THROUGHPUT_MINUTES];
		struct m_throughput_minute *m = &ret[i];
		bool hit = s->minute == minute;

		*m = (struct m_throughput_minute){ 0 };
		MSG_SET(m, throughput_minute, minute, minute * MINUTE_NS);
		MSG_SET(m, throughput_minute, enqueued, hit ? s->enqueued : 0);
		MSG_SET(m, throughput_minute, completed,
			hit ? s->completed : 0);
		MSG_SET(m, throughput_minute, failed, hit ? s->failed : 0);
	}
}
