/*
 * `corvo scheduled-db`: a node that looks like Scheduled-DB. Its flags and the
 * names of its environment become our settings; what it does not know is passed
 * on, so that our own flags work beside them. Then it is `corvo server`.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"

#define TOKEN_MIN 16 /* as every secret in a file */

/* How a value becomes ours. */
enum way {
	AS_IS,
	SIZE,    /* "2GB" is 2GiB */
	PERCENT, /* 0.1 is 10 */
	LOWER,   /* INFO is info */
	BY_HAND, /* it is a part of something */
	NOTHING, /* there is nothing like it here */
};

/* A row for each flag of Scheduled-DB; own: our setting. */
#define ALIASES(X)                                                             \
	X(DATA_DIR, "data-dir", "DATA_DIR", AS_IS, "data-dir")                 \
	X(NODE_ID, "node-id", "NODE_ID", AS_IS, "node-id")                     \
	X(HTTP_HOST, "http-host", "HTTP_HOST", BY_HAND, NULL)                  \
	X(HTTP_PORT, "http-port", "HTTP_PORT", BY_HAND, NULL)                  \
	X(METRICS_PORT, "metrics-port", "METRICS_PORT", BY_HAND, NULL)         \
	X(RAFT_HOST, "raft-host", "RAFT_HOST", BY_HAND, NULL)                  \
	X(RAFT_PORT, "raft-port", "RAFT_PORT", BY_HAND, NULL)                  \
	X(RAFT_ADVERTISE, "raft-advertise-host", "RAFT_ADVERTISE_HOST",        \
	  BY_HAND, NULL)                                                       \
	X(PEERS, "peers", "PEERS", BY_HAND, NULL)                              \
	X(EXPECT, "bootstrap-expect", "BOOTSTRAP_EXPECT", BY_HAND, NULL)       \
	X(DISCOVERY, "discovery-strategy", "DISCOVERY_STRATEGY", BY_HAND,      \
	  NULL)                                                                \
	X(SERVICE, "kubernetes-service-name", "KUBERNETES_SERVICE_NAME",       \
	  BY_HAND, NULL)                                                       \
	X(NAMESPACE, "kubernetes-namespace", "KUBERNETES_NAMESPACE", NOTHING,  \
	  NULL)                                                                \
	X(TOKEN, "auth-token", "AUTH_TOKEN", BY_HAND, NULL)                    \
	X(EXECUTION, "execution-timeout", "JOB_EXECUTION_TIMEOUT", AS_IS,      \
	  "scheddb-execution-timeout")                                         \
	X(INPROGRESS, "inprogress-timeout", "JOB_INPROGRESS_TIMEOUT", AS_IS,   \
	  "scheddb-inprogress-timeout")                                        \
	X(ATTEMPTS, "max-attempts", "MAX_EXECUTION_ATTEMPTS", AS_IS,           \
	  "scheddb-max-attempts")                                              \
	X(HISTORY, "history-retention", "EXECUTION_HISTORY_RETENTION", AS_IS,  \
	  "scheddb-history-retention")                                         \
	X(THRESHOLD, "health-failure-threshold", "HEALTH_FAILURE_THRESHOLD",   \
	  PERCENT, "scheddb-health-failure-percent")                           \
	X(MEMORY, "queue-memory-limit", "QUEUE_MEMORY_LIMIT", SIZE,            \
	  "scheddb-memory-limit")                                              \
	X(SHARE, "queue-memory-percent", "QUEUE_MEMORY_PERCENT", AS_IS,        \
	  "scheddb-memory-percent")                                            \
	X(JOBS, "queue-job-limit", "QUEUE_JOB_LIMIT", AS_IS,                   \
	  "scheddb-job-limit")                                                 \
	X(READ, "http-read-timeout", "HTTP_READ_TIMEOUT", AS_IS,               \
	  "request-timeout")                                                   \
	X(WRITE, "http-write-timeout", "HTTP_WRITE_TIMEOUT", AS_IS,            \
	  "answer-timeout")                                                    \
	X(IDLE, "http-idle-timeout", "HTTP_IDLE_TIMEOUT", AS_IS,               \
	  "idle-timeout")                                                      \
	X(APPLY, "raft-apply-timeout", "RAFT_APPLY_TIMEOUT", AS_IS,            \
	  "op-timeout")                                                        \
	X(LEVEL, "log-level", "LOG_LEVEL", LOWER, "log-level")                 \
	X(ZONE, "timezone", "TZ", AS_IS, "scheddb-timezone")                   \
	X(GAP, "slot-gap", "SLOT_GAP", NOTHING, NULL)                          \
	X(SPILL, "enable-cold-spilling", "ENABLE_COLD_SPILLING", NOTHING,      \
	  NULL)                                                                \
	X(SPILL_WINDOW, "cold-spilling-hot-window",                            \
	  "COLD_SPILLING_HOT_WINDOW", NOTHING, NULL)                           \
	X(SPILL_CHECK, "cold-spilling-check-interval",                         \
	  "COLD_SPILLING_CHECK_INTERVAL", NOTHING, NULL)                       \
	X(HTW_G0, "htw-level0-granularity", "HTW_LEVEL0_GRANULARITY", NOTHING, \
	  NULL)                                                                \
	X(HTW_G1, "htw-level1-granularity", "HTW_LEVEL1_GRANULARITY", NOTHING, \
	  NULL)                                                                \
	X(HTW_G2, "htw-level2-granularity", "HTW_LEVEL2_GRANULARITY", NOTHING, \
	  NULL)                                                                \
	X(HTW_B0, "htw-level0-buckets", "HTW_LEVEL0_BUCKETS", NOTHING, NULL)   \
	X(HTW_B1, "htw-level1-buckets", "HTW_LEVEL1_BUCKETS", NOTHING, NULL)   \
	X(HTW_B2, "htw-level2-buckets", "HTW_LEVEL2_BUCKETS", NOTHING, NULL)   \
	X(HEADER, "http-read-header-timeout", "HTTP_READ_HEADER_TIMEOUT",      \
	  NOTHING, NULL)                                                       \
	X(BODY, "max-request-body-size", "MAX_REQUEST_BODY_SIZE", NOTHING,     \
	  NULL)                                                                \
	X(TRANSPORT, "raft-transport-timeout", "RAFT_TRANSPORT_TIMEOUT",       \
	  NOTHING, NULL)                                                       \
	X(OTEL, "otel-endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT", NOTHING, NULL)

