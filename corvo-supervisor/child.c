/*
 * The life cycle of one child. Every move is an action in the table at the
 * end; nothing else writes `state`.
 */
#include "child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rt/log.h"
#include "rt/notify.h"
#include "rt/procstat.h"
#include "silence.h"
#include "spawn.h"
#include "util/clock.h"

#define START_TIMEOUT_NS (600 * NS_PER_S)  /* without a sign of life */
#define ABORT_GRACE_NS   (200 * NS_PER_MS) /* to write a core, then SIGKILL */
#define READS_PER_TURN   16
#define SERVED_NS        NS_PER_S
#define BACKOFF_MIN_NS   (50 * NS_PER_MS)
#define BACKOFF_MAX_NS   (5 * NS_PER_S)
#define BACKOFF_READY_NS (100 * NS_PER_MS) /* most, of one that was ready */

static const char *const state_names[CHILD_STATE_MAX] = {
	[CHILD_DOWN] = "down",     [CHILD_STARTING] = "starting",
	[CHILD_READY] = "ready",   [CHILD_DRAINING] = "draining",
	[CHILD_KILLED] = "killed", [CHILD_BACKOFF] = "backoff",
	[CHILD_FAILED] = "failed",
};

const char *child_state_name(enum child_state s)
{
	CHECK((size_t)s < CHILD_STATE_MAX);
	return state_names[s];
}

bool child_is_gone(const struct child *c)
{
	return c->state == CHILD_DOWN || c->state == CHILD_FAILED;
}

static void set_state(struct child *c, enum child_state next,
		      uint64_t deadline_ns)
{
	log_debug("process=%s state=%s was=%s", c->name, state_names[next],
		  state_names[c->state]);
	c->state = next;
	c->deadline_ns = deadline_ns;
}

int child_init(struct child *c, const struct child_host *host,
	       enum proc_id proc, unsigned number, struct buf *why)
{
	*c = (struct child){
		.host = host, .proc = proc, .number = number, .fd = -1
	};
	if (proc == PROC_HTTPD)
		(void)snprintf(c->name, sizeof(c->name), "%s-%u",
			       proc_info(proc)->name, number);
	else
		(void)snprintf(c->name, sizeof(c->name), "%s",
			       proc_info(proc)->name);
	return spawn_find(proc_info(proc)->program, &c->path, why);
}

static void close_fd(struct child *c)
{
	if (c->fd >= 0)
		(void)close(c->fd);
	c->fd = -1;
	c->in_n = 0;
}

void child_done(struct child *c)
{
	close_fd(c);
	buf_done(&c->path);
}

/* --- to and from the process --- */

static void send_signal(struct child *c, int sig)
{
	if (c->pid > 0)
		(void)kill(c->pid, sig);
}

static void note_life(struct child *c, uint64_t now_ns)
{
	struct procstat_turns t;

	procstat_turns(c->pid, &t);
	c->beat_ns = now_ns;
	c->ran_ns = t.ran_ns;
	c->kept_ns = t.kept_ns;
	c->excused_ns = 0;
}

static void on_line(struct child *c, struct str line)
{
	/* Every word is a sign of life. */
	note_life(c, clock_mono_ns());
	if (str_is(line, "READY=1")) {
		child_event(c, CHILD_EV_READY);
	} else if (str_starts(line, STR("STATUS="))) {
		line = str_skip(line, strlen("STATUS="));
		(void)snprintf(c->status, sizeof(c->status), "%.*s",
			       STR_ARG(line));
	}
}

static void take_lines(struct child *c)
{
	struct str rest = str_of(c->in, c->in_n);
	struct str line, tail;

	while (str_split(rest, '\n', &line, &tail)) {
		on_line(c, line);
		rest = tail;
	}
	memmove(c->in, rest.p, rest.n);
	c->in_n = rest.n;
	/* No word of the protocol is that long; forget it. */
	if (c->in_n == sizeof(c->in))
		c->in_n = 0;
}

