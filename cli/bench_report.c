/*
 * The result of a run as a JSON document, and documents for people. What is
 * shown is always read from a document, so that a saved one shows the same.
 */
#include <stdio.h>

#include "answer.h"
#include "bench.h"
#include "rt/file.h"
#include "util/clock.h"

#define DOCUMENT_VERSION 1
#define DOCUMENT_BYTES   (1u << 20)
#define DOCUMENT_DEPTH   8

/* --- writing --- */

static void put_rounded(struct json_writer *w, const char *key, double v,
			int decimals)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%.*f", decimals, v);

	jw_key(w, key);
	jw_raw(w, str_of(text, (size_t)n));
}

static void put_number(struct json_writer *w, const char *key, uint64_t v)
{
	jw_key(w, key);
	jw_u64(w, v);
}

static void put_run(struct json_writer *w, const struct bench_options *o)
{
	jw_key(w, "run");
	jw_object(w);
	jw_key(w, "mode");
	jw_cstr(w, o->mode_name);
	jw_key(w, "protocol");
	jw_cstr(w, o->protocol);
	put_number(w, "connections", o->connections);
	put_number(w, "batch", MAX(o->batch, 1u));
	put_number(w, "payload_bytes", o->payload);
	if (o->burst > 0)
		put_number(w, "burst", o->burst);
	if (o->count > 0)
		put_number(w, "count", o->count);
	if (o->time_ns > 0) {
		jw_key(w, "duration");
		jw_duration(w, o->time_ns);
	}
	jw_object_end(w);
}

static void put_server(struct json_writer *w, const char *url,
		       struct str server)
{
	_cleanup_(buf_done) struct buf version = BUF_INIT(0);

	out_text(&version, json_root(server), "server_version");
	jw_key(w, "server");
	jw_object(w);
	jw_key(w, "url");
	jw_cstr(w, url);
	jw_key(w, "version");
	jw_str(w, buf_str(&version));
	jw_object_end(w);
}

static void put_times(struct json_writer *w, const char *name,
		      const struct times *t)
{
	if (t->n == 0)
		return;
	jw_object(w);
	jw_key(w, "name");
	jw_cstr(w, name);
	put_number(w, "count", t->n);
	put_rounded(w, "p50_us", times_at(t, 0.5) / 1e3, 1);
	put_rounded(w, "p90_us", times_at(t, 0.9) / 1e3, 1);
	put_rounded(w, "p99_us", times_at(t, 0.99) / 1e3, 1);
	put_rounded(w, "p99.9_us", times_at(t, 0.999) / 1e3, 1);
	put_rounded(w, "max_us", times_at(t, 1) / 1e3, 1);
	jw_object_end(w);
}

static void put_process(struct json_writer *w, const char *name, double cpu_s,
			uint64_t jobs, double memory)
{
	jw_object(w);
	jw_key(w, "name");
	jw_cstr(w, name);
	/* one that was restarted begins at zero: its use is not known */
	if (cpu_s >= 0)
		put_rounded(w, "cpu_us_per_job",
			    cpu_s * 1e6 / (double)MAX(jobs, UINT64_C(1)), 2);
	if (memory > 0)
		put_rounded(w, "memory_bytes", memory, 0);
	jw_object_end(w);
}

static void put_processes(struct json_writer *w, const struct bench_cost *c)
{
	jw_key(w, "processes");
	jw_array(w);
	for (size_t i = 0; i < c->after.n; i++) {
		double cpu_s = -1;

		for (size_t k = 0; k < c->before.n; k++)
			if (strcmp(c->before.proc[k].name,
				   c->after.proc[i].name) == 0)
				cpu_s = c->after.proc[i].cpu_s -
					c->before.proc[k].cpu_s;
		put_process(w, c->after.proc[i].name, cpu_s, c->jobs,
			    c->after.proc[i].memory);
	}
	put_process(w, "bench", c->client_cpu_s, c->jobs, 0);
	jw_array_end(w);
}

static void put_figures(struct json_writer *w, const struct figures *f,
			uint64_t refused)
{
	double s = (double)MAX(f->took_ns, UINT64_C(1)) / 1e9;
	struct rates_summary sum;

	put_number(w, "jobs", f->done);
	put_rounded(w, "seconds", s, 3);
	put_rounded(w, "jobs_per_s", (double)f->done / s, 1);
	if (rates_sum_up(&f->rates, f->took_ns, &sum)) {
		put_rounded(w, "per_second_min", sum.min, 0);
		put_rounded(w, "per_second_max", sum.max, 0);
		put_rounded(w, "per_second_stddev", sum.stddev, 1);
	}
	put_number(w, "refused", refused);
	jw_key(w, "times");
	jw_array(w);
	put_times(w, "enqueue", &f->enqueue);
	put_times(w, "fetch", &f->fetch);
	put_times(w, "ack", &f->ack);
	put_times(w, "start", &f->start);
	put_times(w, "burst", &f->burst);
	jw_array_end(w);
}

