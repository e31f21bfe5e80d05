/*
 * The table of verbs, the command line, help, and the calls verbs share.
 */
#include "cmd.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api.h"
#include "proto/limits.h"
#include "proto/msg.h"
#include "rt/config.h"
#include "rt/ctl.h"

#define DEFAULT_SERVER "http://127.0.0.1:8080"
#define LONG_CALL_S    3700L /* a little longer than the server takes */

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

int cmd_unknown(const char *word)
{
	_cleanup_(buf_done) struct buf names = BUF_INIT(0);

	for (size_t i = 0; i < cmds_n; i++) {
		struct str first, rest;

		if (str_split(str_from(cmds[i].verb), ' ', &first, &rest) &&
		    str_is(first, word))
			buf_printf(&names, "%s%s", names.n > 0 ? ", " : "",
				   cmds[i].verb);
	}
	if (names.n > 0)
		return cmd_usage("there is no command \"%s\" alone; there "
				 "are: %.*s",
				 word, STR_ARG(buf_str(&names)));
	return cmd_usage("there is no command \"%s\"; `corvo help` shows "
			 "them all",
			 word);
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

/* No argument begins so: a number may have a sign, but no letter after it. */
static bool is_short(const char *arg)
{
	return arg[0] == '-' && isalpha((unsigned char)arg[1]);
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
		  "created_at priority started_at completed_at attempt" },
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

/* Compares the number of arguments with what the verb's row names. */
static int check_count(const struct cmd *c, int argc)
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

		if (options && is_short(argv[i])) {
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
	return r == CLI_OK ? check_count(c, ret->argc) : r;
}

/* --- asking --- */

static const char *given(const char *option, const char *variable,
			 const char *otherwise)
{
	const char *v = option != NULL ? option : getenv(variable);

	return v != NULL && *v != '\0' ? v : otherwise;
}

void cmd_api(const struct cmd_args *a, struct api *ret)
{
	*ret = (struct api){
		.server =
		    given(a->opt[OPT_SERVER], "CORVO_URL", DEFAULT_SERVER),
		.key = given(a->opt[OPT_API_KEY], "CORVO_API_KEY", NULL),
		.idempotency_key = a->opt[OPT_IDEMPOTENCY_KEY],
	};
}

/* Once, however many pages a list has. */
static void tell_lag(uint64_t lag_ms)
{
	static bool told;

	if (lag_ms == 0 || told)
		return;
	told = true;
	(void)fprintf(stderr,
		      "Lists are %llu ms behind; the newest changes may be "
		      "missing here\n",
		      (unsigned long long)lag_ms);
}

static int call(const struct cmd_args *a, const char *method, const char *path,
		struct str body, long timeout_s, struct buf *ret_reply)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	uint64_t lag_ms = 0;
	struct api api;
	int r;

	cmd_api(a, &api);
	api.timeout_s = timeout_s;
	api.ret_lag_ms = &lag_ms;
	r = api_call(&api, method, path, body, ret_reply, &why);
	tell_lag(lag_ms);
	if (r < 0)
		return cmd_failed("%.*s", STR_ARG(buf_str(&why)));
	return CLI_OK;
}

int cmd_call(const struct cmd_args *a, const char *method, const char *path,
	     struct str body, struct buf *ret_reply)
{
	return call(a, method, path, body, 0, ret_reply);
}

int cmd_call_long(const struct cmd_args *a, const char *method,
		  const char *path, struct buf *ret_reply)
{
	return call(a, method, path, STR_NULL, LONG_CALL_S, ret_reply);
}

int cmd_call_on(const struct cmd_args *a, const char *method,
		const char *collection, const char *action, struct str body,
		struct buf *ret_reply)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	if (a->argv[0][0] == '\0')
		return cmd_usage("the id or name is empty");
	buf_printf(&path, "/api/v1/%s/", collection);
	api_put_segment(&path, a->argv[0]);
	buf_puts(&path, action);
	buf_putc(&path, '\0');
	return cmd_call(a, method, path.p, body, ret_reply);
}

int cmd_read_stdin(struct buf *ret)
{
	char chunk[4096];
	ssize_t n;

	while ((n = read(STDIN_FILENO, chunk, sizeof(chunk))) > 0)
		buf_append(ret, chunk, (size_t)n);
	if (n < 0)
		return cmd_failed("cannot read standard input");
	if (ret->full)
		return cmd_failed(
		    "standard input is larger than a request may be");
	return CLI_OK;
}

/* The options that say where the node is, as flags for settings_load. */
static int load_node(const struct cmd_args *a, struct settings *ret,
		     struct buf *why)
{
	static const enum cmd_opt where[] = { OPT_DATA_DIR, OPT_RUN_DIR,
					      OPT_CONFIG };
	struct arena mem = ARENA_INIT;
	char *flags[ARRAY_SIZE(where)];
	int n = 0, r;

	for (size_t i = 0; i < ARRAY_SIZE(where); i++) {
		struct str flag;

		if (a->opt[where[i]] == NULL)
			continue;
		flag = arena_printf(&mem, "--%s=%s", cmd_options[where[i]].name,
				    a->opt[where[i]]);
		flags[n++] = arena_cstr(&mem, flag);
	}
	r = settings_load(n, flags, ret, why);
	arena_done(&mem);
	return r;
}

