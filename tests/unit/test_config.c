/*
 * Settings: the four sources, every kind, every rule. The environment of the
 * test is emptied of CORVO_* first.
 */
#include "rt/config.h"

#include <fcntl.h>
#include <unistd.h>

#include "lib/testlib.h"
#include "proto/err.h"

static char conf[64];

static int set_up(void **state _unused_)
{
	int fd;

	for (unsigned i = 0; i < SETTING_MAX; i++)
		(void)unsetenv(setting_info((enum setting_id)i)->env);
	(void)snprintf(conf, sizeof(conf), "/tmp/corvo-test-XXXXXX");
	fd = mkstemp(conf);
	(void)close(fd);
	return fd >= 0 ? 0 : -1;
}

static int tear_down(void **state _unused_)
{
	return unlink(conf);
}

static void write_conf(const char *text)
{
	int fd = open(conf, O_WRONLY | O_TRUNC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

#define ARGC(argv) ((int)ARRAY_SIZE(argv))

#define LOAD(s, ...)                                                  \
	do {                                                          \
		_cleanup_(buf_done) struct buf why_ = BUF_INIT(0);    \
		char *const argv_[] = { __VA_ARGS__ };                \
		if (settings_load(ARGC(argv_), argv_, s, &why_) != 0) \
			fail_msg("%.*s", STR_ARG(buf_str(&why_)));    \
	} while (0)

/* Loading these flags must fail with a text that contains `expected`. */
#define REFUSED(expected, ...)                                \
	do {                                                  \
		char *const argv_[] = { __VA_ARGS__ };        \
		assert_refused(ARGC(argv_), argv_, expected); \
	} while (0)

static void assert_refused(int argc, char *const argv[], const char *expected)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct settings s;

	assert_int_equal(settings_load(argc, argv, &s, &why),
			 -ERR_VALIDATION_ERROR);
	buf_putc(&why, '\0');
	if (strstr(why.p, expected) == NULL)
		fail_msg("got \"%s\", expected \"%s\"", why.p, expected);
}

static char *conf_flag(void)
{
	static char flag[96];

	(void)snprintf(flag, sizeof(flag), "--config=%s", conf);
	return flag;
}

static void file_refused(const char *text, const char *expected)
{
	char at[128];

	write_conf(text);
	REFUSED(expected, conf_flag());
	(void)snprintf(at, sizeof(at), "%s:", conf);
	REFUSED(at, conf_flag());
}

static void test_names(void **state _unused_)
{
	const struct setting_info *i = setting_info(SETTING_raft_max_pending);

	assert_string_equal(i->name, "raft_max_pending");
	assert_string_equal(i->flag, "--raft-max-pending");
	assert_string_equal(i->env, "CORVO_RAFT_MAX_PENDING");
	assert_int_equal(i->kind, SK_u64);
	assert_string_equal(setting_source_name(SRC_ENV), "environment");
	for (unsigned id = 0; id < SETTING_MAX; id++)
		assert_true(strlen(setting_info((enum setting_id)id)->doc) > 0);
}

static void test_defaults(void **state _unused_)
{
	_cleanup_(buf_done) struct buf run = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct settings s;

	assert_int_equal(settings_load(0, NULL, &s, &why), 0);
	assert_string_equal(s.bind, "127.0.0.1:8080");
	assert_true(s.durable);
	assert_false(s.open);
	assert_int_equal(s.max_payload_size, 256 << 10);
	assert_int_equal(s.stopped_timeout, 500 * NS_PER_MS);
	assert_int_equal(s.source[SETTING_bind], SRC_DEFAULT);
	assert_string_equal(s.text[SETTING_max_payload_size], "256KiB");
	settings_run_dir(&s, &run);
	assert_str_is(buf_str(&run), "data/run");
	assert_int_equal(settings_check_bind(&s, &why), 0);
	settings_done(&s);
	settings_done(&s); /* accepts zeroed */
}

static void test_sources_in_order(void **state _unused_)
{
	struct settings s;

	write_conf("node_id = file\nlog_level=warn\nrun-dir = /run/corvo\n"
		   "shutdown_timeout = 7\n");
	(void)setenv("CORVO_NODE_ID", "env", 1);
	(void)setenv("CORVO_LOG_LEVEL", "error", 1);
	(void)setenv("CORVO_DURABLE", "", 1); /* as if unset */
	LOAD(&s, conf_flag(), "--node-id", "flag", "--no-durable");
	assert_string_equal(s.node_id, "flag");
	assert_int_equal(s.source[SETTING_node_id], SRC_FLAG);
	assert_string_equal(s.log_level, "error");
	assert_int_equal(s.source[SETTING_log_level], SRC_ENV);
	assert_string_equal(s.run_dir, "/run/corvo");
	assert_int_equal(s.source[SETTING_run_dir], SRC_FILE);
	assert_int_equal(s.shutdown_timeout, 7 * NS_PER_S);
	assert_false(s.durable);
	assert_true(s.bootstrap);
	assert_int_equal(s.source[SETTING_bootstrap], SRC_DEFAULT);
	settings_done(&s);

	(void)setenv("CORVO_CONFIG", conf, 1);
	LOAD(&s, "--open");
	assert_string_equal(s.node_id, "env");
	assert_string_equal(s.run_dir, "/run/corvo");
	assert_true(s.open);
	settings_done(&s);
}

static void test_other_variables_do_no_harm(void **state _unused_)
{
	struct settings s;

	(void)setenv("CORVO_URL", "http://x", 1);
	(void)setenv("CORVO_API_KEY", "secret", 1);
	(void)setenv("CORVO_SOMETHING", "else", 1);
	LOAD(&s, "--open");
	settings_done(&s);
}

static void test_file_forms(void **state _unused_)
{
	struct settings s;

	write_conf("# comment\n\n  \t\n  data-dir=/a b  # the disk\r\n"
		   "node_id\t=\tn-1\ncompat = \"0.3\"\n"
		   "run_dir = \"/x #1\"\nopen = yes");
	LOAD(&s, conf_flag());
	assert_string_equal(s.data_dir, "/a b");
	assert_string_equal(s.node_id, "n-1");
	assert_string_equal(s.compat, "0.3");
	assert_string_equal(s.run_dir, "/x #1");
	assert_true(s.open);
	settings_done(&s);
	write_conf("");
	LOAD(&s, conf_flag());
	settings_done(&s);
}

static void test_file_errors(void **state _unused_)
{
	file_refused("a line\n", ":1: this line cannot be read");
	file_refused("\n\ncolour = blue\n", ":3: unknown setting \"colour\"");
	file_refused("node_id = a\nnode-id = b\n",
		     ":2: node_id is already set in line 1");
	file_refused("config = x\n", ":1: config cannot be set");
	file_refused("open = maybe\n",
		     ":1: open: \"maybe\" cannot be read; it takes true");
	file_refused("\nhttpd_processes = 65\n",
		     ":2: httpd_processes: \"65\" does not work; it takes 1 "
		     "to 64");
	file_refused("node_id = a\x01z\n", ":1: this line cannot be read");
	file_refused("= x\n", ":1: unknown setting \"\"");
	REFUSED("flag --config: cannot read the file /no/such: No such file",
		"--config=/no/such");
	(void)setenv("CORVO_CONFIG", "/no/such", 1);
	REFUSED("environment variable CORVO_CONFIG: cannot read", "--open");
}

static void test_flag_errors(void **state _unused_)
{
	REFUSED("unknown flag --colour", "--colour=blue");
	REFUSED("unknown flag --no-node-id", "--no-node-id");
	REFUSED("unknown flag --no-open", "--no-open=true");
	REFUSED("unexpected argument \"start\"", "start");
	REFUSED("unexpected argument \"--\"", "--");
	REFUSED("unexpected argument \"-v\"", "-v");
	REFUSED("flag --node-id needs a value", "--node-id");
	REFUSED("flag --open: \"2\" cannot be read; it takes true or false",
		"--open=2");
	REFUSED("flag --crash-limit: \"-1\" cannot be read; it takes a whole",
		"--crash-limit=-1");
	(void)setenv("CORVO_OP_TIMEOUT", "soon", 1);
	REFUSED("environment variable CORVO_OP_TIMEOUT: \"soon\" cannot be "
		"read; it takes a duration",
		"--open");
}

static uint64_t size_of(const char *text)
{
	char flag[64];
	struct settings s;
	uint64_t v;

	(void)snprintf(flag, sizeof(flag), "--rocksdb-cache=%s", text);
	LOAD(&s, flag);
	v = s.rocksdb_cache;
	settings_done(&s);
	return v;
}

static void test_sizes(void **state _unused_)
{
	assert_int_equal(size_of("0"), 0);
	assert_int_equal(size_of("65536"), 65536);
	assert_int_equal(size_of("5B"), 5);
	assert_int_equal(size_of("64k"), 64 << 10);
	assert_int_equal(size_of("64K"), 64 << 10);
	assert_int_equal(size_of("64KiB"), 64 << 10);
	assert_int_equal(size_of("64kB"), 64000);
	assert_int_equal(size_of("64MB"), 64000000);
	assert_int_equal(size_of("64MiB"), 64 << 20);
	assert_int_equal(size_of("64m"), 64 << 20);
	assert_int_equal(size_of("2GiB"), 2ULL << 30);
	assert_int_equal(size_of("2GB"), 2000000000);
	REFUSED("it takes a size", "--rocksdb-cache=64XB");
	REFUSED("it takes a size", "--rocksdb-cache=MiB");
	REFUSED("it takes a size", "--rocksdb-cache=-1");
	REFUSED("it takes a size", "--rocksdb-cache=");
	REFUSED("it takes a size", "--rocksdb-cache=18446744073709551615k");
}

static void test_durations(void **state _unused_)
{
	struct settings s;

	LOAD(&s, "--op-timeout=90", "--idle-timeout=1h30m", "--view-wait=0",
	     "--apply-batch-min-wait=250us");
	assert_int_equal(s.op_timeout, 90 * NS_PER_S);
	assert_int_equal(s.idle_timeout, 5400 * NS_PER_S);
	assert_int_equal(s.view_wait, 0);
	assert_int_equal(s.apply_batch_min_wait, 250 * NS_PER_US);
	settings_done(&s);
	REFUSED("it takes a duration", "--op-timeout=18446744073709551615");
	REFUSED("it takes a duration", "--op-timeout=1 week");
}

static void test_rules(void **state _unused_)
{
	REFUSED("letters, digits", "--node-id=");
	REFUSED("letters, digits", "--node-id=a/b");
	REFUSED("letters, digits", "--node-id=a b");
	REFUSED("debug, info, warn or error", "--log-level=loud");
	REFUSED("text or json", "--log-format=xml");
	REFUSED("it takes uv or segment", "--raft-store=own");
	REFUSED("it takes 0.3", "--compat=0.2");
	REFUSED("1 to 64", "--httpd-processes=0");
	REFUSED("1 to 64", "--apply-inflight=65");
	REFUSED("1 to 8MiB", "--max-payload-size=9MiB");
	REFUSED("100ms to 1h", "--shutdown-timeout=0");
	REFUSED("multiple of 4KiB", "--raft-segment-size=1000001");
	REFUSED("half of raft_segment_size", "--raft-segment-size=1MiB",
		"--apply-batch-bytes=1MiB");
	REFUSED("path of a directory", "--data-dir=");
}

static void test_run_dir_must_fit_a_socket(void **state _unused_)
{
	char flag[160] = "--run-dir=/";
	size_t at = strlen(flag);
	struct settings s;

	/* 107 bytes of sun_path less "/raftd-httpd-63.sock" */
	memset(flag + at, 'd', 86);
	LOAD(&s, flag);
	settings_done(&s);
	flag[at + 86] = 'd';
	REFUSED("too long for sockets", flag);
}

static void binds_refused(const struct settings *s, const char *expected)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);

	assert_int_equal(settings_check_bind(s, &why), -ERR_VALIDATION_ERROR);
	buf_putc(&why, '\0');
	if (strstr(why.p, expected) == NULL)
		fail_msg("got \"%s\", expected \"%s\"", why.p, expected);
}

