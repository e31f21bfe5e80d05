/*
 * `corvo bench`: load for a server, in a queue of its own that is removed in
 * the end, also after ^C. Figures are shown only when every job that the server
 * took in was handed out once and completed once.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "api.h"
#include "bench.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "rt/file.h"
#include "rt/listen.h"
#include "util/clock.h"
#include "util/rng.h"
#include "util/timefmt.h"

#define CONNECTIONS     64
#define CONNECTIONS_MAX 10000
#define BATCH           100
#define PAYLOAD         100
#define BURST           1000
#define FILL_COUNT      100000 /* put in first, for fetch and ack */
#define DURATION_NS     (10 * NS_PER_S)
#define DURATION_MAX_NS (24 * 3600 * NS_PER_S)
#define LEASE_NS        (3600 * NS_PER_S) /* nothing is reclaimed meanwhile */
#define WAIT_S          5 /* of a fetch; who finds nothing then, never will */
#define BACKLOG         1000 /* of combined, at least */
#define JOB_BYTES       200  /* of a request, beside the payload */
#define QUEUE_PREFIX    "corvo-bench-"

const char bench_modes[] = "enqueue fetch ack combined burst";

struct bench {
	const struct cmd_args *args;
	struct bench_options o;
	char queue[sizeof(QUEUE_PREFIX) + 16];
	struct job_kind kind;
	struct client cl;
	struct ledger ledger;
	struct load load;
	struct figures figures;
	struct bench_cost cost;
	uint64_t refused; /* while it was measured */
};

/* --- the command line --- */

static int read_number(const struct cmd_args *a, enum cmd_opt opt,
		       uint64_t least, uint64_t most, uint64_t *ret)
{
	if (a->opt[opt] == NULL)
		return CLI_OK;
	if (str_parse_u64(str_from(a->opt[opt]), ret) && *ret >= least &&
	    *ret <= most)
		return CLI_OK;
	return cmd_usage("--%s takes a whole number from %llu to %llu",
			 cmd_options[opt].name, (unsigned long long)least,
			 (unsigned long long)most);
}

static int read_mode(const struct cmd_args *a, struct bench_options *ret)
{
	struct str rest = str_from(bench_modes), name;

	ret->mode_name = a->argc > 0 ? a->argv[0] : "combined";
	ret->protocol = a->opt[OPT_BENCH_PROTOCOL] != NULL
			    ? a->opt[OPT_BENCH_PROTOCOL]
			    : "http";
	if (cmd_check_name("bench", ret->mode_name, bench_modes) != CLI_OK ||
	    cmd_check_name("--protocol", ret->protocol, "http batch") != CLI_OK)
		return CLI_USAGE;
	for (unsigned i = 0; rest.n > 0; i++) {
		(void)str_split(rest, ' ', &name, &rest);
		if (str_is(name, ret->mode_name))
			ret->mode = (enum bench_mode)i;
	}
	return CLI_OK;
}

/* When to end: after the duration or the count, whichever comes first. */
static int read_end(const struct cmd_args *a, struct bench_options *ret)
{
	const char *text = a->opt[OPT_BENCH_DURATION];
	bool fills = ret->mode == BENCH_FETCH || ret->mode == BENCH_ACK;
	int r =
	    read_number(a, OPT_BENCH_COUNT, 1, LEDGER_JOBS_MAX, &ret->count);

	if (r != CLI_OK)
		return r;
	ret->time_ns = ret->count > 0 ? 0 : DURATION_NS;
	if (text != NULL &&
	    (!duration_read(str_from(text), &ret->time_ns) ||
	     ret->time_ns == 0 || ret->time_ns > DURATION_MAX_NS))
		return cmd_usage("--duration takes a time such as 10s or 5m, "
				 "up to 24h");
	if (fills && ret->count == 0)
		ret->count = FILL_COUNT;
	return CLI_OK;
}

