/*
 * corvo-viewd: lists and searches, from SQLite. See viewd.h.
 */
#include "viewd.h"

int main(int argc, char **argv)
{
	return daemon_main(argc, argv, &viewd_ops);
}