static void bind_refused(char *flag, const char *expected)
{
	struct settings s;

	LOAD(&s, flag);
	binds_refused(&s, expected);
	settings_done(&s);
}

static void test_open_rule(void **state _unused_)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct settings s;

	bind_refused("--bind=:8080", "pass --open");
	bind_refused("--bind=0.0.0.0:8080", "bind 127.0.0.1:8080");
	bind_refused("--raft-bind=0.0.0.0:9400", "flag --raft-bind");
	bind_refused("--bind=nonsense", "flag --bind: \"nonsense\"");
	LOAD(&s, "--bind=:8080", "--open");
	assert_int_equal(settings_check_bind(&s, &why), 0);
	settings_done(&s);
	LOAD(&s, "--bind=[::1]:8080");
	assert_int_equal(settings_check_bind(&s, &why), 0);
	settings_done(&s);
}

/* What the port for other nodes must have before it is opened. */
#define CLUSTER_REFUSED(expected, ...)               \
	do {                                         \
		struct settings s_;                  \
		LOAD(&s_, "--cluster", __VA_ARGS__); \
		binds_refused(&s_, expected);        \
		settings_done(&s_);                  \
	} while (0)

#define CLUSTER_TAKEN(address, ...)                                    \
	do {                                                           \
		_cleanup_(buf_done) struct buf bad_ = BUF_INIT(0);     \
		struct settings s_;                                    \
		LOAD(&s_, "--cluster", __VA_ARGS__);                   \
		assert_true(settings_is_cluster(&s_));                 \
		assert_int_equal(settings_check_bind(&s_, &bad_), 0);  \
		assert_string_equal(settings_advertise(&s_), address); \
		settings_done(&s_);                                    \
	} while (0)

