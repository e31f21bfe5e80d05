/*
 * Which values and combinations of settings work. Ranges are rows; only
 * rules about words, paths and several settings at once are code.
 */
#include "proto/err.h"
#include "proto/limits.h"
#include "rt/config.h"
#include "rt/config_impl.h"
#include "rt/ip.h"
#include "rt/listen.h"
#include "rt/log.h"
#include "rt/netaddr.h"
#include "rt/reach.h"
#include "util/timefmt.h"
#include "util/tz.h"

/* sockaddr_un's path, and the longest name made inside the run directory */
#define SOCKET_PATH_BYTES    108
#define SOCKET_NAME_LONGEST  "/raftd-httpd-63.sock"
#define RAFT_SEGMENT_QUANTUM 4096
#define MEMORY_LIMIT_MIN     MIB /* less is a missing unit */

#define KIB     (1ULL << 10)
#define MIB     (1ULL << 20)
#define GIB     (1ULL << 30)
#define HOUR_NS (3600 * NS_PER_S)

/* Numbers, durations and sizes: the smallest and largest value that works. */
static const struct {
	enum setting_id id;
	uint64_t min, max;
} ranges[] = {
	{ SETTING_shutdown_timeout, 100 * NS_PER_MS, HOUR_NS },
	{ SETTING_watchdog_timeout, 100 * NS_PER_MS, HOUR_NS },
	{ SETTING_stopped_timeout, 10 * NS_PER_MS, HOUR_NS },
	{ SETTING_crash_limit, 1, 1000000 },
	{ SETTING_httpd_processes, 1, LIMIT_HTTPD_PROCESSES },
	{ SETTING_max_payload_size, 1, 8 * MIB },
	{ SETTING_max_checkpoint_size, 1, LIMIT_CHECKPOINT_BYTES },
	{ SETTING_max_connections, 1, 1000000 },
	{ SETTING_client_max_requests_per_second, 0, 1000000 },
	{ SETTING_client_max_connections, 0, 1000000 },
	{ SETTING_request_timeout, NS_PER_MS, HOUR_NS },
	{ SETTING_idle_timeout, NS_PER_MS, 24 * HOUR_NS },
	{ SETTING_answer_timeout, NS_PER_MS, HOUR_NS },
	/* with none no frame would ever be read */
	{ SETTING_stream_max_inflight, 1, 1000000 },
	{ SETTING_idle_fetch_sleep, 0, LIMIT_FETCH_WAIT_S *NS_PER_S },
	{ SETTING_http_max_memory, LIMIT_BODY_BYTES, 1024 * GIB },
	{ SETTING_op_timeout, NS_PER_MS, HOUR_NS },
	{ SETTING_election_timeout, 100 * NS_PER_MS, 60 * NS_PER_S },
	{ SETTING_view_wait, 0, 60 * NS_PER_S },
	{ SETTING_lease_duration, NS_PER_MS, LIMIT_LEASE_S *NS_PER_S },
	{ SETTING_raft_max_pending, 1, 10000000 },
	/* less would refuse a large request for ever */
	{ SETTING_raft_max_pending_bytes, 2 * LIMIT_BODY_BYTES, 64 * GIB },
	{ SETTING_raft_max_fetch_inflight, 1, 1000000 },
	{ SETTING_raft_max_parked, 1, 10000000 },
	{ SETTING_apply_batch_max, 1, 100000 },
	{ SETTING_apply_batch_bytes, 4 * KIB, 32 * MIB },
	{ SETTING_apply_batch_min_wait, 0, NS_PER_S },
	{ SETTING_apply_inflight, 1, 64 },
	{ SETTING_raft_segment_size, 64 * KIB, GIB },
	{ SETTING_snapshot_bytes, 64 * KIB, 4 * GIB },
	/* with less RocksDB fails an assertion of its own */
	{ SETTING_rocksdb_write_buffer, MIB, 4 * GIB },
	{ SETTING_rocksdb_cache, 0, 1024 * GIB },
	{ SETTING_view_cache, MIB, 64 * GIB },
	{ SETTING_event_retention, 1, LIMIT_EVENT_RETENTION },
	{ SETTING_bootstrap_expect, 0, LIMIT_MEMBERS },
	{ SETTING_push_max_calls, 1, 100000 },
	{ SETTING_push_host_concurrency, 1, LIMIT_PUSH_CONCURRENCY },
	{ SETTING_push_host_rate, 0, LIMIT_PUSH_RATE },
	{ SETTING_push_connect_timeout, NS_PER_MS, HOUR_NS },
	{ SETTING_push_breaker_failures, 1, 1000000 },
	{ SETTING_push_breaker_pause, NS_PER_MS, HOUR_NS },
	{ SETTING_scheddb_memory_limit, 0, 1024 * GIB },
	{ SETTING_scheddb_memory_percent, 1, 100 },
	{ SETTING_scheddb_job_limit, 1, 1000000000 },
	{ SETTING_scheddb_execution_timeout, NS_PER_MS,
	  LIMIT_PUSH_TIMEOUT_S *NS_PER_S },
	{ SETTING_scheddb_inprogress_timeout, NS_PER_MS,
	  LIMIT_LEASE_S *NS_PER_S },
	{ SETTING_scheddb_max_attempts, 1, LIMIT_ATTEMPTS },
	{ SETTING_scheddb_history_retention, 0, LIMIT_DURATION_S *NS_PER_S },
	{ SETTING_scheddb_health_failure_percent, 0, 100 },
};

