/*
 * See fds.h.
 */
#include "rt/fds.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/limits.h"
#include "rt/config.h"
#include "rt/log.h"

#define FIRST_FD 3 /* after standard input, output and error */

void fds_fill_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd < FIRST_FD);
	if (fd >= 0)
		(void)close(fd);
}

static void close_from_to(unsigned from, unsigned to)
{
	if (from <= to)
		(void)close_range(from, to, 0);
}

void fds_close_but(const int *keep, size_t n)
{
	unsigned from = FIRST_FD;

	for (;;) {
		int next = -1;

		for (size_t i = 0; i < n; i++)
			if (keep[i] >= (int)from &&
			    (next < 0 || keep[i] < next))
				next = keep[i];
		if (next < 0)
			break;
		close_from_to(from, (unsigned)next - 1);
		from = (unsigned)next + 1;
	}
	close_from_to(from, ~0u);
}

static size_t fds_of_list(const char *text, int fds[LIMIT_LISTENERS])
{
	struct str rest = str_from(text), item;
	bool more = true;
	size_t n = 0;
	uint64_t v;

	while (more && n < LIMIT_LISTENERS) {
		more = str_split(rest, ',', &item, &rest);
		if (!str_parse_u64(item, &v) || v > INT32_MAX)
			return 0;
		fds[n++] = (int)v;
	}
	return n;
}

size_t fds_listeners(int fds[LIMIT_LISTENERS])
{
	const char *ours = getenv("CORVO_LISTEN_FD");
	const char *count = getenv("LISTEN_FDS");
	const char *pid = getenv("LISTEN_PID");
	size_t found = ours != NULL ? fds_of_list(ours, fds) : 0;
	uint64_t n;

	if (found > 0)
		return found;
	if (count == NULL || pid == NULL || !str_parse_u64(str_from(pid), &n) ||
	    n != (uint64_t)getpid() || !str_parse_u64(str_from(count), &n) ||
	    n > LIMIT_LISTENERS)
		return 0;
	for (; found < n; found++)
		fds[found] = FIRST_FD + (int)found;
	return found;
}

int fds_of_path(const char *path)
{
	static const char *const heads[] = { "/proc/self/fd/", "/dev/fd/" };
	struct str s = str_from(path);
	uint64_t fd;

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		if (str_starts(s, str_from(heads[i])) &&
		    str_parse_u64(str_skip(s, strlen(heads[i])), &fd) &&
		    fd <= INT32_MAX)
			return (int)fd;
	return -1;
}

uint64_t fds_raise_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return UINT64_MAX;
	if (r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &r);
		(void)getrlimit(RLIMIT_NOFILE, &r);
	}
	return r.rlim_cur;
}

uint64_t fds_room_for(uint64_t wanted)
{
	uint64_t have = fds_raise_limit();

	have = have > LIMIT_FILES_OWN ? have - LIMIT_FILES_OWN : 1;
	return MIN(wanted, have);
}

int fds_check_limit(const struct settings *s, struct buf *why)
{
	uint64_t have = fds_raise_limit();
	uint64_t connections = s->max_connections + LIMIT_FILES_OWN;
	uint64_t store = LIMIT_FILES_STORE + LIMIT_FILES_OWN;

	if (have < LIMIT_FILES_MIN) {
		buf_printf(why,
			   "a process may open %llu files here, and needs %u "
			   "at least; raise the limit (ulimit -n, LimitNOFILE= "
			   "of a unit, --ulimit nofile= of a container)",
			   (unsigned long long)have, LIMIT_FILES_MIN);
		return -ERR_VALIDATION_ERROR;
	}
	if (have < connections)
		log_warn("a process may open %llu files here, too few for "
			 "max_connections=%llu, which needs %llu: connections "
			 "beyond that are not accepted; raise the limit "
			 "(LimitNOFILE=, ulimit -n) or set max_connections "
			 "lower",
			 (unsigned long long)have,
			 (unsigned long long)s->max_connections,
			 (unsigned long long)connections);
	if (have < store)
		log_warn("a process may open %llu files here; the store keeps "
			 "fewer open and is slower than with %llu",
			 (unsigned long long)have, (unsigned long long)store);
	return 0;
}
