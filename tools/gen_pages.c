/* The pages that are one table each, and what all pages share. */
#include <stdio.h>

#include "gen.h"
#include "rt/config.h"

void gen_head(struct buf *b, const char *title)
{
	buf_printf(b,
		   "<!-- Made from common/proto/defs by tools/gen_docs; "
		   "edit the tables and run: cmake --build BUILD --target "
		   "docs -->\n\n# %s\n\n",
		   title);
}

void gen_cell(struct buf *b, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '|')
			buf_putc(b, '\\');
		buf_putc(b, *text);
	}
}

static void link_to_message(struct buf *b, const struct msg_desc *d)
{
	buf_printf(b, "[%s](messages.md#%s)", d->name, d->name);
}

static void put_enum(struct buf *b, const struct enum_desc *e)
{
	for (size_t i = 0; i < e->n; i++)
		buf_printf(b, "%s`%s`", i > 0 ? ", " : "", e->values[i].text);
}

static void put_uint(struct buf *b, uint32_t max)
{
	buf_puts(b, "whole number");
	if (max != 0)
		buf_printf(b, ", 0 to %u", max);
}

static void put_bytes(struct buf *b, uint32_t max)
{
	if (max == 0)
		return;
	if (max % 1024 == 0)
		buf_printf(b, ", at most %u KiB", max / 1024);
	else
		buf_printf(b, ", at most %u bytes", max);
}

static void put_list(struct buf *b, const struct field_desc *f, bool is_request)
{
	buf_puts(b, "list of ");
	if (f->kind == K_msgs)
		link_to_message(b, f->sub);
	else
		buf_puts(b, "texts");
	if (f->kind == K_strs && f->max != 0)
		buf_printf(b, ", each at most %u bytes", f->max);
	if (f->kind == K_msgs && f->max != 0)
		buf_printf(b, ", at most %u", f->max);
	else if (f->kind == K_strs && is_request)
		buf_printf(b, ", at most %d", LIMIT_LIST_TEXTS);
}

void gen_type(struct buf *b, const struct field_desc *f, bool is_request)
{
	switch ((enum field_kind)f->kind) {
	case K_bool:
		buf_puts(b, "true or false");
		break;
	case K_u32:
	case K_u64:
		put_uint(b, f->max);
		break;
	case K_i64:
		buf_puts(b, "whole number, also negative");
		break;
	case K_f64:
	case K_nano:
		buf_puts(b, "number");
		if (f->max != 0)
			buf_printf(b, ", 0 to %u", f->max);
		break;
	case K_str:
		buf_puts(b, f->flags & F_QUEUE ? "queue name" : "text");
		put_bytes(b, f->max);
		break;
	case K_raw:
		buf_puts(b, f->flags & F_OBJECT ? "object" : "any JSON");
		put_bytes(b, f->max);
		break;
	case K_time:
		buf_puts(b, "time");
		break;
	case K_dur:
		buf_puts(b, "duration");
		break;
	case K_secs:
		buf_puts(b, is_request ? "duration" : "seconds");
		break;
	case K_enum:
		put_enum(b, f->values);
		break;
	case K_strs:
	case K_msgs:
		put_list(b, f, is_request);
		break;
	case K_msg:
		link_to_message(b, f->sub);
		break;
	}
}

static void put_calls(struct buf *b, const struct call_info *(*at)(size_t i),
		      bool has_who)
{
	const struct call_info *c;

	buf_printf(b, "| Number | Name | Request | Reply |%s What |\n",
		   has_who ? " From |" : "");
	buf_printf(b, "|--:|---|---|---|%s---|\n", has_who ? "---|" : "");
	for (size_t i = 0; (c = at(i)) != NULL; i++) {
		buf_printf(b, "| %u | `%s` | ", c->id, c->name);
		link_to_message(b, c->request);
		buf_puts(b, " | ");
		link_to_message(b, c->reply);
		buf_puts(b, " | ");
		if (has_who)
			buf_printf(b, "%s | ",
				   c->who & OP_CLIENT ? "clients"
						      : "the node itself");
		gen_cell(b, c->doc);
		buf_puts(b, " |\n");
	}
}

