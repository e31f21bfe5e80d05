/*
 * Which operations are taken: what does not fit is refused before it is in
 * anybody's way. Loop thread.
 */
#include <inttypes.h>
#include <string.h>

#include "propose/proposer_impl.h"
#include "rt/log.h"
#include "util/clock.h"

#define DISK_CHECK_NS       (100 * NS_PER_MS)
#define BEHIND_LOOK_NS      (2 * NS_PER_MS)
#define FOREIGN_CROWD       16 /* events of one entry of another node */
#define OVERLOAD_RETRY_TEXT "too many operations are waiting for the log"
#define LATE_TEXT           "this waited too long for the log and was withdrawn"
#define WEIGHT_RETRY_TEXT   "operations and the log in memory weigh too much"
#define UNREADABLE_TEXT     "the operation could not be read"

void admission_look_at_disk(struct proposer *p)
{
	const struct settings *s = p->c.settings;
	uint64_t now = clock_mono_ns();
	enum room before = p->room;
	bool ok;

	if (p->disk_checked_ns != 0 && now - p->disk_checked_ns < DISK_CHECK_NS)
		return;
	p->disk_checked_ns = now;
	p->room = room_look(s, before);
	ok = p->room == ROOM_OK;
	if (ok != p->stats.disk_ok)
		log_warn(ok ? "disk space is back; taking writes again"
			    : "disk space is low; refusing writes need=%" PRIu64
			      " dir=%s",
			 room_needed(s, before), s->data_dir);
	p->stats.disk_ok = ok;
}

/* all: also the server's own ops and those that are done in part. */
static void refuse_pending(struct proposer *p, int err, bool all)
{
	LIST_FOREACH_SAFE (it, &p->pending) {
		struct op *op = list_entry(it, struct op, node);

		if ((op->req.peer == NULL || op->rest != NULL) && !all)
			continue;
		pending_drop(p, op);
		op_refuse(p, op, err, err_text(err));
	}
}

bool admission_has_room(struct proposer *p)
{
	admission_look_at_disk(p);
	if (p->room != ROOM_NONE)
		return true;
	refuse_pending(p, ERR_STORAGE_FULL, p->draining);
	fences_pass_on(p, &p->fences, ERR_STORAGE_FULL);
	return false;
}

bool admission_must_wait(struct proposer *p)
{
	if (!fsm_is_behind(p->c.fsm) &&
	    !viewlag_holds(&p->view, fsm_last_seq(p->c.fsm),
			   p->c.settings->event_retention, clock_mono_ns()))
		return false;
	loop_timer_arm(p->min_wait, BEHIND_LOOK_NS);
	return true;
}

void proposer_note_view(struct proposer *p, uint64_t seq)
{
	viewlag_note(&p->view, seq, clock_mono_ns());
}

void admission_end(struct proposer *p)
{
	fetch_drain(p);
	fences_pass_on(p, &p->fences, ERR_STORAGE_ERROR);
	refuse_pending(p, ERR_STORAGE_ERROR, true);
}

/*
 * All that is kept for the log is weighed, so that raft_max_pending_bytes
 * bounds the memory and not only the line in front of it. An op that is alone
 * is taken, however heavy, unless the log has yet to be cut: it could never
 * be taken otherwise.
 */
static bool is_too_heavy(struct proposer *p, const struct op *op)
{
	uint64_t weight = p->stats.pending_bytes + op->body.n;

	if (p->node != NULL)
		weight += node_log_bytes(p->node);
	return weight > p->c.settings->raft_max_pending_bytes &&
	       (p->stats.pending > 0 || p->node == NULL ||
		node_cut_is_due(p->node));
}

static const char *overload(struct proposer *p, const struct op *op)
{
	if (p->stats.pending >= p->c.settings->raft_max_pending)
		return OVERLOAD_RETRY_TEXT;
	return is_too_heavy(p, op) ? WEIGHT_RETRY_TEXT : NULL;
}

/* Rare operations of people on one job. The others are worth no second look:
 * an active job is in memory, and which job a fetch takes is not known. */
static bool names_one_job(uint32_t op)
{
	static const uint32_t ops[] = { OP_CANCEL,   OP_RETRY,   OP_DELETE,
					OP_MOVE,     OP_REQUEUE, OP_HOLD,
					OP_PRIORITY, OP_APPROVE, OP_REJECT };

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		if (ops[i] == op)
			return true;
	return false;
}

/* Once it is in the log, a job that cannot be read would freeze the node. 0 or
 * -ERR_*. */
static int look_at_job(struct proposer *p, const struct op *op,
		       const void *request)
{
	const struct field_desc *id = &op_info(op->id)->request->fields[0];

	if (!names_one_job(op->id))
		return 0;
	CHECK(id->kind == K_str && strcmp(id->name, "job_id") == 0);
	return fsm_job_check(
	    p->c.fsm,
	    *(const struct str *)(const void *)((const char *)request +
						id->offset));
}