enum alias_id {
#define X(id, flag, env, way, own) A_##id,
	ALIASES(X)
#undef X
	    ALIASES_N
};

static const struct {
	const char *flag, *env;
	enum way way;
	const char *own;
} aliases[ALIASES_N] = {
#define X(id, flag, env, way, own) { flag, env, way, own },
	ALIASES(X)
#undef X
};

struct line {
	const char *value[ALIASES_N]; /* NULL: not given */
	char **argv;                  /* for the server */
	int n;
};

/* --- what was given --- */

/* One of our own flags that stands there already is what was meant. */
static bool is_given(const struct line *l, const char *flag)
{
	size_t n = strlen(flag);

	for (int i = 0; i < l->n; i++) {
		const char *arg = l->argv[i];

		if (strncmp(arg, "--", 2) == 0 &&
		    strncmp(arg + 2, flag, n) == 0 &&
		    (arg[n + 2] == '=' || arg[n + 2] == '\0'))
			return true;
	}
	return false;
}

static void put(struct line *l, const char *flag, struct str value)
{
	struct buf b = BUF_INIT(0);

	if (is_given(l, flag))
		return;
	buf_printf(&b, "--%s=%.*s", flag, STR_ARG(value));
	buf_putc(&b, '\0');
	l->argv[l->n++] = b.p; /* until the program is another one */
}

/* The alias of "--flag", "-flag" or either with "=value"; ALIASES_N: none. */
static size_t find_alias(const char *arg, struct str *ret_value, bool *has)
{
	struct str name = str_from(arg), value = STR_NULL;

	name = str_skip(name, str_starts(name, STR("--")) ? 2 : 1);
	*has = str_split(name, '=', &name, &value);
	*ret_value = value;
	for (size_t i = 0; i < ALIASES_N; i++)
		if (arg[0] == '-' && str_is(name, aliases[i].flag))
			return i;
	return ALIASES_N;
}

