/*
 * `corvo events`: the newest events, or all as they happen. What the server
 * sends is hostile: bounded, checked to be JSON, and shown only through the
 * writers of out.h.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "api.h"
#include "cmd.h"
#include "proto/err.h"
#include "proto/limits.h"

#define NEWEST     100  /* events shown when none is named */
#define RETRY_MS   1000 /* between attempts to connect again */
#define JSON_DEPTH (LIMIT_JSON_DEPTH + 8)

static const struct out_column event_columns[] = {
	{ "SEQ", "seq", true, NULL },
	{ "TIME", "at", false, out_time },
	{ "TYPE", "type", false, NULL },
	{ "QUEUE", "queue", false, NULL },
	{ "JOB", "job_id", false, NULL },
	{ "ATTEMPT", "attempt", true, NULL },
	{ "WORKER", "worker_id", false, NULL },
	{ "DATA", "data", false, NULL },
};

static bool has_filter(const struct cmd_args *a)
{
	return a->opt[OPT_EVENTS_QUEUE] != NULL ||
	       a->opt[OPT_EVENTS_TYPE] != NULL ||
	       a->opt[OPT_EVENTS_JOB] != NULL;
}

static void put_filters(struct buf *path, const struct cmd_args *a)
{
	static const struct {
		enum cmd_opt opt;
		const char *name;
	} filters[] = {
		{ OPT_EVENTS_QUEUE, "queues" },
		{ OPT_EVENTS_TYPE, "types" },
		{ OPT_EVENTS_JOB, "job_ids" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		if (a->opt[filters[i].opt] == NULL)
			continue;
		buf_printf(path, "&%s=", filters[i].name);
		api_put_segment(path, a->opt[filters[i].opt]);
	}
}

/* --- a page --- */

static int get_page(const struct cmd_args *a, uint64_t after, uint64_t limit,
		    struct buf *reply)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	buf_printf(&path, "/api/v1/cluster/events?after_seq=%llu&limit=%llu",
		   (unsigned long long)after, (unsigned long long)limit);
	put_filters(&path, a);
	buf_putc(&path, '\0');
	return cmd_call(a, "GET", path.p, STR_NULL, reply);
}

static bool member(struct str text, const char *name, enum json_type type,
		   struct arena *arena, struct json *ret)
{
	return json_type_of(json_root(text)) == JSON_OBJECT &&
	       json_member(json_root(text), name, arena, ret) &&
	       json_type_of(*ret) == type;
}

/* Where the newest `limit` events begin. */
static int find_newest(const struct cmd_args *a, uint64_t limit, uint64_t *ret)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct arena arena = ARENA_INIT;
	struct json v;
	uint64_t head = 0;
	int r = get_page(a, 0, 1, &reply);

	if (r != CLI_OK)
		return r;
	if (!member(buf_str(&reply), "head_seq", JSON_NUMBER, &arena, &v) ||
	    !json_u64(v, &head))
		r = cmd_failed("the server's answer is no page of events");
	*ret = head > limit ? head - limit : 0;
	arena_done(&arena);
	return r;
}

static int show_page(const struct cmd_args *a, const char *after)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	/* a filter looks at as many as one page may have */
	uint64_t from = 0, limit = has_filter(a) ? LIMIT_EVENTS_PAGE : NEWEST;
	struct arena arena = ARENA_INIT;
	struct json events;
	int r = CLI_OK;

	if (after == NULL)
		r = find_newest(a, limit, &from);
	else
		(void)str_parse_u64(str_from(after), &from);
	if (r == CLI_OK)
		r = get_page(a, from, limit, &reply);
	if (r != CLI_OK)
		return r;
	if (a->json)
		out_json(buf_str(&reply));
	else if (!member(buf_str(&reply), "events", JSON_ARRAY, &arena,
			 &events))
		r = cmd_failed("the server's answer is no page of events");
	else if (json_count(events) > 0)
		out_table(events, event_columns, ARRAY_SIZE(event_columns));
	else if (has_filter(a) && after == NULL)
		out_linef("No such events among the newest %d; --after begins "
			  "earlier",
			  LIMIT_EVENTS_PAGE);
	else
		(void)puts("No events");
	arena_done(&arena);
	return r;
}

/* --- as they happen --- */

struct follow {
	const struct cmd_args *a;
	char last_id[64];  /* where to go on; empty: from now */
	struct buf failed; /* the server ended the stream for good: why */
	bool connected;    /* once */
	bool told;         /* that it is not any more */
};

