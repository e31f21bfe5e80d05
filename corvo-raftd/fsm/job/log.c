/*
 * Lines of a job's log, under l|. live.log_lines counts all that ever came;
 * the newest LIMIT_LOG_LINES are kept. Lines come from workers; their number
 * and length were checked where they came in.
 */
#include "fsm/job/log.h"

#include "fsm/core/entry.h"
#include "fsm/core/state.h"
#include "fsm/job/job.h"

/* Number of the first line that is still there. */
static uint32_t first_kept(uint32_t lines)
{
	return lines > LIMIT_LOG_LINES ? lines - LIMIT_LOG_LINES + 1 : 1;
}

static void delete_lines(struct fsm *f, struct str id, uint32_t from,
			 uint32_t upto)
{
	struct key k;

	for (uint32_t i = from; i < upto; i++) {
		key_log(&k, id, i);
		fsm_delete(f, &k);
	}
}

void log_append(struct fsm *f, struct job *j, const struct str *lines, size_t n)
{
	uint32_t before = j->live.log_lines;
	uint32_t room = UINT32_MAX - before;
	struct key k;

	n = MIN(n, (size_t)MIN(room, (uint32_t)LIMIT_LOG_LINES));
	if (n == 0)
		return;
	for (uint32_t i = 0; i < n; i++) {
		struct m_log_line l = { 0 };

		MSG_SET(&l, log_line, at, f->now_ns);
		MSG_SET(&l, log_line, attempt, j->live.attempt);
		MSG_SET(&l, log_line, line, lines[i]);
		key_log(&k, j->id, before + 1 + i);
		fsm_put(f, &k, &msg_log_line, &l);
	}
	MSG_SET(&j->live, job_live, log_lines, before + (uint32_t)n);
	delete_lines(f, j->id, first_kept(before),
		     first_kept(before + (uint32_t)n));
}

void log_delete(struct fsm *f, const struct job *j)
{
	uint32_t n = j->live.log_lines;

	delete_lines(f, j->id, first_kept(n), n + 1);
	budget_take_records(f, n + 1 - first_kept(n));
}
