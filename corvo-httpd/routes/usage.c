/*
 * What was used: GET /usage and /usage/summary, and how it is summed up; and
 * scores, which are summed up under the same names.
 * Arguments and bodies come from clients.
 */
#include <stdlib.h>

#include "proto/msg_json.h"
#include "proto/usage.h"
#include "req/req.h"
#include "routes/handlers.h"
#include "routes/settings.h"
#include "util/civil.h"
#include "util/clock.h"
#include "util/nano.h"
#include "util/timefmt.h"
#include "util/tz.h"

#define DAY_NS         (S_PER_DAY * NS_PER_S)
#define PERIOD_DEFAULT "24h"

/* What was asked, for the answer. */
struct usage_wish {
	struct m_usage_ask ask;
	struct str period; /* of a summary, as it came */
	bool csv;
};

/* --- arguments --- */

/* A time, or a day, which stands for its beginning. */
static bool read_moment(struct req *r, const char *name, uint64_t *ret,
			bool *ret_is_day)
{
	struct str text = STR_NULL;

	*ret_is_day = false;
	if (!req_text_argument(r, name, &text))
		return false;
	if (text.n == 0 || time_parse(text, ret))
		return true;
	*ret_is_day = time_parse(
	    arena_printf(&r->arena, "%.*sT00:00:00Z", STR_ARG(text)), ret);
	if (!*ret_is_day)
		req_fail(r, ERR_VALIDATION_ERROR,
			 "%s: must be a day such as 2026-02-11, or a time such "
			 "as 2026-02-11T10:00:00Z",
			 name);
	return *ret_is_day;
}

/* Words of an argument, with commas between them; at most max. */
static bool read_words(struct req *r, const char *name, size_t max,
		       struct str *ret, size_t *ret_n)
{
	struct str rest = STR_NULL, word;

	*ret_n = 0;
	if (!req_text_argument(r, name, &rest))
		return false;
	while (rest.n > 0) {
		(void)str_split(rest, ',', &word, &rest);
		if (*ret_n == max) {
			req_fail(r, ERR_VALIDATION_ERROR,
				 "%s: there may be at most %zu", name, max);
			return false;
		}
		ret[(*ret_n)++] = word;
	}
	return true;
}

static bool read_tags(struct req *r, struct m_usage_ask *ask)
{
	struct str words[LIMIT_USAGE_TAGS];
	struct m_usage_tag *tags;
	size_t n;

	if (!read_words(r, "tag", LIMIT_USAGE_TAGS, words, &n))
		return false;
	tags = arena_zalloc(&r->arena, (n + 1) * sizeof(*tags));
	for (size_t i = 0; i < n; i++) {
		struct str name, value;

		if (!str_split(words[i], ':', &name, &value)) {
			req_fail(r, ERR_VALIDATION_ERROR,
				 "tag: must be NAME:VALUE");
			return false;
		}
		MSG_SET(&tags[i], usage_tag, name, name);
		MSG_SET(&tags[i], usage_tag, value, value);
	}
	if (n > 0)
		MSG_SET_LIST(ask, usage_ask, tags, tags, n);
	return true;
}

static bool read_groups(struct req *r, struct m_usage_ask *ask)
{
	struct str *words =
	    arena_alloc(&r->arena, LIMIT_USAGE_GROUP_BY * sizeof(*words));
	size_t n;

	if (!read_words(r, "group_by", LIMIT_USAGE_GROUP_BY, words, &n))
		return false;
	if (n > 0)
		MSG_SET_LIST(ask, usage_ask, group_by, words, n);
	return true;
}

static bool read_name(struct req *r, const char *name, size_t max,
		      struct str *ret)
{
	if (!req_text_argument(r, name, ret))
		return false;
	if (ret->n <= max)
		return true;
	req_fail(r, ERR_VALIDATION_ERROR, "%s: must be at most %zu bytes", name,
		 max);
	return false;
}

static bool read_names(struct req *r, struct m_usage_ask *ask)
{
	if (!read_name(r, "queue", LIMIT_QUEUE_NAME_BYTES, &ask->queue) ||
	    !read_name(r, "model", LIMIT_MODEL_BYTES, &ask->model) ||
	    !read_name(r, "provider", LIMIT_PROVIDER_BYTES, &ask->provider))
		return false;
	ask->has |= MSG_BIT(usage_ask, queue) | MSG_BIT(usage_ask, model) |
		    MSG_BIT(usage_ask, provider);
	return read_tags(r, ask) && read_groups(r, ask);
}