/* False: a flag has no value, and that was said. */
static bool read_flags(const struct cmd_args *a, struct line *l)
{
	for (int i = 0; i < a->argc; i++) {
		struct str value;
		bool has;
		size_t k = find_alias(a->argv[i], &value, &has);

		if (k == ALIASES_N) {
			l->argv[l->n++] = a->argv[i];
			continue;
		}
		if (!has && i + 1 < a->argc && a->argv[i + 1][0] != '-')
			l->value[k] = a->argv[++i];
		else if (has)
			l->value[k] = value.p;
		else if (aliases[k].way == NOTHING)
			l->value[k] = "true";
		else
			return cmd_usage("--%s needs a value",
					 aliases[k].flag) == CLI_OK;
	}
	return true;
}

static void read_environment(struct line *l)
{
	for (size_t i = 0; i < ALIASES_N; i++) {
		const char *v = getenv(aliases[i].env);

		/* ":/etc/localtime" is a zone that has no name */
		if (l->value[i] == NULL && v != NULL && *v != '\0' && *v != ':')
			l->value[i] = v;
	}
}

static const char *value_of(const struct line *l, enum alias_id id,
			    const char *otherwise)
{
	return l->value[id] != NULL ? l->value[id] : otherwise;
}

/* --- one to one --- */

/* "2GB", of 1024 megabytes each, as our settings write it. */
static void put_size(struct line *l, const char *flag, const char *value)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	size_t n = strlen(value);

	buf_puts(&b, value);
	if (n > 2 && toupper((unsigned char)value[n - 1]) == 'B' &&
	    isalpha((unsigned char)value[n - 2])) {
		b.p[n - 2] = (char)toupper((unsigned char)value[n - 2]);
		b.p[n - 1] = 'i';
		buf_putc(&b, 'B');
	}
	put(l, flag, buf_str(&b));
}

/* A mistake is named as it was made: the flag is no share of one. */
static bool put_percent(struct line *l, size_t alias, const char *value)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	char *end;
	double share = strtod(value, &end);

	if (end == value || *end != '\0' || !(share >= 0 && share <= 1)) {
		(void)cmd_failed("%s: must be a number from 0 to 1, not %s",
				 aliases[alias].flag, value);
		return false;
	}
	buf_printf(&b, "%.0f", share * 100);
	put(l, aliases[alias].own, buf_str(&b));
	return true;
}

static void put_lower(struct line *l, const char *flag, const char *value)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	for (const char *p = value; *p != '\0'; p++)
		buf_putc(&b, (char)tolower((unsigned char)*p));
	put(l, flag, buf_str(&b));
}

static bool put_plain(struct line *l)
{
	for (size_t i = 0; i < ALIASES_N; i++) {
		const char *v = l->value[i];

		if (v == NULL)
			continue;
		switch (aliases[i].way) {
		case AS_IS:
			put(l, aliases[i].own, str_from(v));
			break;
		case SIZE:
			put_size(l, aliases[i].own, v);
			break;
		case PERCENT:
			if (!put_percent(l, i, v))
				return false;
			break;
		case LOWER:
			put_lower(l, aliases[i].own, v);
			break;
		case NOTHING:
			(void)fprintf(stderr,
				      "%s (%s) means nothing here and is left "
				      "out\n",
				      aliases[i].flag, aliases[i].env);
			break;
		case BY_HAND:
			break;
		}
	}
	return true;
}

/* --- addresses and nodes --- */

static void put_address(struct line *l, const char *flag, const char *host,
			const char *port)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	if (strcmp(host, "localhost") == 0)
		host = "127.0.0.1";
	buf_printf(&b, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host,
		   port);
	put(l, flag, buf_str(&b));
}

