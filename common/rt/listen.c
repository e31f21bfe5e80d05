/*
 * See rt/listen.h.
 */
#include "rt/listen.h"

#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <stddef.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/err.h"
#include "rt/netaddr.h"

#define BACKLOG    4096
#define PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)
#define GROUP_MAX  4096
#define MODE_MAX   0777

#define TCP_FLAGS_AT 13 /* in a header */
#define TCP_SYN      0x02
#define TCP_SYN_ACK  0x12

const char *listen_path(const char *text)
{
	static const char head[] = "unix:";

	return strncmp(text, head, sizeof(head) - 1) == 0
		   ? text + sizeof(head) - 1
		   : NULL;
}

int listen_items(const char *list, listen_item_fn *fn, void *ctx,
		 struct buf *why)
{
	struct str rest = str_from(list), item;
	bool more = true;

	for (size_t n = 0; more; n++) {
		_cleanup_(buf_done) struct buf text = BUF_INIT(0);
		int r;

		more = str_split(rest, ',', &item, &rest);
		if (n == LIMIT_LISTENERS) {
			buf_printf(why, "there are more than %u addresses",
				   LIMIT_LISTENERS);
			return -ERR_VALIDATION_ERROR;
		}
		buf_put_str(&text, str_trim(item));
		buf_putc(&text, '\0');
		r = fn(ctx, text.p);
		if (r != 0)
			return r;
	}
	return 0;
}

int listen_check_path(const char *path, struct buf *why)
{
	if (path[0] != '/')
		buf_printf(why,
			   "\"unix:%s\" is not an address: the path must begin "
			   "with /, for example unix:/run/corvo/api.sock",
			   path);
	else if (strlen(path) >= PATH_BYTES)
		buf_printf(why,
			   "the path %s is too long for a socket (%zu bytes, "
			   "at most %zu); choose a shorter one",
			   path, strlen(path), PATH_BYTES - 1);
	else
		return 0;
	return -ERR_VALIDATION_ERROR;
}

bool listen_parse_mode(const char *text, mode_t *ret)
{
	mode_t mode = 0;

	if (text[0] == '\0' || strlen(text) > 4)
		return false;
	for (const char *p = text; *p != '\0'; p++) {
		if (*p < '0' || *p > '7')
			return false;
		mode = mode * 8 + (mode_t)(*p - '0');
	}
	*ret = mode;
	return mode <= MODE_MAX;
}

/* --- files --- */

static struct sockaddr_un file_address(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	CHECK(strlen(path) < sizeof(sa.sun_path));
	memcpy(sa.sun_path, path, strlen(path));
	return sa;
}

static int connect_to(const char *path)
{
	struct sockaddr_un sa = file_address(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0)
		return -errno;
	r = connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ? -errno : 0;
	(void)close(fd);
	return r;
}

/* What a node that was killed left is removed; nothing else is. */
static int make_way(const char *path, struct buf *why)
{
	struct stat st;
	int r;

	if (lstat(path, &st) < 0)
		return 0; /* what is wrong with it, bind will say */
	if (!S_ISSOCK(st.st_mode)) {
		buf_printf(why,
			   "cannot listen on unix:%s: there is something else "
			   "than a socket; remove it or choose another path",
			   path);
		return -ERR_VALIDATION_ERROR;
	}
	r = connect_to(path);
	if (r == -ECONNREFUSED && unlink(path) == 0)
		return 0;
	buf_printf(why, "cannot listen on unix:%s: ", path);
	if (r == 0 || r == -EAGAIN)
		buf_puts(why, "another program listens there; stop it or "
			      "choose another path");
	else
		buf_printf(why,
			   "the socket that is there cannot be removed: "
			   "%s",
			   strerror(r == -ECONNREFUSED ? errno : -r));
	return -ERR_VALIDATION_ERROR;
}

static int find_group(const char *name, gid_t *ret, struct buf *why)
{
	char room[GROUP_MAX];
	struct group g, *found = NULL;
	uint64_t n;

	*ret = (gid_t)-1;
	if (name[0] == '\0')
		return 0;
	if (str_parse_u64(str_from(name), &n) && n < UINT32_MAX) {
		*ret = (gid_t)n;
		return 0;
	}
	if (getgrnam_r(name, &g, room, sizeof(room), &found) == 0 &&
	    found != NULL) {
		*ret = g.gr_gid;
		return 0;
	}
	buf_printf(why, "socket_group: there is no group \"%s\"", name);
	return -ERR_VALIDATION_ERROR;
}

/* Nobody can connect before listen: then mode and group are right. */
static int open_file(int fd, const char *path, mode_t mode, gid_t group,
		     struct stat *ret)
{
	struct sockaddr_un sa = file_address(path);

	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return -errno;
	if (lstat(path, ret) == 0 && chown(path, (uid_t)-1, group) == 0 &&
	    chmod(path, mode) == 0 && listen(fd, BACKLOG) == 0)
		return 0;
	mode = (mode_t)errno;
	(void)unlink(path);
	return -(int)mode;
}