void gen_ops(struct buf *b)
{
	gen_head(b, "Operations");
	buf_puts(b, "What an entry of the raft log may hold: everything that "
		    "changes something. Numbers are\nstored and never change "
		    "their meaning. [The HTTP API](http-api.md) says how "
		    "clients ask for them.\n\n");
	put_calls(b, op_at, true);
}

void gen_queries(struct buf *b)
{
	gen_head(b, "Queries");
	buf_puts(b, "Questions between the processes of a node. They are "
		    "answered from memory or a store and\nnever stand in the "
		    "raft log. Numbers below 1100 are answered by "
		    "corvo-raftd, the others by\ncorvo-viewd.\n\n");
	put_calls(b, query_at, false);
}

void gen_events(struct buf *b)
{
	static const struct {
		const char *name;
		unsigned number;
		const char *doc;
	} rows[] = {
#define EVENT(NAME, event_name, num, text) { #event_name, num, text },
#include "proto/defs/events.def"
	};

	gen_head(b, "Events");
	buf_puts(b, "Every change appends one event to the log, in the same "
		    "write as the change. The `timeline`\nof a job is made of "
		    "them.\n\n| Number | Type | When |\n|--:|---|---|\n");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		buf_printf(b, "| %u | `%s` | %s |\n", rows[i].number,
			   rows[i].name, rows[i].doc);
}

static const char *again_text(enum err_again again)
{
	switch (again) {
	case AGAIN_NOW:
		return "yes, at once";
	case AGAIN_AFTER:
		return "yes, after `Retry-After`";
	case AGAIN_SAME:
		return "only with the same `Idempotency-Key` or `lease_token`";
	case AGAIN_NO:
		break;
	}
	return "no: change the request";
}

void gen_errors(struct buf *b)
{
	static const enum err rows[] = {
#define ERR(name, number, status, again, rpc, text) ERR_##name,
#include "proto/defs/errors.def"
	};

	gen_head(b, "Errors");
	buf_puts(b, "Every answer that is no success is an object of this "
		    "form:\n\n"
		    "```json\n{\"error\": \"queue is required\", \"code\": "
		    "\"VALIDATION_ERROR\"}\n```\n\n"
		    "`code` is for programs and never changes; `error` is for "
		    "people.\n\n"
		    "What is refused, with any status of 400 to 499 or with "
		    "503, was not carried out and will\nnot be. Answers with "
		    "the status 429, 503 and 504 carry a `Retry-After` header "
		    "(429 also the\nmember `retry_after_ms`).\n\n"
		    "504 `OUTCOME_UNKNOWN` means that nobody knows: the "
		    "request was on its way into the log\nwhen its time was "
		    "over, or a part of it was done; or the cluster\nwas "
		    "being changed when the leader died, or a link broke. "
		    "See\n[idempotency](../features/idempotency.md) for what "
		    "may be sent again then.\n\n"
		    "These are all the ways in which a request can be refused, "
		    "and whether the same request\nmay be sent again. One "
		    "that changes nothing (every GET, and searches) may always "
		    "be\nsent again; it gets the same answer where it says "
		    "no.\n\n"
		    "The last column is the code of it in a remote "
		    "call (Connect, gRPC).\n\n"
		    "| Code | Status | Meaning | May be sent again | "
		    "Remote call |\n"
		    "|---|--:|---|---|---|\n");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		buf_printf(b, "| `%s` | %d | ", err_code(rows[i]),
			   err_status(rows[i]));
		gen_cell(b, err_text(rows[i]));
		buf_printf(b, " | %s | `%s` |\n",
			   again_text(err_again(rows[i])),
			   rpc_code_name(err_rpc(rows[i])));
	}
}