static void put_addresses(struct line *l)
{
	const char *host = value_of(l, A_HTTP_HOST, "127.0.0.1");
	const char *metrics = value_of(l, A_METRICS_PORT, "9090");
	const char *raft = value_of(l, A_RAFT_PORT, "7000");

	put_address(l, "bind", host, value_of(l, A_HTTP_PORT, "8080"));
	if (strcmp(metrics, "0") != 0)
		put_address(l, "scheddb-metrics-bind", host, metrics);
	put_address(l, "raft-bind", value_of(l, A_RAFT_HOST, "localhost"),
		    raft);
	if (l->value[A_RAFT_ADVERTISE] != NULL)
		put_address(l, "raft-advertise", l->value[A_RAFT_ADVERTISE],
			    raft);
}

/* What says where other nodes are, in our words; NULL: nothing like it. */
static const char *discover_of(const char *strategy)
{
	static const char *const words[][2] = {
		{ "none", "" },
		{ "static", "static" },
		{ "gossip", "gossip" },
		{ "dns", "dns" },
		{ "dns_srv", "dns-srv" },
		{ "kubernetes", "kubernetes" },
		{ "kubernetes_dns", "kubernetes" },
		{ "kubernetes_dns_srv", "dns-srv" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(words[i][0], strategy) == 0)
			return words[i][1];
	return NULL;
}

/* A node that is told of others, or expects them, makes a cluster with them. */
static bool put_cluster(struct line *l)
{
	const char *strategy = value_of(l, A_DISCOVERY, "none");
	const char *discover = discover_of(strategy);
	const char *join = value_of(l, A_PEERS, l->value[A_SERVICE]);
	const char *expect = value_of(l, A_EXPECT, "0");

	if (discover == NULL) {
		(void)cmd_failed("unknown discovery strategy: %s", strategy);
		return false;
	}
	if (*discover == '\0' && l->value[A_PEERS] == NULL)
		join = NULL;
	if (join == NULL && strcmp(expect, "0") == 0)
		return true;
	put(l, "cluster", STR("true"));
	put(l, "bootstrap-expect", str_from(expect));
	if (*discover != '\0')
		put(l, "discover", str_from(discover));
	if (join != NULL)
		put(l, "join", str_from(join));
	return true;
}

/* --- the token --- */

static bool write_all(int fd, const char *text)
{
	size_t n = strlen(text);

	return fd >= 0 && write(fd, text, n) == (ssize_t)n &&
	       ftruncate(fd, (off_t)n) == 0;
}

/* It goes into a file that only its owner may read: settings are shown. */
static bool put_token(struct line *l)
{
	_cleanup_(buf_done) struct buf path = BUF_INIT(0);
	const char *dir = value_of(l, A_DATA_DIR, "data");
	const char *token = l->value[A_TOKEN];
	bool ok;
	int fd;

	if (token == NULL)
		return true;
	if (strlen(token) < TOKEN_MIN) {
		(void)cmd_failed("auth-token: must have at least %d bytes",
				 TOKEN_MIN);
		return false;
	}
	(void)mkdir(dir, 0700); /* what is wrong with it, open will say */
	buf_printf(&path, "%s/scheddb-auth-token", dir);
	buf_putc(&path, '\0');
	fd = open(path.p, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ok = write_all(fd, token);
	if (!ok)
		(void)cmd_failed("cannot write %s: %s", path.p,
				 strerror(errno));
	if (fd >= 0)
		(void)close(fd);
	put(l, "scheddb-auth-token-file", str_from(path.p));
	return ok;
}

int cmd_scheduled_db(const struct cmd_args *a)
{
	struct line l = { .n = 0 };
	struct cmd_args server = *a;

	/* each alias makes one flag at most, and addresses a few more */
	l.argv = xcalloc((size_t)a->argc + ALIASES_N + 16, sizeof(*l.argv));
	if (!read_flags(a, &l))
		return CLI_USAGE;
	read_environment(&l);
	put_addresses(&l);
	if (!put_plain(&l) || !put_cluster(&l) || !put_token(&l))
		return CLI_FAILED;
	server.argc = l.n;
	server.argv = l.argv;
	return cmd_server(&server);
}
