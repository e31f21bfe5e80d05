/*
 * Questions that wait until this node's own store has what was answered through
 * it, so that nobody misses a change of his own: of a node that follows, and of
 * one that was just started and has yet to apply the end of its log. Loop
 * thread.
 */
#include "serve/svc_impl.h"
#include "util/clock.h"

void holds_init(struct svc *s)
{
	list_init(&s->holds);
}

static void drop(struct svc *s, struct question *h)
{
	s->holds_n--;
	question_free(h);
}

void holds_done(struct svc *s)
{
	LIST_FOREACH_SAFE (it, &s->holds)
		drop(s, list_entry(it, struct question, node));
}

/* What is about this node, or waits by itself. */
static bool is_of_this_node(uint32_t query)
{
	static const uint32_t ids[] = {
		QUERY_TAIL,
		QUERY_CHECKPOINT,
		QUERY_CHECKPOINT_DONE,
		QUERY_DUE,
		QUERY_DUE_SCHEDULES,
		QUERY_DUE_BULKS,
		QUERY_NODE_STATUS,
		QUERY_RAFTD_METRICS,
		QUERY_TELL_METRICS,
		QUERY_SNAPSHOT_FILES,
		QUERY_SNAPSHOT_CHUNK,
		QUERY_SNAPSHOT_NEWEST,
		QUERY_DIGEST,
		QUERY_PUSH_WATCH,
		QUERY_PUSH_LIST,
		QUERY_WEBHOOK_WORK,
	};

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		if (ids[i] == query)
			return true;
	return false;
}

/* It is answered from the state that all nodes have in common. */
static bool is_of_state(uint32_t query)
{
	static const uint32_t ids[] = {
		QUERY_GET_JOB,
		QUERY_GET_JOBS,
		QUERY_JOB_LOGS,
		QUERY_LIST_ITERATIONS,
		QUERY_WHY,
		QUERY_GET_QUEUE,
		QUERY_GET_BATCH,
		QUERY_GET_BULK,
		QUERY_LIST_BULKS,
		QUERY_SCALE,
		QUERY_LIST_SCHEDULES,
		QUERY_GET_SCHEDULE,
		QUERY_GET_SETTINGS,
		QUERY_USAGE,
		QUERY_GET_USAGE_SETTINGS,
		QUERY_LIST_PRICES,
		QUERY_LIST_BUDGETS,
		QUERY_JOB_SCORES,
		QUERY_LIST_POLICIES,
		QUERY_GET_POLICY,
		QUERY_SHOW_LINK,
		QUERY_LIST_PROVIDERS,
		QUERY_GET_HOOK,
		QUERY_LIST_HOOKS,
		QUERY_SDB_NUMBERS,
		QUERY_LIST_WEBHOOKS,
		QUERY_GET_WEBHOOK,
		QUERY_LIST_DELIVERIES,
		QUERY_EVENT_AT,
	};

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		if (ids[i] == query)
			return true;
	return false;
}

/* All that was answered before the start is there: from then on it is for
 * good. A frozen node says by itself what it has. */
static bool is_there(struct svc *s)
{
	if (!s->was_whole)
		s->was_whole =
		    node_is_whole(s->p->node) || node_is_frozen(s->p->node);
	return s->was_whole;
}

/* A page of events is wanted as it is now; the next ones wait by themselves. */
static bool waits_for_events(struct svc *s, const struct frame_request *item)
{
	struct m_events_ask m;

	arena_reset(&s->scratch);
	return msg_decode(&msg_events_ask, item->body, &s->scratch, &m) != 0 ||
	       m.wait_ns > 0;
}

/* The event the store must have for it; 0: none. */
static uint64_t needed(struct svc *s, const struct frame_request *item)
{
	struct m_reach m;

	if (item->op == QUERY_REACH) {
		arena_reset(&s->scratch);
		return msg_decode(&msg_reach, item->body, &s->scratch, &m) == 0
			   ? m.seq
			   : 0;
	}
	if (s->p->forward == NULL || is_of_this_node(item->op))
		return 0;
	if (item->op == QUERY_EVENTS && waits_for_events(s, item))
		return 0;
	return forward_seq(s->p->forward);
}

bool holds_take(struct svc *s, struct rpc_req req,
		const struct frame_request *item)
{
	uint64_t seq = needed(s, item);
	struct question *h;

	if (seq <= fsm_last_seq(s->p->fsm) &&
	    (!is_of_state(item->op) || is_there(s)))
		return false;
	if (s->holds_n >= s->p->d->settings.raft_max_parked) {
		svc_reply_error(req, frame_refusal(item, ERR_OVERLOADED));
		return true;
	}
	h = question_new(req, item);
	h->seq = seq;
	list_push_back(&s->holds, &h->node);
	s->holds_n++;
	return true;
}

void holds_cancel(struct svc *s, struct rpc_req req)
{
	LIST_FOREACH_SAFE (it, &s->holds) {
		struct question *h = list_entry(it, struct question, node);

		if (!rpc_req_is(h->req, req))
			continue;
		/* whoever asked waits to hear whether it was done */
		if (call_changes(h->item.op))
			svc_reply_error(h->req, frame_late(&h->item));
		drop(s, h);
	}
}

void holds_turn_end(struct svc *s)
{
	uint64_t have = fsm_last_seq(s->p->fsm), now_ns;

	if (list_empty(&s->holds))
		return;
	now_ns = clock_mono_ns();
	LIST_FOREACH_SAFE (it, &s->holds) {
		struct question *h = list_entry(it, struct question, node);
		bool late = question_is_late(h, now_ns);
		bool waits =
		    h->seq > have || (is_of_state(h->item.op) && !is_there(s));

		if (waits && !late && rpc_req_is_live(h->req))
			continue;
		if (!late && rpc_req_is_live(h->req))
			line_take(s->line, h->req, &h->item, true);
		else
			svc_reply_error(
			    h->req,
			    frame_refusal(&h->item, ERR_LEADER_UNAVAILABLE));
		drop(s, h);
	}
}
