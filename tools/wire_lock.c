/*
 * Everything that is stored or sent by number, and the limits that apply reads,
 * one row each, so that none ever changes its meaning:
 *
 *	wire_lock --check FILE  exit 1 when a row of FILE is gone or changed,
 *	                        or a row is not in FILE yet
 *	wire_lock --add FILE    adds new rows; refuses when one is gone
 *
 * Members of operations that a release knows need a feature level when they
 * come later: nodes of that release would leave them out.
 *
 *	wire_lock --levels FILE   exit 1 when one that is not in FILE has none,
 *	                          or that of the release
 *	wire_lock --release FILE  writes down those of a release, and its level
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "rpc/pb/pb.h"
#include "util/schema.h"

#define LOCK_BYTES_MAX (4u << 20)

static const char *const kinds[] = {
	[K_bool] = "bool", [K_u32] = "u32",   [K_u64] = "u64",
	[K_i64] = "i64",   [K_f64] = "f64",   [K_str] = "str",
	[K_raw] = "raw",   [K_time] = "time", [K_dur] = "dur",
	[K_secs] = "secs", [K_strs] = "strs", [K_enum] = "enum",
	[K_msg] = "msg",   [K_msgs] = "msgs", [K_nano] = "nano",
};

static void put_messages(struct buf *b)
{
	const struct msg_desc *d;

	for (size_t i = 0; (d = msg_at(i)) != NULL; i++) {
		for (size_t k = 0; k < d->n; k++) {
			const struct field_desc *f = &d->fields[k];

			buf_printf(b, "field %s %u %s %s", d->name, f->tag,
				   kinds[f->kind], f->name);
			if (f->kind == K_enum)
				buf_printf(b, " %s", f->values->name);
			if (f->sub != NULL)
				buf_printf(b, " %s", f->sub->name);
			buf_putc(b, '\n');
		}
	}
}

/* What clients of remote calls send. */
static void put_fields(struct buf *b)
{
	const struct pb_desc *d;

	for (size_t i = 0; (d = pb_desc_at(i)) != NULL; i++)
		for (size_t k = 0; k < d->n; k++)
			buf_printf(b, "rpc %s.%s %u %s %s\n", d->file->package,
				   d->name, d->fields[k].number,
				   pb_type_name(&d->fields[k]),
				   d->fields[k].name);
}

static void put_calls(struct buf *b, const char *table,
		      const struct call_info *(*at)(size_t i))
{
	const struct call_info *c;

	for (size_t i = 0; (c = at(i)) != NULL; i++)
		buf_printf(b, "%s %u %s %s %s\n", table, c->id, c->name,
			   c->request->name, c->reply->name);
}

static void put_enum(struct buf *b, const struct enum_desc *e)
{
	for (size_t i = 0; i < e->n; i++)
		buf_printf(b, "enum %s %u %s\n", e->name, e->values[i].number,
			   e->values[i].text);
}

/*
 * What apply reads is part of the protocol: replicas that have other limits
 * come to another state. All of corvo-raftd/fsm stand here; tests/tidy looks.
 */
