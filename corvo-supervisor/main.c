/*
 * corvo-supervisor: runs a node in the foreground. Its flags are the
 * settings; `corvo server` becomes this program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rt/fds.h"
#include "superv.h"

static int print_help(void)
{
	(void)puts("corvo-supervisor runs a node: it starts and watches its "
		   "processes.\n\nSettings (default):");
	for (unsigned i = 0; i < SETTING_MAX; i++) {
		const struct setting_info *s = setting_info((enum setting_id)i);

		(void)printf("  %s (%s)\n      %s\n", s->flag,
			     s->def[0] != '\0' ? s->def : "empty", s->doc);
	}
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--help") == 0)
		return print_help();
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		(void)printf("corvo-supervisor %s\n", corvo_version);
		return EXIT_SUCCESS;
	}
	fds_fill_standard();
	return superv_main(argc - 1, argv + 1);
}