static int read_sizes(const struct cmd_args *a, struct bench_options *ret)
{
	uint64_t connections = CONNECTIONS, batch = BATCH, payload = PAYLOAD;
	uint64_t burst = BURST;
	bool batched = strcmp(ret->protocol, "batch") == 0;
	bool both = ret->mode == BENCH_COMBINED || ret->mode == BENCH_BURST;

	if (a->opt[OPT_BENCH_BATCH] != NULL && !batched)
		return cmd_usage("--batch needs --protocol batch");
	if (a->opt[OPT_BENCH_BURST] != NULL && ret->mode != BENCH_BURST)
		return cmd_usage("--burst is for `corvo bench burst`");
	if (read_number(a, OPT_BENCH_CONNECTIONS, both ? 2 : 1, CONNECTIONS_MAX,
			&connections) != CLI_OK ||
	    read_number(a, OPT_BENCH_BATCH, 1, LIMIT_ACK_BATCH, &batch) !=
		CLI_OK ||
	    read_number(a, OPT_BENCH_PAYLOAD, PAYLOAD_LEAST, LIMIT_BODY_BYTES,
			&payload) != CLI_OK ||
	    read_number(a, OPT_BENCH_BURST, 1, LEDGER_JOBS_MAX, &burst) !=
		CLI_OK)
		return CLI_USAGE;
	if ((batched ? batch : 1) * (payload + JOB_BYTES) > LIMIT_BODY_BYTES)
		return cmd_usage("a request would be larger than the %u MiB a "
				 "server takes; use a smaller --payload%s",
				 LIMIT_BODY_BYTES >> 20,
				 batched ? " or --batch" : "");
	ret->connections = (unsigned)connections;
	ret->batch = batched ? (unsigned)batch : 0;
	ret->payload = (unsigned)payload;
	ret->burst = ret->mode == BENCH_BURST ? (unsigned)burst : 0;
	return CLI_OK;
}

/* Where the load goes; in memory of `place`. */
static int read_server(const struct api *api, struct arena *place,
		       struct client_to *ret)
{
	const char *server = api_first_server(api->server, place);

	*ret = (struct client_to){
		.prefix = "",
		.key = api->key,
		.socket = listen_path(server),
	};
	if (ret->socket != NULL ||
	    api_split(server, place, &ret->host, &ret->port, &ret->prefix))
		return CLI_OK;
	return cmd_usage("bench speaks plain HTTP to http://host:port or "
			 "unix:/path, not to %s",
			 api->server);
}

/* --- the run --- */

/*
 * The measured part stands between two looks at the server. What passed
 * meanwhile is counted by who asks.
 */
static void look_before(struct bench *b, uint64_t jobs)
{
	bench_look(&b->cl, &b->cost.before);
	b->cost.client_cpu_s = bench_own_cpu_s();
	b->cost.jobs = jobs;
	b->refused = b->cl.refused;
}

static void look_after(struct bench *b, uint64_t jobs)
{
	b->cost.client_cpu_s = bench_own_cpu_s() - b->cost.client_cpu_s;
	b->cost.jobs = jobs - b->cost.jobs;
	b->refused = b->cl.refused - b->refused;
	bench_look(&b->cl, &b->cost.after);
}

/* What is not measured goes in batches, of what a request can hold. */
static unsigned quick_batch(const struct bench_options *o)
{
	unsigned fit = LIMIT_BODY_BYTES / 2 / (o->payload + JOB_BYTES);

	return MAX(1u, MIN(fit, (unsigned)LIMIT_ACK_BATCH));
}

typedef void step_fn(struct load *l, const struct load_step *s);

/*
 * One step for all jobs, measured when the mode is about it. *done counts what
 * it is about.
 */
