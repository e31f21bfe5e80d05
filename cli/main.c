/*
 * The corvo command: finds the verb, reads its options, runs it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd.h"

static bool is_help(const char *arg)
{
	return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

/* These verbs leave their options to the program they become. */
static bool asks_help(const struct cmd *c, int argc, char **argv)
{
	for (int i = 0; i < argc && (c->groups & G_RAW); i++)
		if (is_help(argv[i]))
			return true;
	return false;
}

static int run(int argc, char **argv)
{
	char **keep = xcalloc((size_t)argc + 1, sizeof(*keep));
	const struct cmd *c;
	struct cmd_args a;
	int words, r;

	c = cmd_find(argc, argv, &words);
	if (c == NULL && argc == 2 && is_help(argv[1]) &&
	    cmd_help_family(argv[0])) {
		r = CLI_OK;
	} else if (c == NULL) {
		r = cmd_unknown(argc, argv);
	} else if (asks_help(c, argc - words, argv + words)) {
		cmd_help_verb(c);
		r = CLI_OK;
	} else {
		r = cmd_parse(c, argc - words, argv + words, keep, &a);
		if (r == CLI_OK && a.opt[OPT_HELP] != NULL)
			cmd_help_verb(c);
		else if (r == CLI_OK)
			r = c->run(&a);
	}
	free(keep);
	return r;
}

/* Like every program whose reader has had enough: without a word. */
static void end_as_unread(void)
{
	(void)signal(SIGPIPE, SIG_DFL);
	(void)raise(SIGPIPE);
}

int main(int argc, char **argv)
{
	static char help[] = "help", version[] = "version";
	int r;

	out_open();
	/* A closed pipe is a failed write; also one to a server. */
	(void)signal(SIGPIPE, SIG_IGN);
	if (argc < 2) {
		(void)cmd_usage(
		    "no command given; `corvo help` shows them all");
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		argv[1] = help;
	else if (strcmp(argv[1], "--version") == 0)
		argv[1] = version;
	r = run(argc - 1, argv + 1);
	if (out_close())
		return r;
	if (out_is_unread())
		end_as_unread();
	return r == CLI_OK ? cmd_failed("cannot write the output") : r;
}