int cmd_control(const struct cmd_args *a, const char *request,
		struct buf *ret_reply)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	_cleanup_(buf_done) struct buf dir = BUF_INIT(0);
	struct settings s;
	int r;

	if (load_node(a, &s, &why) < 0)
		return cmd_failed("%.*s", STR_ARG(buf_str(&why)));
	settings_run_dir(&s, &dir);
	buf_putc(&dir, '\0');
	r = ctl_request(dir.p, request, ret_reply, &why);
	settings_done(&s);
	if (r < 0)
		return cmd_failed("%.*s", STR_ARG(buf_str(&why)));
	return CLI_OK;
}

int cmd_check_name(const char *what, const char *given, const char *names)
{
	struct str rest = str_from(names), name;

	while (rest.n > 0) {
		(void)str_split(rest, ' ', &name, &rest);
		if (str_is(name, given))
			return CLI_OK;
	}
	return cmd_usage("%s takes one of: %s", what, names);
}

bool cmd_is_json(const char *what, struct str text)
{
	struct json_error bad;

	if (json_validate(text, LIMIT_JSON_DEPTH, &bad))
		return true;
	(void)cmd_usage("%s is not valid JSON: %s at byte %zu (a text needs "
			"quotes of its own: '\"text\"')",
			what, bad.text, bad.pos);
	return false;
}

/* Lists of records that JSON has in another shape count too. */
static bool is_asked(const struct field_desc *f)
{
	return f->kind == K_msgs || !(f->flags & (F_INTERNAL | F_PATH));
}

static bool is_known(const struct msg_desc *d, struct str name)
{
	struct str ms = name;

	if (name.n > 3 && memcmp(name.p + name.n - 3, "_ms", 3) == 0)
		ms.n -= 3;
	for (size_t i = 0; i < d->n; i++) {
		const struct field_desc *f = &d->fields[i];

		if (is_asked(f) && (str_is(name, f->name) ||
				    (f->kind == K_dur && str_is(ms, f->name))))
			return true;
	}
	return false;
}

static int unknown_member(const char *what, struct str name,
			  const struct msg_desc *d)
{
	_cleanup_(buf_done) struct buf names = BUF_INIT(0);

	for (size_t i = 0; i < d->n; i++)
		if (is_asked(&d->fields[i]))
			buf_printf(&names, "%s%s", names.n > 0 ? ", " : "",
				   d->fields[i].name);
	return cmd_usage("%s knows no \"%.*s\"; it knows %.*s", what,
			 STR_ARG(name), STR_ARG(buf_str(&names)));
}

int cmd_check_members(const char *what, struct json v, const struct msg_desc *d)
{
	struct arena a = ARENA_INIT;
	struct json_iter it;
	struct json member;
	struct str name;
	int r = CLI_OK;

	if (json_type_of(v) != JSON_OBJECT)
		return cmd_usage("%s takes an object, {...}", what);
	it = json_iter(v);
	while (r == CLI_OK && json_next_member(&it, &a, &name, &member))
		if (!is_known(d, name))
			r = unknown_member(what, name, d);
	arena_done(&a);
	return r;
}

void cmd_put_text(struct json_writer *w, const struct cmd_args *a,
		  enum cmd_opt opt, const char *member)
{
	if (a->opt[opt] == NULL)
		return;
	jw_key(w, member);
	jw_cstr(w, a->opt[opt]);
}

void cmd_put_list(struct json_writer *w, const struct cmd_args *a,
		  enum cmd_opt opt, const char *member)
{
	struct str rest, word;

	if (a->opt[opt] == NULL)
		return;
	jw_key(w, member);
	jw_array(w);
	for (rest = str_from(a->opt[opt]); rest.n > 0;) {
		(void)str_split(rest, ',', &word, &rest);
		jw_str(w, str_trim(word));
	}
	jw_array_end(w);
}

bool cmd_put_json(struct json_writer *w, const struct cmd_args *a,
		  enum cmd_opt opt, const char *member)
{
	if (a->opt[opt] == NULL)
		return true;
	if (!cmd_is_json(cmd_options[opt].name, str_from(a->opt[opt])))
		return false;
	jw_key(w, member);
	jw_raw(w, str_from(a->opt[opt]));
	return true;
}

int cmd_put_number(struct json_writer *w, const struct cmd_args *a,
		   enum cmd_opt opt, const char *member)
{
	uint64_t v;

	if (a->opt[opt] == NULL)
		return CLI_OK;
	if (!str_parse_u64(str_from(a->opt[opt]), &v))
		return cmd_usage("--%s takes a whole number",
				 cmd_options[opt].name);
	jw_key(w, member);
	jw_u64(w, v);
	return CLI_OK;
}

void cmd_print(const struct cmd_args *a, struct str reply, const char *words,
	       const char *member)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	if (a->json) {
		out_json(reply);
		return;
	}
	out_text(&text, json_root(reply), member);
	out_linef("%s: %.*s", words, STR_ARG(buf_str(&text)));
}
