/*
 * See proto/scheddb.h. Responses and errors have texts of receivers in them.
 */
#include "proto/scheddb.h"

#include "util/clock.h"
#include "util/json.h"

uint64_t sdb_size(struct str id, const struct m_sdb *s, struct str payload)
{
	return SDB_JOB_BYTES + id.n + s->webhook_url.n + s->credentials.n +
	       s->cron_expression.n + payload.n;
}

struct str sdb_endpoint(struct str url)
{
	size_t n = 0;

	while (n < url.n && n < LIMIT_GROUP_BYTES && url.p[n] != '?' &&
	       url.p[n] != '#')
		n++;
	return str_of(url.p, n);
}

bool sdb_is_timeout(struct str error)
{
	return str_starts(error, STR("timeout")) ||
	       str_is(error, "lease expired");
}

const char *const sdb_fault_names[SDB_FAULTS] = {
	[SDB_BY_TIMEOUT] = "timeout",
	[SDB_BY_CANCEL] = "cancelled",
	[SDB_BY_CONNECTION] = "connection_error",
	[SDB_BY_DNS] = "dns_error",
	[SDB_BY_HTTP] = "http_error",
	[SDB_BY_OTHERS] = "unknown",
};

/* Its class stands before the words; Scheduled-DB knows none of TLS. */
enum sdb_fault sdb_fault_of(struct str error)
{
	struct str class, rest;

	if (sdb_is_timeout(error))
		return SDB_BY_TIMEOUT;
	(void)str_split(error, ':', &class, &rest);
	if (str_is(class, "tls_error"))
		return SDB_BY_CONNECTION;
	for (unsigned i = 0; i < SDB_BY_OTHERS; i++)
		if (str_is(class, sdb_fault_names[i]))
			return (enum sdb_fault)i;
	return SDB_BY_OTHERS;
}

enum sdb_status sdb_status_of(enum job_state state, bool tried, bool timed_out)
{
	switch (state) {
	case JOB_ACTIVE:
		return SDB_IN_PROGRESS;
	case JOB_COMPLETED:
		return SDB_COMPLETED;
	case JOB_CANCELLED:
		return SDB_CANCELLED;
	case JOB_PENDING:
	case JOB_SCHEDULED:
	case JOB_RETRYING:
	case JOB_HELD:
	case JOB_BLOCKED:
		if (!tried)
			return SDB_PENDING;
		break;
	case JOB_DEAD:
	case JOB_STATE_MAX:
		break;
	}
	return timed_out ? SDB_TIMEOUT : SDB_FAILED;
}

/* --- jobs --- */

static uint64_t seconds(uint64_t ns)
{
	return ns / NS_PER_S;
}

void sdb_show_job(struct str id, const struct m_sdb *s, uint64_t created_at,
		  struct str payload, struct m_sdb_job *ret)
{
	bool starts_later = s->type == SDB_RECURRING && s->timestamp != 0;

	*ret = (struct m_sdb_job){ 0 };
	MSG_SET(ret, sdb_job, id, id);
	MSG_SET(ret, sdb_job, type, s->type);
	if (s->timestamp != 0)
		MSG_SET(ret, sdb_job, timestamp, seconds(s->timestamp));
	if (s->cron_expression.n > 0)
		MSG_SET(ret, sdb_job, cron_expression, s->cron_expression);
	if (s->last_date != 0)
		MSG_SET(ret, sdb_job, last_date, seconds(s->last_date));
	MSG_SET(ret, sdb_job, created_at,
		seconds(starts_later ? s->timestamp : created_at));
	if (s->webhook_url.n > 0)
		MSG_SET(ret, sdb_job, webhook_url, s->webhook_url);
	if (payload.n > 0 && !str_is(payload, "null"))
		MSG_SET(ret, sdb_job, payload, payload);
}

/* --- attempts --- */

static void read_response(struct str response, struct arena *a,
			  struct m_sdb_attempt *ret)
{
	struct json v;
	double ms;
	uint64_t status;

	if (response.n == 0)
		return;
	if (json_member(json_root(response), "status", a, &v) &&
	    json_u64(v, &status))
		MSG_SET(ret, sdb_attempt, http_status, (uint32_t)status);
	if (json_member(json_root(response), "duration_ms", a, &v) &&
	    json_double(v, &ms) && ms >= 0)
		MSG_SET(ret, sdb_attempt, response_time_ms, (uint64_t)ms);
}

static void show_failed(const struct m_job_error *e, struct arena *a,
			struct m_sdb_attempt *ret)
{
	enum sdb_fault fault = sdb_fault_of(e->error);

	*ret = (struct m_sdb_attempt){ 0 };
	MSG_SET(ret, sdb_attempt, attempt_num, e->attempt);
	MSG_SET(ret, sdb_attempt, start_time,
		seconds(e->started_at != 0 ? e->started_at : e->at));
	MSG_SET(ret, sdb_attempt, end_time, seconds(e->at));
	MSG_SET(ret, sdb_attempt, node_id, e->hostname);
	MSG_SET(ret, sdb_attempt, status,
		fault == SDB_BY_TIMEOUT  ? SDB_TIMEOUT
		: fault == SDB_BY_CANCEL ? SDB_CANCELLED
					 : SDB_FAILED);
	read_response(e->response, a, ret);
	MSG_SET(ret, sdb_attempt, error_message, e->error);
	MSG_SET(ret, sdb_attempt, error_type, str_from(sdb_fault_names[fault]));
}

