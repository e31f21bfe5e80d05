/*
 * Why a job is waiting, in words and numbers: the decisive reason first, then
 * what else would hold it back. The leader asks between entries; nothing is
 * changed. Names and texts in it come from clients and are written as JSON.
 */
#include "fsm/ask/why.h"

#include "fsm/job/worker.h"
#include "util/json.h"
#include "util/timefmt.h"

#define REASONS_MAX    16
#define WORKER_LATE_NS (300 * NS_PER_S) /* not seen for so long: away */

/* --- words --- */

struct m_reason *why_add(struct why *w, const char *code)
{
	struct m_reason *r = &w->reasons[w->n++];

	CHECK(w->n <= REASONS_MAX);
	*r = (struct m_reason){ 0 };
	MSG_SET(r, reason, code, str_from(code));
	MSG_SET(r, reason, text, arena_copy(w->a, buf_str(&w->text)));
	buf_clear(&w->text);
	return r;
}

static void put_time(struct buf *b, uint64_t ns)
{
	time_format(b, ns - ns % NS_PER_MS);
}

/* Three digits are enough for people. */
static void put_duration(struct buf *b, uint64_t ns)
{
	uint64_t unit = ns < 10 * NS_PER_S ? NS_PER_MS : NS_PER_S;

	duration_format(b, (ns + unit - 1) / unit * unit);
}

void why_put_moment(struct why *w, uint64_t ns)
{
	buf_puts(&w->text, " at ");
	put_time(&w->text, ns);
	if (ns <= w->now_ns)
		return;
	buf_puts(&w->text, " (in ");
	put_duration(&w->text, ns - w->now_ns);
	buf_putc(&w->text, ')');
}

/* --- reasons of a state --- */

/* The text of the last error, or nothing; 0 or -ERR_*. */
static int last_error(struct why *w, struct str *ret)
{
	struct m_job_error e = { 0 };
	struct key k;
	int r = 0;

	*ret = STR_NULL;
	if (w->j->live.errors == 0)
		return 0;
	key_error(&k, w->j->id, w->j->live.errors);
	r = fsm_read(w->f, &k, &msg_job_error, &e);
	if (r > 0)
		*ret = e.error;
	return MIN(r, 0);
}

static int why_scheduled(struct why *w)
{
	struct m_reason *r;
	uint64_t at = w->j->live.scheduled_at;

	if (w->j->live.aside.n > 0)
		return why_aside(w);
	buf_puts(&w->text, "scheduled for a run");
	why_put_moment(w, at);
	r = why_add(w, "scheduled");
	MSG_SET(r, reason, until, at);
	return 0;
}

static int why_retrying(struct why *w)
{
	const struct m_job_live *l = &w->j->live;
	struct m_reason *m;
	struct str error;
	int r = last_error(w, &error);

	if (r < 0)
		return r;
	buf_printf(&w->text, "attempt %u of %u failed", l->attempt,
		   MAX(w->j->max_retries, 1u));
	if (error.n > 0)
		buf_printf(&w->text, " (%.*s)", STR_ARG(error));
	buf_puts(&w->text, "; the next one begins");
	why_put_moment(w, l->scheduled_at);
	m = why_add(w, "retrying");
	MSG_SET(m, reason, until, l->scheduled_at);
	MSG_SET(m, reason, count, l->attempt);
	MSG_SET(m, reason, limit, MAX(w->j->max_retries, 1u));
	return 0;
}

/* Parents that will still tell it of their end are the ones it waits for. */
static int open_parents(struct why *w, struct str *ids, size_t *ret_n)
{
	const struct m_job_doc *d = &w->j->doc;
	struct str value;
	struct key k;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < d->depends_on_n && n < WHY_SHOWN; i++) {
		key_dependent(&k, d->depends_on[i], d->seq, w->j->id);
		r = fsm_get(w->f, &k, &value);
		if (r < 0)
			return r;
		if (r > 0)
			ids[n++] = arena_copy(w->a, d->depends_on[i]);
	}
	*ret_n = n;
	return 0;
}

static int why_blocked(struct why *w)
{
	struct str *ids = arena_alloc(w->a, WHY_SHOWN * sizeof(*ids));
	uint32_t waiting = w->j->live.waiting_on;
	struct m_reason *m;
	size_t n = 0;
	int r = open_parents(w, ids, &n);

	if (r < 0)
		return r;
	buf_printf(&w->text, "waits for %u of %zu jobs it depends on", waiting,
		   w->j->doc.depends_on_n);
	for (size_t i = 0; i < n; i++)
		buf_printf(&w->text, "%s%.*s", i == 0 ? ": " : ", ",
			   STR_ARG(ids[i]));
	if (n < waiting)
		buf_puts(&w->text, ", ...");
	m = why_add(w, "dependency");
	MSG_SET(m, reason, count, waiting);
	MSG_SET(m, reason, limit, w->j->doc.depends_on_n);
	MSG_SET_LIST(m, reason, job_ids, ids, n);
	if (w->j->live.scheduled_at > w->now_ns)
		why_scheduled(w);
	return 0;
}

static void why_held(struct why *w)
{
	struct str reason = w->j->live.hold_reason;
	const struct m_hold_state *h = w->j->live.held;
	struct m_reason *r;

	buf_puts(&w->text, "held");
	if (h != NULL && (h->kind != HELD_BY_PERSON || h->by.n > 0))
		buf_printf(&w->text, " by %s%s%.*s",
			   h->kind == HELD_BY_PERSON
			       ? ""
			       : enum_text(&enum_hold_kind, h->kind),
			   h->kind == HELD_BY_PERSON || h->by.n == 0 ? "" : " ",
			   STR_ARG(h->by));
	if (reason.n > 0)
		buf_printf(&w->text, " (%.*s)", STR_ARG(reason));
	buf_puts(&w->text, " until it is approved or rejected");
	r = why_add(w, "held");
	if (h != NULL && h->deadline > 0 && !h->escalated)
		MSG_SET(r, reason, until, h->deadline);
}