static void run_step(struct bench *b, enum bench_mode mode, step_fn *step,
		     uint64_t count, const uint64_t *done)
{
	const struct bench_options *o = &b->o;
	struct load_step s = {
		.connections = o->connections,
		.batch = quick_batch(o),
		.wait_s = WAIT_S,
		.count = count,
	};

	if (mode != o->mode) {
		step(&b->load, &s);
		return;
	}
	s.batch = o->batch;
	s.time_ns = o->time_ns;
	s.ret = &b->figures;
	look_before(b, *done);
	step(&b->load, &s);
	look_after(b, *done);
}

/* What the time was too short for. */
static void finish(struct bench *b, step_fn *step, uint64_t left)
{
	if (left > 0)
		step(&b->load, &(struct load_step){
				   .connections = b->o.connections,
				   .batch = quick_batch(&b->o),
				   .wait_s = WAIT_S,
				   .count = left,
			       });
}

static void run_in_steps(struct bench *b)
{
	const struct ledger *g = &b->ledger;

	run_step(b, BENCH_ENQUEUE, load_enqueue, b->o.count, &g->known);
	run_step(b, BENCH_FETCH, load_fetch, g->known, &g->taken);
	if (g->taken < g->known && b->o.mode == BENCH_FETCH)
		finish(b, load_fetch, g->known - g->taken);
	run_step(b, BENCH_ACK, load_ack, 0, &g->done);
	finish(b, load_ack, b->load.held_n);
}

static void run_lives(struct bench *b)
{
	const struct bench_options *o = &b->o;
	unsigned workers = MAX(o->connections / 2, 1u);

	look_before(b, 0);
	load_lives(&b->load,
		   &(struct load_lives){
		       .producers = o->connections - workers,
		       .workers = workers,
		       .batch = o->batch,
		       .wait_s = WAIT_S,
		       .backlog = o->burst > 0
				      ? UINT32_MAX
				      : MAX(BACKLOG, 2 * o->connections *
							 MAX(o->batch, 1u)),
		       .burst = o->burst,
		       .count = o->count,
		       .time_ns = o->time_ns,
		       .ret = &b->figures });
	look_after(b, b->ledger.done);
}

/* Nothing may be left: a job that came now would be one too many. */
static void look_for_more(struct bench *b)
{
	if (!client_has_failed(&b->cl))
		load_fetch(&b->load,
			   &(struct load_step){ .connections = 1, .count = 1 });
}

/* --- its end --- */

static volatile sig_atomic_t quit;

static void on_quit(int sig)
{
	(void)sig;
	quit = 1;
}

/* The first ^C ends the run in order, a second one at once. */
static void catch_signals(struct client *cl, sigset_t *open)
{
	struct sigaction sa = { .sa_handler = on_quit,
				.sa_flags = (int)SA_RESETHAND };
	sigset_t both;

	(void)sigemptyset(&both);
	(void)sigaddset(&both, SIGINT);
	(void)sigaddset(&both, SIGTERM);
	CHECK(sigprocmask(SIG_BLOCK, &both, open) == 0);
	CHECK(sigaction(SIGINT, &sa, NULL) == 0);
	CHECK(sigaction(SIGTERM, &sa, NULL) == 0);
	cl->quit = &quit;
	cl->open = open;
}

static int remove_queue(const struct bench *b, const struct api *api)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	_cleanup_(buf_done) struct buf reply = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	int r;

	if (b->ledger.n == 0)
		return CLI_OK;
	buf_printf(&path, "/api/v1/queues/%s?confirm=true", b->queue);
	buf_putc(&path, '\0');
	r = api_call(api, "DELETE", path.p, STR_NULL, &reply, &why);
	if (r == 0 || r == -ERR_NOT_FOUND)
		return CLI_OK;
	return cmd_failed("queue %s is left: %.*s; remove it with: corvo "
			  "destroy %s --confirm",
			  b->queue, STR_ARG(buf_str(&why)), b->queue);
}

/* CLI_OK: the figures hold. */
static int judge(struct bench *b)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (client_has_failed(&b->cl))
		return cmd_failed("%.*s; there are no figures",
				  STR_ARG(buf_str(&b->cl.why)));
	if (!ledger_balance(&b->ledger, &why))
		return cmd_failed("%.*s; there are no figures",
				  STR_ARG(buf_str(&why)));
	return CLI_OK;
}