void child_on_readable(struct child *c)
{
	/* Bounded: a child that never stops talking is not served alone. */
	for (unsigned i = 0; i < READS_PER_TURN; i++) {
		ssize_t n = recv(c->fd, c->in + c->in_n,
				 sizeof(c->in) - c->in_n, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		/* It closed its end; waitpid tells when it has gone. */
		if (n <= 0) {
			close_fd(c);
			return;
		}
		c->in_n += (size_t)n;
		take_lines(c);
	}
}

static void read_rest(struct child *c)
{
	if (c->fd >= 0)
		child_on_readable(c);
	close_fd(c);
}

void child_on_wait(struct child *c, int wait_status)
{
	if (WIFSTOPPED(wait_status)) {
		c->stopped_ns = clock_mono_ns();
		return;
	}
	if (WIFCONTINUED(wait_status)) {
		c->stopped_ns = 0;
		return;
	}
	/* What it said before it died counts, a READY=1 above all. */
	read_rest(c);
	c->pid = 0;
	c->stopped_ns = 0;
	c->has_exited = true;
	c->last_exit = wait_status;
	child_event(c, CHILD_EV_EXIT);
}

void child_put_exit(struct buf *b, int wait_status)
{
	if (WIFEXITED(wait_status)) {
		buf_printf(b, "exit status %d", WEXITSTATUS(wait_status));
	} else {
		const char *name = sigabbrev_np(WTERMSIG(wait_status));

		buf_printf(b, "killed by SIG%s", name != NULL ? name : "?");
	}
}

/* --- actions --- */

static void start_process(struct child *c, int fds[2])
{
	const struct settings *s = c->host->settings;
	struct spawn_args args = {
		.path = c->path.p,
		.program = proc_info(c->proc)->program,
		.argc = c->host->argc,
		.argv = c->host->argv,
		.notify_fd = fds[1],
		.listeners = c->proc == PROC_HTTPD ? c->host->listeners : NULL,
		.config_fd = c->host->config_fd,
		.lock_fd = c->host->lock_fd,
		.number = c->number,
		.watchdog_ms = s->watchdog_timeout / NS_PER_MS,
		.node_started_ns = c->host->started_ns,
		.memory = s->memory.bytes,
	};

	c->watchdog_ns = s->watchdog_timeout;
	c->started_ns = c->beat_ns = clock_mono_ns();
	c->ran_ns = c->kept_ns = c->excused_ns = 0;
	c->ready_ns = 0;
	c->stopped_ns = 0;
	c->come_back = c->planned = c->leaving = c->was_killed = false;
	c->status[0] = '\0';
	c->fd = fds[0];
	c->pid = spawn(&args);
}

static void act_start(struct child *c)
{
	int fds[2];

	CHECK(c->pid == 0 && c->fd == -1);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
		log_error("cannot make a socket for %s: %s", c->name,
			  strerror(errno));
		set_state(c, CHILD_BACKOFF, clock_mono_ns() + BACKOFF_MAX_NS);
		return;
	}
	start_process(c, fds);
	(void)close(fds[1]);
	if (c->pid < 0) {
		log_error("cannot start %s: %s", c->name, strerror(-c->pid));
		c->pid = 0;
		close_fd(c);
		set_state(c, CHILD_BACKOFF, clock_mono_ns() + BACKOFF_MAX_NS);
		return;
	}
	log_debug("process=%s pid=%d started", c->name, (int)c->pid);
	if (c->host->level != NULL) {
		char line[32];

		(void)snprintf(line, sizeof(line), "log-level %s",
			       c->host->level);
		(void)child_send(c, line);
	}
	set_state(c, CHILD_STARTING, c->started_ns + START_TIMEOUT_NS);
}

