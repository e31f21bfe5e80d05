/*
 * Small files of /proc, read whole and searched for one word.
 */
#include "rt/procstat.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rt/file.h"
#include "rt/log.h"

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

/* The fields of /proc/PID/stat, or of one of its threads, after the program's
 * name, which may hold spaces. */
static bool read_stat_file(pid_t pid, const char *name, struct buf *text,
			   struct str *ret)
{
	const char *name_end;

	buf_clear(text);
	if (!read_proc(pid, name, text))
		return false;
	name_end = memrchr(text->p, ')', text->n);
	if (name_end == NULL)
		return false;
	*ret =
	    str_trim(str_skip(buf_str(text), (size_t)(name_end - text->p) + 1));
	return true;
}

static bool read_stat(pid_t pid, struct buf *text, struct str *ret)
{
	return read_stat_file(pid, "stat", text, ret);
}

static double ticks_s(uint64_t ticks)
{
	return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static bool read_cpu(struct str stat, double *user_s, double *system_s)
{
	uint64_t user, system;

	if (!field_number(stat, 11, &user) || !field_number(stat, 12, &system))
		return false;
	*user_s = ticks_s(user);
	*system_s = ticks_s(system);
	return true;
}

double procstat_cpu_s(pid_t pid)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	double user = 0, system = 0;
	struct str stat;

	if (!read_stat(pid, &text, &stat) || !read_cpu(stat, &user, &system))
		return 0;
	return user + system;
}

/* --- for metrics --- */

/* Whole seconds since the machine started, and hundredths. */
static double machine_uptime_s(void)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct str word, rest, whole, part;
	uint64_t s = 0, hundredths = 0;

	if (file_read("/proc/uptime", PROC_FILE_BYTES, &text) < 0)
		return 0;
	(void)str_split(buf_str(&text), ' ', &word, &rest);
	(void)str_split(word, '.', &whole, &part);
	if (!str_parse_u64(whole, &s) || !str_parse_u64(part, &hundredths))
		return 0;
	return (double)s + (double)hundredths / 100;
}

/* Kernels since 6.2 tell the number as the size of the directory. */
static uint64_t count_fds(pid_t pid)
{
	char path[64];
	struct stat st;
	uint64_t n = 0;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	if (stat(path, &st) == 0 && st.st_size > 0)
		return (uint64_t)st.st_size;
	dir = opendir(path);
	if (dir == NULL)
		return 0;
	for (struct dirent *d; (d = readdir(dir)) != NULL;)
		if (d->d_name[0] != '.')
			n++;
	(void)closedir(dir);
	return n;
}

static uint64_t kilobytes(struct str status, struct str key)
{
	uint64_t v = 0;

	return line_number(status, key, &v) ? v << 10 : 0;
}

bool procstat_read(pid_t pid, struct procstat *ret)
{
	_cleanup_(buf_done) struct buf status = BUF_INIT(0);
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	double up = machine_uptime_s();
	uint64_t start;
	struct str s, stat;

	*ret = (struct procstat){ 0 };
	if (!read_proc(pid, "status", &status) ||
	    !read_stat(pid, &text, &stat) ||
	    !read_cpu(stat, &ret->user_s, &ret->system_s) ||
	    !field_number(stat, 19, &start))
		return false;
	s = buf_str(&status);
	ret->resident_bytes = kilobytes(s, STR("VmRSS:"));
	ret->anonymous_bytes = kilobytes(s, STR("RssAnon:"));
	ret->stack_bytes = kilobytes(s, STR("VmStk:"));
	(void)line_number(s, STR("Threads:"), &ret->threads);
	ret->fds = count_fds(pid);
	ret->uptime_s = MAX(up - ticks_s(start), 0.0);
	return true;
}

void procstat_metrics(struct metric_list *l, const char *name, pid_t pid)
{
	struct str label = arena_printf(l->a, "process=\"%s\"", name);
	struct str user =
	    arena_printf(l->a, "%.*s,mode=\"user\"", STR_ARG(label));
	struct str system =
	    arena_printf(l->a, "%.*s,mode=\"system\"", STR_ARG(label));
	struct procstat p = { 0 };

	if (pid > 0)
		(void)procstat_read(pid, &p);
	const struct {
		enum metric_id id;
		double value;
		struct str label;
	} rows[] = {
		{ METRIC_PROCESS_UPTIME, p.uptime_s, label },
		{ METRIC_PROCESS_RSS, (double)p.resident_bytes, label },
		{ METRIC_PROCESS_CPU, p.user_s, user },
		{ METRIC_PROCESS_CPU, p.system_s, system },
		{ METRIC_PROCESS_FDS, (double)p.fds, label },
		{ METRIC_PROCESS_THREADS, (double)p.threads, label },
		{ METRIC_PROCESS_HEAP, (double)p.anonymous_bytes, label },
		{ METRIC_PROCESS_STACK, (double)p.stack_bytes, label },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		metric_add(l, rows[i].id,
			   pid > 0 ? rows[i].value : METRIC_UNKNOWN,
			   rows[i].label);
	if (pid == getpid()) /* others do not tell */
		metric_add(l, METRIC_PROCESS_LOG_DROPPED, (double)log_dropped(),
			   label);
}

bool procstat_is_running(pid_t pid)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct str stat;

	return read_stat(pid, &text, &stat) && !str_starts(stat, STR("Z"));
}

void procstat_turns(pid_t pid, struct procstat_turns *ret)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct str stat;

	*ret = (struct procstat_turns){ 0 };
	if (read_stat(pid, &text, &stat) && stat.n > 0)
		ret->state = stat.p[0];
	buf_clear(&text);
	if (!read_proc(pid, "schedstat", &text))
		return;
	(void)field_number(buf_str(&text), 0, &ret->ran_ns);
	(void)field_number(buf_str(&text), 1, &ret->kept_ns);
}

char procstat_other_thread(pid_t pid)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	char path[64], name[40], state = 'S';
	struct str stat;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (dir == NULL)
		return state;
	for (struct dirent *d; state == 'S' && (d = readdir(dir)) != NULL;) {
		uint64_t tid;

		if (!str_parse_u64(str_from(d->d_name), &tid) ||
		    tid == (uint64_t)pid)
			continue;
		(void)snprintf(name, sizeof(name), "task/%" PRIu64 "/stat",
			       tid);
		if (read_stat_file(pid, name, &text, &stat) && stat.n > 0 &&
		    (stat.p[0] == 'R' || stat.p[0] == 'D'))
			state = stat.p[0];
	}
	(void)closedir(dir);
	return state;
}

bool procstat_is_traced(pid_t pid)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	uint64_t tracer = 0;

	return read_proc(pid, "status", &text) &&
	       line_number(buf_str(&text), STR("TracerPid:"), &tracer) &&
	       tracer != 0;
}
