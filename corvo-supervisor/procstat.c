/*
 * Small files of /proc, read whole and searched for one word.
 */
#include "procstat.h"

#include <stdio.h>
#include <unistd.h>

#include "rt/file.h"

#define PROC_FILE_BYTES (64u << 10)

static bool read_proc(pid_t pid, const char *name, struct buf *ret)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return pid > 0 && file_read(path, PROC_FILE_BYTES, ret) == 0;
}

/* The number after "Key:" at the start of a line. */
static bool line_number(struct str text, struct str key, uint64_t *ret)
{
	struct str line, word, unit;

	while (text.n > 0) {
		(void)str_split(text, '\n', &line, &text);
		if (!str_starts(line, key))
			continue;
		line = str_trim(str_skip(line, key.n));
		(void)str_split(line, ' ', &word, &unit);
		return str_parse_u64(word, ret);
	}
	return false;
}

/* Field number n, counted from 0, of a line of words. */
static bool field_number(struct str text, unsigned n, uint64_t *ret)
{
	struct str word = STR_NULL;

	for (unsigned i = 0; i <= n; i++)
		(void)str_split(text, ' ', &word, &text);
	return str_parse_u64(str_trim(word), ret);
}

uint64_t procstat_memory_bytes(pid_t pid)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	uint64_t v = 0;

	if (read_proc(pid, "smaps_rollup", &text) &&
	    line_number(buf_str(&text), STR("Pss:"), &v))
		return v << 10;
	buf_clear(&text);
	if (read_proc(pid, "statm", &text) &&
	    field_number(buf_str(&text), 1, &v))
		return v * (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}

double procstat_cpu_s(pid_t pid)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	uint64_t user, system;
	const char *name_end;
	struct str rest;

	if (!read_proc(pid, "stat", &text))
		return 0;
	/* The second field is the program's name and may hold spaces. */
	name_end = memrchr(text.p, ')', text.n);
	if (name_end == NULL)
		return 0;
	rest =
	    str_trim(str_skip(buf_str(&text), (size_t)(name_end - text.p) + 1));
	if (!field_number(rest, 11, &user) || !field_number(rest, 12, &system))
		return 0;
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

bool procstat_is_traced(pid_t pid)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	uint64_t tracer = 0;

	return read_proc(pid, "status", &text) &&
	       line_number(buf_str(&text), STR("TracerPid:"), &tracer) &&
	       tracer != 0;
}
