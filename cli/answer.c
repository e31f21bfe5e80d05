/*
 * See answer.h. What a server answers is hostile; here it has been checked to
 * be JSON and nothing else.
 */
#include "answer.h"

#include "out.h"

uint64_t answer_number(struct json v, const char *member)
{
	struct arena a = ARENA_INIT;
	struct json found;
	uint64_t n = 0;

	if (json_type_of(v) == JSON_OBJECT &&
	    json_member(v, member, &a, &found))
		(void)json_u64(found, &n);
	arena_done(&a);
	return n;
}

bool answer_is(struct json v, const char *member, const char *text)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);

	out_text(&b, v, member);
	return str_is(buf_str(&b), text);
}

bool answer_list(struct str reply, const char *member, struct arena *a,
		 struct json *ret)
{
	struct json root = json_root(reply);

	return json_type_of(root) == JSON_OBJECT &&
	       json_member(root, member, a, ret) &&
	       json_type_of(*ret) == JSON_ARRAY;
}

static uint64_t count_voters(struct json status)
{
	struct arena a = ARENA_INIT;
	struct json nodes, one;
	struct json_iter it;
	uint64_t n = 0;

	if (json_member(status, "nodes", &a, &nodes) &&
	    json_type_of(nodes) == JSON_ARRAY) {
		it = json_iter(nodes);
		while (json_next_item(&it, &one))
			n += answer_is(one, "voter", "true");
	}
	arena_done(&a);
	return n;
}

static void put_leaderless(struct json status, struct buf *why)
{
	uint64_t voters = count_voters(status);
	uint64_t majority = voters / 2 + 1;

	buf_puts(why, " knows no leader (");
	out_text(why, status, "state");
	buf_puts(why, ", term ");
	out_text(why, status, "term");
	buf_putc(why, ')');
	if (voters > 1)
		buf_printf(why,
			   ": %llu of the %llu nodes that vote must run and "
			   "reach each other; if they are lost for good, see: "
			   "corvo help cluster recover",
			   (unsigned long long)majority,
			   (unsigned long long)voters);
}

bool answer_is_unled(struct json status, struct buf *why)
{
	if (json_type_of(status) != JSON_OBJECT ||
	    !answer_is(status, "leader", "false"))
		return false;
	if (answer_is(status, "membership", "") &&
	    answer_is(status, "ready", "true") &&
	    !answer_is(status, "leader_id", ""))
		return false;
	buf_puts(why, "node ");
	out_text(why, status, "node_id");
	if (!answer_is(status, "membership", "")) {
		buf_puts(why, " is in no cluster: ");
		out_text(why, status, "membership");
	} else if (answer_is(status, "leader_id", "")) {
		put_leaderless(status, why);
	} else {
		buf_puts(why, " does not reach ");
		out_text(why, status, "leader_id");
		buf_puts(why, ", which led last, or has yet to apply the log");
	}
	return true;
}
