/*
 * The process skeleton. Input: flags, environment, the configuration file,
 * signals and lines of the supervisor; what is wrong in them is told and, at
 * run time, changes nothing.
 *
 * All on the loop thread. Signals are blocked before any thread starts and
 * read from a descriptor, so no thread of a library ever handles one; only
 * those of a crash have a handler.
 */
#include "rt/daemon.h"

#include <errno.h>
#include <execinfo.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rt/fds.h"
#include "rt/file.h"
#include "rt/log.h"

/* Without a supervisor nobody waits for the end of a drain. */
#define DAEMON_ORPHAN_DRAIN_NS NS_PER_S
#define DAEMON_ORPHAN_ALARM_S  3
#define DAEMON_CRASH_ALARM_S   2
#define DAEMON_CRASH_WAIT_MS   1000
#define DAEMON_FRAMES_MAX      64
#define DAEMON_NAME_BYTES      32
#define HEAP_BLOCK_BYTES       (1 << 20)  /* larger ones are mapped */
#define HEAP_TRIM_BYTES        (16 << 20) /* free at the end: given back */
#define HEAPS                  2          /* for all threads */

struct daemon_priv {
	int argc; /* flags only */
	char **argv;
	char name[DAEMON_NAME_BYTES]; /* "httpd-1" */
	int signal_fd;
	int lock_fd; /* of a process that is alone; -1: not held */
	struct loop_fd *signals;
	struct loop_fd *supervisor;
	struct loop_timer *beat;
	struct loop_timer *orphan; /* ends a drain nobody waits for */
	bool ready;
	bool draining;
	bool exiting;
	pid_t parent;
	unsigned stop_signals;
	int status;
};

/* --- crashes --- */

/* What the handler writes; made before it is installed. */
static char crash_text[DAEMON_NAME_BYTES + 32];
static char crash_stack[64 << 10];
/* What the loop is at; written without a lock, for a handler on any thread. */
static const char *volatile crash_what;
static volatile uint64_t crash_number;

void daemon_doing(const char *what, uint64_t number)
{
	crash_what = NULL;
	crash_number = number;
	crash_what = what;
}

static void write_all(const char *text)
{
	size_t n = strlen(text);

	while (n > 0) {
		ssize_t done = write(log_fd(), text, n);

		if (done <= 0)
			return;
		text += done;
		n -= (size_t)done;
	}
}

/* printf is not for handlers. */
static void write_number(uint64_t n)
{
	char text[24], *p = text + sizeof(text) - 1;

	*p = '\0';
	do {
		*--p = (char)('0' + n % 10);
		n /= 10;
	} while (n > 0);
	write_all(p);
}

static void write_doing(void)
{
	const char *what = crash_what;

	if (what == NULL)
		return;
	write_all(what);
	write_number(crash_number);
	write_all("\n");
}

static void on_crash(int sig)
{
	void *frames[DAEMON_FRAMES_MAX];
	char number[4] = { (char)('0' + sig / 10), (char)('0' + sig % 10), '\n',
			   '\0' };
	struct pollfd room = { .fd = log_fd(), .events = POLLOUT };
	int n;

	/* A pipe that nobody reads must not keep us from dying. */
	(void)alarm(DAEMON_CRASH_ALARM_S);
	(void)poll(&room, 1, DAEMON_CRASH_WAIT_MS);
	write_all(crash_text);
	write_all(number);
	write_doing();
	n = backtrace(frames, DAEMON_FRAMES_MAX);
	backtrace_symbols_fd(frames, n, log_fd());
	(void)alarm(0);
	(void)raise(sig); /* the handler is reset: now it kills */
}

static void catch_crashes(const char *name)
{
	static const int sigs[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };
	stack_t stack = { .ss_sp = crash_stack,
			  .ss_size = sizeof(crash_stack) };
	struct sigaction sa = { .sa_handler = on_crash,
				.sa_flags = (int)(SA_RESETHAND | SA_ONSTACK) };
	void *frame;

	(void)snprintf(crash_text, sizeof(crash_text), "%s: signal ", name);
	/* The first backtrace loads a library, which a handler must not. */
	(void)backtrace(&frame, 1);
	(void)sigaltstack(&stack, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(sigs); i++) {
		struct sigaction old;

		/* A sanitizer's handler says more than ours. */
		if (sigaction(sigs[i], NULL, &old) == 0 &&
		    old.sa_handler == SIG_DFL)
			(void)sigaction(sigs[i], &sa, NULL);
	}
}

