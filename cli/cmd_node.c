/*
 * The node on this machine, through its supervisor's control socket.
 */
#include <stdio.h>

#include "answer.h"
#include "cmd.h"

static const struct out_column process_columns[] = {
	{ "NAME", "name", false, NULL },
	{ "PID", "pid", true, NULL },
	{ "STATE", "state", false, NULL },
	{ "RESTARTS", "restarts", true, NULL },
	{ "UPTIME", "uptime_s", true, out_seconds },
	{ "MEMORY", "memory_bytes", true, out_bytes },
	{ "CPU", "cpu_s", true, out_seconds },
	{ "STATUS", "status", false, NULL },
};

/* The supervisor as a row like the others: it has no restarts to count. */
static void put_rows(struct buf *b, struct json supervisor,
		     struct json processes, uint64_t *ret_total)
{
	struct json_writer w = JSON_WRITER(b);
	struct json_iter it = json_iter(supervisor);
	struct arena a = ARENA_INIT;
	struct json v;
	struct str key;

	*ret_total = answer_number(supervisor, "memory_bytes");
	jw_array(&w);
	jw_object(&w);
	jw_key(&w, "name");
	jw_cstr(&w, "supervisor");
	while (json_next_member(&it, &a, &key, &v)) {
		jw_key_str(&w, str_is(key, "address") ? STR("status") : key);
		jw_raw(&w, v.raw);
	}
	jw_object_end(&w);
	it = json_iter(processes);
	while (json_next_item(&it, &v)) {
		jw_raw(&w, v.raw);
		*ret_total += answer_number(v, "memory_bytes");
	}
	jw_array_end(&w);
	arena_done(&a);
}

/* "Total memory: 49.3 MiB of 768.0 MiB (the control group /corvo)" */
static void print_memory(struct json root, uint64_t total)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct arena a = ARENA_INIT;
	struct json memory, from;

	out_put_bytes(&text, total);
	if (json_member(root, "memory", &a, &memory) &&
	    json_type_of(memory) == JSON_OBJECT &&
	    answer_number(memory, "limit_bytes") > 0 &&
	    json_member(memory, "from", &a, &from) &&
	    json_type_of(from) == JSON_STRING) {
		buf_puts(&text, " of ");
		out_put_bytes(&text, answer_number(memory, "limit_bytes"));
		buf_printf(&text, " (%.*s)", STR_ARG(json_string(from, &a)));
	}
	out_linef("Total memory: %.*s", STR_ARG(buf_str(&text)));
	arena_done(&a);
}

static int print_processes(struct str reply)
{
	_cleanup_(buf_done) struct buf rows = BUF_INIT(0);
	struct json root = json_root(reply), supervisor, processes;
	struct arena a = ARENA_INIT;
	uint64_t total;
	int r = CLI_OK;

	if (json_type_of(root) != JSON_OBJECT ||
	    !json_member(root, "supervisor", &a, &supervisor) ||
	    !json_member(root, "processes", &a, &processes) ||
	    json_type_of(supervisor) != JSON_OBJECT ||
	    json_type_of(processes) != JSON_ARRAY) {
		r = cmd_failed("the supervisor's answer has no processes");
	} else {
		put_rows(&rows, supervisor, processes, &total);
		out_table(json_root(buf_str(&rows)), process_columns,
			  ARRAY_SIZE(process_columns));
		print_memory(root, total);
	}
	arena_done(&a);
	return r;
}

int cmd_ps(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_control(a, "ps", &reply);

	if (r != CLI_OK)
		return r;
	if (!a->json)
		return print_processes(buf_str(&reply));
	out_json(buf_str(&reply));
	return CLI_OK;
}

/* One request; shows the reply as JSON, or `text`. */
static int ask(const struct cmd_args *a, const char *request, const char *text)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_control(a, request, &reply);

	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else
		(void)puts(text);
	return CLI_OK;
}

/* A request with the verb's one argument, which must stay one word. */
static int ask_with(const struct cmd_args *a, const char *verb,
		    const char *done)
{
	_cleanup_(buf_done) struct buf request = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	const char *arg = a->argv[0];

	if (arg[strcspn(arg, " \t\r\n")] != '\0' || *arg == '\0')
		return cmd_usage("%s takes one word", verb);
	buf_printf(&request, "%s %s", verb, arg);
	buf_putc(&request, '\0');
	buf_printf(&text, "%s %s", done, arg);
	buf_putc(&text, '\0');
	return ask(a, request.p, text.p);
}

int cmd_restart(const struct cmd_args *a)
{
	return ask_with(a, "restart", "Restarted");
}

int cmd_log_level(const struct cmd_args *a)
{
	return ask_with(a, "log-level", "Log level is");
}

static void put_value(struct buf *b, struct json change, const char *member)
{
	size_t before = b->n;

	out_text(b, change, member);
	if (b->n == before)
		buf_puts(b, "\"\"");
}

/* "  log_level: info -> debug", a line for each change. */
static void print_changes(struct str reply, const char *member, const char *old,
			  const char *new, const char *title)
{
	struct arena a = ARENA_INIT;
	struct json list, change;
	struct json_iter it;

	if (answer_list(reply, member, &a, &list) && json_count(list) > 0) {
		(void)puts(title);
		it = json_iter(list);
		while (json_next_item(&it, &change)) {
			_cleanup_(buf_done) struct buf line = BUF_INIT(0);

			buf_puts(&line, "  ");
			out_text(&line, change, "name");
			buf_puts(&line, ": ");
			put_value(&line, change, old);
			buf_puts(&line, " -> ");
			put_value(&line, change, new);
			out_line(buf_str(&line));
		}
	}
	arena_done(&a);
}

static void print_note(struct str reply)
{
	_cleanup_(buf_done) struct buf note = BUF_INIT(0);

	out_text(&note, json_root(reply), "note");
	if (note.n > 0)
		out_linef("Note: %.*s", STR_ARG(buf_str(&note)));
}

int cmd_reload(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	int r = cmd_control(a, "reload", &reply);

	if (r != CLI_OK)
		return r;
	if (a->json) {
		out_json(buf_str(&reply));
		return CLI_OK;
	}
	(void)puts("Settings reloaded");
	print_changes(buf_str(&reply), "changed", "before", "value",
		      "Changed:");
	print_changes(buf_str(&reply), "waiting", "value", "next",
		      "Waiting for a restart of the node:");
	print_note(buf_str(&reply));
	return CLI_OK;
}

int cmd_stop(const struct cmd_args *a)
{
	return ask(a, "stop", "The node is stopping");
}