static const struct {
	const char *name;
	uint64_t value;
} limits[] = {
#define LIMIT(name)         \
	{                   \
#name, name \
	}
	// clang-format off
	LIMIT(LIMIT_ADDRESS_BYTES),
	LIMIT(LIMIT_ANSWERS),
	LIMIT(LIMIT_ANSWERS_BYTES),
	LIMIT(LIMIT_ANSWERS_LOST),
	LIMIT(LIMIT_ANSWERS_S),
	LIMIT(LIMIT_ANSWER_BYTES),
	LIMIT(LIMIT_BATCH_DEPTH),
	LIMIT(LIMIT_BUDGETS),
	LIMIT(LIMIT_BUDGET_LIMITS),
	LIMIT(LIMIT_BUDGET_SLOTS),
	LIMIT(LIMIT_BUDGET_TAGS),
	LIMIT(LIMIT_BUDGET_TARGET_BYTES),
	LIMIT(LIMIT_BULKS),
	LIMIT(LIMIT_BULK_CANARY),
	LIMIT(LIMIT_BULK_COLLECT_S),
	LIMIT(LIMIT_BULK_JOBS),
	LIMIT(LIMIT_BULK_KEEP_S),
	LIMIT(LIMIT_BULK_PAGE),
	LIMIT(LIMIT_BULK_STEP),
	LIMIT(LIMIT_CHAIN_BYTES),
	LIMIT(LIMIT_CHAIN_STEPS),
	LIMIT(LIMIT_CHECKPOINT_INSIDE),
	LIMIT(LIMIT_COMMENT_BYTES),
	LIMIT(LIMIT_DEPENDENCIES),
	LIMIT(LIMIT_ENTRY_BYTES),
	LIMIT(LIMIT_EVENT_RETENTION),
	LIMIT(LIMIT_FETCH_COUNT),
	LIMIT(LIMIT_FETCH_QUEUES),
	LIMIT(LIMIT_GROUP_BYTES),
	LIMIT(LIMIT_GROUP_LIMITS),
	LIMIT(LIMIT_GROUP_WEIGHT),
	LIMIT(LIMIT_ITERATIONS_KEPT),
	LIMIT(LIMIT_JOB_ERRORS),
	LIMIT(LIMIT_JOB_ID_BYTES),
	LIMIT(LIMIT_JSON_DEPTH),
	LIMIT(LIMIT_LEASE_S),
	LIMIT(LIMIT_LINK_BYTES),
	LIMIT(LIMIT_LINK_PAYLOAD),
	LIMIT(LIMIT_LINK_S),
	LIMIT(LIMIT_LOG_LINES),
	LIMIT(LIMIT_MAINTAIN_JOBS),
	LIMIT(LIMIT_MEMBERS),
	LIMIT(LIMIT_NODE_NAME_BYTES),
	LIMIT(LIMIT_POLICIES),
	LIMIT(LIMIT_POLICY_NAME_BYTES),
	LIMIT(LIMIT_POLICY_TESTS),
	LIMIT(LIMIT_POLICY_LOOKED),
	LIMIT(LIMIT_HOOKS),
	LIMIT(LIMIT_HOOK_NAME_BYTES),
	LIMIT(LIMIT_WEBHOOKS),
	LIMIT(LIMIT_WEBHOOK_ID_BYTES),
	LIMIT(LIMIT_WEBHOOK_TRIES),
	LIMIT(LIMIT_WEBHOOK_LOG),
	LIMIT(LIMIT_WEBHOOK_ERROR_BYTES),
	LIMIT(LIMIT_PRICES),
	LIMIT(LIMIT_PUSH_HEADERS),
	LIMIT(LIMIT_PUSH_QUEUES),
	LIMIT(LIMIT_PUSH_TIMEOUT_S),
	LIMIT(LIMIT_PUSH_URL_BYTES),
	LIMIT(LIMIT_PROVIDERS),
	LIMIT(LIMIT_PROVIDER_BYTES),
	LIMIT(LIMIT_PROVIDER_ERROR_BYTES),
	LIMIT(LIMIT_PROVIDER_SLOTS),
	LIMIT(LIMIT_QUEUE_NAME_BYTES),
	LIMIT(LIMIT_REPLAYS),
	LIMIT(LIMIT_REQUEST_DEPS),
	LIMIT(LIMIT_REQUEST_DEPS_2),
	LIMIT(LIMIT_ENTRY_JOBS_2),
	LIMIT(LIMIT_SCHEDULES),
	LIMIT(LIMIT_SCHED_NAME_BYTES),
	LIMIT(LIMIT_SCHEMA_BYTES),
	LIMIT(LIMIT_SCORES),
	LIMIT(LIMIT_SCORE_VALUE),
	LIMIT(LIMIT_UNIQUE_KEY_BYTES),
	LIMIT(LIMIT_UNITS),
	LIMIT(LIMIT_UNIT_AMOUNT),
	LIMIT(LIMIT_UNIT_NAME_BYTES),
	LIMIT(LIMIT_USAGE_COST),
	LIMIT(LIMIT_USAGE_ROWS),
	LIMIT(LIMIT_USAGE_TAGS),
	LIMIT(LIMIT_USAGE_TAG_BYTES),
	LIMIT(LIMIT_VERSION_BYTES),
	LIMIT(LIMIT_WORKERS),
	LIMIT(LIMIT_WORKER_QUEUES),
	LIMIT(LIMIT_WORKER_IDLE_S),
	LIMIT(LIMIT_WORKER_ID_BYTES),
	LIMIT(SCHEMA_NAMES_MAX),
// clang-format on
#undef LIMIT
};