/* NULL: it cannot be read. In scratch. */
static void *decode(struct proposer *p, const struct op *op)
{
	const struct msg_desc *d = op_info(op->id)->request;
	void *m;

	arena_reset(&p->scratch);
	m = arena_alloc(&p->scratch, d->size);
	return msg_decode(d, op->body, &p->scratch, m) < 0 ? NULL : m;
}

/* Where it may, it goes without what not all voters know yet. In scratch, as
 * decode has it. */
static void *lower(struct proposer *p, struct op *op, void *request)
{
	const struct msg_desc *d = op_info(op->id)->request;
	_cleanup_(buf_done) struct buf body = BUF_INIT(0);

	if (fsm_level(p->c.fsm) >= FEATURE_LEVEL ||
	    !msg_lower(d, request, fsm_level(p->c.fsm)))
		return request;
	msg_encode(d, request, &body);
	if (body.full || body.n > op->body.n) /* not with fewer members */
		return request;
	memcpy((char *)(uintptr_t)op->body.p, body.p, body.n);
	op->body.n = body.n;
	return decode(p, op);
}

/* Not all voters know it yet: they could not apply it. NULL: they do. */
static const char *is_too_new(struct proposer *p, const struct op *op,
			      const void *request)
{
	const struct call_info *info = op_info(op->id);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	unsigned level;

	if (fsm_level(p->c.fsm) >= FEATURE_LEVEL)
		return NULL;
	level = MAX(info->level, msg_needs_level(info->request, request));
	if (level <= fsm_level(p->c.fsm))
		return NULL;
	fsm_level_why(p->c.fsm, level, &why);
	return arena_cstr(&p->scratch, buf_str(&why));
}

/*
 * What every replica will have to read and know. Most of it comes from this
 * node's own processes, some from those of a node of another version.
 */
static int look_at_body(struct proposer *p, struct op *op, const void **ret,
			const char **ret_text)
{
	void *request = decode(p, op);

	if (request != NULL)
		request = lower(p, op, request);
	*ret = request;
	*ret_text = UNREADABLE_TEXT;
	if (request == NULL)
		return ERR_BAD_MESSAGE;
	*ret_text = is_too_new(p, op, request);
	return *ret_text != NULL ? ERR_UNSUPPORTED : 0;
}

/*
 * What the node itself has to do is taken also when clients are told to come
 * again: there is little of it at a time, and without it leases would not end
 * and nothing old would go.
 */
int admission_judge(struct proposer *p, struct op *op, const char **ret_text)
{
	const struct call_info *info = op_info(op->id);
	unsigned who = info->who;
	const void *request;
	int r;

	if (p->draining) {
		*ret_text = err_text(ERR_SHUTTING_DOWN);
		return ERR_SHUTTING_DOWN;
	}
	if (admission_is_late(op, op->arrived_ns)) {
		*ret_text = LATE_TEXT;
		return ERR_LEADER_UNAVAILABLE;
	}
	/* broken: it is frozen with the next entry, and what is looked at here
	 * is not what was applied */
	if (p->node != NULL &&
	    (node_is_frozen(p->node) || fsm_is_broken(p->c.fsm))) {
		*ret_text = err_text(ERR_STORAGE_ERROR);
		return ERR_STORAGE_ERROR;
	}
	r = look_at_body(p, op, &request, ret_text);
	if (r != 0)
		return r;
	*ret_text = who & OP_SERVER ? NULL : overload(p, op);
	if (*ret_text != NULL) {
		p->stats.overload++;
		return ERR_OVERLOADED;
	}
	admission_look_at_disk(p);
	if (p->room < (who & OP_FREES ? ROOM_LOW : ROOM_OK)) {
		*ret_text = err_text(ERR_STORAGE_FULL);
		return ERR_STORAGE_FULL;
	}
	r = look_at_job(p, op, request);
	*ret_text = r < 0 ? err_text(-r) : NULL;
	return -r;
}

/* --- deadlines --- */

/* Whoever asked has been told, or will be, that it was not done. */
void admission_withdraw(struct proposer *p, struct op *op)
{
	pending_drop(p, op);
	op_refuse(p, op, ERR_LEADER_UNAVAILABLE, LATE_TEXT);
}

void admission_on_late(void *ctx)
{
	struct proposer *p = ctx;
	uint64_t now_ns = clock_mono_ns();

	p->late_armed = false;
	LIST_FOREACH_SAFE (it, &p->pending) {
		struct op *op = list_entry(it, struct op, node);

		if (admission_is_late(op, now_ns))
			admission_withdraw(p, op);
	}
}

void admission_note_foreign(struct proposer *p, uint64_t events)
{
	p->stats.foreign++;
	p->stats.foreign_crowded += events >= FOREIGN_CROWD;
}
