/*
 * Scheduled-DB: what a new job may say. Everything of it is hostile; a mistake
 * is told in the words its clients know.
 */
#include "proto/plan.h"
#include "proto/push.h"
#include "proto/scheddb.h"
#include "req/job_check.h"
#include "routes/scheddb.h"
#include "rt/scheddb_limit.h"
#include "util/clock.h"
#include "util/timefmt.h"
#include "util/turn.h"

#define TIME_MAX_S 7258118400ULL /* the year 2200, as time_parse */

/* --- the body --- */

/* They are shown again, as Scheduled-DB did, and nothing comes of them. */
static void note_unused(struct req *r, const struct m_sdb_new *m)
{
	if (!str_is(m->type, enum_text(&enum_sdb_type, SDB_ONCE)))
		return;
	if (m->cron_expression.n > 0)
		req_ignore(r, STR("cron_expression"));
	if (m->last_date.n > 0)
		req_ignore(r, STR("last_date"));
}

/* Whatever is wrong with its JSON, the text is one. */
static bool read_body(struct req *r, struct m_sdb_new *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	struct msg_reader rd = req_reader(r, &why);
	struct str text = buf_str(&r->x.body);
	struct json_error e;
	int err = -ERR_PARSE_ERROR;

	turn_open();
	if (json_validate(text, LIMIT_JSON_DEPTH, &e))
		err = json_type_of(json_root(text)) == JSON_OBJECT
			  ? msg_from_json(&rd, &msg_sdb_new, json_root(text), m)
			  : -ERR_VALIDATION_ERROR;
	turn_close();
	if (err < 0) {
		req_fail_text(r, -err, STR("Invalid request body"));
		return false;
	}
	note_unused(r, m);
	return req_read_done(r);
}

/* --- times --- */

/* "2026-01-31 12:00:00", which is UTC. */
static bool parse_plain(struct str s, struct arena *a, uint64_t *ret_ns)
{
	struct str date, time;

	return s.n == 19 && str_split(s, ' ', &date, &time) && date.n == 10 &&
	       time_parse(
		   arena_printf(a, "%.*sT%.*sZ", STR_ARG(date), STR_ARG(time)),
		   ret_ns);
}

static bool parse_time(struct str s, struct arena *a, uint64_t *ret_ns)
{
	uint64_t seconds;

	if (str_parse_u64(s, &seconds)) {
		*ret_ns = seconds * NS_PER_S;
		return seconds > 0 && seconds < TIME_MAX_S;
	}
	return time_parse(s, ret_ns) || parse_plain(s, a, ret_ns);
}

/* False: it has been refused. An empty text is none. */
static bool read_time(struct req *r, const char *name, struct str s,
		      uint64_t *ret_ns)
{
	*ret_ns = 0;
	if (s.n == 0 || parse_time(s, &r->arena, ret_ns))
		return true;
	req_fail(r, ERR_VALIDATION_ERROR,
		 "Invalid job data: invalid %s: must be a text with seconds "
		 "since 1970, an RFC 3339 time, or YYYY-MM-DD HH:MM:SS",
		 name);
	return false;
}

/* --- the rest --- */

_printf_(2, 3) static bool refuse(struct req *r, const char *fmt, ...)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(4096);
	va_list ap;

	buf_puts(&text, "Job validation failed: ");
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	req_fail_text(r, ERR_VALIDATION_ERROR, buf_str(&text));
	return false;
}

static bool take_type(struct req *r, struct str type, struct m_sdb_create *m)
{
	uint32_t number;

	if (!enum_parse(&enum_sdb_type, type, &number))
		return refuse(r, "invalid job type: %.*s",
			      (int)MIN(type.n, (size_t)64), type.p);
	MSG_SET(m, sdb_create, type, number);
	return true;
}

/* user:password leaves the URL, so that nobody is shown them. */
static bool take_url(struct req *r, struct str url, struct m_sdb_create *m)
{
	const char *why = "is too long";
	struct push_url parts;
	struct str before, after;

	if (url.n == 0)
		return true;
	if (url.n > LIMIT_PUSH_URL_BYTES || !push_url_parse(url, &parts, &why))
		return refuse(r, "invalid webhook_url: %s", why);
	MSG_SET(m, sdb_create, webhook_url, url);
	if (parts.credentials.p == NULL)
		return true;
	before = str_of(url.p, (size_t)(parts.credentials.p - url.p));
	after = str_skip(url, before.n + parts.credentials.n + 1);
	MSG_SET(m, sdb_create, webhook_url,
		arena_printf(&r->arena, "%.*s%.*s", STR_ARG(before),
			     STR_ARG(after)));
	MSG_SET(m, sdb_create, credentials, parts.credentials);
	return true;
}

/* A version 4 UUID. */
static struct str make_id(struct req *r)
{
	uint64_t a = rng_u64(&r->h->rng), b = rng_u64(&r->h->rng);

