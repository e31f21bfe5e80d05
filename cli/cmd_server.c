/*
 * `corvo server` becomes corvo-supervisor: same pid, so that whoever started
 * the one (a shell, systemd, Kubernetes) watches and signals the other. So do
 * `corvo recover`, `corvo cluster recover` and `corvo admin skip-entry` become
 * corvo-raftd.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd.h"

/* The folder of our own executable; false when it cannot be told. */
static bool own_dir(struct buf *ret)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
	const char *slash;

	if (n <= 0 || (size_t)n == sizeof(path))
		return false;
	slash = memrchr(path, '/', (size_t)n);
	if (slash == NULL)
		return false;
	buf_append(ret, path, (size_t)(slash - path));
	return true;
}

static bool is_program(struct buf *path)
{
	buf_putc(path, '\0');
	return access(path->p, X_OK) == 0;
}

/* Where it may be: named by the user, installed, or in a build tree. */
static bool find_program(const char *name, struct buf *ret)
{
	_cleanup_(buf_done) struct buf dir = BUF_INIT(0);
	const char *libexec = getenv("CORVO_LIBEXEC");

	if (libexec != NULL && *libexec != '\0') {
		buf_printf(ret, "%s/%s", libexec, name);
		if (is_program(ret))
			return true;
	}
	if (!own_dir(&dir))
		return false;
	buf_clear(ret);
	buf_printf(ret, "%.*s/../libexec/corvo/%s", STR_ARG(buf_str(&dir)),
		   name);
	if (is_program(ret))
		return true;
	buf_clear(ret);
	buf_printf(ret, "%.*s/../%s/%s", STR_ARG(buf_str(&dir)), name, name);
	return is_program(ret);
}

/* Becomes the program; returns only when that fails. */
static int become(const char *name, const char *verb, const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	char **argv;
	int n = 0;

	if (!find_program(name, &path))
		return cmd_failed("%s is missing: it is neither in "
				  "../libexec/corvo nor in CORVO_LIBEXEC; "
				  "install Corvo completely",
				  name);
	/* argv[0], the verb, the flags, NULL; freed only when exec fails. */
	argv = xcalloc((size_t)a->argc + 3, sizeof(*argv));
	argv[n++] = path.p;
	if (verb != NULL)
		argv[n++] = (char *)verb;
	for (int i = 0; i < a->argc; i++)
		argv[n++] = a->argv[i];
	(void)signal(SIGPIPE, SIG_DFL);
	(void)execv(path.p, argv);
	free(argv);
	return cmd_failed("cannot run %s: %s", path.p, strerror(errno));
}

int cmd_server(const struct cmd_args *a)
{
	return become("corvo-supervisor", NULL, a);
}

int cmd_recover(const struct cmd_args *a)
{
	return become("corvo-raftd", "recover", a);
}

int cmd_admin_skip_entry(const struct cmd_args *a)
{
	return become("corvo-raftd", "skip-entry", a);
}

int cmd_cluster_recover(const struct cmd_args *a)
{
	return become("corvo-raftd", "recover-alone", a);
}