#define SECRET "--cluster-secret-file=/etc/corvo/secret"

static void test_cluster_rule(void **state _unused_)
{
	struct settings s;

	LOAD(&s, "--no-cluster");
	assert_false(settings_is_cluster(&s));
	settings_done(&s);
	CLUSTER_TAKEN("127.0.0.1:9400", "--raft-bind=127.0.0.1:9400");
	CLUSTER_TAKEN("127.0.0.1:9400", SECRET);
	CLUSTER_TAKEN("n1.corvo:9400", SECRET, "--raft-bind=:9400",
		      "--raft-advertise=n1.corvo:9400");
	CLUSTER_TAKEN("[fd00::1]:9", SECRET, "--raft-bind=0.0.0.0:9400",
		      "--raft-advertise=[fd00::1]:9");
	CLUSTER_REFUSED("flag --raft-bind: 0.0.0.0:9400 can be reached",
			"--raft-bind=0.0.0.0:9400");
	CLUSTER_REFUSED("set cluster_secret_file", "--open",
			"--raft-bind=:9400", "--raft-advertise=a:9400");
	CLUSTER_REFUSED("flag --raft-bind: \"x\"", "--raft-bind=x");
	CLUSTER_REFUSED("no address that other nodes can dial; set "
			"raft_advertise",
			SECRET, "--raft-bind=0.0.0.0:9400");
	CLUSTER_REFUSED("set raft_advertise", SECRET, "--raft-bind=[::]:9400");
	CLUSTER_REFUSED("set raft_advertise", SECRET, "--raft-bind=:9400");
	CLUSTER_REFUSED("set raft_advertise", "--raft-bind=127.0.0.1:0");
	CLUSTER_REFUSED("flag --raft-advertise: [::]:9400 is no address",
			"--raft-advertise=[::]:9400");
	CLUSTER_REFUSED("is no address that", "--raft-advertise=:9400");
	CLUSTER_REFUSED("there is no port", "--raft-advertise=n1");
	CLUSTER_REFUSED("it takes host:port", "--raft-advertise=n 1:9400");
}

