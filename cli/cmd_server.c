/*
 * `corvo server` becomes corvo-supervisor: same pid, so that whoever started
 * the one (a shell, systemd, Kubernetes) watches and signals the other.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd.h"

#define PROGRAM "corvo-supervisor"

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
static bool find_supervisor(struct buf *ret)
{
	static const char *const places[] = {
		"/../libexec/corvo/" PROGRAM,
		"/../" PROGRAM "/" PROGRAM,
	};
	_cleanup_(buf_done) struct buf dir = BUF_INIT(0);
	const char *libexec = getenv("CORVO_LIBEXEC");

	if (libexec != NULL && *libexec != '\0') {
		buf_printf(ret, "%s/" PROGRAM, libexec);
		if (is_program(ret))
			return true;
	}
	if (!own_dir(&dir))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		buf_clear(ret);
		buf_put_str(ret, buf_str(&dir));
		buf_puts(ret, places[i]);
		if (is_program(ret))
			return true;
	}
	return false;
}

int cmd_server(const struct cmd_args *a)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	char **argv;

	/* argv[0], the flags, NULL; freed only when exec fails. */
	if (!find_supervisor(&path))
		return cmd_failed(PROGRAM
				  " is missing: it is neither in "
				  "../libexec/corvo nor in CORVO_LIBEXEC; "
				  "install Corvo completely");
	argv = xcalloc((size_t)a->argc + 2, sizeof(*argv));
	argv[0] = path.p;
	for (int i = 0; i < a->argc; i++)
		argv[i + 1] = a->argv[i];
	(void)signal(SIGPIPE, SIG_DFL);
	(void)execv(path.p, argv);
	free(argv);
	return cmd_failed("cannot run %s: %s", path.p, strerror(errno));
}
