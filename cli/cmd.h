/*
 * What the verbs share: their arguments, their exit statuses, and the two
 * ways to ask somebody (the HTTP API, the supervisor of this machine).
 */
#ifndef CORVO_CLI_CMD_H
#define CORVO_CLI_CMD_H

#include "out.h"
#include "util/buf.h"
#include "util/json.h"

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1,  /* refused or unreachable; "Error: text" on stderr */
	CLI_USAGE = 2,   /* the command line itself is wrong */
	CLI_UNKNOWN = 3, /* the server does not know whether it was done */
};

enum cmd_group {
	G_HTTP = 1 << 0,
	G_NODE = 1 << 1,
	G_SETTINGS = 1 << 2,
	G_RAW = 1 << 3,
	G_ENQUEUE = 1 << 4,
	G_SEARCH = 1 << 5,
	G_HELP = 1 << 6,
	G_ALL = 1 << 7, /* options of every verb that is not G_RAW */
	G_WAIT = 1 << 8,
	G_LOGS = 1 << 9,
	G_REASON = 1 << 10,
	G_BATCH = 1 << 11,
	G_CONFIRM = 1 << 12,
	G_SCHEDULE = 1 << 13,
	G_ZONE = 1 << 14,
	G_TIMES = 1 << 15,
	G_LIST = 1 << 16, /* lists of jobs; these can show ids alone */
	G_TOP = 1 << 17,
	G_BULK = 1 << 18,
	G_EVENTS = 1 << 19,
	G_ASKS = 1 << 20, /* before it does what may be a slip */
	G_DIGEST = 1 << 21,
	G_BENCH = 1 << 22,
	G_USAGE = 1 << 23,
	G_SCORE = 1 << 24,
	G_SCORES = 1 << 25,
	G_PERIOD = 1 << 26,
	G_APPROVE = 1 << 27,
	G_REPLAY = 1 << 28,
	G_ITERATIONS = 1 << 29,
	G_COMMENT = 1 << 30,
};

enum cmd_opt {
#define OPT(id, name, groups, value, help) OPT_##id,
#include "cmds.def"
	OPT_MAX
};

/* A command line, taken apart. Everything points into argv. */
struct cmd_args {
	const char *opt[OPT_MAX]; /* NULL: not given; a switch: its name */
	int argc;                 /* arguments that are no options; with */
	char **argv;              /* G_SETTINGS also the settings' flags */
	bool json;                /* --output json, or --output-json */
	bool ids;                 /* --output ids */
	char **tags;              /* each value of --tag */
	int tags_n;
};

typedef int cmd_fn(const struct cmd_args *a);

struct cmd {
	const char *verb;
	cmd_fn *run; /* returns an enum cli_exit */
	const char *arguments;
	unsigned groups;
	const char *help;
};

struct cmd_option {
	const char *name;
	unsigned groups;
	const char *value;
	const char *help;
};

#define CMD(verb, function, arguments, groups, help) cmd_fn cmd_##function;
#include "cmds.def"

extern const struct cmd cmds[];
extern const size_t cmds_n;
extern const struct cmd_option cmd_options[OPT_MAX];

/*
 * Finds the verb in argv[0] or argv[0] and argv[1]; *ret_words says how many
 * it took. NULL: there is no such verb.
 */
const struct cmd *cmd_find(int argc, char **argv, int *ret_words);

/* Says that cmd_find found none, and what begins so; CLI_USAGE. */
int cmd_unknown(int argc, char **argv);

/* Whether an option (enum cmd_opt) belongs to the verb. */
bool cmd_takes(const struct cmd *c, unsigned opt);

/*
 * Takes apart what follows the verb. keep holds argc pointers; ret->argv and
 * ret->tags are in it. On failure returns CLI_USAGE and has said why on stderr.
 */
int cmd_parse(const struct cmd *c, int argc, char **argv, char **keep,
	      struct cmd_args *ret);