static void put_limits(struct buf *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		buf_printf(b, "limit %s %llu\n", limits[i].name,
			   (unsigned long long)limits[i].value);
}

static void put_rows(struct buf *b)
{
	put_messages(b);
	put_calls(b, "op", op_at);
	put_calls(b, "query", query_at);
#define ENUM(name, how, code_03) put_enum(b, &enum_##name);
#include "proto/defs/enums.def"
	put_enum(b, &enum_job_state);
	put_enum(b, &enum_event_type);
#define ERR(name, number, status, again, rpc, text) \
	buf_printf(b, "error %d %s %d\n", number, #name, status);
#include "proto/defs/errors.def"
	put_limits(b);
	put_fields(b);
}

static bool has_row(struct str rows, struct str row)
{
	struct str line;

	while (rows.n > 0) {
		str_split(rows, '\n', &line, &rows);
		if (str_eq(line, row))
			return true;
	}
	return false;
}

/* Calls fn for each row of `rows` that `others` lacks; how many there are. */
static size_t each_missing(struct str rows, struct str others,
			   void (*fn)(struct str row, void *arg), void *arg)
{
	struct str line;
	size_t n = 0;

	while (rows.n > 0) {
		str_split(rows, '\n', &line, &rows);
		if (line.n == 0 || line.p[0] == '#' || has_row(others, line))
			continue;
		fn(line, arg);
		n++;
	}
	return n;
}

static void say_gone(struct str row, void *arg _unused_)
{
	fprintf(stderr, "gone or changed: %.*s\n", STR_ARG(row));
}

static void say_new(struct str row, void *arg _unused_)
{
	fprintf(stderr, "not in the lock yet: %.*s\n", STR_ARG(row));
}

static void add_row(struct str row, void *arg)
{
	buf_put_str(arg, row);
	buf_putc(arg, '\n');
}

/* --- levels --- */

/* Members of a message, and of those in it, that this level or one before has.
 */
static void put_members(const struct msg_desc *d, unsigned level, struct buf *b)
{
	_cleanup_(buf_done) struct buf row = BUF_INIT(0);

	for (size_t i = 0; i < d->n; i++) {
		const struct field_desc *f = &d->fields[i];

		if (field_level(f) > level)
			continue;
		buf_clear(&row);
		buf_printf(&row, "member %s %u %s", d->name, f->tag, f->name);
		if (has_row(buf_str(b), buf_str(&row)))
			continue;
		add_row(buf_str(&row), b);
		if (f->sub != NULL)
			put_members(f->sub, level, b);
	}
}

/* What a release of that level knows. */
static void put_released(unsigned level, struct buf *b)
{
	const struct call_info *op;

	for (size_t i = 0; (op = op_at(i)) != NULL; i++)
		if (op->level <= level)
			put_members(op->request, level, b);
}

static void say_without(struct str row, void *arg _unused_)
{
	fprintf(stderr, "without a feature level: %.*s\n", STR_ARG(row));
}

/* The row of the lock that says it; 0: there is none. */
static unsigned released_level(struct str lock)
{
	struct str line, word, number;
	uint64_t level = 0;

	while (level == 0 && lock.n > 0) {
		str_split(lock, '\n', &line, &lock);
		if (!str_split(line, ' ', &word, &number) ||
		    !str_is(word, "level") || !str_parse_u64(number, &level))
			level = 0;
	}
	return (unsigned)MIN(level, (uint64_t)UINT32_MAX);
}

static int check_levels(struct str lock)
{
	_cleanup_(buf_done) struct buf now = BUF_INIT(0);
	unsigned last = released_level(lock);

	if (last == 0 || last > FEATURE_LEVEL) {
		fprintf(stderr,
			"the last release had another feature level than 1 to "
			"FEATURE_LEVEL, %u\n",
			FEATURE_LEVEL);
		return 1;
	}
	put_released(last, &now);
	if (each_missing(buf_str(&now), lock, say_without, NULL) == 0)
		return 0;
	fprintf(stderr,
		"nodes of the last release would leave it out, and come "
		"to another state; give it F_LEVEL_%u%s\n",
		last + 1,
		last == FEATURE_LEVEL ? ", and raise FEATURE_LEVEL to that, as "
					"docs/hacking.md says"
				      : "");
	return 1;
}

static int read_lock(const char *path, struct buf *ret)
{
	FILE *f = fopen(path, "re");
	char part[4096];
	size_t n;
	int bad;

	if (f == NULL)
		return -1;
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		buf_append(ret, part, n);
	bad = ferror(f) || ret->full;
	fclose(f);
	return bad ? -1 : 0;
}

static int write_lock(const char *path, struct str text)
{
	FILE *f = fopen(path, "we");
	bool ok;

	if (f == NULL)
		return -1;
	ok = fwrite(text.p, 1, text.n, f) == text.n;
	ok = fclose(f) == 0 && ok;
	return ok ? 0 : -1;
}

static int check(struct str now, struct buf *lock)
{
	size_t gone = each_missing(buf_str(lock), now, say_gone, NULL);
	size_t added = each_missing(now, buf_str(lock), say_new, NULL);

	if (gone > 0)
		fprintf(stderr, "released numbers keep their meaning, and "
				"limits their values; give the changed row a "
				"new one\n");
	if (added > 0)
		fprintf(stderr,
			"run: cmake --build BUILD --target wire-lock\n");
	return gone > 0 || added > 0;
}

static int add(const char *path, struct str now, struct buf *lock)
{
	_cleanup_(buf_done) struct buf more = BUF_INIT(0);

	if (each_missing(buf_str(lock), now, say_gone, NULL) > 0)
		return 1;
	if (each_missing(now, buf_str(lock), add_row, &more) == 0)
		return 0;
	buf_put_str(lock, buf_str(&more));
	if (write_lock(path, buf_str(lock)) == 0)
		return 0;
	fprintf(stderr, "cannot write %s: %m\n", path);
	return 2;
}

static int release(const char *path)
{
	_cleanup_(buf_done) struct buf now = BUF_INIT(0);

	buf_puts(&now,
		 "# Members that the last release knew, of operations "
		 "that it knew. Others need\n# a feature level. Written by "
		 "`wire_lock --release`, with each release.\n");
	buf_printf(&now, "level %u\n", FEATURE_LEVEL);
	put_released(FEATURE_LEVEL, &now);
	if (write_lock(path, buf_str(&now)) == 0)
		return 0;
	fprintf(stderr, "cannot write %s: %m\n", path);
	return 2;
}

int main(int argc, char **argv)
{
	_cleanup_(buf_done) struct buf now = BUF_INIT(0);
	_cleanup_(buf_done) struct buf lock = BUF_INIT(LOCK_BYTES_MAX);
	const char *verb = argc == 3 ? argv[1] : "";

	if (strcmp(verb, "--release") == 0)
		return release(argv[2]);
	if (strcmp(verb, "--check") != 0 && strcmp(verb, "--add") != 0 &&
	    strcmp(verb, "--levels") != 0) {
		fprintf(stderr, "usage: wire_lock --check|--add|--levels|"
				"--release FILE\n");
		return 2;
	}
	if (read_lock(argv[2], &lock) < 0) {
		fprintf(stderr, "cannot read %s: %m\n", argv[2]);
		return 2;
	}
	if (strcmp(verb, "--levels") == 0)
		return check_levels(buf_str(&lock));
	put_rows(&now);
	if (strcmp(verb, "--check") == 0)
		return check(buf_str(&now), &lock);
	return add(argv[2], buf_str(&now), &lock);
}
