/*
 * Help on the terminal and the reference page, both from the rows of
 * cmds.def and settings.def.
 */
#include <stdio.h>

#include "cmd.h"
#include "rt/config.h"
#include "version.h"

#define VERB_WIDTH   24
#define OPTION_WIDTH 28

static void print_row(const char *indent, int width, struct str left,
		      const char *help)
{
	(void)printf("%s%-*.*s %s\n", indent, width, STR_ARG(left), help);
}

static void put_verb(struct buf *b, const struct cmd *c)
{
	buf_printf(b, "%s%s%s", c->verb, *c->arguments != '\0' ? " " : "",
		   c->arguments);
}

static void put_option(struct buf *b, const struct cmd_option *o)
{
	buf_printf(b, "--%s%s%s", o->name, o->value != NULL ? " " : "",
		   o->value != NULL ? o->value : "");
}

static void print_settings(void)
{
	(void)printf("\nSettings, as flags (default):\n");
	for (unsigned i = 0; i < SETTING_MAX; i++) {
		const struct setting_info *s = setting_info((enum setting_id)i);
		_cleanup_(buf_done) struct buf left = BUF_INIT(0);

		buf_printf(&left, "%s (%s)", s->flag,
			   *s->def != '\0' ? s->def : "empty");
		(void)printf("  %.*s\n      %s\n", STR_ARG(buf_str(&left)),
			     s->doc);
	}
}

/* Also of a verb that leaves its options to another program. */
static bool has_option(const struct cmd *c, unsigned opt)
{
	return cmd_takes(c, opt) || ((c->groups & G_RAW) != 0 &&
				     (cmd_options[opt].groups & c->groups));
}

/* One that works on a node that is stopped needs few of them. */
static bool needs_few_settings(const struct cmd *c)
{
	return (c->groups & G_RAW) != 0 && (c->groups & G_NODE) != 0;
}

void cmd_help_verb(const struct cmd *c)
{
	_cleanup_(buf_done) struct buf use = BUF_INIT(0);

	put_verb(&use, c);
	(void)printf("Use: corvo %.*s\n\n%s\n", STR_ARG(buf_str(&use)),
		     c->help);
	if (!(c->groups & G_RAW) || needs_few_settings(c))
		(void)printf("\nOptions:\n");
	for (unsigned i = 0; i < OPT_MAX; i++) {
		_cleanup_(buf_done) struct buf left = BUF_INIT(0);

		if (!has_option(c, i))
			continue;
		put_option(&left, &cmd_options[i]);
		print_row("  ", OPTION_WIDTH, buf_str(&left),
			  cmd_options[i].help);
	}
	if (needs_few_settings(c))
		(void)printf("\nThe other settings of the node are taken as "
			     "flags, too: corvo help server\n");
	else if (c->groups & G_SETTINGS)
		print_settings();
}

static void print_verb(const struct cmd *c)
{
	_cleanup_(buf_done) struct buf left = BUF_INIT(0);

	put_verb(&left, c);
	print_row("  ", VERB_WIDTH, buf_str(&left), c->help);
}

bool cmd_help_family(const char *word)
{
	bool found = false;

	for (size_t i = 0; i < cmds_n; i++) {
		struct str first, rest;

		if (!str_split(str_from(cmds[i].verb), ' ', &first, &rest) ||
		    !str_is(first, word))
			continue;
		print_verb(&cmds[i]);
		found = true;
	}
	if (found)
		(void)printf("\n`corvo help VERB` shows the options of a "
			     "verb.\n");
	return found;
}

static void help_all(void)
{
	(void)printf("corvo runs and talks to a Corvo job server.\n\n");
	for (size_t i = 0; i < cmds_n; i++)
		print_verb(&cmds[i]);
	(void)printf("\n`corvo help VERB` shows the options of a verb.\n"
		     "Exit status: 0 done, 1 refused, unreachable or not "
		     "reached, 2 the command line is wrong,\n3 the server "
		     "does not know whether it was done.\n");
}

/* --- the reference page --- */

static void markdown_verb(const struct cmd *c)
{
	_cleanup_(buf_done) struct buf use = BUF_INIT(0);
	unsigned shown = 0;

	put_verb(&use, c);
	(void)printf("\n## corvo %.*s\n\n%s\n", STR_ARG(buf_str(&use)),
		     c->help);
	if (c->groups & G_SETTINGS)
		(void)printf("\nTakes every setting of [settings](settings.md) "
			     "as a flag.\n");
	for (unsigned i = 0; i < OPT_MAX; i++) {
		const struct cmd_option *o = &cmd_options[i];
		_cleanup_(buf_done) struct buf left = BUF_INIT(0);

		if (!has_option(c, i) || o->groups & G_ALL)
			continue;
		put_option(&left, o);
		(void)printf("%s| `%.*s` | %s |\n",
			     shown++ == 0 ? "\n| option | |\n|---|---|\n" : "",
			     STR_ARG(buf_str(&left)), o->help);
	}
}

static void help_markdown(void)
{
	(void)printf("# The corvo command\n\n"
		     "Generated from cli/cmds.def by `make docs`.\n\n"
		     "Exit status: 0 done; 1 refused or unreachable, with "
		     "`Error: text` on stderr, or\nnot reached what it was "
		     "for (`drain`, `bulk --wait`, `admin verify-view`);\n2 "
		     "the command line is wrong; 3 the server does not know "
		     "whether it was done (504\n`OUTCOME_UNKNOWN`). What is "
		     "asked for goes to stdout, everything else to stderr.\n"
		     "Control characters in what a server says, and those "
		     "that turn the direction of the\ntext around them, are "
		     "shown as `\\x1b` or `\\u202e`; in JSON they are escaped."
		     "\n\nEvery verb but server takes:\n\n"
		     "| option | |\n|---|---|\n");
	for (unsigned i = 0; i < OPT_MAX; i++) {
		_cleanup_(buf_done) struct buf left = BUF_INIT(0);

		if (!(cmd_options[i].groups & G_ALL))
			continue;
		put_option(&left, &cmd_options[i]);
		(void)printf("| `%.*s` | %s |\n", STR_ARG(buf_str(&left)),
			     cmd_options[i].help);
	}
	for (size_t i = 0; i < cmds_n; i++)
		markdown_verb(&cmds[i]);
}

int cmd_help(const struct cmd_args *a)
{
	const struct cmd *c;
	int words;

	if (a->opt[OPT_MARKDOWN] != NULL) {
		help_markdown();
		return CLI_OK;
	}
	if (a->argc == 0) {
		help_all();
		return CLI_OK;
	}
	c = cmd_find(a->argc, a->argv, &words);
	if (c == NULL && a->argc == 1 && cmd_help_family(a->argv[0]))
		return CLI_OK;
	if (c == NULL)
		return cmd_unknown(a->argc, a->argv);
	cmd_help_verb(c);
	return CLI_OK;
}

int cmd_version(const struct cmd_args *a)
{
	if (a->json)
		out_json(STR("{\"version\":\"" CORVO_VERSION
			     "\",\"commit\":\"" CORVO_COMMIT
			     "\",\"built\":\"" CORVO_BUILT "\"}"));
	else
		(void)printf("corvo %s (commit: %s, built: %s)\n",
			     CORVO_VERSION, CORVO_COMMIT, CORVO_BUILT);
	return CLI_OK;
}