void bench_document(const struct bench_options *o, const char *url,
		    struct str server, const struct figures *f,
		    uint64_t refused, const struct bench_cost *cost,
		    struct buf *ret)
{
	struct json_writer w = JSON_WRITER(ret);

	jw_object(&w);
	put_number(&w, "corvo_bench", DOCUMENT_VERSION);
	jw_key(&w, "at");
	jw_time(&w, clock_wall_ns() / NS_PER_S * NS_PER_S);
	put_run(&w, o);
	bench_put_machine(&w);
	put_server(&w, url, server);
	put_figures(&w, f, refused);
	put_processes(&w, cost);
	jw_object_end(&w);
}

/* --- reading --- */

static bool has(struct json root, const char *name, enum json_type type,
		struct json *ret)
{
	struct arena a = ARENA_INIT;
	bool found =
	    json_member(root, name, &a, ret) && json_type_of(*ret) == type;

	arena_done(&a); /* a value is a slice of the text */
	return found;
}

static bool is_document(struct str text)
{
	struct json_error bad;
	struct json root, v;

	if (!json_validate(text, DOCUMENT_DEPTH, &bad))
		return false;
	root = json_root(text);
	return json_type_of(root) == JSON_OBJECT &&
	       answer_number(root, "corvo_bench") == DOCUMENT_VERSION &&
	       has(root, "run", JSON_OBJECT, &v) &&
	       has(root, "machine", JSON_OBJECT, &v) &&
	       has(root, "server", JSON_OBJECT, &v) &&
	       has(root, "jobs_per_s", JSON_NUMBER, &v) &&
	       has(root, "times", JSON_ARRAY, &v) &&
	       has(root, "processes", JSON_ARRAY, &v);
}

int bench_read(const char *path, struct buf *ret)
{
	int r = file_read(path, DOCUMENT_BYTES, ret);

	if (r < 0)
		return cmd_failed("cannot read %s: %s", path, strerror(-r));
	if (!is_document(buf_str(ret)))
		return cmd_failed("%s is no result that `corvo bench --save` "
				  "of this version has written",
				  path);
	return CLI_OK;
}

static struct json member(struct str document, const char *name,
			  enum json_type type)
{
	struct json v;

	CHECK(has(json_root(document), name, type, &v));
	return v;
}

static double number_of(struct json object, const char *name)
{
	struct json v;
	double n = 0;

	if (has(object, name, JSON_NUMBER, &v))
		(void)json_double(v, &n);
	return n;
}

/* --- one of them --- */

static void out_ms(struct buf *b, struct json object, const char *name)
{
	buf_printf(b, "%.3f", number_of(object, name) / 1e3);
}

static const struct out_column time_columns[] = {
	{ "TIME IN MS", "name", false, NULL },
	{ "COUNT", "count", true, NULL },
	{ "P50", "p50_us", true, out_ms },
	{ "P90", "p90_us", true, out_ms },
	{ "P99", "p99_us", true, out_ms },
	{ "P99.9", "p99.9_us", true, out_ms },
	{ "MAX", "max_us", true, out_ms },
};

static const struct out_column process_columns[] = {
	{ "PROCESS", "name", false, NULL },
	{ "CPU US/JOB", "cpu_us_per_job", true, NULL },
	{ "MEMORY", "memory_bytes", true, out_bytes },
};

/* "name value, name value" of an object. */
static void show_object(const char *what, struct json object)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(0);
	struct json_iter it = json_iter(object);
	struct arena a = ARENA_INIT;
	struct json v;
	struct str name;

	while (json_next_member(&it, &a, &name, &v)) {
		struct str text =
		    json_type_of(v) == JSON_STRING ? json_string(v, &a) : v.raw;

		buf_printf(&line, "%s%.*s %.*s", line.n > 0 ? ", " : "",
			   STR_ARG(name), STR_ARG(text));
	}
	out_linef("%-8s %.*s", what, STR_ARG(buf_str(&line)));
	arena_done(&a);
}

void bench_show(struct str document)
{
	struct json root = json_root(document), v;
	double refused = number_of(root, "refused");

	show_object("run", member(document, "run", JSON_OBJECT));
	show_object("server", member(document, "server", JSON_OBJECT));
	show_object("machine", member(document, "machine", JSON_OBJECT));
	out_linef("%s", "");
	out_linef("%.0f jobs in %.2f s: %.0f jobs/s", number_of(root, "jobs"),
		  number_of(root, "seconds"), number_of(root, "jobs_per_s"));
	if (has(root, "per_second_stddev", JSON_NUMBER, &v))
		out_linef("in each second %.0f to %.0f, standard deviation "
			  "%.0f",
			  number_of(root, "per_second_min"),
			  number_of(root, "per_second_max"),
			  number_of(root, "per_second_stddev"));
	if (refused > 0)
		out_linef("%.0f requests were refused for a moment, and sent "
			  "again",
			  refused);
	out_linef("%s", "");
	out_table(member(document, "times", JSON_ARRAY), time_columns,
		  ARRAY_SIZE(time_columns));
	out_linef("%s", "");
	out_table(member(document, "processes", JSON_ARRAY), process_columns,
		  ARRAY_SIZE(process_columns));
}