/* One line for each event, since they come one by one. */
static void show_event(const struct follow *f, struct str data)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(0);
	struct json_error bad;

	if (!json_validate(data, JSON_DEPTH, &bad) ||
	    json_type_of(json_root(data)) != JSON_OBJECT)
		return;
	if (f->a->json) {
		out_raw_json(data);
		(void)putchar('\n');
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(event_columns); i++) {
		const struct out_column *c = &event_columns[i];
		size_t before = line.n;

		(c->cell != NULL ? c->cell : out_text)(&line, json_root(data),
						       c->member);
		if (line.n > before)
			buf_puts(&line, "  ");
	}
	out_line(str_trim(buf_str(&line)));
}

/* A slow reader is only cut off; what is no longer kept is gone for good. */
static void on_error(struct follow *f, struct str data)
{
	struct arena arena = ARENA_INIT;
	struct json_error bad;
	struct json code, text;

	if (json_validate(data, JSON_DEPTH, &bad) &&
	    member(data, "code", JSON_STRING, &arena, &code) &&
	    member(data, "error", JSON_STRING, &arena, &text) &&
	    str_is(json_string(code, &arena), err_code(ERR_EVENTS_LOST)))
		buf_put_str(&f->failed, json_string(text, &arena));
	arena_done(&arena);
}

static bool on_event(void *ctx, const struct api_event *e)
{
	struct follow *f = ctx;

	f->connected = true;
	f->told = false;
	if (e->id.n > 0 && e->id.n < sizeof(f->last_id))
		(void)snprintf(f->last_id, sizeof(f->last_id), "%.*s",
			       STR_ARG(e->id));
	if (e->data.n > 0 && str_is(e->type, "error"))
		on_error(f, e->data);
	else if (e->data.n > 0)
		show_event(f, e->data);
	return fflush(stdout) == 0 && f->failed.n == 0;
}

/* Once, however long it takes until it is back. */
static void tell_broken(struct follow *f, struct str why)
{
	_cleanup_(buf_done) struct buf clean = BUF_INIT(0);

	if (f->told)
		return;
	f->told = true;
	out_put_clean(&clean, why);
	(void)fprintf(stderr, "The connection ended; trying again%s%.*s\n",
		      clean.n > 0 ? ": " : "", STR_ARG(buf_str(&clean)));
}

/* False: it makes no sense to try again; *ret_exit: CLI_OK unless it failed. */
static bool follow_once(struct follow *f, struct api *api, const char *path,
			int *ret_exit)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	char last_id[sizeof(f->last_id)];
	int r;

	(void)snprintf(last_id, sizeof(last_id), "%s", f->last_id);
	api->last_event_id = last_id[0] != '\0' ? last_id : NULL;
	r = api_stream(api, path, on_event, f, &why);
	if (ferror(stdout))
		return false; /* main says so */
	if (f->failed.n > 0)
		*ret_exit = cmd_failed("%.*s", STR_ARG(buf_str(&f->failed)));
	else if (r < 0 && (!f->connected || r == -ERR_VALIDATION_ERROR))
		*ret_exit = cmd_failed("%.*s", STR_ARG(buf_str(&why)));
	else
		tell_broken(f, buf_str(&why));
	return *ret_exit == CLI_OK;
}

/* All that was shown is written: each piece is flushed. */
static void on_interrupt(int signal_number)
{
	(void)signal_number;
	_exit(CLI_OK);
}

static int follow(const struct cmd_args *a, const char *after)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct follow f = { .a = a };
	struct api api;
	int r = CLI_OK;

	cmd_api(a, &api);
	buf_puts(&path, "/api/v1/events?");
	put_filters(&path, a);
	buf_putc(&path, '\0');
	if (after != NULL)
		(void)snprintf(f.last_id, sizeof(f.last_id), "%s", after);
	(void)signal(SIGINT, on_interrupt);
	while (follow_once(&f, &api, path.p, &r))
		(void)poll(NULL, 0, RETRY_MS);
	buf_done(&f.failed);
	return r;
}

int cmd_events(const struct cmd_args *a)
{
	const char *after = a->opt[OPT_EVENTS_AFTER];
	uint64_t seq;

	if (after != NULL && !str_parse_u64(str_from(after), &seq))
		return cmd_usage("--after must be the sequence of an event");
	return a->opt[OPT_EVENTS_FOLLOW] != NULL ? follow(a, after)
						 : show_page(a, after);
}
