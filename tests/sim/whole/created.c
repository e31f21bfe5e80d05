/*
 * What a job is that nothing has happened to. The headers of fsm and those of a
 * process do not go into one file.
 */
#include "fsm/job/job.h"
#include "reader.h"

void created_live(struct str doc, struct buf *ret)
{
	struct arena a = ARENA_INIT;
	struct m_job_live live;
	struct m_job_doc d;

	CHECK(msg_decode(&msg_job_doc, doc, &a, &d) == 0);
	job_live_as_created(&d, &live);
	msg_encode(&msg_job_live, &live, ret);
	arena_done(&a);
}
