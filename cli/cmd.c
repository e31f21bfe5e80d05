/*
 * The table of verbs and the command line, and how errors are told.
 */
#include "cmd.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

const struct cmd cmds[] = {
#define CMD(verb, function, arguments, groups, help) \
	{ verb, cmd_##function, arguments, groups, help },
#include "cmds.def"
};
const size_t cmds_n = ARRAY_SIZE(cmds);

const struct cmd_option cmd_options[OPT_MAX] = {
#define OPT(id, name, groups, value, help) \
	[OPT_##id] = { name, groups, value, help },
#include "cmds.def"
};

/* --- messages --- */

/* Texts from a server go through here to a terminal; they may have lines. */
static void complain(const char *fmt, va_list ap)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	_cleanup_(buf_done) struct buf clean = BUF_INIT(0);
	struct str rest, line;

	buf_vprintf(&text, fmt, ap);
	rest = buf_str(&text);
	do {
		bool more = str_split(rest, '\n', &line, &rest);

		out_put_clean(&clean, line);
		buf_puts(&clean, more ? "\n" : "");
	} while (rest.n > 0);
	(void)fprintf(stderr, "Error: %.*s\n", STR_ARG(buf_str(&clean)));
}

int cmd_failed(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(fmt, ap);
	va_end(ap);
	return CLI_FAILED;
}

int cmd_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(fmt, ap);
	va_end(ap);
	return CLI_USAGE;
}

/* --- the command line --- */

/* How many words of argv are the words of verb; 0: they are not. */
static int match_verb(const char *verb, int argc, char **argv)
{
	struct str rest = str_from(verb), word;
	int n = 0;

	while (rest.n > 0) {
		(void)str_split(rest, ' ', &word, &rest);
		if (n >= argc || !str_is(word, argv[n]))
			return 0;
		n++;
	}
	return n;
}

const struct cmd *cmd_find(int argc, char **argv, int *ret_words)
{
	for (size_t i = 0; i < cmds_n; i++) {
		int n = match_verb(cmds[i].verb, argc, argv);

		if (n > 0) {
			*ret_words = n;
			return &cmds[i];
		}
	}
	return NULL;
}

int cmd_unknown(int argc, char **argv)
{
	_cleanup_(buf_done) struct buf names = BUF_INIT(0);
	const char *second = argc > 1 && argv[1][0] != '-' ? argv[1] : "";

	for (size_t i = 0; i < cmds_n; i++) {
		struct str first, rest;

		if (str_split(str_from(cmds[i].verb), ' ', &first, &rest) &&
		    str_is(first, argv[0]))
			buf_printf(&names, "%s%s", names.n > 0 ? ", " : "",
				   cmds[i].verb);
	}
	if (names.n > 0)
		return cmd_usage("there is no command \"%s%s%s\"; there are: "
				 "%.*s",
				 argv[0], *second != '\0' ? " " : "", second,
				 STR_ARG(buf_str(&names)));
	return cmd_usage("there is no command \"%s\"; `corvo help` shows "
			 "them all",
			 argv[0]);
}

bool cmd_takes(const struct cmd *c, unsigned opt)
{
	unsigned groups = c->groups & G_RAW ? 0 : c->groups | G_ALL;

	return (cmd_options[opt].groups & groups) != 0;
}

/*
 * Reads the option at argv[*i] into ret and moves *i past it. CLI_USAGE with
 * *ret_unknown set: no option of this verb has that name.
 */
static int parse_option(const struct cmd *c, int argc, char **argv, int *i,
			struct cmd_args *ret, bool *ret_unknown)
{
	const char *text = argv[*i] + 2;
	size_t n = strcspn(text, "=");
	unsigned opt = 0;

	while (opt < OPT_MAX &&
	       !(cmd_takes(c, opt) &&
		 str_is(str_of(text, n), cmd_options[opt].name)))
		opt++;
	*ret_unknown = opt == OPT_MAX;
	if (opt == OPT_MAX)
		return CLI_USAGE;
	(*i)++;
	if (cmd_options[opt].value == NULL) {
		if (text[n] == '=')
			return cmd_usage("--%s takes no value",
					 cmd_options[opt].name);
		ret->opt[opt] = cmd_options[opt].name;
		return CLI_OK;
	}
	if (text[n] == '=') {
		ret->opt[opt] = text + n + 1;
		return CLI_OK;
	}
	if (*i >= argc)
		return cmd_usage("--%s needs a value: %s",
				 cmd_options[opt].name, cmd_options[opt].value);
	ret->opt[opt] = argv[(*i)++];
	return CLI_OK;
}

/*
 * No argument begins so: a number may have a sign, but no letter after it. The
 * value of a setting may.
 */
static bool is_short(const struct cmd *c, const char *arg)
{
	return strcmp(arg, "-h") == 0 ||
	       (arg[0] == '-' && isalpha((unsigned char)arg[1]) &&
		!(c->groups & G_SETTINGS));
}

