/*
 * See cpu_use.h. /proc/stat counts the ticks of all processors by what they
 * did; the fourth and fifth number of its first line are idle and waiting.
 */
#include "rt/cpu_use.h"

#include "rt/file.h"
#include "util/clock.h"

#define STAT_PATH  "/proc/stat"
#define GROUP_ROOT "/sys/fs/cgroup"
#define STAT_BYTES (256u << 10) /* large machines have long ones */
#define FILE_BYTES 4096u        /* of all others */
#define LOOK_NS    (200 * NS_PER_MS)
#define NUMBERS    8 /* what follows is part of these */
#define IDLE       3
#define IO_WAIT    4

/* --- what the files say --- */

void cpu_sample_take_stat(struct cpu_sample *s, struct str stat)
{
	uint64_t n, idle = 0, total = 0;
	struct str line, rest, word;

	if (!str_split(stat, '\n', &line, &rest) ||
	    !str_split(line, ' ', &word, &line))
		return;
	for (unsigned i = 0; i < NUMBERS;) {
		if (!str_split(line, ' ', &word, &line))
			return;
		if (word.n == 0) /* two spaces follow the name */
			continue;
		if (!str_parse_u64(word, &n))
			return;
		total += n;
		if (i == IDLE || i == IO_WAIT)
			idle += n;
		i++;
	}
	s->idle = idle;
	s->total = total;
}

/* "50000 100000", or "max 100000" where there is no quota. */
static bool read_max(struct str text, uint64_t *ret_quota, uint64_t *ret_period)
{
	struct str line, rest, quota, period;

	return str_split(text, '\n', &line, &rest) &&
	       str_split(line, ' ', &quota, &period) &&
	       str_parse_u64(quota, ret_quota) &&
	       str_parse_u64(period, ret_period) && *ret_period > 0;
}

/* The number behind a word that begins a line. */
static bool read_row(struct str text, struct str name, uint64_t *ret)
{
	struct str line, word, value;

	while (str_split(text, '\n', &line, &text))
		if (str_split(line, ' ', &word, &value) && str_eq(word, name))
			return str_parse_u64(value, ret);
	return false;
}

void cpu_sample_take_quota(struct cpu_sample *s, struct str cpu_max,
			   struct str cpu_stat)
{
	uint64_t quota, period, used;

	if (!read_max(cpu_max, &quota, &period) ||
	    !read_row(cpu_stat, STR("usage_usec"), &used))
		return;
	s->quota_us = quota;
	s->period_us = period;
	s->used_us = used;
}

/* --- judging --- */

static bool quota_was_busy(const struct cpu_sample *a,
			   const struct cpu_sample *b)
{
	double us = (double)(b->at_ns - a->at_ns) / (double)NS_PER_US;

	if (a->period_us == 0 || b->period_us == 0)
		return false;
	return 2.0 * (double)(b->used_us - a->used_us) >=
	       us * (double)b->quota_us / (double)b->period_us;
}

bool cpu_was_busy(const struct cpu_sample *a, const struct cpu_sample *b)
{
	if (a->total == 0 || b->total == 0)
		return true;
	return (b->idle - a->idle) * 2 <= b->total - a->total ||
	       quota_was_busy(a, b);
}

/* --- looking --- */

/* A small file; empty when it cannot be read. */
static struct str read_small(struct buf *b, struct str dir, const char *name)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);

	buf_put_str(&path, dir);
	buf_puts(&path, name);
	buf_putc(&path, '\0');
	return file_read(path.p, FILE_BYTES, b) == 0 ? buf_str(b) : STR_NULL;
}

/* Our line of version 2 begins with "0::"; that is where its files are. */
static void find_group(struct cpu_use *u)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct str text = read_small(&b, STR("/proc/self"), "/cgroup"), line;

	buf_puts(&u->group, GROUP_ROOT);
	while (str_split(text, '\n', &line, &text))
		if (str_starts(line, STR("0::")))
			buf_put_str(&u->group, str_skip(line, 3));
}

static void look(struct cpu_use *u, struct cpu_sample *s)
{
	_cleanup_(buf_done) struct buf stat = BUF_INIT(0);
	_cleanup_(buf_done) struct buf max = BUF_INIT(0);
	_cleanup_(buf_done) struct buf used = BUF_INIT(0);

	if (u->group.n == 0)
		find_group(u);
	if (file_read(STAT_PATH, STAT_BYTES, &stat) == 0)
		cpu_sample_take_stat(s, buf_str(&stat));
	cpu_sample_take_quota(
	    s, read_small(&max, buf_str(&u->group), "/cpu.max"),
	    read_small(&used, buf_str(&u->group), "/cpu.stat"));
}

bool cpu_use_is_busy(struct cpu_use *u, uint64_t now_ns)
{
	struct cpu_sample s = { .at_ns = now_ns };

	if (u->last.at_ns != 0 && now_ns - u->last.at_ns < LOOK_NS)
		return u->busy;
	look(u, &s);
	u->busy = u->last.at_ns == 0 || cpu_was_busy(&u->last, &s);
	u->last = s;
	return u->busy;
}

void cpu_use_done(struct cpu_use *u)
{
	buf_done(&u->group);
}