/* local: days of the zone of the settings, whose hours are others. */
static void set_range(struct m_usage_ask *ask, uint64_t from, uint64_t to,
		      bool local)
{
	if (local) {
		MSG_SET(ask, usage_ask, from_day, (uint32_t)(from / DAY_NS));
		MSG_SET(ask, usage_ask, to_day, (uint32_t)(to / DAY_NS));
		from -= MIN(from, 2 * DAY_NS);
		to += 2 * DAY_NS;
	}
	MSG_SET(ask, usage_ask, from, from);
	MSG_SET(ask, usage_ask, to, to);
}

static bool read_range(struct req *r, struct m_usage_ask *ask)
{
	uint64_t now = clock_wall_ns(), to = now, from = 0;
	bool from_is_day, to_is_day, local;
	struct str days = STR_NULL;

	if (!read_moment(r, "from", &from, &from_is_day) ||
	    !read_moment(r, "to", &to, &to_is_day) ||
	    !req_text_argument(r, "days", &days))
		return false;
	local = str_is(days, "local");
	if (days.n > 0 && !local && !str_is(days, "utc")) {
		req_fail(r, ERR_VALIDATION_ERROR, "days: must be utc or local");
		return false;
	}
	if (local && (!from_is_day || !to_is_day)) {
		req_fail(r, ERR_VALIDATION_ERROR,
			 "days: local days need from and to, each a day such "
			 "as 2026-02-11");
		return false;
	}
	if (from == 0)
		from = to - MIN(to, DAY_NS);
	if (from > to) {
		req_fail(r, ERR_VALIDATION_ERROR, "from: is after to");
		return false;
	}
	set_range(ask, from, to, local);
	return true;
}

static bool read_format(struct req *r, bool *ret_csv)
{
	struct str format = STR_NULL;

	if (!req_text_argument(r, "format", &format))
		return false;
	*ret_csv = str_is(format, "csv");
	if (format.n == 0 || *ret_csv || str_is(format, "json"))
		return true;
	req_fail(r, ERR_VALIDATION_ERROR, "format: must be json or csv");
	return false;
}

/* --- JSON --- */

static int by_keys(const void *a, const void *b)
{
	const struct m_usage_group *x = a, *y = b;
	int order = 0;

	for (size_t i = 0; order == 0 && i < x->keys_n; i++)
		order = str_cmp(x->keys[i], y->keys[i]);
	return order != 0 ? order : (int)x->other - (int)y->other;
}

/* Most expensive first. */
static int by_cost(const void *a, const void *b)
{
	uint64_t x = ((const struct m_usage_group *)a)->sum->cost_usd;
	uint64_t y = ((const struct m_usage_group *)b)->sum->cost_usd;

	return x == y ? by_keys(a, b) : x < y ? 1 : -1;
}

static void write_sum(struct req *r, struct json_writer *w,
		      const struct m_usage_sum *s)
{
	struct json_style style = req_style(r);

	msg_members_to_json(&msg_usage_sum, s, &style, w);
}

static struct str shown(const struct m_usage_group *g, size_t i)
{
	return g->other && g->keys[i].n == 0 ? STR("(other)") : g->keys[i];
}

static void write_by(struct json_writer *w, const struct m_usage_ask *ask,
		     const struct m_usage_group *g)
{
	jw_key(w, "by");
	jw_object(w);
	for (size_t i = 0; i < g->keys_n; i++) {
		jw_key_str(w, ask->group_by[i]);
		jw_str(w, shown(g, i));
	}
	jw_object_end(w);
}

static void write_other(struct json_writer *w, const struct m_usage_group *g)
{
	if (!g->other)
		return;
	jw_key(w, "other");
	jw_bool(w, true);
}

static void write_range(struct json_writer *w, const struct m_usage_reply *m)
{
	jw_key(w, "from");
	jw_time(w, m->from);
	jw_key(w, "to");
	jw_time(w, m->to);
}

static void write_group(struct req *r, struct json_writer *w,
			const struct usage_wish *wish,
			const struct m_usage_group *g)
{
	jw_object(w);
	if (wish->period.n > 0) {
		jw_key(w, "key");
		jw_str(w, shown(g, 0));
	} else {
		write_by(w, &wish->ask, g);
	}
	write_other(w, g);
	write_sum(r, w, g->sum);
	jw_object_end(w);
}

