#include "cluster/seglog/fault.h"

#include <poll.h>
#include <stdlib.h>

#include "cluster/fault_file.h"

void seglog_fault_flush(void)
{
	uint64_t ms = fault_file_number(getenv("CORVO_FAULT_FLUSH_DELAY"));

	if (ms > 0)
		(void)poll(NULL, 0, (int)ms);
}