/* --- two of them --- */

/* Which is named so; false: none. */
static bool named(struct json array, const char *name, struct json *ret)
{
	struct json_iter it = json_iter(array);

	while (json_next_item(&it, ret))
		if (json_type_of(*ret) == JSON_OBJECT &&
		    answer_is(*ret, "name", name))
			return true;
	return false;
}

static void put_pair(struct json_writer *w, const char *of, const char *figure,
		     struct json first, struct json second)
{
	_cleanup_(buf_done) struct buf name = BUF_INIT(0);
	double a = number_of(first, figure), b = number_of(second, figure);

	if (a <= 0 || b <= 0)
		return; /* one of them has not measured it */
	buf_printf(&name, "%s%s%s", of, *of != '\0' ? " " : "", figure);
	jw_object(w);
	jw_key(w, "figure");
	jw_str(w, buf_str(&name));
	put_rounded(w, "first", a, 1);
	put_rounded(w, "second", b, 1);
	put_rounded(w, "ratio", b / a, 3);
	jw_object_end(w);
}

/* All figures of the items that both arrays have. */
static void put_pairs(struct json_writer *w, struct json first,
		      struct json second, const char *const *figures, size_t n)
{
	struct json_iter it = json_iter(first);
	struct json a, b;

	while (json_next_item(&it, &a)) {
		_cleanup_(buf_done) struct buf name = BUF_INIT(0);

		if (json_type_of(a) != JSON_OBJECT)
			continue;
		out_text(&name, a, "name");
		buf_putc(&name, '\0');
		if (!named(second, name.p, &b))
			continue;
		for (size_t i = 0; i < n; i++)
			put_pair(w, name.p, figures[i], a, b);
	}
}

/*
 * Figures of unlike runs can be compared, by those who know it. Names what is
 * not the same in both, of the members that `of` has; one that is missing is
 * empty.
 */
static void tell_differences(const char *what, struct json of,
			     struct json first, struct json second,
			     bool only_missing)
{
	struct json_iter it = json_iter(of);
	struct arena a = ARENA_INIT;
	struct json v;
	struct str name;

	while (json_next_member(&it, &a, &name, &v)) {
		_cleanup_(buf_done) struct buf x = BUF_INIT(0);
		_cleanup_(buf_done) struct buf y = BUF_INIT(0);
		const char *key = arena_cstr(&a, name);

		out_text(&x, first, key);
		out_text(&y, second, key);
		if (str_eq(buf_str(&x), buf_str(&y)) ||
		    str_is(name, "load_after") || (only_missing && x.n > 0))
			continue;
		out_linef("not the same: %s %s, %.*s and %.*s", what, key,
			  STR_ARG(x.n > 0 ? buf_str(&x) : STR("none")),
			  STR_ARG(y.n > 0 ? buf_str(&y) : STR("none")));
	}
	arena_done(&a);
}

void bench_show_both(struct str first, struct str second)
{
	static const char *const parts[] = { "run", "server", "machine" };
	static const char *const times[] = { "p50_us", "p90_us", "p99_us",
					     "p99.9_us", "max_us" };
	static const char *const use[] = { "cpu_us_per_job", "memory_bytes" };
	static const struct out_column columns[] = {
		{ "FIGURE", "figure", false, NULL },
		{ "FIRST", "first", true, NULL },
		{ "SECOND", "second", true, NULL },
		{ "RATIO", "ratio", true, NULL },
	};
	_cleanup_(buf_done) struct buf rows = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&rows);

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		struct json a = member(first, parts[i], JSON_OBJECT);
		struct json b = member(second, parts[i], JSON_OBJECT);

		tell_differences(parts[i], a, a, b, false);
		tell_differences(parts[i], b, a, b, true);
	}
	jw_array(&w);
	put_pair(&w, "", "jobs_per_s", json_root(first), json_root(second));
	put_pairs(&w, member(first, "times", JSON_ARRAY),
		  member(second, "times", JSON_ARRAY), times,
		  ARRAY_SIZE(times));
	put_pairs(&w, member(first, "processes", JSON_ARRAY),
		  member(second, "processes", JSON_ARRAY), use,
		  ARRAY_SIZE(use));
	jw_array_end(&w);
	out_table(json_root(buf_str(&rows)), columns, ARRAY_SIZE(columns));
}