static void write_json(struct req *r, const struct usage_wish *wish,
		       const struct m_usage_reply *m)
{
	struct json_writer w = req_json(r);

	jw_object(&w);
	if (wish->period.n > 0) {
		jw_key(&w, "period");
		jw_str(&w, wish->period);
	}
	write_range(&w, m);
	jw_key(&w, "totals");
	jw_object(&w);
	write_sum(r, &w, m->totals);
	jw_object_end(&w);
	if (wish->ask.group_by_n > 0) {
		jw_key(&w, "groups");
		jw_array(&w);
		for (size_t i = 0; i < m->groups_n; i++)
			write_group(r, &w, wish, &m->groups[i]);
		jw_array_end(&w);
	}
	jw_object_end(&w);
}

/* --- CSV (RFC 4180) --- */

static void put_cell(struct buf *b, struct str s)
{
	buf_putc(b, '"');
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '"')
			buf_putc(b, '"');
		buf_putc(b, s.p[i]);
	}
	buf_puts(b, "\",");
}

static void put_number(struct buf *b, uint64_t v)
{
	buf_put_u64(b, v);
	buf_putc(b, ',');
}

static void put_amount(struct buf *b, uint64_t nano)
{
	nano_format(b, nano);
	buf_putc(b, ',');
}

static void put_sums(struct buf *b, const struct m_usage_sum *s)
{
	put_number(b, s->count);
	put_number(b, s->input_tokens);
	put_number(b, s->output_tokens);
	put_number(b, s->cache_creation_tokens);
	put_number(b, s->cache_read_tokens);
	put_amount(b, s->cost_usd);
	put_amount(b, s->computed_usd);
	put_number(b, s->unpriced);
	put_cell(b, s->units.n > 0 ? s->units : STR("{}"));
	b->n--; /* the last comma */
	buf_puts(b, "\r\n");
}

static void write_csv(struct req *r, const struct usage_wish *wish,
		      const struct m_usage_reply *m)
{
	struct buf *b = &r->x.out;

	(void)req_json(r);
	r->x.content_type = "text/csv; charset=utf-8";
	for (size_t i = 0; i < wish->ask.group_by_n; i++)
		put_cell(b, wish->ask.group_by[i]);
	buf_puts(b, "count,input_tokens,output_tokens,cache_creation_tokens,"
		    "cache_read_tokens,cost_usd,computed_usd,unpriced,units"
		    "\r\n");
	for (size_t i = 0; i < m->groups_n; i++) {
		for (size_t k = 0; k < m->groups[i].keys_n; k++)
			put_cell(b, shown(&m->groups[i], k));
		put_sums(b, m->groups[i].sum);
	}
	if (wish->ask.group_by_n == 0)
		put_sums(b, m->totals);
}

/* --- GET /usage, /usage/summary --- */

static void on_usage(struct req *r, const struct rpc_reply *reply)
{
	const struct usage_wish *wish = r->state;
	struct m_usage_reply *m;

	if (wish->period.n > 0 && reply->err == ERR_VALIDATION_ERROR) {
		req_fail_text(r, req_mistake(r, ERR_USAGE_SUMMARY_ERROR),
			      reply->body);
		return;
	}
	m = req_reply(r, &msg_usage_reply, reply);
	if (m == NULL)
		return;
	r->x.seq = 0; /* a read has no index of its own */
	if (m->groups_n > 0)
		qsort(m->groups, m->groups_n, sizeof(*m->groups),
		      wish->period.n > 0 ? by_cost : by_keys);
	if (wish->csv)
		write_csv(r, wish, m);
	else
		write_json(r, wish, m);
	req_answer(r, 200);
}

static void ask_usage(struct req *r, struct usage_wish *wish)
{
	r->state = wish;
	req_call_raftd(r, QUERY_USAGE, STR_NULL, &msg_usage_ask, &wish->ask,
		       on_usage);
}

void h_usage(struct req *r)
{
	struct usage_wish *wish = arena_zalloc(&r->arena, sizeof(*wish));

	if (read_range(r, &wish->ask) && read_names(r, &wish->ask) &&
	    read_format(r, &wish->csv))
		ask_usage(r, wish);
}

void h_usage_summary(struct req *r)
{
	struct usage_wish *wish = arena_zalloc(&r->arena, sizeof(*wish));
	uint64_t now = clock_wall_ns(), ns;

	wish->period = STR(PERIOD_DEFAULT);
	if (!req_text_argument(r, "period", &wish->period) ||
	    !read_groups(r, &wish->ask))
		return;
	if (!duration_parse(wish->period, &ns) || ns == 0) {
		req_fail(r, req_mistake(r, ERR_USAGE_SUMMARY_ERROR),
			 "period: must be a duration such as 24h");
		return;
	}
	if (wish->ask.group_by_n > 1) {
		req_fail(r, req_mistake(r, ERR_USAGE_SUMMARY_ERROR),
			 "group_by: must be one name; /usage takes several");
		return;
	}
	set_range(&wish->ask, now - MIN(now, ns), now, false);
	ask_usage(r, wish);
}