static void act_ready(struct child *c)
{
	c->ready_ns = clock_mono_ns();
	c->unready_lives = 0;
	log_info(
	    "process=%s pid=%d ready after %llu ms", c->name, (int)c->pid,
	    (unsigned long long)((c->ready_ns - c->started_ns) / NS_PER_MS));
	set_state(c, CHILD_READY, 0);
	c->host->on_ready(c->host->ctx, c);
}

/* It is told how long it has. */
static void drain(struct child *c, bool come_back, uint64_t deadline_ns)
{
	uint64_t now_ns = clock_mono_ns();
	char line[sizeof("drain 18446744073709551615")];

	(void)snprintf(
	    line, sizeof(line), "drain %llu",
	    (unsigned long long)((deadline_ns - MIN(deadline_ns, now_ns)) /
				 NS_PER_MS));
	c->come_back = come_back;
	c->planned = c->leaving = true;
	if (!child_send(c, line))
		send_signal(c, SIGTERM);
	set_state(c, CHILD_DRAINING, deadline_ns);
}

static void act_stop(struct child *c)
{
	drain(c, false, c->host->stop_by_ns);
}

static void act_restart(struct child *c)
{
	log_info("process=%s restart was asked for", c->name);
	drain(c, true, clock_mono_ns() + c->host->settings->shutdown_timeout);
}

/* Already leaving: only what happens afterwards changes. */
static void act_stop_later(struct child *c)
{
	c->come_back = false;
	c->planned = true;
	c->deadline_ns = c->host->stop_by_ns;
}

/* One that has been sent SIGABRT or SIGKILL keeps the time it has left. */
static void act_stop_killed(struct child *c)
{
	c->come_back = false;
	c->planned = true;
}

static void act_restart_later(struct child *c)
{
	c->come_back = c->planned = true;
}

static void act_kill(struct child *c)
{
	c->come_back = false;
	c->planned = true;
	c->was_killed = true;
	send_signal(c, SIGKILL);
	set_state(c, CHILD_KILLED, 0);
}

static void act_kill_late(struct child *c)
{
	log_warn("process=%s pid=%d did not leave in time, killing it", c->name,
		 (int)c->pid);
	c->was_killed = true;
	send_signal(c, SIGKILL);
	set_state(c, CHILD_KILLED, 0);
}

/* SIGKILL follows at once when SIGABRT cannot be handled: it is stopped. */
static void act_abort(struct child *c)
{
	uint64_t grace = c->stopped_ns != 0 ? 0 : ABORT_GRACE_NS;

	send_signal(c, c->stopped_ns != 0 ? SIGKILL : SIGABRT);
	set_state(c, CHILD_KILLED, clock_mono_ns() + grace);
}

static void act_start_late(struct child *c)
{
	log_error("process=%s pid=%d is not ready and silent for %llu s, "
		  "killing it",
		  c->name, (int)c->pid,
		  (unsigned long long)(START_TIMEOUT_NS / NS_PER_S));
	act_abort(c);
}

static void act_kill_now(struct child *c)
{
	send_signal(c, SIGKILL);
	set_state(c, CHILD_KILLED, 0);
}

static void act_down(struct child *c)
{
	set_state(c, CHILD_DOWN, 0);
	c->host->on_down(c->host->ctx, c);
}

bool child_is_hopeless(const struct child *c)
{
	return c->has_exited && WIFEXITED(c->last_exit) &&
	       WEXITSTATUS(c->last_exit) == EXIT_NO_RETRY;
}

static void give_up(struct child *c, const char *exit_text)
{
	if (child_is_hopeless(c))
		log_error("giving up: starting %s again would not help; its "
			  "own log line above says what does",
			  c->name);
	else
		log_error(
		    "giving up: %s died %u times in a row before it was ready; "
		    "last: %s; its own log lines above say why (setting "
		    "crash_limit=%llu)",
		    c->name, c->unready_lives, exit_text,
		    (unsigned long long)c->host->settings->crash_limit);
	set_state(c, CHILD_FAILED, 0);
	c->host->on_down(c->host->ctx, c);
}