void gen_settings(struct buf *b)
{
	static const char *const kinds[] = {
		[SK_str] = "text",   [SK_bool] = "true or false",
		[SK_u64] = "number", [SK_dur] = "duration",
		[SK_size] = "size",
	};

	gen_head(b, "Settings");
	buf_puts(b,
		 "A value is taken from the command line, else from the "
		 "environment, else from the configuration\nfile, else it is "
		 "the default. `corvo config list` shows the values in use "
		 "and where each came from.\n\n"
		 "A duration is a text such as `500ms`, `10s` or `1h30m`; a "
		 "size is a number of bytes, or one with\n`KiB`, `MiB` or "
		 "`GiB`. A switch may be given as `--open` or "
		 "`--no-open`.\n\n"
		 "| Flag | Environment | In the file | Kind | Default | What "
		 "|\n|---|---|---|---|---|---|\n");
	for (int i = 0; i < SETTING_MAX; i++) {
		const struct setting_info *s = setting_info((enum setting_id)i);

		buf_printf(b, "| `%s` | `%s` | `%s` | %s | ", s->flag, s->env,
			   s->name, kinds[s->kind]);
		if (*s->def != '\0')
			buf_printf(b, "`%s`", s->def);
		buf_puts(b, " | ");
		gen_cell(b, s->doc);
		if ((s->flags & S_RELOAD) != 0)
			buf_puts(b, " *Takes effect on reload.*");
		if ((s->flags & S_SEED) != 0)
			buf_puts(b, " *Seeds the [setting of the cluster]"
				    "(../features/settings.md).*");
		buf_puts(b, " |\n");
	}
}

void gen_metrics(struct buf *b)
{
	static const char *const types[] = {
		[METRIC_COUNTER_TYPE] = "counter",
		[METRIC_GAUGE_TYPE] = "gauge",
		[METRIC_HISTOGRAM_TYPE] = "histogram",
		[METRIC_UNTYPED_TYPE] = "untyped",
	};
	const struct metric_info *m;

	gen_head(b, "Metrics");
	buf_puts(b, "`GET /api/v1/metrics` answers them in Prometheus' text "
		    "format. Those of a process that is away are\nleft "
		    "out.\n\n"
		    "| Name | Type | From | What |\n|---|---|---|---|\n");
	for (size_t i = 0; (m = metric_at(i)) != NULL; i++) {
		buf_printf(b, "| `%s` | %s | %s | ", m->name, types[m->type],
			   proc_info(m->proc)->program);
		gen_cell(b, m->help);
		buf_puts(b, " |\n");
	}
}

static void put_flags(struct buf *b, const struct field_desc *f)
{
	if ((f->flags & F_REQUIRED) != 0)
		buf_puts(b, " *Required.*");
	if ((f->flags & F_PATH) != 0)
		buf_puts(b, " *In the path.*");
	if ((f->flags & F_INTERNAL) != 0)
		buf_puts(b, " *Internal.*");
}

void gen_messages(struct buf *b)
{
	const struct msg_desc *d;

	gen_head(b, "Messages");
	buf_puts(b,
		 "What travels between processes, stands in the log and in "
		 "the store, and is shown to clients.\nEach is a msgpack map "
		 "from tag to value inside, and a JSON object outside. "
		 "Tags are stored: they\nnever change their meaning. Members "
		 "marked internal are not part of the JSON.\n");
	for (size_t i = 0; (d = msg_at(i)) != NULL; i++) {
		buf_printf(b, "\n## %s\n\n%s\n", d->name, d->doc);
		if (d->n == 0)
			continue;
		buf_puts(b, "\n| Tag | Member | Type | What |\n"
			    "|--:|---|---|---|\n");
		for (size_t k = 0; k < d->n; k++) {
			const struct field_desc *f = &d->fields[k];

			buf_printf(b, "| %u | `%s` | ", f->tag, f->name);
			gen_type(b, f, (f->flags & F_REQUIRED) != 0);
			buf_puts(b, " | ");
			gen_cell(b, f->doc);
			put_flags(b, f);
			buf_puts(b, " |\n");
		}
	}
}
