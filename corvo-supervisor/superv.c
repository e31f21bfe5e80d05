/*
 * Start, watch, stop: the poll loop, the start order and the ladder.
 */
#include "superv.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/err.h"
#include "rt/fds.h"
#include "rt/secret.h"
#include "util/clock.h"

/* Waking up later than this means that we were stopped, not the children. */
#define PAUSE_NS    (500 * NS_PER_MS)
#define POLL_MAX_NS (60 * NS_PER_S)
/* Signals that come so fast after one that stops the node are that one. */
#define SAME_ORDER_NS (200 * NS_PER_MS)

#define FILE_KEPT                                                        \
	"the configuration file was a pipe, or the like, which can be "  \
	"read only once: what it said at the start stays; start with a " \
	"file to change it"

static const char *const state_names[SUPERV_STATE_MAX] = {
	[SUPERV_STARTING] = "starting",
	[SUPERV_RUNNING] = "running",
#define PROC(NAME, name, program, doc) \
	[SUPERV_DRAIN_##NAME] = "draining " #name,
#include "proto/defs/procs.def"
	[SUPERV_DONE] = "done",
};

const char *superv_state_name(enum superv_state s)
{
	CHECK((size_t)s < SUPERV_STATE_MAX);
	return state_names[s];
}

static void set_state(struct superv *s, enum superv_state next)
{
	if (s->state == next)
		return;
	log_info("state=\"%s\" was=\"%s\"", state_names[next],
		 state_names[s->state]);
	s->state = next;
	notify_status(&s->systemd, "%s", state_names[next]);
}

bool superv_is_stopping(const struct superv *s)
{
	return s->state > SUPERV_RUNNING;
}

/* --- the ladder --- */

/* True when no child of this kind is left. */
static bool drain_proc(struct superv *s, enum proc_id proc, bool begin)
{
	bool gone = true;

	for (size_t i = 0; i < s->children_n; i++) {
		struct child *c = &s->children[i];

		if (c->proc != proc)
			continue;
		if (begin)
			child_event(c, CHILD_EV_STOP);
		gone &= child_is_gone(c);
	}
	return gone;
}

/*
 * Goes as many rungs down as it can. A rung may take half of the time that
 * is left, so that one process that hangs does not take the flush at the end
 * away from raftd, which has all the rest.
 */
static void descend(struct superv *s)
{
	for (int p = PROC_MAX - 1; p >= 0; p--) {
		enum superv_state rung =
		    SUPERV_DRAIN_RAFTD + (enum superv_state)p;
		uint64_t now = clock_mono_ns();
		uint64_t left = s->stop_by_ns > now ? s->stop_by_ns - now : 0;
		bool begin = s->state != rung;

		if (drain_proc(s, (enum proc_id)p, false)) {
			if (p == PROC_HTTPD) /* nobody is left to accept */
				listeners_close(&s->listeners);
			continue;
		}
		if (begin) {
			set_state(s, rung);
			s->host.stop_by_ns = now + (p > 0 ? left / 2 : left);
		}
		/* A child that is gone at once has called us in between. */
		if (!drain_proc(s, (enum proc_id)p, begin) || s->state != rung)
			return;
	}
	set_state(s, SUPERV_DONE);
}

static void kill_all(struct superv *s)
{
	log_warn("killing all processes at once");
	s->failed = true;
	for (size_t i = 0; i < s->children_n; i++)
		child_event(&s->children[i], CHILD_EV_KILL);
}

void superv_stop(struct superv *s)
{
	if (superv_is_stopping(s)) {
		kill_all(s);
		return;
	}
	s->stopped_ns = clock_mono_ns();
	s->stop_by_ns = s->stopped_ns + s->settings.shutdown_timeout;
	s->host.stopping = true;
	notify_stopping(&s->systemd);
	listeners_refuse(&s->listeners);
	descend(s);
}

static void on_child_down(void *ctx, struct child *c)
{
	struct superv *s = ctx;

	if (c->state == CHILD_FAILED) {
		s->failed = true;
		s->hopeless = s->hopeless || child_is_hopeless(c);
		ctl_server_wake(&s->ctl, c, ERR_INTERNAL_ERROR,
				"it keeps dying before it is ready; the log "
				"says why");
	}
	if (superv_is_stopping(s))
		descend(s);
	else
		superv_stop(s);
}

static void on_child_unclean(void *ctx, struct child *c)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct superv *s = ctx;

	if (superv_is_stopping(s))
		s->failed = true;
	buf_printf(&text, "%s did not leave in order: ", c->name);
	child_put_exit(&text, c->last_exit);
	if (c->come_back)
		buf_puts(&text, "; it is started again");
	buf_putc(&text, '\0');
	ctl_server_wake(&s->ctl, c, ERR_INTERNAL_ERROR, text.p);
}