static int parse_short(const struct cmd *c, const char *arg,
		       struct cmd_args *ret)
{
	if (strcmp(arg, "-h") != 0)
		return cmd_usage("unknown option %s; see: corvo help %s", arg,
				 c->verb);
	ret->opt[OPT_HELP] = cmd_options[OPT_HELP].name;
	return CLI_OK;
}

/*
 * Values of the one option that may be given several times; they are kept
 * behind the arguments, where there is room, as each took a place of its own.
 */
static void keep_tag(struct cmd_args *a, char **last)
{
	a->tags = last - a->tags_n++;
	*a->tags = (char *)a->opt[OPT_TAG];
	a->opt[OPT_TAG] = NULL;
}

/*
 * Names that a server takes for the usual one when it does not know them, or
 * ignores; whoever types one means something else.
 */
static int check_names(const struct cmd_args *a)
{
	static const struct {
		enum cmd_opt opt;
		const char *names;
	} rules[] = {
		{ OPT_PRIORITY, CMD_PRIORITIES },
		{ OPT_FIND_PRIORITY, CMD_PRIORITIES },
		{ OPT_RETRY_BACKOFF, "none fixed linear exponential" },
		{ OPT_SORT,
		  "created_at priority started_at completed_at attempt cost "
		  "iteration model" },
		{ OPT_ORDER, "asc desc" },
	};
	int r = CLI_OK;

	for (size_t i = 0; i < ARRAY_SIZE(rules) && r == CLI_OK; i++) {
		_cleanup_(buf_done) struct buf what = BUF_INIT(0);

		if (a->opt[rules[i].opt] == NULL)
			continue;
		buf_printf(&what, "--%s", cmd_options[rules[i].opt].name);
		buf_putc(&what, '\0');
		r = cmd_check_name(what.p, a->opt[rules[i].opt],
				   rules[i].names);
	}
	return r;
}

/* Other verbs begin with the word that is this one. */
static bool is_family(const struct cmd *c)
{
	struct str first, rest;

	for (size_t i = 0; i < cmds_n; i++)
		if (str_split(str_from(cmds[i].verb), ' ', &first, &rest) &&
		    str_is(first, c->verb))
			return true;
	return false;
}

/* Compares the number of arguments with what the verb's row names. */
static int check_count(const struct cmd *c, int argc, char **argv)
{
	struct str rest = str_from(c->arguments), word;
	int least = 0, most = 0;

	while (rest.n > 0) {
		(void)str_split(rest, ' ', &word, &rest);
		most++;
		if (word.p[0] != '[')
			least++;
		else if (memmem(word.p, word.n, "...", 3) != NULL)
			most = INT32_MAX;
	}
	if (argc >= least && argc <= most)
		return CLI_OK;
	if (most == 0 && is_family(c))
		return cmd_unknown(2, (char *[]){ (char *)c->verb, argv[0] });
	return cmd_usage(
	    "%s; use: corvo %s%s%s",
	    argc < least ? "an argument is missing" : "too many arguments",
	    c->verb, *c->arguments != '\0' ? " " : "", c->arguments);
}

static int check_output(const struct cmd *c, struct cmd_args *a)
{
	const char *output = a->opt[OPT_OUTPUT];
	bool lists = (c->groups & G_LIST) != 0;

	a->json = a->opt[OPT_OUTPUT_JSON] != NULL;
	if (output == NULL)
		return CLI_OK;
	a->ids = lists && strcmp(output, "ids") == 0;
	if (strcmp(output, "json") != 0 && strcmp(output, "table") != 0 &&
	    !a->ids)
		return cmd_usage("--output takes %s", lists
							  ? "table, json or ids"
							  : "table or json");
	a->json = a->json || strcmp(output, "json") == 0;
	return CLI_OK;
}

int cmd_parse(const struct cmd *c, int argc, char **argv, char **keep,
	      struct cmd_args *ret)
{
	bool options = true;
	int r;

	*ret = (struct cmd_args){ .argv = keep };
	for (int i = 0; i < argc;) {
		bool unknown = false;

		if (options && is_short(c, argv[i])) {
			r = parse_short(c, argv[i++], ret);
			if (r != CLI_OK)
				return r;
			continue;
		}
		if (!options || strncmp(argv[i], "--", 2) != 0) {
			keep[ret->argc++] = argv[i++];
			continue;
		}
		if (argv[i][2] == '\0' && !(c->groups & G_SETTINGS)) {
			options = false;
			i++;
			continue;
		}
		r = parse_option(c, argc, argv, &i, ret, &unknown);
		if (unknown && c->groups & G_SETTINGS)
			keep[ret->argc++] = argv[i++];
		else if (unknown)
			return cmd_usage(
			    "unknown option %s; see: corvo help %s", argv[i],
			    c->verb);
		else if (r != CLI_OK)
			return r;
		if (ret->opt[OPT_TAG] != NULL)
			keep_tag(ret, keep + argc - 1);
	}
	r = check_output(c, ret);
	if (r != CLI_OK || ret->opt[OPT_HELP] != NULL)
		return r;
	r = check_names(ret);
	return r == CLI_OK ? check_count(c, ret->argc, ret->argv) : r;
}
