/*
 * Ports of several nodes on one loop, which runs until something is so; and
 * plain sockets, for whoever does not speak the protocol.
 */
#ifndef CORVO_PORT_WORLD_H
#define CORVO_PORT_WORLD_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

#include "cluster/port.h"
#include "lib/testlib.h"
#include "proto/err.h"
#include "rt/file.h"
#include "rt/log.h"
#include "util/clock.h"

#define NODES_MAX     3
#define SECRET        STR("the secret of the cluster")
#define LOG_READ_MAX  (1u << 20)
#define LOG_SHOWN_MAX 8000
#define WAIT_NS       (60 * NS_PER_S) /* only a failure takes so long */

struct world {
	struct loop *loop;
	struct loop_timer *limit;
	struct loop_timer *tick; /* so that conditions are looked at */
	bool (*until)(void *ctx);
	void *ctx;
	bool late;
	struct port *port[NODES_MAX];
	char log[64]; /* what was logged */
	int stderr_fd;
};

static struct world w;

static inline void w_turn_end(void *ctx _unused_)
{
	if (w.until != NULL && w.until(w.ctx)) {
		w.until = NULL;
		loop_stop(w.loop);
	}
}

static inline void w_on_limit(void *ctx _unused_)
{
	w.late = true;
	loop_stop(w.loop);
}

static inline void w_on_tick(void *ctx _unused_)
{
	loop_timer_arm(w.tick, 5 * NS_PER_MS);
}

/* What was logged tells why; it went to a file, and that goes with the test. */
static inline void w_show_log(void)
{
	_cleanup_(buf_done) struct buf all = BUF_INIT(0);
	size_t from;

	assert_return_code(dup2(w.stderr_fd, STDERR_FILENO), errno);
	if (file_read(w.log, LOG_READ_MAX, &all) != 0)
		return;
	from = all.n > LOG_SHOWN_MAX ? all.n - LOG_SHOWN_MAX : 0;
	(void)fprintf(stderr, "%.*s\n", (int)(all.n - from), all.p + from);
}

/* Runs the loop until it is so. */
#define w_wait(until, ctx) w_wait_for(until, ctx, #until)
static inline void w_wait_for(bool (*until)(void *ctx), void *ctx,
			      const char *name)
{
	w.until = until;
	w.ctx = ctx;
	w.late = false;
	loop_timer_arm(w.limit, WAIT_NS);
	loop_timer_arm(w.tick, NS_PER_MS);
	loop_run(w.loop);
	loop_timer_disarm(w.limit);
	loop_timer_disarm(w.tick);
	if (w.late) {
		w_show_log();
		fail_msg("waited in vain for: %s", name);
	}
}

/* Lets pass what must not happen. */
static inline void w_idle(void)
{
	w.until = NULL;
	loop_timer_arm(w.limit, 50 * NS_PER_MS);
	loop_run(w.loop);
	w.late = false;
}

/* From now on the log goes to a file. */
static inline void w_begin(void)
{
	int fd;

	w = (struct world){ .loop = loop_new() };
	w.limit = loop_timer_add(w.loop, w_on_limit, NULL);
	w.tick = loop_timer_add(w.loop, w_on_tick, NULL);
	loop_on_turn_end(w.loop, w_turn_end, NULL);
	(void)snprintf(w.log, sizeof(w.log), "/tmp/corvo-port-XXXXXX");
	fd = mkstemp(w.log);
	assert_return_code(fd, errno);
	(void)fflush(stderr);
	w.stderr_fd = dup(STDERR_FILENO);
	assert_return_code(dup2(fd, STDERR_FILENO), errno);
	(void)close(fd);
	log_init("raftd", "test");
}

static inline void w_end(void)
{
	for (int i = 0; i < NODES_MAX; i++)
		port_free(w.port[i]);
	loop_free(w.loop);
	assert_return_code(dup2(w.stderr_fd, STDERR_FILENO), errno);
	(void)close(w.stderr_fd);
	log_init("raftd", "test");
	(void)unlink(w.log);
}

/* How many lines of the log have these words. */
static inline unsigned w_logged(const char *words)
{
	_cleanup_(buf_done) struct buf all = BUF_INIT(0);
	unsigned n = 0;

	assert_int_equal(file_read(w.log, LOG_READ_MAX, &all), 0);
	buf_putc(&all, '\0');
	for (char *line = all.p; line != NULL && *line != '\0';) {
		char *end = strchr(line, '\n');

		if (end != NULL)
			*end = '\0';
		n += strstr(line, words) != NULL;
		line = end != NULL ? end + 1 : NULL;
	}
	return n;
}

/* --- nodes --- */

static inline struct port_config w_config(int node)
{
	struct port_config c = { .loop = w.loop,
				 .bind = "127.0.0.1:0",
				 .me = { .raft_id = 100 + (uint64_t)node },
				 .secret = SECRET };

	memset(c.me.cluster.id, 7, sizeof(c.me.cluster.id));
	(void)snprintf(c.me.name, sizeof(c.me.name), "node-%d", node);
	(void)snprintf(c.me.address, sizeof(c.me.address), "n%d.example:9400",
		       node);
	return c;
}

static inline void w_open_as(int node, const struct port_config *c)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (port_open(c, &w.port[node], &why) != 0)
		fail_msg("%.*s", STR_ARG(buf_str(&why)));
}

static inline void w_open(int node)
{
	struct port_config c = w_config(node);

	w_open_as(node, &c);
}

static inline struct port_target w_target(int node)
{
	return (struct port_target){ 100 + (uint64_t)node,
				     port_bound(w.port[node]) };
}

/* --- plain sockets --- */

static inline int raw_connect(struct port *p)
{
	const char *colon = strrchr(port_bound(p), ':');
	struct sockaddr_in sa = { .sin_family = AF_INET };
	uint64_t port;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_return_code(fd, errno);
	assert_true(str_parse_u64(str_from(colon + 1), &port));
	sa.sin_port = htons((uint16_t)port);
	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_return_code(connect(fd, (struct sockaddr *)&sa, sizeof(sa)),
			   errno);
	assert_return_code(fcntl(fd, F_SETFL, O_NONBLOCK), errno);
	return fd;
}

/* The other side has closed it; without a word. */
static inline bool raw_is_closed(void *fd)
{
	char byte;
	ssize_t n = recv(*(int *)fd, &byte, 1, 0);

	assert_true(n <= 0);
	return n == 0 || errno == ECONNRESET;
}

#endif
