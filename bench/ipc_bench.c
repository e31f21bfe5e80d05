/*
 * Round trips between two processes over a link, and calls over RPC on it.
 * Prints rate and CPU time per message or call of each side.
 *
 *   ipc_bench [duration of each case, as 500ms]
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rt/ipc.h"
#include "rt/loop.h"
#include "rt/rpc.h"
#include "util/clock.h"
#include "util/timefmt.h"

#define MESSAGE_BYTES 256

static char path[64];
static uint64_t run_ns = NS_PER_S;

static double cpu_us(const struct rusage *u)
{
	return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1e6 +
	       (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

/* --- plain messages --- */

/*
 * Echoes what came in a turn at its end, as the processes of a node do: as
 * one message with as many bytes.
 */
struct echo {
	struct loop *loop;
	struct link *link;
	struct buf gathered;
};

static void echo_flush(void *ctx)
{
	struct echo *e = ctx;

	if (e->gathered.n == 0 || !link_is_up(e->link) ||
	    link_is_sending(e->link))
		return;
	/* fails when the client has just left */
	(void)link_send(e->link, e->gathered.p, e->gathered.n);
	buf_clear(&e->gathered);
}

static void echo_message(void *ctx, const void *data, size_t n)
{
	struct echo *e = ctx;

	buf_append(&e->gathered, data, n);
}

static void nothing(void *ctx)
{
	(void)ctx;
}

static void echo_down(void *ctx)
{
	struct echo *e = ctx;

	loop_stop(e->loop);
}

static const struct link_ops echo_ops = { nothing, echo_down, echo_message,
					  echo_flush };

static void serve_echo(void)
{
	struct buf why = BUF_INIT(0);
	struct echo e = { .loop = loop_new() };
	struct ipc *ipc = ipc_new(e.loop);

	CHECK(ipc_listen(ipc, path, &echo_ops, &e, &e.link, &why) == 0);
	loop_on_turn_end(e.loop, echo_flush, &e);
	loop_run(e.loop);
	ipc_free(ipc);
	loop_free(e.loop);
	buf_done(&e.gathered);
}

/* Keeps `flight` messages under way; each is a send of its own. */
struct pinger {
	struct loop *loop;
	struct link *link;
	unsigned flight, due; /* due: may be sent now */
	uint64_t n;           /* came back */
	char bytes[MESSAGE_BYTES];
};

static void ping_flush(void *ctx)
{
	struct pinger *p = ctx;

	while (p->due > 0 && link_is_up(p->link) && !link_is_sending(p->link)) {
		CHECK(link_send(p->link, p->bytes, sizeof(p->bytes)) == 0);
		p->due--;
	}
}

static void ping_up(void *ctx)
{
	struct pinger *p = ctx;

	p->due = p->flight;
}

static void ping_message(void *ctx, const void *data, size_t n)
{
	struct pinger *p = ctx;

	(void)data;
	p->n += n / MESSAGE_BYTES;
	p->due += (unsigned)(n / MESSAGE_BYTES);
}

static const struct link_ops ping_ops = { ping_up, nothing, ping_message,
					  ping_flush };

static void on_over(void *ctx)
{
	loop_stop(ctx);
}

static uint64_t run_ping(unsigned flight)
{
	struct buf why = BUF_INIT(0);
	struct pinger p = { .loop = loop_new(), .flight = flight };
	struct ipc *ipc = ipc_new(p.loop);
	struct loop_timer *over = loop_timer_add(p.loop, on_over, p.loop);

	CHECK(ipc_dial(ipc, path, &ping_ops, &p, &p.link, &why) == 0);
	loop_on_turn_end(p.loop, ping_flush, &p);
	loop_timer_arm(over, run_ns);
	loop_run(p.loop);
	ipc_free(ipc);
	loop_free(p.loop);
	return p.n;
}

/* --- calls --- */

struct server {
	struct loop *loop;
	struct rpc_server *rpc;
};

static void on_request(void *ctx, struct rpc_req req,
		       const struct frame_request *item)
{
	(void)ctx;
	rpc_reply(req, 0, 1, item->body);
}

static void on_cancel(void *ctx, struct rpc_req req)
{
	(void)ctx;
	(void)req;
}

static void on_peer_down(void *ctx, struct rpc_peer *peer)
{
	struct server *s = ctx;

	(void)peer;
	loop_stop(s->loop);
}

static const struct rpc_server_ops server_ops = { on_request, on_cancel,
						  on_peer_down, NULL };

