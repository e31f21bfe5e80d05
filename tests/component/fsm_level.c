#include "fsm_level.h"

#include "fsm/core/state.h"

void test_set_level(struct fsm *f, uint32_t level)
{
	f->cluster.level = level;
}
