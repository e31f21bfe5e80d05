/*
 * What the verbs share once the command line is read: the two ways to ask
 * somebody, and the members of requests. Options come from the user, answers
 * from a server; both are checked before they are used.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api.h"
#include "cmd.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "proto/msg.h"
#include "rt/config.h"
#include "rt/ctl.h"

#define DEFAULT_SERVER "http://127.0.0.1:8080"
#define LONG_CALL_S    3700L /* a little longer than the server takes */

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
	if (r == 0)
		return CLI_OK;
	(void)cmd_failed("%.*s", STR_ARG(buf_str(&why)));
	return r == -ERR_OUTCOME_UNKNOWN ? CLI_UNKNOWN : CLI_FAILED;
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

int cmd_list(const struct cmd_args *a, const char *path,
	     const struct out_column *columns, size_t n)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_call(a, "GET", path, STR_NULL, &reply);

	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		out_table(json_root(buf_str(&reply)), columns, n);
	return CLI_OK;
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

bool cmd_may_ask(void)
{
	return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

int cmd_ask(const char *fmt, ...)
{
	char line[16];
	va_list ap;

	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputs(" [y/N] ", stderr);
	if (fgets(line, sizeof(line), stdin) != NULL &&
	    (line[0] == 'y' || line[0] == 'Y'))
		return CLI_OK;
	return cmd_failed("nothing was done");
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

/* name=value: JSON as it is, anything else is a text. */
int cmd_put_setting(struct json_writer *w, const char *arg)
{
	struct json_error e;
	struct str name, value;

	if (!str_split(str_from(arg), '=', &name, &value) || name.n == 0)
		return cmd_usage("\"%s\" is not name=value", arg);
	jw_key_str(w, name);
	if (json_validate(value, LIMIT_JSON_DEPTH, &e))
		jw_raw(w, value);
	else
		jw_str(w, value);
	return CLI_OK;
}