static int listen_on_file(const struct settings *s, const char *path,
			  struct stat *ret, struct buf *why)
{
	mode_t mode;
	gid_t group;
	int fd, r;

	CHECK(listen_parse_mode(s->socket_mode, &mode));
	r = find_group(s->socket_group, &group, why);
	if (r == 0)
		r = make_way(path, why);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	r = fd < 0 ? -errno : open_file(fd, path, mode, group, ret);
	if (r == 0)
		return fd;
	if (fd >= 0)
		(void)close(fd);
	buf_printf(why, "cannot listen on unix:%s: %s%s", path, strerror(-r),
		   r == -ENOENT ? "; its folder must exist" : "");
	return -ERR_VALIDATION_ERROR;
}

/* --- all --- */

struct opening {
	const struct settings *s;
	struct listeners *ls;
	struct buf *why;
};

static int open_one(void *ctx, const char *text)
{
	struct opening *o = ctx;
	struct listeners *ls = o->ls;
	const char *path = listen_path(text);
	struct netaddr a;
	int r;

	if (ls->n == LIMIT_LISTENERS) {
		buf_printf(o->why,
			   "there are more than %u addresses in bind, "
			   "scheddb_bind and scheddb_metrics_bind",
			   LIMIT_LISTENERS);
		return -ERR_VALIDATION_ERROR;
	}
	if (path != NULL) {
		r = listen_check_path(path, o->why);
		if (r == 0)
			r = listen_on_file(o->s, path, &ls->file[ls->n],
					   o->why);
	} else {
		r = netaddr_parse(text, &a, o->why);
		if (r == 0)
			r = netaddr_listen(&a, text, o->why);
	}
	if (r < 0)
		return r;
	ls->fd[ls->n++] = r;
	return 0;
}

int listeners_open_parts(const struct settings *s, struct listeners *ls,
			 struct buf *why)
{
	const char *const lists[] = { s->scheddb_bind,
				      s->scheddb_metrics_bind };
	struct opening o = { s, ls, why };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(lists); i++)
		if (lists[i][0] != '\0')
			r = listen_items(lists[i], open_one, &o, why);
	return r;
}

int listeners_open(const struct settings *s, struct listeners *ret,
		   struct buf *why)
{
	struct opening o = { s, ret, why };
	int r;

	*ret = (struct listeners){ .n = 0 };
	r = listen_items(s->bind, open_one, &o, why);
	if (r == 0)
		r = listeners_open_parts(s, ret, why);
	if (r < 0)
		listeners_close(ret);
	return r;
}

static size_t count(const char *list)
{
	size_t n = list[0] != '\0';

	for (const char *p = list; *p != '\0'; p++)
		n += *p == ',';
	return n;
}

enum listen_part listen_part(const struct settings *s, size_t place)
{
	size_t all = count(s->bind), sdb = all + count(s->scheddb_bind);

	return place < all   ? LISTEN_ALL
	       : place < sdb ? LISTEN_SCHEDDB
			     : LISTEN_METRICS;
}

static void remove_file(int fd, const struct stat *ours)
{
	struct sockaddr_un sa = { 0 };
	socklen_t n = sizeof(sa);
	struct stat st;

	if (getsockname(fd, (struct sockaddr *)&sa, &n) == 0 &&
	    sa.sun_family == AF_UNIX && lstat(sa.sun_path, &st) == 0 &&
	    st.st_dev == ours->st_dev && st.st_ino == ours->st_ino)
		(void)unlink(sa.sun_path);
}

/* Drops what begins a connection (SYN without ACK), and nothing else: others
 * are half made, and go on. */
static void drop_new(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS_AT),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TCP_SYN_ACK),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TCP_SYN, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	struct sock_fprog p = { ARRAY_SIZE(code), code };

	/* refused: they are taken until the sockets are closed */
	(void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &p, sizeof(p));
}

static bool is_file(int fd)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t n = sizeof(sa);

	return getsockname(fd, (struct sockaddr *)&sa, &n) == 0 &&
	       sa.ss_family == AF_UNIX;
}

void listeners_refuse(const struct listeners *ls)
{
	for (size_t i = 0; i < ls->n; i++)
		if (is_file(ls->fd[i]))
			remove_file(ls->fd[i], &ls->file[i]);
		else
			drop_new(ls->fd[i]);
}

void listeners_close(struct listeners *ls)
{
	for (size_t i = 0; i < ls->n; i++) {
		remove_file(ls->fd[i], &ls->file[i]);
		(void)close(ls->fd[i]);
	}
	ls->n = 0;
}

static void put_one(int fd, struct buf *out)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	const struct sockaddr_un *un = (const void *)&sa;
	socklen_t len = sizeof(sa);

	(void)getsockname(fd, (struct sockaddr *)&sa, &len);
	if (sa.ss_family == AF_UNIX)
		buf_printf(out, "unix:%s", un->sun_path);
	else
		netaddr_put(&sa, out);
}

void listeners_put(const struct listeners *ls, struct buf *out)
{
	for (size_t i = 0; i < ls->n; i++) {
		if (i > 0)
			buf_putc(out, ',');
		put_one(ls->fd[i], out);
	}
}