int setting_refuse(const struct settings *s, enum setting_id id,
		   const char *takes, struct buf *why)
{
	setting_put_where(why, s, id, s->source[id]);
	buf_printf(why, "\"%s\" does not work; it takes %s", s->text[id],
		   takes);
	return -ERR_VALIDATION_ERROR;
}

void setting_put_value(struct buf *b, enum setting_kind kind, uint64_t v)
{
	if (kind == SK_dur)
		duration_format(b, v);
	else if (kind == SK_size && v >= MIB && v % MIB == 0)
		buf_printf(b, "%lluMiB", (unsigned long long)(v / MIB));
	else if (kind == SK_size && v >= KIB && v % KIB == 0)
		buf_printf(b, "%lluKiB", (unsigned long long)(v / KIB));
	else
		buf_put_u64(b, v);
}

static int check_ranges(const struct settings *s, struct buf *why)
{
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		_cleanup_(buf_done) struct buf takes = BUF_INIT(0);
		enum setting_id id = ranges[i].id;
		uint64_t v = setting_number(s, id);

		if (v >= ranges[i].min && v <= ranges[i].max)
			continue;
		setting_put_value(&takes, setting_info(id)->kind,
				  ranges[i].min);
		buf_puts(&takes, " to ");
		setting_put_value(&takes, setting_info(id)->kind,
				  ranges[i].max);
		buf_putc(&takes, '\0');
		return setting_refuse(s, id, takes.p, why);
	}
	return 0;
}

static int check_words(const struct settings *s, struct buf *why)
{
	enum log_level level;
	mode_t mode;

	if (!str_is_name(str_from(s->node_id), LIMIT_NODE_NAME_BYTES))
		return setting_refuse(
		    s, SETTING_node_id,
		    "1 to 64 letters, digits, dots, dashes and "
		    "underscores",
		    why);
	if (!log_level_parse(str_from(s->log_level), &level))
		return setting_refuse(s, SETTING_log_level,
				      "debug, info, warn or error", why);
	if (strcmp(s->log_format, "text") != 0 &&
	    strcmp(s->log_format, "json") != 0)
		return setting_refuse(s, SETTING_log_format, "text or json",
				      why);
	if (strcmp(s->access_log_format, "common") != 0 &&
	    strcmp(s->access_log_format, "json") != 0)
		return setting_refuse(s, SETTING_access_log_format,
				      "common or json", why);
	if (!listen_parse_mode(s->socket_mode, &mode))
		return setting_refuse(s, SETTING_socket_mode,
				      "octal digits, such as 0660", why);
	if (strcmp(s->raft_store, "uv") != 0 &&
	    strcmp(s->raft_store, "segment") != 0)
		return setting_refuse(s, SETTING_raft_store, "uv or segment",
				      why);
	if (strcmp(s->push_nodes, "leader") != 0 &&
	    strcmp(s->push_nodes, "all") != 0)
		return setting_refuse(s, SETTING_push_nodes, "leader or all",
				      why);
	if (s->compat[0] != '\0' && strcmp(s->compat, "0.3") != 0)
		return setting_refuse(s, SETTING_compat, "0.3, or nothing",
				      why);
	return 0;
}

static int check_paths(const struct settings *s, struct buf *why)
{
	_cleanup_(buf_done) struct buf run = BUF_INIT(0);
	size_t max = SOCKET_PATH_BYTES - sizeof(SOCKET_NAME_LONGEST);

	if (s->data_dir[0] == '\0')
		return setting_refuse(s, SETTING_data_dir,
				      "the path of a directory", why);
	settings_run_dir(s, &run);
	if (run.n <= max)
		return 0;
	buf_printf(why,
		   "the run directory %.*s is too long for sockets (%zu bytes, "
		   "at most %zu); set run_dir (--run-dir) to a shorter path, "
		   "for example /run/corvo",
		   STR_ARG(buf_str(&run)), run.n, max);
	return -ERR_VALIDATION_ERROR;
}

