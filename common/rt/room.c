#include "rt/room.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rt/file.h"
#include "rt/log.h"

#define RESERVE_BYTES     (4u << 20)
#define RESERVE_BYTES_MIN (64u << 10) /* less is no help */
#define OPEN_BYTES        (1u << 20)  /* that opening the store may write */
#define RESERVE_MODE      0640

/*
 * What may follow accepted work: two log segments that libraft prepares ahead,
 * and what has gathered for RocksDB to write. Refusing before the disk is
 * really full is what lets the node recover by itself; what frees room may use
 * half of this.
 */
static uint64_t work_bytes(const struct settings *s)
{
	return 2 * s->raft_segment_size + 3 * s->rocksdb_write_buffer;
}

/*
 * What the first work takes before all else: the segment that is written to
 * and those prepared ahead, which a start gives back, and the reserve.
 */
static uint64_t first_bytes(const struct settings *s)
{
	return 3 * s->raft_segment_size + RESERVE_BYTES;
}

uint64_t room_needed(const struct settings *s, enum room before)
{
	return work_bytes(s) + (before == ROOM_OK ? 0 : first_bytes(s));
}

enum room room_look(const struct settings *s, enum room before)
{
	uint64_t least = work_bytes(s) / 2, free_bytes;

	if (before == ROOM_NONE)
		least += first_bytes(s);
	if (dir_free_bytes(s->data_dir, &free_bytes) < 0)
		return ROOM_NONE;
	if (free_bytes >= room_needed(s, before))
		return ROOM_OK;
	return free_bytes < least ? ROOM_NONE : ROOM_LOW;
}

static void reserve_path(const struct settings *s, struct buf *ret)
{
	buf_printf(ret, "%s/reserve", s->data_dir);
	buf_putc(ret, '\0');
}

bool room_to_open(const struct settings *s)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	uint64_t free_bytes = 0;

	reserve_path(s, &path);
	if (dir_free_bytes(s->data_dir, &free_bytes) == 0 &&
	    free_bytes >= RESERVE_BYTES)
		return true;
	if (unlink(path.p) == 0)
		log_warn("the disk is full; %s is given back to open the store",
			 path.p);
	return dir_free_bytes(s->data_dir, &free_bytes) == 0 &&
	       free_bytes >= OPEN_BYTES;
}

void room_give_back(const struct settings *s)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	reserve_path(s, &path);
	(void)unlink(path.p);
}

void room_reserve(const struct settings *s)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	struct stat st;
	off_t bytes = RESERVE_BYTES;
	int fd;

	reserve_path(s, &path);
	fd = open(path.p, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		  RESERVE_MODE);
	if (fd < 0)
		return; /* not even a name: there is no room */
	if (fstat(fd, &st) < 0)
		bytes = 0;
	while (bytes >= RESERVE_BYTES_MIN && bytes > st.st_size &&
	       posix_fallocate(fd, 0, bytes) != 0)
		bytes /= 2;
	(void)close(fd);
}
