#include "load/ledger.h"

#include <stdlib.h>

#define IDS_SHOWN 5 /* of each fault */

enum {
	SEEN_KNOWN = 1,
	SEEN_TAKEN = 2,
	SEEN_DONE = 4,
};

struct ledger_job {
	char id[ID_LEN_MAX - 1]; /* without its NUL; the first that was heard */
	uint8_t seen;
	uint64_t sent_ns; /* monotonic */
};

void ledger_done(struct ledger *l)
{
	free(l->jobs);
	for (size_t i = 0; i < FAULT_MAX; i++)
		buf_done(&l->ids[i]);
	*l = (struct ledger){ 0 };
}

uint64_t ledger_new(struct ledger *l, unsigned n)
{
	uint64_t number = l->n;

	CHECK(l->n + n <= LEDGER_JOBS_MAX);
	if (l->n + n > l->cap) {
		l->cap = MAX(l->n + n, MAX(UINT64_C(4096), l->cap * 2));
		l->jobs = xrealloc(l->jobs, l->cap * sizeof(*l->jobs));
	}
	memset(l->jobs + l->n, 0, n * sizeof(*l->jobs));
	l->n += n;
	return number;
}

void ledger_sent(struct ledger *l, uint64_t number, unsigned n, uint64_t now_ns)
{
	CHECK(number + n <= l->n);
	for (unsigned i = 0; i < n; i++)
		l->jobs[number + i].sent_ns = now_ns;
}

static void note(struct ledger *l, enum ledger_fault f, struct str id)
{
	if (l->faults[f]++ < IDS_SHOWN)
		buf_printf(&l->ids[f], "%s%.*s", l->ids[f].n > 0 ? ", " : "",
			   STR_ARG(id));
}

static struct str id_of(const struct ledger_job *j)
{
	return str_of(j->id, strnlen(j->id, sizeof(j->id)));
}

/* Who hears of a job's id first believes it; who comes later compares. */
static void take_id(struct ledger *l, struct ledger_job *j, struct str id)
{
	if (j->id[0] == '\0')
		memcpy(j->id, id.p, MIN(id.n, sizeof(j->id)));
	else if (!str_eq(id_of(j), id))
		note(l, FAULT_RENAMED, id);
}

void ledger_known(struct ledger *l, uint64_t number, struct str id)
{
	struct ledger_job *j;

	CHECK(number < l->n);
	j = &l->jobs[number];
	CHECK(!(j->seen & SEEN_KNOWN));
	take_id(l, j, id);
	j->seen |= SEEN_KNOWN;
	l->known++;
}

uint64_t ledger_taken(struct ledger *l, uint64_t number, struct str id)
{
	struct ledger_job *j;

	if (number >= l->n || l->jobs[number].sent_ns == 0) {
		note(l, FAULT_UNKNOWN, id);
		return 0;
	}
	j = &l->jobs[number];
	if (j->seen & SEEN_TAKEN) {
		note(l, FAULT_TWICE, id);
		return 0;
	}
	take_id(l, j, id);
	j->seen |= SEEN_TAKEN;
	l->taken++;
	return j->sent_ns;
}

void ledger_acked(struct ledger *l, uint64_t number)
{
	/* one that nobody should have had is counted already */
	if (number >= l->n || l->jobs[number].seen & SEEN_DONE)
		return;
	l->jobs[number].seen |= SEEN_DONE;
	l->done++;
}

/* What can only be said in the end. */
static void look_at(struct ledger *l, const struct ledger_job *j)
{
	if (j->seen == SEEN_KNOWN)
		note(l, FAULT_LOST, id_of(j));
	else if (j->seen != 0 && !(j->seen & SEEN_KNOWN))
		note(l, FAULT_UNKNOWN, id_of(j));
	else if (j->seen != 0 && !(j->seen & SEEN_DONE))
		note(l, FAULT_UNDONE, id_of(j));
}

bool ledger_balance(struct ledger *l, struct buf *why)
{
	static const char *const words[FAULT_MAX] = {
		[FAULT_LOST] = "lost",
		[FAULT_TWICE] = "handed out twice",
		[FAULT_UNKNOWN] = "handed out and never taken in",
		[FAULT_RENAMED] = "handed out under another id",
		[FAULT_UNDONE] = "handed out and not completed",
	};
	size_t start = why->n;

	for (uint64_t i = 0; i < l->n; i++)
		look_at(l, &l->jobs[i]);
	for (size_t f = 0; f < FAULT_MAX; f++) {
		if (l->faults[f] == 0)
			continue;
		buf_printf(why, "%s%llu %s %s (%.*s%s)",
			   why->n > start ? ", " : "",
			   (unsigned long long)l->faults[f],
			   l->faults[f] == 1 ? "job was" : "jobs were",
			   words[f], STR_ARG(buf_str(&l->ids[f])),
			   l->faults[f] > IDS_SHOWN ? ", ..." : "");
	}
	return why->n == start;
}
