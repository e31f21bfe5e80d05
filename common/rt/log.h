/*
 * Log lines to stderr. Every line carries the process and the node:
 *
 *   2026-02-11T10:00:00.123Z info raftd node-1 became leader term=3
 *   {"time":...,"level":"info","proc":"raftd","node":"node-1","msg":...}
 *
 * One write(2) per line, so lines of several processes on one pipe do not mix.
 * Thread-safe. Libraries below rt do not log; they return.
 */
#ifndef CORVO_LOG_H
#define CORVO_LOG_H

#include "util/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_init(const char *proc, const char *node); /* strings are copied */
void log_set_level(enum log_level l);
enum log_level log_get_level(void);
void log_set_json(bool json);
bool log_level_parse(struct str s, enum log_level *ret);
const char *log_level_name(enum log_level l);

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