/* --- GET /scores --- */

static int by_score(const void *a, const void *b)
{
	const struct m_usage_group *x = a, *y = b;
	int order = str_cmp(x->score, y->score);

	return order != 0 ? order : by_keys(a, b);
}

static void put_score(struct json_writer *w, const char *name, double v)
{
	jw_key(w, name);
	jw_double(w, v);
}

static void write_scores(struct json_writer *w, const struct m_usage_ask *ask,
			 const struct m_usage_group *g)
{
	const struct m_score_sum *s = g->scores;

	jw_object(w);
	jw_key(w, "name");
	jw_str(w, g->score);
	if (ask->group_by_n > 0)
		write_by(w, ask, g);
	write_other(w, g);
	jw_key(w, "count");
	jw_u64(w, s->count);
	put_score(w, "mean", score_value(s->total) / (double)s->count);
	put_score(w, "min", score_value(s->min));
	put_score(w, "max", score_value(s->max));
	jw_object_end(w);
}

static void on_scores(struct req *r, const struct rpc_reply *reply)
{
	const struct usage_wish *wish = r->state;
	struct m_usage_reply *m = req_reply(r, &msg_usage_reply, reply);
	struct json_writer w;

	if (m == NULL)
		return;
	r->x.seq = 0; /* a read has no index of its own */
	if (m->groups_n > 0)
		qsort(m->groups, m->groups_n, sizeof(*m->groups), by_score);
	w = req_json(r);
	jw_object(&w);
	write_range(&w, m);
	jw_key(&w, "scores");
	jw_array(&w);
	for (size_t i = 0; i < m->groups_n; i++)
		write_scores(&w, &wish->ask, &m->groups[i]);
	jw_array_end(&w);
	jw_object_end(&w);
	req_answer(r, 200);
}

void h_scores(struct req *r)
{
	struct usage_wish *wish = arena_zalloc(&r->arena, sizeof(*wish));
	struct m_usage_ask *ask = &wish->ask;

	if (!read_range(r, ask) || !read_names(r, ask) ||
	    !read_name(r, "name", LIMIT_SCORE_NAME_BYTES, &ask->score))
		return;
	if (ask->score.n > 0)
		ask->has |= MSG_BIT(usage_ask, score);
	MSG_SET(ask, usage_ask, scores, true);
	r->state = wish;
	req_call_raftd(r, QUERY_USAGE, STR_NULL, &msg_usage_ask, ask,
		       on_scores);
}

/* --- PATCH /usage/settings --- */

/*
 * The offsets of the zone from now on: the state machine has no zone files,
 * since those of its replicas may differ.
 */
static bool fill_offsets(struct req *r, struct m_usage_settings *m)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(4096);
	int64_t at = (int64_t)(clock_wall_ns() / NS_PER_S);
	const struct tz *zone = tz_find(&r->h->zones, m->timezone, &why);
	struct m_zone_offset *list;
	size_t n = 0;

	if (zone == NULL) {
		req_fail(r, ERR_VALIDATION_ERROR, "timezone: %.*s",
			 STR_ARG(buf_str(&why)));
		return false;
	}
	list = arena_zalloc(&r->arena, LIMIT_ZONE_OFFSETS * sizeof(*list));
	do {
		MSG_SET(&list[n], zone_offset, from_ns,
			(uint64_t)at * NS_PER_S);
		MSG_SET(&list[n], zone_offset, seconds, tz_offset(zone, at));
		n++;
	} while (n < LIMIT_ZONE_OFFSETS && tz_next_change(zone, at, &at));
	MSG_SET_LIST(m, usage_settings, offsets, list, n);
	return true;
}

static void on_usage_settings(struct req *r, const struct rpc_reply *reply)
{
	const void *m = req_reply(r, &msg_usage_settings, reply);

	if (m != NULL)
		req_answer_message(r, &msg_usage_settings, m,
				   r->match.route->status);
}

void h_set_usage(struct req *r)
{
	struct m_usage_settings *m = arena_zalloc(&r->arena, sizeof(*m));
	struct json body;

	if (!req_read(r, &msg_usage_settings, m) ||
	    !req_read_json(r, true, &body) ||
	    !settings_refuse_null(r, &msg_usage_settings, body))
		return;
	if (MSG_HAS(m, usage_settings, timezone) && !fill_offsets(r, m))
		return;
	req_call_raftd(r, OP_SET_USAGE, STR_NULL, &msg_usage_settings, m,
		       on_usage_settings);
}