/* --- starting --- */

static void all_ready(struct superv *s)
{
	set_state(s, SUPERV_RUNNING);
	notify_ready(&s->systemd);
	notify_status(&s->systemd, "listening on %s", s->address.p);
	log_info("ready: listening on %s data_dir=%s node_id=%s start_ms=%llu",
		 s->address.p, s->settings.data_dir, s->settings.node_id,
		 (unsigned long long)((clock_mono_ns() - s->started_ns) /
				      NS_PER_MS));
}

static void start_next(struct superv *s)
{
	for (size_t i = 0; i < s->children_n; i++) {
		struct child *c = &s->children[i];

		if (c->state == CHILD_READY)
			continue;
		/* One that came before may just be starting again. */
		child_event(c, CHILD_EV_START);
		return;
	}
	all_ready(s);
}

static void on_child_ready(void *ctx, struct child *c)
{
	struct superv *s = ctx;
	char text[96];

	(void)snprintf(text, sizeof(text), "{\"name\":\"%s\",\"pid\":%d}",
		       c->name, (int)c->pid);
	ctl_server_wake(&s->ctl, c, 0, text);
	if (s->state == SUPERV_STARTING)
		start_next(s);
}

/* --- settings --- */

static void apply_log(struct superv *s)
{
	enum log_level level = LOG_INFO;

	(void)log_level_parse(str_from(s->settings.log_level), &level);
	log_set_level(level);
	log_set_json(strcmp(s->settings.log_format, "json") == 0);
}

static void tell_all(struct superv *s, const char *line)
{
	for (size_t i = 0; i < s->children_n; i++)
		(void)child_send(&s->children[i], line);
}

void superv_set_level(struct superv *s, enum log_level level)
{
	char line[32];

	log_set_level(level);
	s->host.level = log_level_name(level);
	(void)snprintf(line, sizeof(line), "log-level %s", s->host.level);
	tell_all(s, line);
}

/* Reads them again and takes over what can be, and says so in `answer`. What
 * fails does so before anything is another. */
static int take_settings(struct superv *s, struct buf *answer, struct buf *kept,
			 struct buf *why)
{
	struct json_writer w = JSON_WRITER(answer);
	struct settings fresh;
	int r =
	    settings_load_again(s->argc, s->argv, &s->settings, &fresh, why);

	if (r < 0)
		return r;
	r = superv_publish(s, &fresh, why);
	if (r < 0) {
		settings_done(&fresh);
		return r;
	}
	jw_object(&w);
	jw_key(&w, "ok");
	jw_bool(&w, true);
	settings_put_changes(&w, &s->settings, &fresh);
	if (settings_file_is_kept(&s->settings)) {
		jw_key(&w, "note");
		jw_cstr(&w, FILE_KEPT);
	}
	jw_object_end(&w);
	settings_take(&s->settings, &fresh, kept);
	settings_done(&fresh);
	return 0;
}

static void reload_all(struct superv *s)
{
	for (size_t i = 0; i < s->children_n; i++)
		if (!child_reload(&s->children[i]))
			log_warn("%s takes no words and could not be told that "
				 "settings were read again: it has the old "
				 "ones until it is started again",
				 s->children[i].name);
}