static void why_active(struct why *w)
{
	const struct m_job_live *l = &w->j->live;
	const struct fsm_active *a = w->j->active;
	struct m_reason *r;

	if (l->worker_id.n > 0)
		buf_printf(&w->text, "worker %.*s has it",
			   STR_ARG(l->worker_id));
	else
		buf_puts(&w->text, "a worker has it");
	if (l->hostname.n > 0)
		buf_printf(&w->text, " on %.*s", STR_ARG(l->hostname));
	buf_puts(&w->text, " since ");
	put_time(&w->text, l->started_at);
	buf_puts(&w->text, "; its lease ends");
	why_put_moment(w, a->lease.key);
	if (l->cancel_requested)
		buf_puts(&w->text, "; it was asked to stop");
	r = why_add(w, "active");
	MSG_SET(r, reason, until, a->lease.key);
}

static int why_ended(struct why *w)
{
	static const char *const words[JOB_STATE_MAX] = {
		[JOB_COMPLETED] = "completed",
		[JOB_DEAD] = "died",
		[JOB_CANCELLED] = "was cancelled",
	};
	const struct m_job_live *l = &w->j->live;
	struct str error;
	int r = last_error(w, &error);

	if (r < 0)
		return r;
	buf_printf(&w->text, "it %s at ", words[l->state]);
	put_time(&w->text, l->ended_at);
	if (l->state == JOB_DEAD && error.n > 0)
		buf_printf(&w->text, ": %.*s", STR_ARG(error));
	why_add(w, "ended");
	return 0;
}

static void why_paused(struct why *w)
{
	if (!w->j->q->paused)
		return;
	buf_printf(&w->text, "queue \"%.*s\" is paused",
		   STR_ARG(w->j->q->name));
	why_add(w, "paused");
}

/* --- workers --- */

static bool was_fetched_lately(struct why *w, struct str queue)
{
	struct str id;
	size_t pos = 0;
	void *v;

	while (hmap_next(&w->f->workers, &pos, &id, &v)) {
		const struct fsm_worker *worker = v;

		if (worker->seen.key + WORKER_LATE_NS > w->now_ns &&
		    worker_names(worker, queue))
			return true;
	}
	return false;
}

static void why_no_worker(struct why *w, fsm_fetched_fn *is_fetched, void *ctx)
{
	struct str queue = w->j->q->name;

	if (is_fetched(ctx, queue) || was_fetched_lately(w, queue))
		return;
	buf_printf(&w->text,
		   "no worker is asking for jobs of queue \"%.*s\", and none "
		   "with a worker_id has taken one in the last ",
		   STR_ARG(queue));
	put_duration(&w->text, WORKER_LATE_NS);
	why_add(w, "no_worker");
}

/* --- all --- */

static int why_pending(struct why *w, const struct fsm_why *ask)
{
	int r;

	why_paused(w);
	r = why_limits(w);
	if (r < 0)
		return r;
	if (w->j->q->set->push != NULL)
		why_push(w, ask->push_state(ask->ctx, w->j->q->name));
	else
		why_no_worker(w, ask->is_fetched, ask->ctx);
	return why_ahead(w);
}

static int why_state(struct why *w, const struct fsm_why *ask)
{
	int r = 0;

	switch ((enum job_state)w->j->live.state) {
	case JOB_PENDING:
		return why_pending(w, ask);
	case JOB_ACTIVE:
		why_active(w);
		return 0;
	case JOB_COMPLETED:
	case JOB_DEAD:
	case JOB_CANCELLED:
		return why_ended(w);
	case JOB_SCHEDULED:
		r = why_scheduled(w);
		break;
	case JOB_RETRYING:
		r = why_retrying(w);
		break;
	case JOB_BLOCKED:
		r = why_blocked(w);
		break;
	case JOB_HELD:
		why_held(w);
		break;
	case JOB_STATE_MAX:
		break;
	}
	if (r == 0)
		why_paused(w);
	return r;
}

static void fill_reply(const struct why *w, struct m_why_reply *ret)
{
	const struct job *j = w->j;
	enum job_state s = job_state_shown(j->live.state);

	*ret = (struct m_why_reply){ 0 };
	MSG_SET(ret, why_reply, job_id, arena_copy(w->a, j->id));
	MSG_SET(ret, why_reply, queue, arena_copy(w->a, j->q->name));
	MSG_SET(ret, why_reply, state, s);
	MSG_SET(ret, why_reply, summary,
		arena_printf(w->a, "%s: %.*s", enum_text(&enum_job_state, s),
			     STR_ARG(w->reasons[0].text)));
	MSG_SET_LIST(ret, why_reply, reasons, w->reasons, w->n);
}

int fsm_why(struct fsm *f, const struct fsm_why *ask, struct arena *a,
	    struct m_why_reply *ret)
{
	struct job j;
	struct why w = { .f = f, .j = &j, .now_ns = ask->now_ns, .a = a };
	int r;

	arena_reset(&f->item_arena); /* nothing of an entry is in it now */
	r = job_find(f, ask->job_id, &j);
	if (r > 0)
		r = job_need_doc(f, &j) < 0 ? f->fatal : 1;
	if (r <= 0)
		return r;
	w.reasons = arena_alloc(a, REASONS_MAX * sizeof(*w.reasons));
	r = why_state(&w, ask);
	buf_done(&w.text);
	if (r < 0)
		return r;
	fill_reply(&w, ret);
	return 1;
}