/* --- leaving --- */

void daemon_exit(struct daemon *d, int status)
{
	struct daemon_priv *p = d->priv;

	if (!p->exiting)
		p->status = status;
	p->exiting = true;
	loop_stop(d->loop);
}

static void drain(struct daemon *d, const char *reason)
{
	struct daemon_priv *p = d->priv;

	if (p->draining)
		return;
	p->draining = true;
	log_info("stopping: %s", reason);
	notify_stopping(&d->notify);
	d->ops->drain(d);
}

static void on_orphan(void *ctx)
{
	(void)ctx;
	log_error("the supervisor is gone and the drain takes too long: "
		  "leaving at once");
	_exit(EXIT_FAILURE);
}

static void on_supervisor_gone(struct daemon *d)
{
	struct daemon_priv *p = d->priv;

	loop_fd_remove(p->supervisor);
	p->supervisor = NULL;
	/* The alarm kills us even if the loop hangs. */
	(void)alarm(DAEMON_ORPHAN_ALARM_S);
	p->orphan = loop_timer_add(d->loop, on_orphan, d);
	loop_timer_arm(p->orphan, DAEMON_ORPHAN_DRAIN_NS);
	drain(d, "the supervisor is gone");
}

/* --- settings --- */

static void apply_log_settings(const struct settings *s)
{
	enum log_level level;

	/* Both texts were checked when they were loaded. */
	if (log_level_parse(str_from(s->log_level), &level))
		log_set_level(level);
	log_set_json(str_is(str_from(s->log_format), "json"));
}

static void reload(struct daemon *d)
{
	_cleanup_(buf_done) struct buf kept = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct daemon_priv *p = d->priv;

	if (settings_reload(p->argc, p->argv, &d->settings, &kept, &why) < 0) {
		log_error("reload refused, the settings stay: %.*s",
			  STR_ARG(buf_str(&why)));
		return;
	}
	apply_log_settings(&d->settings);
	if (kept.n > 0)
		log_warn("reload: these change at the next start only: %.*s",
			 STR_ARG(buf_str(&kept)));
	if (d->ops->reload != NULL)
		d->ops->reload(d);
	log_info("settings reloaded");
}

static void set_log_level(struct str name)
{
	enum log_level level;

	if (!log_level_parse(name, &level)) {
		log_warn("unknown log level \"%.*s\"", STR_ARG(name));
		return;
	}
	log_set_level(level);
	log_info("log level is %s", log_level_name(level));
}

/* --- signals and the supervisor --- */

static void on_stop_signal(struct daemon *d, int sig)
{
	const char *name = sig == SIGTERM ? "SIGTERM" : "SIGINT";
	struct daemon_priv *p = d->priv;

	if (++p->stop_signals > 1) {
		log_warn("%s again: leaving at once", name);
		_exit(EXIT_FAILURE);
	}
	drain(d, name);
}

/* Signals for the whole group are for the supervisor: it has the order. */
static bool is_heeded(const struct daemon *d, const struct signalfd_siginfo *si)
{
	return d->notify.supervisor_fd < 0 ||
	       (si->ssi_pid == (uint32_t)d->priv->parent &&
		si->ssi_signo != SIGINT);
}

static void on_signal(void *ctx, int fd, int events)
{
	struct daemon *d = ctx;
	struct signalfd_siginfo si;

	(void)events;
	while (read(fd, &si, sizeof(si)) == sizeof(si)) {
		if (!is_heeded(d, &si))
			continue;
		if (si.ssi_signo == SIGHUP)
			reload(d);
		else
			on_stop_signal(d, (int)si.ssi_signo);
	}
}

static void on_line(struct daemon *d, struct str line)
{
	struct str word, rest;

	(void)str_split(line, ' ', &word, &rest);
	if (str_is(word, "drain") &&
	    (rest.n == 0 || str_parse_u64(rest, &d->drain_ms)))
		drain(d, "the supervisor asks for it");
	else if (str_is(line, "reload"))
		reload(d);
	else if (str_is(word, "log-level"))
		set_log_level(rest);
	else
		log_warn("the supervisor says \"%.*s\", which means nothing",
			 STR_ARG(line));
}

static void on_supervisor(void *ctx, int fd, int events)
{
	struct daemon *d = ctx;
	struct str line;
	int r;

	(void)fd;
	(void)events;
	while ((r = notify_receive(&d->notify, &line)) > 0)
		on_line(d, line);
	if (r < 0)
		on_supervisor_gone(d);
}

