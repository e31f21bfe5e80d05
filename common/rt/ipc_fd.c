#include "rt/ipc_fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "util/str.h"

static bool is_of(int fd, const char *path, bool accepted, int listening)
{
	struct sockaddr_un a = { 0 };
	socklen_t n = sizeof(a) - 1; /* the text ends with a NUL */
	int listens = 0;
	socklen_t listens_n = sizeof(listens);
	int r = accepted ? getsockname(fd, (struct sockaddr *)&a, &n)
			 : getpeername(fd, (struct sockaddr *)&a, &n);

	return r == 0 && a.sun_family == AF_UNIX &&
	       strcmp(a.sun_path, path) == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens,
			  &listens_n) == 0 &&
	       listens == listening;
}

/* One that has ended may not be closed yet. */
static bool is_open(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, 0) == 0;
}

int ipc_fd_find(const char *path, bool accepted, ipc_fd_known_fn *known,
		void *ctx, ino_t *ret_inode)
{
	DIR *d = opendir("/proc/self/fd");
	const struct dirent *e;
	int found = -1, n = 0;
	struct stat s;

	while (d != NULL && (e = readdir(d)) != NULL) {
		uint64_t fd;

		if (!str_parse_u64(str_from(e->d_name), &fd) ||
		    !is_of((int)fd, path, accepted, 0) || !is_open((int)fd) ||
		    fstat((int)fd, &s) < 0 || known(ctx, s.st_ino))
			continue;
		found = (int)fd;
		*ret_inode = s.st_ino;
		n++;
	}
	if (n == 1)
		found = fcntl(found, F_DUPFD_CLOEXEC, 3);
	if (d != NULL)
		(void)closedir(d);
	return n == 1 ? found : -1;
}

int ipc_fd_find_listener(const char *path)
{
	DIR *d = opendir("/proc/self/fd");
	const struct dirent *e;
	int found = -1;

	while (d != NULL && found < 0 && (e = readdir(d)) != NULL) {
		uint64_t fd;

		if (str_parse_u64(str_from(e->d_name), &fd) &&
		    is_of((int)fd, path, true, 1))
			found = fcntl((int)fd, F_DUPFD_CLOEXEC, 3);
	}
	if (d != NULL)
		(void)closedir(d);
	return found;
}
