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

/* Events of several pages, as one list of their JSON. */
struct found {
	struct arena mem;
	struct str *list;
	size_t n, cap;
	uint64_t next, head; /* of the last page */
	bool lost;           /* events before the first are not kept */
};

/* Members of a page; false: it is none. */
static bool read_place(struct found *f, struct str reply, struct json *ret)
{
	struct json v;

	if (!member(reply, "next", JSON_NUMBER, &f->mem, &v) ||
	    !json_u64(v, &f->next) ||
	    !member(reply, "head_seq", JSON_NUMBER, &f->mem, &v) ||
	    !json_u64(v, &f->head))
		return false;
	f->lost |= member(reply, "lost", JSON_BOOL, &f->mem, &v);
	return member(reply, "events", JSON_ARRAY, &f->mem, ret);
}

static bool is_upto(struct json event, uint64_t upto, struct arena *mem)
{
	struct json v;
	uint64_t seq = 0;

	return json_type_of(event) != JSON_OBJECT ||
	       !json_member(event, "seq", mem, &v) || !json_u64(v, &seq) ||
	       seq <= upto;
}

/* A page of them, behind those there are; none that is newer than upto. */
static int take_page(const struct cmd_args *a, uint64_t after, uint64_t limit,
		     uint64_t upto, struct found *f)
{
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	struct json events, one;
	struct json_iter it;
	int r = get_page(a, after, limit, &reply);

	if (r != CLI_OK)
		return r;
	if (!read_place(f, buf_str(&reply), &events))
		return cmd_failed("the server's answer is no page of events");
	it = json_iter(events);
	while (json_next_item(&it, &one)) {
		if (!is_upto(one, upto, &f->mem))
			continue;
		f->list = arena_grow(&f->mem, f->list, sizeof(*f->list), f->n,
				     &f->cap);
		f->list[f->n++] = arena_copy(&f->mem, one.raw);
	}
	return CLI_OK;
}

/* From there on; a filter may find nothing in many pages. */
static int find_after(const struct cmd_args *a, uint64_t after, struct found *f)
{
	uint64_t limit = has_filter(a) ? LIMIT_EVENTS_PAGE : NEWEST;
	int r = take_page(a, after, limit, UINT64_MAX, f);

	while (r == CLI_OK && f->n < NEWEST && has_filter(a) &&
	       f->next < f->head && f->next > after) {
		after = f->next;
		r = take_page(a, after, limit, UINT64_MAX, f);
	}
	return r;
}

/* All of those after `from`, up to `upto`, before those there are. */
static int find_before(const struct cmd_args *a, uint64_t from, uint64_t upto,
		       struct found *f)
{
	struct str *newer = f->list;
	size_t n = f->n;
	uint64_t after = from;
	int r;

	f->list = NULL;
	f->n = f->cap = 0;
	f->next = after;
	do {
		after = f->next;
		r = take_page(a, after, upto - after, upto, f);
	} while (r == CLI_OK && f->next < upto && f->next > after);
	for (size_t i = 0; i < n; i++) {
		f->list = arena_grow(&f->mem, f->list, sizeof(*f->list), f->n,
				     &f->cap);
		f->list[f->n++] = newer[i];
	}
	return r;
}

/* From the newest back, until there are enough or the log begins. */
static int find_newest(const struct cmd_args *a, struct found *f)
{
	uint64_t step = has_filter(a) ? LIMIT_EVENTS_PAGE : NEWEST;
	uint64_t head, upto, from;
	int r = take_page(a, 0, 1, 0, f);

	head = upto = f->head;
	f->lost = false;
	while (r == CLI_OK && upto > 0 && f->n < NEWEST && !f->lost) {
		from = upto > step ? upto - step : 0;
		r = find_before(a, from, upto, f);
		upto = from;
	}
	f->next = f->head = head;
	f->lost = false; /* nobody asked for those */
	return r;
}

static void write_found(const struct found *f, struct buf *out)
{
	struct json_writer w = JSON_WRITER(out);

	jw_object(&w);
	jw_key(&w, "events");
	jw_array(&w);
	for (size_t i = 0; i < f->n; i++)
		jw_raw(&w, f->list[i]);
	jw_array_end(&w);
	jw_key(&w, "next");
	jw_u64(&w, f->next);
	jw_key(&w, "head_seq");
	jw_u64(&w, f->head);
	if (f->lost) {
		jw_key(&w, "lost");
		jw_bool(&w, true);
	}
	jw_object_end(&w);
}

static int show_page(const struct cmd_args *a, const char *after)
{
	_cleanup_(buf_done) struct buf all = BUF_INIT(0);
	struct found f = { .mem = ARENA_INIT };
	struct json events;
	uint64_t from = 0;
	int r;

	if (after != NULL)
		(void)str_parse_u64(str_from(after), &from);
	r = after == NULL ? find_newest(a, &f) : find_after(a, from, &f);
	if (r == CLI_OK) {
		write_found(&f, &all);
		if (a->json)
			out_json(buf_str(&all));
		else if (f.n == 0)
			(void)puts(has_filter(a) ? "No such events"
						 : "No events");
		else if (member(buf_str(&all), "events", JSON_ARRAY, &f.mem,
				&events))
			out_table(events, event_columns,
				  ARRAY_SIZE(event_columns));
	}
	arena_done(&f.mem);
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
