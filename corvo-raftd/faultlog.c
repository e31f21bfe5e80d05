#include "faultlog.h"

#include <inttypes.h>

#include "proto/proto.h"
#include "rt/log.h"

static void tell(_unused_ void *ctx, const struct fsm_fault *fault)
{
	const struct call_info *op = op_info(fault->op);

	log_error("operation %s, number %u of entry %" PRIu64
		  " of the raft log, failed a check: %s:%d: %s; %s; please "
		  "report this line",
		  op != NULL ? op->name : "?", fault->item + 1,
		  fault->raft_index, fault->file, fault->line, fault->what,
		  fault->is_undone
		      ? "it was undone and answered 500, as on every node"
		      : "everything in memory was loaded anew, and it is "
			"tried once more");
}

void faultlog_tell(const struct fsm *f)
{
	fsm_each_fault(f, tell, NULL);
}
