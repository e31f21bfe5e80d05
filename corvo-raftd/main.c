/*
 * corvo-raftd: see raftd.h.
 */
#include <string.h>

#include "raftd.h"
#include "recover.h"
#include "skip.h"

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "recover") == 0)
		return recover_main(argc - 2, argv + 2, false);
	if (argc > 1 && strcmp(argv[1], "recover-alone") == 0)
		return recover_main(argc - 2, argv + 2, true);
	if (argc > 1 && strcmp(argv[1], "skip-entry") == 0)
		return skip_main(argc - 2, argv + 2);
	return daemon_main(argc, argv, &raftd_ops);
}
