#include "cluster/seglog/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rt/file.h"

/* The size of a page. Disks ask for as much at most; one that asks for more is
 * written to as ever. */
#define BLOCK ((size_t)4096)
/* An entry and its neighbours with one call. */
#define STAGE_BYTES ((size_t)1 << 20)

static size_t whole_blocks(size_t n)
{
	return n & ~(BLOCK - 1);
}

void seg_stage_init(struct seg_stage *s)
{
	*s = (struct seg_stage){ .bytes = aligned_alloc(BLOCK, STAGE_BYTES) };
	CHECK(s->bytes != NULL);
}

void seg_stage_done(struct seg_stage *s)
{
	free(s->bytes);
}

static bool set_direct(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	CHECK(flags >= 0);
	return fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) ==
	       0;
}

int seg_stage_begin(struct seg_stage *s, int fd, size_t at, bool direct)
{
	int r;

	CHECK(s->n == s->written);
	s->base = whole_blocks(at);
	s->n = s->written = at - s->base;
	r = file_read_at(fd, s->base, s->n, s->bytes);
	s->is_direct = r == 0 && direct && set_direct(fd, true);
	return r;
}

size_t seg_stage_put(struct seg_stage *s, const char *p, size_t n)
{
	n = MIN(n, STAGE_BYTES - s->n);
	memcpy(s->bytes + s->n, p, n);
	s->n += n;
	return n;
}

/* Returns how much is done, or -errno. */
static ssize_t write_some(struct seg_stage *s, int fd, size_t from, size_t to)
{
	ssize_t n =
	    pwrite(fd, s->bytes + from, to - from, (off_t)(s->base + from));
	int e = n < 0 ? errno : EIO;

	if (n < 0 && e == EINTR)
		return 0;
	/* It said that it could, but not so: what is left goes as ever. */
	if (s->is_direct && (n < 0 ? e == EINVAL : (size_t)n % BLOCK != 0)) {
		s->is_direct = false;
		return set_direct(fd, false) ? MAX(n, 0) : -e;
	}
	return n > 0 ? n : -e;
}

int seg_stage_write(struct seg_stage *s, int fd)
{
	size_t whole = whole_blocks(s->n);
	size_t from = 0, to = whole_blocks(s->n + BLOCK - 1);

	CHECK(s->written <= s->n && s->n <= STAGE_BYTES);
	if (s->written == s->n)
		return 0;
	memset(s->bytes + s->n, 0, to - s->n);
	while (from < to) {
		ssize_t n = write_some(s, fd, from, to);

		if (n < 0)
			return (int)n;
		from += (size_t)n;
	}
	memmove(s->bytes, s->bytes + whole, s->n - whole);
	s->base += whole;
	s->n -= whole;
	s->written = s->n;
	return 0;
}