void cmd_help_verb(const struct cmd *c);

/* The verbs that begin with this word; false: there are none. */
bool cmd_help_family(const char *word);

/* "Error: text" on stderr; returns CLI_FAILED or CLI_USAGE. */
_printf_(1, 2) int cmd_failed(const char *fmt, ...);
_printf_(1, 2) int cmd_usage(const char *fmt, ...);

/* Where the options and the environment say the server is. */
struct api;
void cmd_api(const struct cmd_args *a, struct api *ret);

/*
 * One request to the API. The reply is valid JSON on CLI_OK; otherwise the
 * error has been shown. An empty body sends none.
 */
int cmd_call(const struct cmd_args *a, const char *method, const char *path,
	     struct str body, struct buf *ret_reply);

/* The same for what may take an hour; without a body. */
int cmd_call_long(const struct cmd_args *a, const char *method,
		  const char *path, struct buf *ret_reply);

/*
 * The same for the thing a->argv[0] names, in a collection such as "jobs";
 * action: what follows its id in the path, or "".
 */
int cmd_call_on(const struct cmd_args *a, const char *method,
		const char *collection, const char *action, struct str body,
		struct buf *ret_reply);
/* Of a job. */
int cmd_call_job(const struct cmd_args *a, const char *method,
		 const char *action, struct str body, struct buf *ret_reply);

/* Shows the array at `path`: as a table of n columns, or as it is for --json.
 */
int cmd_list(const struct cmd_args *a, const char *path,
	     const struct out_column *columns, size_t n);

/* A request to the supervisor of the node that a's options name. */
int cmd_control(const struct cmd_args *a, const char *request,
		struct buf *ret_reply);

/* Whether somebody is there who can be asked. */
bool cmd_may_ask(void);
/* CLI_OK: whoever is there says yes. */
_printf_(1, 2) int cmd_ask(const char *fmt, ...);

/* All of standard input, up to ret->max. CLI_OK or CLI_FAILED. */
int cmd_read_stdin(struct buf *ret);

/* CLI_OK when given is one of these names, which a space separates. */
#define CMD_PRIORITIES "critical high normal"
int cmd_check_name(const char *what, const char *given, const char *names);

/* Which sums are asked for, and by what: ends the path. */
void cmd_put_sums(struct buf *path, const struct cmd_args *a);
/* The key of a summary's group, or what /usage and /scores say it is by. */
void cmd_put_key(struct buf *b, struct json object, const char *member);

/* False, and a usage error shown, when text is not one JSON value. */
bool cmd_is_json(const char *what, struct str text);

/*
 * CLI_USAGE, and said so, when v is no object, or has a member that requests
 * of type d do not know: a server would ignore it without a word.
 */
struct msg_desc;
int cmd_check_members(const char *what, struct json v,
		      const struct msg_desc *d);

/* An option as a member of the body, when it was given; false as above. */
void cmd_put_text(struct json_writer *w, const struct cmd_args *a,
		  enum cmd_opt opt, const char *member);
/* Words separated by commas, as an array. */
void cmd_put_list(struct json_writer *w, const struct cmd_args *a,
		  enum cmd_opt opt, const char *member);
bool cmd_put_json(struct json_writer *w, const struct cmd_args *a,
		  enum cmd_opt opt, const char *member);
/* A whole number; CLI_OK or CLI_USAGE. */
int cmd_put_number(struct json_writer *w, const struct cmd_args *a,
		   enum cmd_opt opt, const char *member);

/* name=value as a member; what is no JSON is a text. CLI_OK or CLI_USAGE. */
int cmd_put_setting(struct json_writer *w, const char *arg);

/* The same, and "secret=-": it is read from standard input, where no list of
 * processes shows it. */
int cmd_put_secret_setting(struct json_writer *w, const char *arg);

/* "words: member" of a reply, or all of it as JSON. */
void cmd_print(const struct cmd_args *a, struct str reply, const char *words,
	       const char *member);

#endif