int superv_reload(struct superv *s, struct buf *answer, struct buf *why)
{
	_cleanup_(buf_done) struct buf kept = BUF_INIT(0);
	char words[64];
	int r;

	(void)snprintf(words, sizeof(words), "RELOADING=1\nMONOTONIC_USEC=%llu",
		       (unsigned long long)(clock_mono_ns() / NS_PER_US));
	sd_notify_send(&s->systemd, words);
	r = take_settings(s, answer, &kept, why);
	if (r == 0) {
		s->host.level = NULL;
		apply_log(s);
		reload_all(s);
		log_info("settings were read again");
		if (settings_file_is_kept(&s->settings))
			log_warn(FILE_KEPT);
		if (kept.n > 0)
			log_warn("changed, but only at the next start: %.*s",
				 STR_ARG(buf_str(&kept)));
	}
	if (s->state == SUPERV_RUNNING)
		notify_ready(&s->systemd);
	return r;
}

/* --- the loop --- */

static void reap(struct superv *s)
{
	for (;;) {
		int status;
		pid_t pid =
		    waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);

		if (pid <= 0)
			return;
		for (size_t i = 0; i < s->children_n; i++) {
			if (s->children[i].pid == pid) {
				child_on_wait(&s->children[i], status);
				break;
			}
		}
	}
}

static void on_hangup(struct superv *s)
{
	_cleanup_(buf_done) struct buf answer = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (superv_reload(s, &answer, &why) < 0)
		log_error("settings were not read again, the old ones stay: "
			  "%.*s",
			  STR_ARG(buf_str(&why)));
}

/*
 * timeout(1) signals us, and then the group that we are in: both are one
 * order. Nobody who means it presses a key twice that fast.
 */
static void on_stop_signal(struct superv *s, const char *name)
{
	if (superv_is_stopping(s) &&
	    clock_mono_ns() < s->stopped_ns + SAME_ORDER_NS)
		return;
	log_info("signal=%s", name);
	superv_stop(s);
}

static void on_signals(struct superv *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		switch (info.ssi_signo) {
		case SIGCHLD:
			reap(s);
			break;
		case SIGHUP:
			on_hangup(s);
			break;
		default:
			on_stop_signal(s, info.ssi_signo == SIGINT ? "INT"
								   : "TERM");
			break;
		}
	}
}

static uint64_t next_ns(const struct superv *s)
{
	uint64_t next = ctl_server_next_ns(&s->ctl);

	for (size_t i = 0; i < s->children_n; i++) {
		uint64_t at = child_next_ns(&s->children[i]);

		next = MIN(next, at);
	}
	if (s->systemd.systemd_fd >= 0 && s->systemd.watchdog_ns > 0)
		next = MIN(next, s->beat_ns);
	return next;
}

static void tick(struct superv *s, uint64_t now)
{
	for (size_t i = 0; i < s->children_n; i++)
		child_tick(&s->children[i], now);
	ctl_server_tick(&s->ctl, now);
	if (s->systemd.watchdog_ns > 0 && now >= s->beat_ns) {
		notify_watchdog(&s->systemd);
		s->beat_ns = now + s->systemd.watchdog_ns;
	}
}

/* Sleeps until something happens; returns the moment it should have woken. */
static uint64_t wait_poll(const struct superv *s, struct pollfd *fds, size_t n)
{
	uint64_t now = clock_mono_ns();
	uint64_t at = MIN(next_ns(s), now + POLL_MAX_NS);
	uint64_t ns = at > now ? at - now : 0;
	struct timespec ts = { .tv_sec = (time_t)(ns / NS_PER_S),
			       .tv_nsec = (long)(ns % NS_PER_S) };

	if (ppoll(fds, n, &ts, NULL) < 0) {
		for (size_t i = 0; i < n; i++)
			fds[i].revents = 0;
		/* More than we may open (the limit was lowered): signals at
		 * least are heard, and nothing spins. */
		if (errno == EINVAL)
			(void)ppoll(fds, 1, &ts, NULL);
	}
	return now + ns;
}

