/*
 * corvo-raftd: see raftd.h.
 */
#include "raftd.h"

int main(int argc, char **argv)
{
	return daemon_main(argc, argv, &raftd_ops);
}
