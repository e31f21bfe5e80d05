/*
 * fork and execve. The supervisor has one thread and is small, so a plain
 * fork is cheap and the child may do ordinary things before it executes;
 * posix_spawn cannot ask for a signal at the parent's death.
 */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "proto/err.h"
#include "rt/listen.h"
#include "rt/log.h"
#include "util/arena.h"

#define EXIT_NOT_EXECUTABLE 127
#define SPAWN_VARS          8

/* Ours to give, or meant for us alone: never passed on as found. */
static const char *const not_inherited[] = {
	"CORVO_NOTIFY_FD=",
	"CORVO_WATCHDOG_MS=",
	"CORVO_LISTEN_FD=",
	"CORVO_NUMBER=",
	"CORVO_SUPERVISED=",
	"NOTIFY_SOCKET=",
	"WATCHDOG_USEC=",
	"WATCHDOG_PID=",
	"LISTEN_FDS=",
	"LISTEN_PID=",
	"LISTEN_FDNAMES=",
	"CORVO_MEMORY_LIMIT=",
	"CORVO_NODE_STARTED_NS=",
};

static bool is_program(struct buf *path)
{
	buf_putc(path, '\0');
	return access(path->p, X_OK) == 0;
}

static void own_dir(struct buf *ret)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (n <= 0)
		return;
	path[n] = '\0';
	slash = strrchr(path, '/');
	buf_append(ret, path, slash != NULL ? (size_t)(slash - path) : 0);
}

int spawn_find(const char *program, struct buf *ret, struct buf *why)
{
	_cleanup_(buf_done) struct buf dir = BUF_INIT(0);
	const char *libexec = getenv("CORVO_LIBEXEC");

	own_dir(&dir);
	if (libexec != NULL && *libexec != '\0') {
		buf_clear(ret);
		buf_printf(ret, "%s/%s", libexec, program);
		if (is_program(ret))
			return 0;
	}
	buf_clear(ret);
	buf_printf(ret, "%.*s/%s", STR_ARG(buf_str(&dir)), program);
	if (is_program(ret))
		return 0;
	buf_clear(ret);
	buf_printf(ret, "%.*s/../%s/%s", STR_ARG(buf_str(&dir)), program,
		   program);
	if (is_program(ret))
		return 0;
	buf_printf(why,
		   "the program %s is missing: it is not in %.*s; install it "
		   "there or set CORVO_LIBEXEC to the folder that holds it",
		   program, STR_ARG(buf_str(&dir)));
	return -ERR_NOT_FOUND;
}

static bool is_inherited(const char *var)
{
	for (size_t i = 0; i < ARRAY_SIZE(not_inherited); i++)
		if (strncmp(var, not_inherited[i], strlen(not_inherited[i])) ==
		    0)
			return false;
	return true;
}

static void add_var(struct arena *a, char **envp, size_t *n, const char *name,
		    uint64_t v)
{
	char text[64];
	int len = snprintf(text, sizeof(text), "%s=%llu", name,
			   (unsigned long long)v);

	envp[(*n)++] = arena_cstr(a, str_of(text, (size_t)len));
}

static char *listen_var(struct arena *a, const struct listeners *ls)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	buf_puts(&b, "CORVO_LISTEN_FD=");
	for (size_t i = 0; i < ls->n; i++)
		buf_printf(&b, "%s%d", i > 0 ? "," : "", ls->fd[i]);
	return arena_cstr(a, buf_str(&b));
}

static char **make_env(struct arena *a, const struct spawn_args *args)
{
	size_t count = 0, n = 0;
	char **envp;

	while (environ[count] != NULL)
		count++;
	envp = arena_alloc(a, (count + SPAWN_VARS + 1) * sizeof(*envp));
	for (size_t i = 0; i < count; i++)
		if (is_inherited(environ[i]))
			envp[n++] = environ[i];
	add_var(a, envp, &n, "CORVO_SUPERVISED", 1);
	add_var(a, envp, &n, "CORVO_NOTIFY_FD", (uint64_t)args->notify_fd);
	add_var(a, envp, &n, "CORVO_WATCHDOG_MS", args->watchdog_ms);
	add_var(a, envp, &n, "CORVO_NUMBER", args->number);
	add_var(a, envp, &n, "CORVO_NODE_STARTED_NS", args->node_started_ns);
	if (args->listeners != NULL)
		envp[n++] = listen_var(a, args->listeners);
	/* Read once for the node: its processes share one memory. */
	if (args->memory > 0)
		add_var(a, envp, &n, "CORVO_MEMORY_LIMIT", args->memory);
	/* A loop turn handles far more requests than the seven small blocks
	 * per size that glibc keeps at hand for a thread. */
	if (getenv("GLIBC_TUNABLES") == NULL)
		envp[n++] = "GLIBC_TUNABLES=glibc.malloc.tcache_count=127";
	envp[n] = NULL;
	return envp;
}

static char **make_argv(struct arena *a, const struct spawn_args *args)
{
	char **argv = arena_alloc(a, ((size_t)args->argc + 3) * sizeof(*argv));
	char config[64];
	size_t n = 0;

	argv[n++] = arena_cstr(a, str_from(args->program));
	for (int i = 0; i < args->argc; i++)
		argv[n++] = args->argv[i];
	/* The last one counts: it hides the file of ours. */
	if (args->config_fd >= 0) {
		(void)snprintf(config, sizeof(config),
			       "--config=/proc/self/fd/%d", args->config_fd);
		argv[n++] = arena_cstr(a, str_from(config));
	}
	argv[n] = NULL;
	return argv;
}

static void keep_open(int fd)
{
	if (fd >= 0)
		(void)fcntl(fd, F_SETFD, 0);
}

/*
 * Those that stop or reload a process stay blocked: it looks at who sent them
 * (rt/daemon.c). Until it can, one for the whole group must not end it.
 */
static void child_signals(void)
{
	sigset_t blocked;

	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGTERM);
	(void)sigaddset(&blocked, SIGINT);
	(void)sigaddset(&blocked, SIGHUP);
	(void)sigprocmask(SIG_SETMASK, &blocked, NULL);
}

static _noreturn_ void child_exec(const struct spawn_args *args, char **argv,
				  char **envp, pid_t parent)
{
	int null_fd;

	/* The second belt: the first is end of file on the notify socket. */
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);

	null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null_fd >= 0)
		(void)dup2(null_fd, STDIN_FILENO);
	/* Ours are all closed by execve; so is what a library may have opened.
	 */
	(void)close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
	keep_open(args->notify_fd);
	for (size_t i = 0; args->listeners != NULL && i < args->listeners->n;
	     i++)
		keep_open(args->listeners->fd[i]);
	keep_open(args->config_fd);
	keep_open(args->lock_fd);
	child_signals();
	(void)execve(args->path, argv, envp);
	log_error("cannot execute %s: %s", args->path, strerror(errno));
	_exit(EXIT_NOT_EXECUTABLE);
}

pid_t spawn(const struct spawn_args *args)
{
	struct arena a = ARENA_INIT;
	char **argv = make_argv(&a, args);
	char **envp = make_env(&a, args);
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid == 0)
		child_exec(args, argv, envp, parent);
	if (pid < 0)
		pid = -errno;
	arena_done(&a);
	return pid;
}