static void turn(struct superv *s)
{
	struct pollfd fds[1 + CTL_POLL_FDS + SUPERV_CHILDREN_MAX];
	size_t ctl_n = ctl_server_poll(&s->ctl, fds + 1);
	size_t first = 1 + ctl_n;
	uint64_t wake_ns, now;

	fds[0] = (struct pollfd){ .fd = s->signal_fd, .events = POLLIN };
	for (size_t i = 0; i < s->children_n; i++)
		fds[first + i] = (struct pollfd){ .fd = s->children[i].fd,
						  .events = POLLIN };
	wake_ns = wait_poll(s, fds, first + s->children_n);
	now = clock_mono_ns();
	if (now > wake_ns + PAUSE_NS)
		for (size_t i = 0; i < s->children_n; i++)
			child_forgive(&s->children[i], now);

	/* Words before deaths: a child's last ones are still to be read. */
	for (size_t i = 0; i < s->children_n; i++)
		if (fds[first + i].revents != 0 && s->children[i].fd >= 0)
			child_on_readable(&s->children[i]);
	if (fds[0].revents != 0)
		on_signals(s);
	ctl_server_on_poll(&s->ctl, fds + 1, ctl_n);
	tick(s, clock_mono_ns());
	log_settle();
}

/* --- all together --- */

static int run(struct superv *s)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	if (superv_set_up(s, &why) < 0) {
		log_error("%.*s", STR_ARG(buf_str(&why)));
		return EXIT_FAILURE;
	}
	settings_log_budgets(&s->settings);
	if (geteuid() == 0)
		log_warn("running as root, which a node does not need: start "
			 "it as a user of its own");
	start_next(s);
	while (s->state != SUPERV_DONE)
		turn(s);
	log_info("stopped%s", s->failed ? ", not cleanly" : "");
	if (s->hopeless)
		return EXIT_NO_RETRY;
	return s->failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* corvo-raftd would end with it at each start. */
static int check_secret(const struct settings *s, struct buf *why)
{
	_cleanup_(buf_done) struct buf secret = BUF_INIT(0);

	if (!settings_is_cluster(s) || s->cluster_secret_file[0] == '\0')
		return 0;
	return secret_read(s->cluster_secret_file, &secret, why);
}

static int load(struct superv *s)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	int keep[2];

	if (settings_load(s->argc, s->argv, &s->settings, &why) < 0 ||
	    settings_check_bind(&s->settings, &why) < 0 ||
	    check_secret(&s->settings, &why) < 0) {
		log_plain("corvo-supervisor: %.*s", STR_ARG(buf_str(&why)));
		return -ERR_VALIDATION_ERROR;
	}
	keep[0] = s->systemd.systemd_fd;
	keep[1] = fds_of_path(s->settings.config);
	fds_close_but(keep, ARRAY_SIZE(keep));
	log_init("supervisor", s->settings.node_id);
	apply_log(s);
	return 0;
}

int superv_main(int argc, char *const argv[])
{
	struct superv s = { .argc = argc,
			    .argv = argv,
			    .signal_fd = -1,
			    .run_lock_fd = -1,
			    .ctl = { .fd = -1 },
			    .started_ns = clock_mono_ns() };
	int status = EXIT_NO_RETRY;

	s.host = (struct child_host){ .settings = &s.settings,
				      .started_ns = s.started_ns,
				      .argc = argc,
				      .argv = argv,
				      .listeners = &s.listeners,
				      .config_fd = -1,
				      .lock_fd = -1,
				      .ctx = &s,
				      .on_ready = on_child_ready,
				      .on_down = on_child_down,
				      .on_unclean = on_child_unclean };
	notify_init(&s.systemd);
	if (load(&s) == 0)
		status = run(&s);
	superv_tear_down(&s);
	return status;
}