static void show_completed(const struct m_job *j, struct arena *a,
			   struct m_sdb_attempt *ret)
{
	*ret = (struct m_sdb_attempt){ 0 };
	MSG_SET(ret, sdb_attempt, attempt_num, j->attempt);
	MSG_SET(ret, sdb_attempt, start_time, seconds(j->started_at));
	MSG_SET(ret, sdb_attempt, end_time, seconds(j->completed_at));
	MSG_SET(ret, sdb_attempt, node_id, j->hostname);
	MSG_SET(ret, sdb_attempt, status, SDB_COMPLETED);
	read_response(j->response, a, ret);
}

void sdb_add_attempts(const struct m_job *j, struct arena *a,
		      struct m_sdb_attempt **ret, size_t *n, size_t *cap)
{
	for (size_t i = 0; i < j->errors_n; i++) {
		*ret = arena_grow(a, *ret, sizeof(**ret), *n, cap);
		show_failed(&j->errors[i], a, &(*ret)[(*n)++]);
	}
	if (j->state != JOB_COMPLETED)
		return;
	*ret = arena_grow(a, *ret, sizeof(**ret), *n, cap);
	show_completed(j, a, &(*ret)[(*n)++]);
}

/* --- states --- */

static enum sdb_status status_of_job(const struct m_job *j)
{
	const struct m_job_error *last =
	    j->errors_n > 0 ? &j->errors[j->errors_n - 1] : NULL;

	return sdb_status_of((enum job_state)j->state,
			     last != NULL && j->attempt > 0,
			     last != NULL && sdb_is_timeout(last->error));
}

static void show_attempts(const struct m_job *j, struct arena *a,
			  struct m_sdb_state *ret)
{
	struct m_sdb_attempt *list = NULL;
	size_t n = 0, cap = 0;

	sdb_add_attempts(j, a, &list, &n, &cap);
	MSG_SET_LIST(ret, sdb_state, attempts, list, n);
	MSG_SET(ret, sdb_state, attempt_count, j->attempt);
	if (j->started_at == 0)
		return;
	MSG_SET(ret, sdb_state, first_attempt_at,
		n > 0 ? list[0].start_time : seconds(j->started_at));
	MSG_SET(ret, sdb_state, last_attempt_at, seconds(j->started_at));
}

void sdb_show_state(const struct m_job *j, struct arena *a,
		    struct m_sdb_state *ret)
{
	*ret = (struct m_sdb_state){ 0 };
	MSG_SET(ret, sdb_state, job_id, j->id);
	MSG_SET(ret, sdb_state, status, status_of_job(j));
	MSG_SET(ret, sdb_state, created_at, seconds(j->created_at));
	show_attempts(j, a, ret);
	if (j->state == JOB_COMPLETED)
		MSG_SET(ret, sdb_state, completed_at, seconds(j->completed_at));
	if (j->state == JOB_CANCELLED) {
		MSG_SET(ret, sdb_state, cancelled_at, seconds(j->cancelled_at));
		if (j->cancel_reason.n > 0)
			MSG_SET(ret, sdb_state, cancellation_reason,
				j->cancel_reason);
	}
	if (j->state == JOB_ACTIVE && j->hostname.n > 0)
		MSG_SET(ret, sdb_state, executing_node_id, j->hostname);
}

static enum sdb_status status_of_schedule(const struct m_schedule *s,
					  const struct m_job *last)
{
	const struct m_sdb *d = s->job->scheduled_db;
	bool runs =
	    last != NULL && !job_state_is_terminal((enum job_state)last->state);

	if (d->cancelled_at != 0)
		return SDB_CANCELLED;
	if (runs || (s->ended && last != NULL))
		return status_of_job(last);
	return s->ended ? SDB_COMPLETED : SDB_PENDING;
}

void sdb_show_schedule(const struct m_schedule *s, const struct m_job *last,
		       struct arena *a, struct m_sdb_state *ret)
{
	const struct m_sdb *d = s->job->scheduled_db;

	*ret = (struct m_sdb_state){ 0 };
	if (last != NULL)
		sdb_show_state(last, a, ret);
	MSG_SET(ret, sdb_state, job_id, s->id);
	MSG_SET(ret, sdb_state, status, status_of_schedule(s, last));
	MSG_SET(ret, sdb_state, created_at,
		seconds(d->timestamp != 0 ? d->timestamp : s->created_at));
	if (d->cancelled_at != 0)
		MSG_SET(ret, sdb_state, cancelled_at, seconds(d->cancelled_at));
	if (d->reason.n > 0)
		MSG_SET(ret, sdb_state, cancellation_reason, d->reason);
}
