/*
 * corvo-sched: acts when the clock says so. See sched.h.
 */
#include "sched.h"

int main(int argc, char **argv)
{
	return daemon_main(argc, argv, &sched_ops);
}
