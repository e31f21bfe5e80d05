/*
 * See cpu_use.h. /proc/stat counts the ticks of all processors by what they
 * did; the fourth and fifth number of its first line are idle and waiting.
 */
#include "rt/cpu_use.h"

#include "rt/file.h"
#include "util/clock.h"

#define STAT_PATH  "/proc/stat"
#define STAT_BYTES (256u << 10) /* large machines have long ones */
#define LOOK_NS    (200 * NS_PER_MS)
#define NUMBERS    8 /* what follows is part of these */
#define IDLE       3
#define IO_WAIT    4

/* False when it cannot be read. */
static bool read_ticks(uint64_t *ret_idle, uint64_t *ret_total)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct str line, rest, word;

	if (file_read(STAT_PATH, STAT_BYTES, &b) < 0 ||
	    !str_split(buf_str(&b), '\n', &line, &rest) ||
	    !str_split(line, ' ', &word, &line))
		return false;
	*ret_idle = *ret_total = 0;
	for (unsigned i = 0; i < NUMBERS;) {
		uint64_t n;

		if (!str_split(line, ' ', &word, &line))
			return false;
		if (word.n == 0) /* two spaces follow the name */
			continue;
		if (!str_parse_u64(word, &n))
			return false;
		*ret_total += n;
		if (i == IDLE || i == IO_WAIT)
			*ret_idle += n;
		i++;
	}
	return true;
}

bool cpu_use_is_busy(struct cpu_use *u, uint64_t now_ns)
{
	uint64_t idle, total;

	if (u->at_ns != 0 && now_ns - u->at_ns < LOOK_NS)
		return u->busy;
	if (!read_ticks(&idle, &total))
		return true;
	u->busy = u->at_ns == 0 || (idle - u->idle) * 2 < total - u->total;
	u->at_ns = now_ns;
	u->idle = idle;
	u->total = total;
	return u->busy;
}