static int check_memory(const struct settings *s, struct buf *why)
{
	if (s->memory_limit != 0 && s->memory_limit < MEMORY_LIMIT_MIN)
		return setting_refuse(s, SETTING_memory_limit,
				      "0, or 1MiB and more", why);
	return 0;
}

static int check_proxies(const struct settings *s, struct buf *why)
{
	_cleanup_(buf_done) struct buf bad = BUF_INIT(0);
	struct nets ns;
	int r = nets_parse(s->trusted_proxies, &ns, &bad);

	if (r < 0) {
		setting_put_where(why, s, SETTING_trusted_proxies,
				  s->source[SETTING_trusted_proxies]);
		buf_put_str(why, buf_str(&bad));
	}
	return r;
}

static int check_push(const struct settings *s, struct buf *why)
{
	_cleanup_(buf_done) struct buf bad = BUF_INIT(0);
	struct reach reach;
	int r = reach_init(&reach, s->push_allow, false, &bad);

	if (r < 0) {
		setting_put_where(why, s, SETTING_push_allow,
				  s->source[SETTING_push_allow]);
		buf_put_str(why, buf_str(&bad));
	}
	return r;
}

static int check_scheddb(const struct settings *s, struct buf *why)
{
	_cleanup_(buf_done) struct buf bad = BUF_INIT(0);
	struct tz_cache zones = { 0 };
	bool known =
	    tz_find(&zones, str_from(s->scheddb_timezone), &bad) != NULL;

	tz_cache_done(&zones);
	return known ? 0
		     : setting_refuse(s, SETTING_scheddb_timezone,
				      "the name of a time zone, such as "
				      "Europe/Berlin",
				      why);
}

static int check_raft(const struct settings *s, struct buf *why)
{
	if (s->raft_segment_size % RAFT_SEGMENT_QUANTUM != 0)
		return setting_refuse(s, SETTING_raft_segment_size,
				      "a multiple of 4KiB", why);
	if (s->apply_batch_bytes > s->raft_segment_size / 2)
		return setting_refuse(s, SETTING_apply_batch_bytes,
				      "at most half of raft_segment_size", why);
	return 0;
}

int settings_check(const struct settings *s, struct buf *why)
{
	static int (*const checks[])(const struct settings *, struct buf *) = {
		check_ranges,         check_words,   check_paths,
		check_memory,         check_proxies, check_raft,
		settings_check_peers, check_push,    check_scheddb
	};

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		int r = checks[i](s, why);

		if (r < 0)
			return r;
	}
	return 0;
}

static int check_reach(const struct settings *s, enum setting_id id,
		       const char *text, const char *instead, struct buf *why)
{
	_cleanup_(buf_done) struct buf bad = BUF_INIT(0);
	struct netaddr a;
	int r;

	r = netaddr_parse(text, &a, &bad);
	if (r == 0 && (a.loopback || s->open))
		return 0;
	setting_put_where(why, s, id, s->source[id]);
	if (r < 0) {
		buf_put_str(why, buf_str(&bad));
		return r;
	}
	buf_printf(why,
		   "%s can be reached from other machines, and nobody has to "
		   "log in; bind %s to stay on this machine, or pass --open if "
		   "that is what you want",
		   text, instead);
	return -ERR_VALIDATION_ERROR;
}

struct bind_check {
	const struct settings *s;
	enum setting_id id;
	const char *instead;
	struct buf *why;
};

static int check_bind_item(void *ctx, const char *text)
{
	const struct bind_check *c = ctx;
	_cleanup_(buf_done) struct buf bad = BUF_INIT(0);
	const char *path = listen_path(text);
	int r;

	if (path == NULL)
		return check_reach(c->s, c->id, text, c->instead, c->why);
	r = listen_check_path(path, &bad);
	if (r == 0)
		return 0;
	setting_put_where(c->why, c->s, c->id, c->s->source[c->id]);
	buf_put_str(c->why, buf_str(&bad));
	return r;
}

int settings_check_bind(const struct settings *s, struct buf *why)
{
	const struct {
		enum setting_id id;
		const char *list, *instead;
	} lists[] = {
		{ SETTING_bind, s->bind, "127.0.0.1:8080" },
		{ SETTING_scheddb_bind, s->scheddb_bind, "127.0.0.1:8081" },
		{ SETTING_scheddb_metrics_bind, s->scheddb_metrics_bind,
		  "127.0.0.1:9090" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		struct bind_check c = { s, lists[i].id, lists[i].instead, why };
		int r = 0;

		if (i == 0 || lists[i].list[0] != '\0')
			r = listen_items(lists[i].list, check_bind_item, &c,
					 why);
		if (r < 0)
			return r;
	}
	if (settings_is_cluster(s))
		return settings_check_peer_port(s, why);
	return check_reach(s, SETTING_raft_bind, s->raft_bind, "127.0.0.1:9400",
			   why);
}
