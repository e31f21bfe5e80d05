/*
 * Providers of models, as workers find them: what was reported of each in the
 * last minutes, by ack and fail, and what follows from that. A ring of counters
 * over the window; a report and a question cost the same, however many reports
 * there were.
 */
#ifndef CORVO_FSM_TIES_PROVIDER_H
#define CORVO_FSM_TIES_PROVIDER_H

#include "fsm/core/state.h"

/* How a provider did for an attempt. */
struct provider_report {
	struct str provider; /* empty: nobody says */
	bool failed;
	bool has_latency;
	uint64_t latency_ns;
	struct str error; /* with failed */
};

/* Refused when a latency cannot be: before anything is done. */
int provider_check(struct fsm *f, bool has_latency, uint64_t latency_ns);

/* Counts a checked one, and tells when it changes how the provider is seen. */
void provider_report(struct fsm *f, const struct provider_report *r);

/* By what was reported in the window before then. One nobody knows is unknown.
 */
enum provider_state provider_state_at(const struct fsm *f, struct str name,
				      uint64_t now_ns);

/* All of them, in no order; room for f->providers.n. Slices are ours. */
size_t providers_copy(const struct fsm *f, uint64_t now_ns,
		      struct m_provider *ret);

/* At the end of an entry: those that were reported of. */
void providers_write_dirty(struct fsm *f);

int providers_load(struct fsm *f);
void providers_free(struct fsm *f);

#endif
