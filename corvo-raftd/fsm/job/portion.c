/*
 * Jobs deleted many at a time: by clear, delete of a queue, and purge. One
 * entry does so much and no more, counted in jobs, in records that go with
 * them and in bytes read for it; ids come from our own indexes.
 */
#include "fsm/job/portion.h"

#include "fsm/core/state.h"
#include "fsm/job/job.h"

#define PORTION_RECORDS (10 * LIMIT_MAINTAIN_JOBS)
#define PORTION_BYTES   (16u << 20)

bool portion_is_full(const struct portion *p)
{
	return p->jobs >= p->max || p->looked_at >= LIMIT_MAINTAIN_JOBS ||
	       p->records >= PORTION_RECORDS || p->bytes >= PORTION_BYTES;
}

void portion_count(struct portion *p, const struct job *j, bool with_records)
{
	p->looked_at++;
	p->bytes += j->doc.payload.n + j->live.result.n + j->live.checkpoint.n;
	if (with_records)
		p->records += 1 +
			      MIN(j->live.errors, (uint32_t)LIMIT_JOB_ERRORS) +
			      MIN(j->live.log_lines, (uint32_t)LIMIT_LOG_LINES);
}

int portion_delete(struct fsm *f, struct portion *p, struct str id,
		   uint64_t upto_seq, enum event_type type)
{
	struct job j;
	bool stays;
	int r = job_find(f, id, &j);

	if (r < 0)
		return r;
	CHECK(r > 0); /* it stands in an index */
	stays = upto_seq != 0 && j.live.seq > upto_seq;
	portion_count(p, &j, !stays);
	if (stays)
		return 0;
	p->jobs++;
	job_delete(f, &j, type);
	return 0;
}
