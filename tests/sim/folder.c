#include "folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rt/file.h"

#define MEMORY     "/dev/shm"
#define ROOM_BYTES (UINT64_C(256) << 20)
#define PATH_BYTES 64

static const char *on_disk(void)
{
	const char *tmp = getenv("TMPDIR");

	return tmp != NULL && strlen(tmp) < PATH_BYTES / 2 ? tmp : "/tmp";
}

static bool has_memory(void)
{
	uint64_t room;

	return access(MEMORY, W_OK) == 0 &&
	       dir_free_bytes(MEMORY, &room) == 0 && room >= ROOM_BYTES;
}

static void put_path(const char *in, pid_t pid, char ret[PATH_BYTES])
{
	(void)snprintf(ret, PATH_BYTES, "%s/corvo-sim-log-%ld", in, (long)pid);
}

const char *folder_own(void)
{
	static char path[PATH_BYTES];
	static pid_t of;

	if (of == getpid())
		return path;
	of = getpid();
	folder_remove(of);
	put_path(has_memory() ? MEMORY : on_disk(), of, path);
	return path;
}

void folder_give_up(void)
{
	(void)rmdir(folder_own());
}

void folder_remove(pid_t pid)
{
	char path[PATH_BYTES];

	put_path(MEMORY, pid, path);
	(void)dir_remove(path);
	put_path(on_disk(), pid, path);
	(void)dir_remove(path);
}