	a = (a & ~0xf000ULL) | 0x4000;
	b = (b & ~(3ULL << 62)) | 1ULL << 63;
	return arena_printf(&r->arena, "%08llx-%04llx-%04llx-%04llx-%012llx",
			    (unsigned long long)(a >> 32),
			    (unsigned long long)(a >> 16 & 0xffff),
			    (unsigned long long)(a & 0xffff),
			    (unsigned long long)(b >> 48),
			    (unsigned long long)(b & 0xffffffffffffULL));
}

static bool take_times(struct req *r, const struct m_sdb_new *n,
		       struct m_sdb_create *m)
{
	uint64_t timestamp, last;

	if (!read_time(r, "timestamp", n->timestamp, &timestamp) ||
	    !read_time(r, "last_date", n->last_date, &last))
		return false;
	if (timestamp != 0)
		MSG_SET(m, sdb_create, timestamp, timestamp);
	if (last != 0)
		MSG_SET(m, sdb_create, last_date, last);
	return true;
}

static bool check_once(struct req *r, const struct m_sdb_create *m)
{
	if (m->timestamp == 0)
		return refuse(r, "timestamp is required for unico jobs");
	if (m->timestamp <= clock_wall_ns())
		return refuse(r, "timestamp must be in the future");
	return true;
}

/* "cron: the ..." without the name of a member its clients do not know. */
static struct str without_name(struct str why)
{
	struct str name, rest;

	if (str_split(why, ':', &name, &rest) && str_is(name, "cron"))
		return str_trim(rest);
	return why;
}

/* Its first time is computed here, as that of any schedule. */
static bool plan_recurring(struct req *r, struct m_sdb_create *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	uint64_t now_ns = clock_wall_ns(), next;
	struct m_schedule s = { .cron = m->cron_expression,
				.name = m->id,
				.timezone = m->timezone,
				.start_at = m->timestamp,
				.end_at = m->last_date };
	struct plan p;

	if (plan_init(&p, &r->h->zones, &s, now_ns, &why) < 0)
		return refuse(r, "invalid cron expression: %.*s",
			      STR_ARG(without_name(buf_str(&why))));
	next = plan_next(&p, now_ns);
	if (next == 0)
		return refuse(r, "invalid cron expression: no time of it lies "
				 "between now, timestamp and last_date");
	MSG_SET(m, sdb_create, next_ns, next);
	if (r->h->set->scheddb_run_on_create)
		MSG_SET(m, sdb_create, run_id, req_make_id(r, "job_"));
	return true;
}

static bool check_recurring(struct req *r, struct m_sdb_create *m)
{
	if (m->cron_expression.n == 0)
		return refuse(
		    r, "cron_expression is required for recurrente jobs");
	MSG_SET(m, sdb_create, timezone, str_from(r->h->set->scheddb_timezone));
	return plan_recurring(r, m);
}

static bool take_payload(struct req *r, const struct m_sdb_new *n,
			 struct m_sdb_create *m)
{
	if (!MSG_HAS(n, sdb_new, payload))
		return true;
	if (!req_payload_fits(r, n->payload.n))
		return false;
	MSG_SET(m, sdb_create, payload, n->payload);
	return true;
}

/* What this node's settings say of it. */
static void take_settings(struct req *r, struct m_sdb_create *m)
{
	const struct settings *set = r->h->set;
	struct m_sdb_settings *s = arena_zalloc(&r->arena, sizeof(*s));

	MSG_SET(s, sdb_settings, history_retention,
		set->scheddb_history_retention);
	MSG_SET(s, sdb_settings, execution_timeout,
		set->scheddb_execution_timeout);
	MSG_SET(s, sdb_settings, inprogress_timeout,
		set->scheddb_inprogress_timeout);
	MSG_SET(s, sdb_settings, max_attempts,
		(uint32_t)set->scheddb_max_attempts);
	MSG_SET(s, sdb_settings, concurrency,
		(uint32_t)MIN(set->push_max_calls,
			      (uint64_t)LIMIT_PUSH_CONCURRENCY));
	MSG_SET(m, sdb_create, settings, s);
	MSG_SET(m, sdb_create, limit_bytes, scheddb_memory_limit(set));
	MSG_SET(m, sdb_create, limit_jobs, set->scheddb_job_limit);
}

bool sdb_read_new(struct req *r, struct m_sdb_create *ret)
{
	struct m_sdb_new n = { 0 };

	if (!read_body(r, &n))
		return false;
	MSG_SET(ret, sdb_create, id, n.id.n > 0 ? n.id : make_id(r));
	if (n.cron_expression.n > LIMIT_CRON_BYTES)
		return refuse(r,
			      "invalid cron expression: it has more than %d "
			      "bytes",
			      LIMIT_CRON_BYTES);
	if (n.cron_expression.n > 0)
		MSG_SET(ret, sdb_create, cron_expression, n.cron_expression);
	if (!take_times(r, &n, ret) || !take_type(r, n.type, ret) ||
	    !take_url(r, n.webhook_url, ret) || !take_payload(r, &n, ret))
		return false;
	take_settings(r, ret);
	return ret->type == SDB_ONCE ? check_once(r, ret)
				     : check_recurring(r, ret);
}