void daemon_beat(void *ctx)
{
	struct daemon *d = ctx;

	notify_watchdog(&d->notify);
}

static void on_beat(void *ctx)
{
	struct daemon *d = ctx;

	daemon_beat(d);
	log_settle();
	loop_timer_arm(d->priv->beat, d->notify.watchdog_ns);
}

static void on_turn_end(void *ctx)
{
	struct daemon *d = ctx;

	d->ops->turn_end(d);
}

void daemon_ready(struct daemon *d)
{
	if (d->priv->ready)
		return;
	d->priv->ready = true;
	notify_ready(&d->notify);
	log_info("ready pid=%d version=%s", (int)getpid(), corvo_version);
}

/* --- start --- */

static void print_help(const char *program, enum proc_id proc)
{
	printf("%s: %s\n\n"
	       "Usage: %s [--setting=value]...\n\n"
	       "Usually started by corvo-supervisor. Settings, also as "
	       "CORVO_NAME or in the file\nof --config:\n\n",
	       program, proc_info(proc)->doc, program);
	for (unsigned i = 0; i < SETTING_MAX; i++) {
		const struct setting_info *s = setting_info((enum setting_id)i);

		printf("  %s\n      %s Default: %s\n", s->flag, s->doc,
		       s->def[0] != '\0' ? s->def : "empty");
	}
}

/* True when the flags asked for a text only. */
static bool print_only(int argc, char **argv, const struct daemon_ops *ops)
{
	const char *program = proc_info(ops->proc)->program;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--version") == 0) {
			printf("%s %s\n", program, corvo_version);
			return true;
		}
		if (strcmp(argv[i], "--help") == 0) {
			print_help(program, ops->proc);
			return true;
		}
	}
	return false;
}

static unsigned number_from_env(void)
{
	const char *text = getenv("CORVO_NUMBER");
	uint64_t v = 0;

	if (text == NULL || !str_parse_u64(str_from(text), &v) ||
	    v > UINT16_MAX)
		return 0;
	return (unsigned)v;
}

/* A supervisor has done that: what it left open is for us. */
static void close_inherited(struct daemon *d)
{
	int keep[3 + LIMIT_LISTENERS] = { d->notify.systemd_fd,
					  d->priv->signal_fd,
					  fds_of_path(d->settings.config) };
	size_t n = 3 + fds_listeners(keep + 3);

	if (d->notify.supervisor_fd < 0)
		fds_close_but(keep, n);
}

/* What a supervisor has checked and said for all of its processes. */
static int check_limits(struct daemon *d)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (d->notify.supervisor_fd >= 0)
		return 0;
	settings_log_budgets(&d->settings);
	if (geteuid() == 0)
		log_warn("running as root, which no process of a node needs");
	if (fds_check_limit(&d->settings, &why) == 0)
		return 0;
	log_error("cannot start: %.*s", STR_ARG(buf_str(&why)));
	return -ERR_VALIDATION_ERROR;
}

static int block_signals(void)
{
	sigset_t set;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int load_settings(struct daemon *d)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct daemon_priv *p = d->priv;

	if (settings_load(p->argc, p->argv, &d->settings, &why) < 0) {
		log_plain("%s: %.*s", p->name, STR_ARG(buf_str(&why)));
		return -ERR_VALIDATION_ERROR;
	}
	close_inherited(d);
	d->notify.settings_fd = fds_of_path(d->settings.config);
	log_init(p->name, d->settings.node_id);
	apply_log_settings(&d->settings);
	return 0;
}

static int take_lock(struct daemon *d, struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	const char *dir = d->settings.data_dir;
	int holder = 0, r;

	buf_printf(&path, "%s/%s.lock%c", dir, proc_info(d->proc)->name, '\0');
	r = file_lock(path.p, &holder);
	if (r >= 0) {
		d->priv->lock_fd = r;
		return 0;
	}
	if (r == -EWOULDBLOCK)
		buf_printf(why,
			   "another %s (pid %d) uses %s; stop it or give this "
			   "one its own --data-dir",
			   proc_info(d->proc)->program, holder, dir);
	else
		buf_printf(why, "cannot lock %s: %s", path.p,
			   file_lock_error(r));
	return -ERR_VALIDATION_ERROR;
}