static uint64_t backoff_ns(unsigned short_lives, uint64_t max_ns)
{
	uint64_t ns = BACKOFF_MIN_NS;

	if (short_lives == 0)
		return 0;
	while (--short_lives > 0 && ns < max_ns)
		ns *= 2;
	return MIN(ns, max_ns);
}

static void act_crash(struct child *c)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	uint64_t now = clock_mono_ns();
	uint64_t wait;

	child_put_exit(&text, c->last_exit);
	buf_putc(&text, '\0');
	if (c->host->stopping)
		c->host->on_unclean(c->host->ctx, c);
	if (c->ready_ns == 0)
		c->unready_lives++;
	else if (now - c->ready_ns >= SERVED_NS)
		c->short_lives = 0;
	if (c->unready_lives >= c->host->settings->crash_limit ||
	    child_is_hopeless(c)) {
		give_up(c, text.p);
		return;
	}
	wait = c->ready_ns != 0
		   ? backoff_ns(c->short_lives++, BACKOFF_READY_NS)
		   : backoff_ns(c->unready_lives - 1, BACKOFF_MAX_NS);
	c->restarts++;
	if (c->ready_ns != 0 && c->last_exit == 0) /* as raftd in a joining */
		log_info("process=%s ended in order; starting it again in "
			 "%llu ms",
			 c->name, (unsigned long long)(wait / NS_PER_MS));
	else
		log_warn("process=%s died: %s; starting it again in %llu ms",
			 c->name, text.p,
			 (unsigned long long)(wait / NS_PER_MS));
	if (wait == 0)
		act_start(c);
	else
		set_state(c, CHILD_BACKOFF, now + wait);
}

/*
 * One that gives up a start of its own accord was not asked to finish any
 * work: whether it can start is of no interest any more.
 */
static bool left_in_order(const struct child *c)
{
	return !c->was_killed && WIFEXITED(c->last_exit) &&
	       (WEXITSTATUS(c->last_exit) == 0 || c->ready_ns == 0);
}

static void check_leaving(struct child *c)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	child_put_exit(&text, c->last_exit);
	if (!c->was_killed && c->last_exit != 0)
		log_error("process=%s died when it was to leave: %.*s", c->name,
			  STR_ARG(buf_str(&text)));
	if (!left_in_order(c))
		c->host->on_unclean(c->host->ctx, c);
}

/* The exit of a child that was asked to leave, or was killed by us. */
static void act_left(struct child *c)
{
	if (c->leaving)
		check_leaving(c);
	if (!c->planned) {
		act_crash(c);
	} else if (c->come_back) {
		c->restarts++;
		act_start(c);
	} else {
		act_down(c);
	}
}

static void act_ignore(struct child *c)
{
	(void)c;
}

typedef void child_action_fn(struct child *c);

#define EV(event, action) [CHILD_EV_##event] = act_##action
static child_action_fn *const actions[CHILD_STATE_MAX][CHILD_EVENT_MAX] = {
	[CHILD_DOWN] = { EV(START, start), EV(READY, ignore), EV(STOP, ignore),
			 EV(RESTART, start), EV(KILL, ignore),
			 EV(STUCK, ignore), EV(EXIT, ignore),
			 EV(TIMER, ignore) },
	[CHILD_STARTING] = { EV(START, ignore), EV(READY, ready),
			     EV(STOP, stop), EV(RESTART, restart),
			     EV(KILL, kill), EV(STUCK, abort), EV(EXIT, crash),
			     EV(TIMER, start_late) },
	[CHILD_READY] = { EV(START, ignore), EV(READY, ignore), EV(STOP, stop),
			  EV(RESTART, restart), EV(KILL, kill),
			  EV(STUCK, abort), EV(EXIT, crash),
			  EV(TIMER, ignore) },
	[CHILD_DRAINING] = { EV(START, ignore), EV(READY, ignore),
			     EV(STOP, stop_later), EV(RESTART, ignore),
			     EV(KILL, kill), EV(STUCK, kill_late),
			     EV(EXIT, left), EV(TIMER, kill_late) },
	[CHILD_KILLED] = { EV(START, ignore), EV(READY, ignore),
			   EV(STOP, stop_killed), EV(RESTART, restart_later),
			   EV(KILL, kill), EV(STUCK, ignore), EV(EXIT, left),
			   EV(TIMER, kill_now) },
	[CHILD_BACKOFF] = { EV(START, start), EV(READY, ignore), EV(STOP, down),
			    EV(RESTART, start), EV(KILL, down),
			    EV(STUCK, ignore), EV(EXIT, ignore),
			    EV(TIMER, start) },
	[CHILD_FAILED] = { EV(START, ignore), EV(READY, ignore),
			   EV(STOP, ignore), EV(RESTART, ignore),
			   EV(KILL, ignore), EV(STUCK, ignore),
			   EV(EXIT, ignore), EV(TIMER, ignore) },
};
#undef EV