static void server_turn_end(void *ctx)
{
	struct server *s = ctx;

	rpc_server_flush(s->rpc);
}

static void serve_rpc(void)
{
	struct buf why = BUF_INIT(0);
	struct server s = { .loop = loop_new() };
	struct ipc *ipc = ipc_new(s.loop);

	s.rpc = rpc_server_new(ipc, PROC_RAFTD, &server_ops, &s);
	CHECK(rpc_server_listen(s.rpc, path, &why) == 0);
	loop_on_turn_end(s.loop, server_turn_end, &s);
	loop_run(s.loop);
	rpc_server_free(s.rpc);
	ipc_free(ipc);
	loop_free(s.loop);
}

struct caller {
	struct rpc_client *rpc;
	uint64_t n;
	char bytes[MESSAGE_BYTES];
};

static void on_reply(void *ctx, const struct rpc_reply *r);

static void call(struct caller *c)
{
	(void)rpc_call(c->rpc, OP_ENQUEUE, STR("queue"),
		       str_of(c->bytes, sizeof(c->bytes)),
		       clock_mono_ns() + 60 * NS_PER_S, ERR_LEADER_UNAVAILABLE,
		       0, on_reply, c);
}

static void on_reply(void *ctx, const struct rpc_reply *r)
{
	struct caller *c = ctx;

	CHECK(r->err == 0 && r->body.n == MESSAGE_BYTES);
	c->n++;
	call(c);
}

static void caller_turn_end(void *ctx)
{
	struct caller *c = ctx;

	rpc_client_flush(c->rpc);
}

static uint64_t run_calls(unsigned flight)
{
	struct buf why = BUF_INIT(0);
	struct loop *loop = loop_new();
	struct ipc *ipc = ipc_new(loop);
	struct loop_timer *over = loop_timer_add(loop, on_over, loop);
	struct caller c = { .n = 0 };

	c.rpc = rpc_client_new(ipc, path, PROC_HTTPD, &why);
	CHECK(c.rpc != NULL);
	for (unsigned i = 0; i < flight; i++)
		call(&c);
	loop_on_turn_end(loop, caller_turn_end, &c);
	loop_timer_arm(over, run_ns);
	loop_run(loop);
	rpc_client_free(c.rpc);
	ipc_free(ipc);
	loop_free(loop);
	return c.n;
}

/* --- cases --- */

static void run_case(const char *name, void (*serve)(void),
		     uint64_t (*run)(unsigned flight), unsigned flight)
{
	struct rusage server, client;
	int pipe_fd[2];
	pid_t a, b;
	uint64_t n;

	CHECK(pipe(pipe_fd) == 0);
	(void)fflush(NULL);
	a = fork();
	CHECK(a >= 0);
	if (a == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)close(pipe_fd[1]);
		serve();
		_exit(0);
	}
	b = fork();
	CHECK(b >= 0);
	if (b == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		n = run(flight);
		CHECK(write(pipe_fd[1], &n, sizeof(n)) == sizeof(n));
		_exit(0);
	}
	/* so that a client that fails is the end of the pipe */
	(void)close(pipe_fd[1]);
	CHECK(read(pipe_fd[0], &n, sizeof(n)) == sizeof(n));
	CHECK(wait4(b, NULL, 0, &client) == b);
	CHECK(wait4(a, NULL, 0, &server) == a);
	(void)close(pipe_fd[0]);
	printf("%-14s %4u under way %9.0f/s   CPU us each: client %6.2f, "
	       "server %6.2f\n",
	       name, flight, (double)n * 1e9 / (double)run_ns,
	       cpu_us(&client) / (double)n, cpu_us(&server) / (double)n);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/corvo-bench-XXXXXX";
	static const unsigned flights[] = { 1, 16, 64, 128 };

	if (argc > 1 &&
	    (!duration_parse(str_from(argv[1]), &run_ns) || run_ns == 0)) {
		fprintf(stderr, "usage: ipc_bench [duration, as 500ms]\n");
		return 1;
	}
	CHECK(mkdtemp(dir) != NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)snprintf(path, sizeof(path), "%s/link", dir);
	for (size_t i = 0; i < 3; i++)
		run_case("messages", serve_echo, run_ping, flights[i]);
	for (size_t i = 0; i < ARRAY_SIZE(flights); i++)
		run_case("calls", serve_rpc, run_calls, flights[i]);
	run_case("calls", serve_rpc, run_calls, 1024);
	(void)unlink(path);
	(void)rmdir(dir);
	return 0;
}
