/*
 * Load for a node over HTTP, by one thread on keep-alive connections or
 * streams; prints figures as lines "name value". It says nothing about good or
 * bad.
 *
 *   load MODE [--port N] [--queue NAME] [--connections N] ...
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "load_modes.h"

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("load: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

static const struct {
	const char *name;
	void (*run)(struct client *cl, const struct options *o);
	const char *doc;
} modes[] = {
	{ "enqueue", mode_enqueue, "single enqueues on --connections" },
	{ "fill", mode_fill, "--count jobs in batches" },
	{ "fetch", mode_fetch, "--count single fetches, then acks" },
	{ "ack", mode_ack,
	  "--count jobs taken; a line of input, then single acks" },
	{ "lifecycle", mode_lifecycle,
	  "enqueue, fetch, ack one by one; --producers, --workers" },
	{ "lifecycle-batch", mode_lifecycle_batch, "the same in batches" },
	{ "wake", mode_wake, "enqueue to parked worker; --workers parked" },
	{ "park", mode_park, "holds --workers parked fetches for --time" },
	{ "schedule", mode_schedule, "hand-out after scheduled_at" },
	{ "lease", mode_lease, "hand-out after the end of a lease" },
	{ "polite", mode_polite,
	  "--connections clients with pauses of --gap, until a line of input" },
	{ "stream-enqueue", mode_stream_enqueue,
	  "--batch jobs a frame; --producers, --connections, --depth" },
	{ "stream-lifecycle", mode_stream_lifecycle,
	  "lifecycles by frames of --batch jobs; --workers too" },
};

#define UNSIGNED_MAX 1e9 /* of an option that is no time and no count */

static _noreturn_ void usage(void)
{
	fputs("load MODE [OPTION=VALUE ...]; modes:\n", stderr);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		fprintf(stderr, "  %-16s %s\n", modes[i].name, modes[i].doc);
	fputs(
	    "options: --host --port --queue --connections --producers "
	    "--workers\n  --batch --depth --backlog --payload (bytes) --count "
	    "--time (s) --gap (ms) --lease (s) --groups "
	    "--words (0 or 1)\n  --usage (0 or 1) --delay (s) "
	    "--rate --total (lifecycles)\n",
	    stderr);
	exit(2);
}

static double number(const char *text)
{
	char *end;
	double v = strtod(text, &end);

	if (*text == '\0' || *end != '\0' || !(v >= 0) || v > 1e12)
		die("%s is no number an option could have", text);
	return v;
}

/* Options that are numbers: where they go, and what 1 of them means. */
static void set_number(struct options *o, const char *name, const char *text)
{
	double v = number(text);
	const struct {
		const char *name;
		unsigned *u;
		uint64_t *ns;
		double unit;
	} table[] = {
		{ "connections", &o->connections, NULL, 1 },
		{ "producers", &o->producers, NULL, 1 },
		{ "workers", &o->workers, NULL, 1 },
		{ "batch", &o->batch, NULL, 1 },
		{ "depth", &o->depth, NULL, 1 },
		{ "backlog", &o->backlog, NULL, 1 },
		{ "payload", &o->payload, NULL, 1 },
		{ "groups", &o->groups, NULL, 1 },
		{ "words", &o->words, NULL, 1 },
		{ "usage", &o->usage, NULL, 1 },
		{ "delay", &o->delay, NULL, 1 },
		{ "rate", &o->rate, NULL, 1 },
		{ "total", NULL, &o->total, 1 },
		{ "count", NULL, &o->count, 1 },
		{ "time", NULL, &o->time_ns, 1e9 },
		{ "gap", NULL, &o->gap_ns, 1e6 },
		{ "lease", NULL, &o->lease_ns, 1e9 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (strcmp(table[i].name, name) != 0)
			continue;
		if (table[i].u != NULL && v > UNSIGNED_MAX)
			die("--%s=%s is too large", name, text);
		if (table[i].u != NULL)
			*table[i].u = (unsigned)v;
		else
			*table[i].ns = (uint64_t)(v * table[i].unit);
	}
}

static void parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{ "host", required_argument, NULL, 0 },
		{ "port", required_argument, NULL, 0 },
		{ "queue", required_argument, NULL, 0 },
		{ "connections", required_argument, NULL, 0 },
		{ "producers", required_argument, NULL, 0 },
		{ "workers", required_argument, NULL, 0 },
		{ "batch", required_argument, NULL, 0 },
		{ "depth", required_argument, NULL, 0 },
		{ "backlog", required_argument, NULL, 0 },
		{ "payload", required_argument, NULL, 0 },
		{ "groups", required_argument, NULL, 0 },
		{ "words", required_argument, NULL, 0 },
		{ "usage", required_argument, NULL, 0 },
		{ "delay", required_argument, NULL, 0 },
		{ "rate", required_argument, NULL, 0 },
		{ "total", required_argument, NULL, 0 },
		{ "count", required_argument, NULL, 0 },
		{ "time", required_argument, NULL, 0 },
		{ "gap", required_argument, NULL, 0 },
		{ "lease", required_argument, NULL, 0 },
		{ NULL, 0, NULL, 0 },
	};
	int at, r;

	while ((r = getopt_long(argc, argv, "", longs, &at)) == 0) {
		if (strcmp(longs[at].name, "host") == 0)
			o->host = optarg;
		else if (strcmp(longs[at].name, "port") == 0)
			o->port = optarg;
		else if (strcmp(longs[at].name, "queue") == 0)
			o->queue = optarg;
		else
			set_number(o, longs[at].name, optarg);
	}
	if (r != -1 || optind != argc)
		usage();
	/* with none of these there would be nothing to wait for, for ever */
	if (o->batch == 0 || o->connections == 0 || o->producers == 0 ||
	    o->workers == 0 || o->count == 0 || o->depth == 0)
		die("--batch, --connections, --producers, --workers, --depth "
		    "and --count are at least 1");
}

int main(int argc, char **argv)
{
	struct options o = {
		.host = "127.0.0.1",
		.port = "8080",
		.queue = "bench",
		.connections = 128,
		.producers = 64,
		.workers = 64,
		.batch = 100,
		.depth = 16,
		.backlog = 1000,
		.payload = 100,
		.count = 1000,
		.time_ns = 3 * NS_PER_S,
		.gap_ns = 5 * NS_PER_MS,
		.lease_ns = 60 * NS_PER_S,
	};
	struct client cl;

	if (argc < 2)
		usage();
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		if (strcmp(modes[i].name, argv[1]) != 0)
			continue;
		parse(argc - 1, argv + 1, &o);
		client_init(&cl, &(struct client_to){ .host = o.host,
						      .port = o.port,
						      .prefix = "" });
		modes[i].run(&cl, &o);
		if (client_has_failed(&cl))
			die("%.*s", STR_ARG(buf_str(&cl.why)));
		client_done(&cl);
		return 0;
	}
	usage();
}
