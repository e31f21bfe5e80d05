/*
 * What a node needs before its first child, and its release. The order
 * matters: nothing of a data directory is touched before its lock is held,
 * and the port is ours before anything starts, so that a second node fails
 * early and says why.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "proto/err.h"
#include "rt/fds.h"
#include "rt/file.h"
#include "rt/procstat.h"
#include "superv.h"
#include "util/clock.h"

/* A predecessor that was killed may leave processes, for some seconds. */
#define LEFTOVER_WAIT_NS   (5 * NS_PER_S)
#define LEFTOVER_WAIT_STEP 50 /* ms */

static int make_children(struct superv *s, struct buf *why)
{
	s->children = xcalloc(SUPERV_CHILDREN_MAX, sizeof(*s->children));
	for (unsigned p = 0; p < PROC_MAX; p++) {
		unsigned n = 1;

		if (p == PROC_HTTPD)
			n = (unsigned)s->settings.httpd_processes;
		for (unsigned i = 0; i < n; i++) {
			struct child *c = &s->children[s->children_n];
			int r;

			CHECK(s->children_n < SUPERV_CHILDREN_MAX);
			s->children_n++;
			r = child_init(c, &s->host, (enum proc_id)p, i, why);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int make_dirs(struct superv *s, struct buf *why)
{
	int r = dir_take(s->settings.data_dir, "data", why);

	return r == 0 ? dir_take(s->run_dir.p, "run", why) : r;
}

/*
 * Children hold the lock too, so that those of a supervisor that was killed
 * are gone, with their sockets, before new ones start.
 */
static bool is_leftover(int r, int holder)
{
	return r == -EWOULDBLOCK && holder > 0 && !procstat_is_running(holder);
}

static int wait_lock(const char *path, int *holder)
{
	uint64_t give_up_ns = clock_mono_ns() + LEFTOVER_WAIT_NS;
	int r;

	for (;;) {
		r = file_lock(path, holder);
		if (!is_leftover(r, *holder) || clock_mono_ns() >= give_up_ns)
			return r;
		(void)poll(NULL, 0, LEFTOVER_WAIT_STEP);
	}
}

/* kind: "data" or "run", as in the flag that names the directory. */
static int take_lock(const char *dir, const char *kind, const char *name,
		     int *ret_fd, struct buf *why)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	int holder = 0;
	int r;

	buf_printf(&path, "%s/%s", dir, name);
	buf_putc(&path, '\0');
	r = wait_lock(path.p, &holder);
	if (r >= 0) {
		*ret_fd = r;
		return 0;
	}
	if (is_leftover(r, holder))
		buf_printf(why,
			   "the %s directory %s is still in use by processes "
			   "of node %d, which is gone; `fuser %s` names them: "
			   "end them, then start again",
			   kind, dir, holder, path.p);
	else if (r == -EWOULDBLOCK)
		buf_printf(why,
			   "the %s directory %s is in use by another node "
			   "(process %d); stop that one, or choose another "
			   "directory with --%s-dir",
			   kind, dir, holder, kind);
	else
		buf_printf(why, "cannot lock %s: %s", path.p,
			   file_lock_error(r));
	return -ERR_VALIDATION_ERROR;
}

/*
 * The run directory too: a node that shared it would take the sockets of
 * this one away, and its processes would be served by the other's.
 */
static int take_locks(struct superv *s, struct buf *why)
{
	int r = take_lock(s->settings.data_dir, "data", "corvo.lock",
			  &s->host.lock_fd, why);

	if (r == 0)
		r = take_lock(s->run_dir.p, "run", "run.lock", &s->run_lock_fd,
			      why);
	return r;
}

/* --- settings for the children --- */

static void put_config(const struct settings *s, const struct settings *next,
		       struct buf *b)
{
	for (unsigned i = 0; i < SETTING_MAX; i++) {
		enum setting_id id = (enum setting_id)i;
		const struct settings *from =
		    setting_is_taken(s, next, id) ? next : s;

		if (from->source[i] == SRC_FILE)
			buf_printf(b, "%s = \"%s\"\n", setting_info(id)->name,
				   from->text[i]);
	}
}

/* A new one each time: a process may be reading the last one just now. */
int superv_publish(struct superv *s, const struct settings *next,
		   struct buf *why)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	int fd;

	if (s->settings.config[0] == '\0')
		return 0;
	put_config(&s->settings, next, &text);
	fd = memfd_create("corvo.conf", MFD_CLOEXEC);
	if (fd >= 0 && pwrite(fd, text.p, text.n, 0) == (ssize_t)text.n) {
		if (s->host.config_fd >= 0)
			(void)close(s->host.config_fd);
		s->host.config_fd = fd;
		return 0;
	}
	buf_printf(why, "cannot write the settings down: %s", strerror(errno));
	if (fd >= 0)
		(void)close(fd);
	return -ERR_INTERNAL_ERROR;
}

/* A control socket is left behind only by a supervisor that was killed. */
static bool was_unclean(const struct superv *s)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	buf_printf(&path, "%s/control.sock", s->run_dir.p);
	buf_putc(&path, '\0');
	return access(path.p, F_OK) == 0;
}

static int open_port(struct superv *s, struct buf *why)
{
	uint64_t patience = was_unclean(s) ? LEFTOVER_WAIT_NS : 0;
	uint64_t give_up_ns = clock_mono_ns() + patience;
	int r;

	for (;;) {
		buf_clear(why);
		r = listeners_open(&s->settings, &s->listeners, why);
		if (r >= 0 || clock_mono_ns() >= give_up_ns)
			break;
		(void)poll(NULL, 0, LEFTOVER_WAIT_STEP);
	}
	if (r < 0)
		return r;
	listeners_put(&s->listeners, &s->address);
	buf_putc(&s->address, '\0');
	return 0;
}

static int block_signals(struct superv *s, struct buf *why)
{
	static const int handled[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP };
	sigset_t set;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(handled); i++) {
		/* An ignored SIGCHLD (inherited) would hide every exit. */
		(void)signal(handled[i], SIG_DFL);
		(void)sigaddset(&set, handled[i]);
	}
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signal_fd >= 0)
		return 0;
	buf_printf(why, "cannot watch signals: %s", strerror(errno));
	return -ERR_INTERNAL_ERROR;
}

int superv_set_up(struct superv *s, struct buf *why)
{
	int r;

	settings_run_dir(&s->settings, &s->run_dir);
	buf_putc(&s->run_dir, '\0');
	r = fds_check_limit(&s->settings, why);
	if (r == 0)
		r = make_children(s, why);
	if (r == 0)
		r = superv_publish(s, &s->settings, why);
	if (r == 0)
		r = make_dirs(s, why);
	if (r == 0)
		r = take_locks(s, why);
	if (r == 0)
		r = open_port(s, why);
	if (r == 0)
		r = block_signals(s, why);
	if (r == 0)
		r = ctl_server_open(&s->ctl, s->run_dir.p, superv_on_request, s,
				    why);
	return r;
}

void superv_tear_down(struct superv *s)
{
	const int fds[] = { s->host.config_fd, s->signal_fd, s->run_lock_fd,
			    s->host.lock_fd };

	ctl_server_close(&s->ctl);
	for (size_t i = 0; i < s->children_n; i++)
		child_done(&s->children[i]);
	free(s->children);
	listeners_close(&s->listeners);
	/* The lock goes last: whoever has it finds nothing of ours. */
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
	notify_done(&s->systemd);
	buf_done(&s->run_dir);
	buf_done(&s->address);
	settings_done(&s->settings);
}