static int run(struct bench *b, const struct api *api,
	       const struct client_to *to)
{
	uint64_t random;
	sigset_t open;
	int r, removed;

	rng_system(&random, sizeof(random));
	(void)snprintf(b->queue, sizeof(b->queue), QUEUE_PREFIX "%016llx",
		       (unsigned long long)random);
	b->kind = (struct job_kind){
		.queue = b->queue,
		.worker = "corvo-bench",
		.payload = b->o.payload,
		.numbered = true,
		.lease_ns = LEASE_NS,
	};
	b->load = (struct load){ .cl = &b->cl,
				 .kind = &b->kind,
				 .ledger = &b->ledger };
	client_init(&b->cl, to);
	catch_signals(&b->cl, &open);
	if (b->o.mode == BENCH_COMBINED || b->o.mode == BENCH_BURST)
		run_lives(b);
	else
		run_in_steps(b);
	look_for_more(b);
	r = judge(b);
	client_hang_up(&b->cl);
	CHECK(sigprocmask(SIG_SETMASK, &open, NULL) == 0);
	removed = remove_queue(b, api);
	return r == CLI_OK ? removed : r;
}

/* --- the result --- */

static int show(const struct bench *b, const struct api *api, struct str server,
		const struct buf *before)
{
	_cleanup_(buf_done) struct buf doc = BUF_INIT(0);
	const char *save = b->args->opt[OPT_BENCH_SAVE];
	int r;

	bench_document(&b->o, api->server, server, &b->figures, b->refused,
		       &b->cost, &doc);
	if (b->args->json)
		out_json(buf_str(&doc));
	else
		bench_show(buf_str(&doc));
	if (before->n > 0 && !b->args->json) {
		out_linef("%s", "");
		bench_show_both(buf_str(before), buf_str(&doc));
	}
	if (save == NULL)
		return CLI_OK;
	r = file_write(save, buf_str(&doc));
	return r < 0 ? cmd_failed("cannot write %s: %s", save, strerror(-r))
		     : CLI_OK;
}

int cmd_bench(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf server = BUF_INIT(0);
	_cleanup_(buf_done) struct buf before = BUF_INIT(0);
	struct bench *b = xcalloc(1, sizeof(*b));
	struct arena place = ARENA_INIT;
	struct client_to to;
	struct api api;
	int r;

	b->args = a;
	cmd_api(a, &api);
	r = read_mode(a, &b->o);
	if (r == CLI_OK)
		r = read_end(a, &b->o);
	if (r == CLI_OK)
		r = read_sizes(a, &b->o);
	if (r == CLI_OK)
		r = read_server(&api, &place, &to);
	if (r == CLI_OK && a->opt[OPT_BENCH_COMPARE] != NULL)
		r = bench_read(a->opt[OPT_BENCH_COMPARE], &before);
	if (r == CLI_OK)
		r = cmd_call(a, "GET", "/api/v1/info", STR_NULL, &server);
	if (r == CLI_OK)
		r = run(b, &api, &to);
	if (r == CLI_OK)
		r = show(b, &api, buf_str(&server), &before);
	if (b->cl.head.n > 0)
		client_done(&b->cl);
	ledger_done(&b->ledger);
	load_done(&b->load);
	rates_clear(&b->figures.rates);
	arena_done(&place);
	free(b);
	return r;
}

int cmd_bench_compare(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf first = BUF_INIT(0);
	_cleanup_(buf_done) struct buf second = BUF_INIT(0);
	int r = bench_read(a->argv[0], &first);

	if (r == CLI_OK)
		r = bench_read(a->argv[1], &second);
	if (r == CLI_OK)
		bench_show_both(buf_str(&first), buf_str(&second));
	return r;
}