/* Started by hand there may be no supervisor that made them. */
static int take_dirs(struct daemon *d)
{
	_cleanup_(buf_done) struct buf dir = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	int r = 0;

	settings_run_dir(&d->settings, &dir);
	buf_putc(&dir, '\0');
	if (d->ops->single) {
		r = dir_take(d->settings.data_dir, "data", &why);
		if (r == 0)
			r = take_lock(d, &why);
	}
	if (r == 0)
		r = dir_take(dir.p, "run", &why);
	if (r < 0)
		log_error("cannot start: %.*s", STR_ARG(buf_str(&why)));
	return r;
}

static void watch(struct daemon *d)
{
	struct daemon_priv *p = d->priv;

	p->signals =
	    loop_fd_add(d->loop, p->signal_fd, LOOP_READ, on_signal, d);
	if (d->notify.supervisor_fd >= 0)
		p->supervisor = loop_fd_add(d->loop, d->notify.supervisor_fd,
					    LOOP_READ, on_supervisor, d);
	if (d->notify.watchdog_ns > 0) {
		p->beat = loop_timer_add(d->loop, on_beat, d);
		on_beat(d);
	}
	if (d->ops->turn_end != NULL)
		loop_on_turn_end(d->loop, on_turn_end, d);
}

static int serve(struct daemon *d)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	bool started;
	int r;

	d->loop = loop_new();
	d->ipc = ipc_new(d->loop);
	watch(d);
	r = d->ops->init(d, &why);
	started = r == 0;
	if (started)
		loop_run(d->loop);
	else
		log_error("cannot start: %.*s", STR_ARG(buf_str(&why)));
	loop_on_turn_end(d->loop, NULL, NULL);
	if (started || d->state != NULL)
		d->ops->done(d);
	ipc_free(d->ipc);
	loop_free(d->loop);
	ipc_exit();
	if (started)
		return d->priv->status;
	return r == -ERR_CONFLICT ? EXIT_NO_RETRY : EXIT_FAILURE;
}

/*
 * Large blocks go back to the system when they are freed. Left alone, the
 * first one that is freed teaches malloc to keep such blocks in its heap,
 * where a few small ones behind them hold them for good.
 *
 * Nor has every thread a heap of its own: what one thread makes another frees,
 * and each heap would grow for minutes to the most it ever had.
 */
static void tune_heap(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES);
	(void)mallopt(M_TRIM_THRESHOLD, HEAP_TRIM_BYTES);
	(void)mallopt(M_ARENA_MAX, HEAPS);
}

int daemon_main(int argc, char **argv, const struct daemon_ops *ops)
{
	struct daemon_priv priv = { .argc = argc - 1,
				    .argv = argv + 1,
				    .parent = getppid(),
				    .lock_fd = -1 };
	struct daemon d = { .proc = ops->proc, .ops = ops, .priv = &priv };
	const char *name = proc_info(ops->proc)->name;
	int status = EXIT_FAILURE;

	if (print_only(argc, argv, ops))
		return EXIT_SUCCESS;
	d.number = number_from_env();
	if (ops->proc == PROC_HTTPD)
		(void)snprintf(priv.name, sizeof(priv.name), "%s-%u", name,
			       d.number);
	else
		(void)snprintf(priv.name, sizeof(priv.name), "%s", name);
	(void)umask(027);
	fds_fill_standard();
	(void)fds_raise_limit();
	tune_heap();
	catch_crashes(priv.name);
	priv.signal_fd = block_signals();
	CHECK(priv.signal_fd >= 0);
	notify_init(&d.notify);
	if (load_settings(&d) == 0) {
		if (check_limits(&d) == 0 && take_dirs(&d) == 0)
			status = serve(&d);
		settings_done(&d.settings);
	}
	notify_done(&d.notify);
	(void)close(priv.signal_fd);
	if (priv.lock_fd >= 0)
		(void)close(priv.lock_fd);
	return status;
}

void daemon_link_path(struct daemon *d, enum proc_id server,
		      enum proc_id client, unsigned number, struct buf *ret)
{
	buf_clear(ret);
	settings_run_dir(&d->settings, ret);
	buf_printf(ret, "/%s-%s", proc_info(server)->name,
		   proc_info(client)->name);
	if (client == PROC_HTTPD)
		buf_printf(ret, "-%u", number);
	buf_puts(ret, ".sock");
	/* for those who need a C string; does not count */
	buf_putc(ret, '\0');
	ret->n--;
}
