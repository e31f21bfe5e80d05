#include "silence.h"

#include <inttypes.h>

#include "rt/log.h"
#include "rt/procstat.h"
#include "util/clock.h"

#define EXCUSED_TIMES 12 /* the watchdog's timeout */
#define EXCUSED_LEAST 16 /* of it: less is no excuse */

/*
 * What a silent process waits for, and until when after its last word that is
 * no fault of its own; NULL: nothing is to be seen.
 */
static const char *waits_for(const struct child *c, uint64_t silent_ns,
			     uint64_t allowed_ns, uint64_t *ret_excused_ns)
{
	uint64_t starved_ns;
	struct procstat_turns t;
	char other;

	procstat_turns(c->pid, &t);
	starved_ns = t.kept_ns - c->kept_ns;
	if (t.state == 'R') /* which still waits may have waited all along */
		starved_ns = silent_ns - MIN(silent_ns, t.ran_ns - c->ran_ns);
	*ret_excused_ns = starved_ns;
	if (starved_ns > c->excused_ns + allowed_ns / EXCUSED_LEAST)
		return "processor";
	*ret_excused_ns = c->excused_ns + allowed_ns / 4;
	/* One that sleeps may do so until another thread has done its part. */
	other = t.state == 'S' ? procstat_other_thread(c->pid) : t.state;
	if (other == 'D')
		return "disk";
	return other == 'R' && t.state == 'S' ? "processor" : NULL;
}

bool silence_excuse(struct child *c, uint64_t now_ns)
{
	uint64_t silent_ns = now_ns - c->beat_ns;
	uint64_t allowed_ns = silent_ns - c->excused_ns, excused_ns;
	const char *what;

	if (silent_ns >= EXCUSED_TIMES * allowed_ns)
		return false;
	what = waits_for(c, silent_ns, allowed_ns, &excused_ns);
	if (what == NULL)
		return false;
	if (c->excused_ns == 0)
		log_warn("process=%s pid=%d has said nothing for %" PRIu64
			 " ms: it waits for the %s",
			 c->name, (int)c->pid, silent_ns / NS_PER_MS, what);
	c->excused_ns = excused_ns;
	return true;
}