void child_event(struct child *c, enum child_event e)
{
	CHECK((size_t)c->state < CHILD_STATE_MAX);
	CHECK((size_t)e < CHILD_EVENT_MAX);
	actions[c->state][e](c);
}

/* --- time --- */

/* When a start counts as failed: signs of life move it. */
static uint64_t state_deadline_ns(const struct child *c)
{
	if (c->state == CHILD_STARTING)
		return c->beat_ns + START_TIMEOUT_NS;
	return c->deadline_ns != 0 ? c->deadline_ns : UINT64_MAX;
}

static uint64_t watchdog_deadline_ns(const struct child *c)
{
	/* A shorter timeout counts from its next start, when it is told. */
	uint64_t ns = MAX(c->watchdog_ns, c->host->settings->watchdog_timeout);

	if (c->state != CHILD_READY)
		return UINT64_MAX;
	return c->beat_ns + ns + c->excused_ns;
}

static uint64_t stopped_deadline_ns(const struct child *c)
{
	bool counts = c->state == CHILD_STARTING || c->state == CHILD_READY ||
		      c->state == CHILD_DRAINING;

	if (!counts || c->stopped_ns == 0)
		return UINT64_MAX;
	return c->stopped_ns + c->host->settings->stopped_timeout;
}

uint64_t child_next_ns(const struct child *c)
{
	uint64_t a = state_deadline_ns(c);
	uint64_t b = watchdog_deadline_ns(c);

	a = MIN(a, b);
	b = stopped_deadline_ns(c);
	return MIN(a, b);
}

void child_forgive(struct child *c, uint64_t now_ns)
{
	note_life(c, now_ns);
	if (c->stopped_ns != 0)
		c->stopped_ns = now_ns;
}

static void on_stuck(struct child *c, uint64_t now_ns, const char *what)
{
	if (procstat_is_traced(c->pid)) {
		child_forgive(c, now_ns);
		return;
	}
	log_error("process=%s pid=%d %s, killing it", c->name, (int)c->pid,
		  what);
	child_event(c, CHILD_EV_STUCK);
}

/* On a busy machine we may be the one who is late: what it has said since we
 * listened last counts. */
static bool is_silent(struct child *c, uint64_t now_ns)
{
	if (now_ns < watchdog_deadline_ns(c))
		return false;
	if (c->fd >= 0)
		child_on_readable(c);
	return now_ns >= watchdog_deadline_ns(c);
}

void child_tick(struct child *c, uint64_t now_ns)
{
	if (now_ns >= stopped_deadline_ns(c))
		on_stuck(c, now_ns, "is stopped by a signal");
	else if (is_silent(c, now_ns) && !silence_excuse(c, now_ns))
		on_stuck(c, now_ns, "shows no sign of life");
	else if (now_ns >= state_deadline_ns(c))
		child_event(c, CHILD_EV_TIMER);
}
