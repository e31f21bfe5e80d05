/*
 * Log lines to stderr. Every line carries the process and the node:
 *
 *   2026-02-11T10:00:00.123Z info raftd node-1 became leader term=3
 *   {"time":...,"level":"info","proc":"raftd","node":"node-1","msg":...}
 *
 * One write(2) per line, so lines of several processes on one pipe do not mix.
 * Logging never waits for whoever reads: a line there is no room for is dropped
 * and counted, and the count is logged as soon as there is room again.
 * Thread-safe. Libraries below rt do not log; they return.
 */
#ifndef CORVO_LOG_H
#define CORVO_LOG_H

#include "util/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Looks at stderr, too: again after it was replaced. Strings are copied. */
void log_init(const char *proc, const char *node);
void log_set_level(enum log_level l);
enum log_level log_get_level(void);
void log_set_json(bool json);
bool log_level_parse(struct str s, enum log_level *ret);
const char *log_level_name(enum log_level l);

/* Says how many lines were dropped, if any and if there is room: for a moment
 * when there may be none to log for long. */
void log_settle(void);
uint64_t log_dropped(void); /* lines, since the start */

/* Stderr, as it can be written to without waiting where that is possible: for
 * the words of a crash. */
int log_fd(void);

/* A line without time and names, for what is wrong before log_init. */
_printf_(1, 2) void log_plain(const char *fmt, ...);

_printf_(2, 3) void log_write(enum log_level l, const char *fmt, ...);

#define log_debug(...)                                     \
	do {                                               \
		if (log_get_level() <= LOG_DEBUG)          \
			log_write(LOG_DEBUG, __VA_ARGS__); \
	} while (0)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)

#endif