static void test_reload(void **state _unused_)
{
	_cleanup_(buf_done) struct buf kept = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	char *const argv[] = { conf_flag() };
	const char *node_id;
	struct settings s;

	write_conf("log_level = info\nnode_id = a\n");
	LOAD(&s, conf_flag());
	node_id = s.node_id;
	write_conf("log_level = debug\nnode_id = b\ndurable = false\n"
		   "crash_limit = 3\n");
	assert_int_equal(settings_reload(1, argv, &s, &kept, &why), 0);
	assert_string_equal(s.log_level, "debug");
	assert_int_equal(s.crash_limit, 3);
	assert_int_equal(s.source[SETTING_crash_limit], SRC_FILE);
	assert_ptr_equal(s.node_id, node_id);
	assert_string_equal(s.node_id, "a");
	assert_true(s.durable);
	assert_str_is(buf_str(&kept), "node_id, durable");

	write_conf("log_level = warn\nbroken\n");
	assert_int_equal(settings_reload(1, argv, &s, &kept, &why),
			 -ERR_VALIDATION_ERROR);
	assert_string_equal(s.log_level, "debug");
	settings_done(&s);
}

#define CONFIG_TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONFIG_TEST(test_names),
		CONFIG_TEST(test_defaults),
		CONFIG_TEST(test_sources_in_order),
		CONFIG_TEST(test_other_variables_do_no_harm),
		CONFIG_TEST(test_file_forms),
		CONFIG_TEST(test_file_errors),
		CONFIG_TEST(test_flag_errors),
		CONFIG_TEST(test_sizes),
		CONFIG_TEST(test_durations),
		CONFIG_TEST(test_rules),
		CONFIG_TEST(test_run_dir_must_fit_a_socket),
		CONFIG_TEST(test_open_rule),
		CONFIG_TEST(test_cluster_rule),
		CONFIG_TEST(test_reload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
