/*
 * What a leader writes down: settings that nobody has set, a flag that was
 * changed on a node that is alone, who leads. See proposer_world.h.
 */
#include <unistd.h>

#include "lead.h"
#include "lib/testlib.h"
#include "proposer_world.h"
#include "rt/log.h"

/* Of a node that is new and alone: its settings, and its feature level. */
#define FIRST_OPS (FEATURE_LEVEL > 1 ? 2 : 1)

static uint64_t term = 1;
static size_t voters_n = 1;

void node_info(const struct node *n, struct node_info *ret)
{
	(void)n;
	*ret = (struct node_info){ .term = term };
}

static bool whole;

bool node_is_whole(const struct node *n)
{
	(void)n;
	return whole;
}

static void find_voters(void *ctx, struct lead_voters *ret)
{
	(void)ctx;
	*ret = (struct lead_voters){ .ids = { 7, 8, 9 },
				     .n = voters_n,
				     .self = 7 };
}

struct world {
	struct fixture *f;
	struct daemon d;
	struct parts p;
	struct lead l;
};

static struct world *world_new(struct fixture *f, size_t voters)
{
	struct world *w = xcalloc(1, sizeof(*w));

	voters_n = voters;
	w->f = f;
	w->d.settings = f->s;
	w->p = (struct parts){
		.d = &w->d, .fsm = f->fsm, .node = &f->node, .proposer = f->p
	};
	w->l = (struct lead){ .p = &w->p, .voters = find_voters };
	return w;
}

/* As if it had been started so. */
static void give(struct world *w, enum setting_source from, uint64_t retention,
		 const char *text)
{
	w->d.settings.retention = retention;
	w->d.settings.source[SETTING_retention] = from;
	w->d.settings.text[SETTING_retention] = text;
}

/* A leadership begins; how many ops it has written down. */
static size_t lead(struct world *w)
{
	size_t from = w->f->node.n, ops = 0;

	term++;
	lead_end(&w->l);
	lead_begin(&w->l);
	pump_and_commit_all(w->f);
	for (size_t i = from; i < w->f->node.n; i++)
		ops += entry_at(w->f, i).n;
	lead_look(&w->l); /* nothing more */
	pump_and_commit_all(w->f);
	return ops;
}

/* By somebody else, since. */
static void patch(struct world *w, uint64_t retention)
{
	struct m_cluster_settings m = { 0 };

	MSG_SET(&m, cluster_settings, retention, retention);
	submit(w->f, PEER_A, OP_SET_SETTINGS, &m, "");
	pump_and_commit_all(w->f);
}

static uint64_t retention(const struct world *w)
{
	return fsm_settings(w->f->fsm)->retention;
}

/* What is logged while fn runs. */
static void logged(struct world *w, void (*fn)(struct lead *l), char *ret,
		   size_t max)
{
	FILE *f = tmpfile();
	int old = dup(2);
	size_t n;

	assert_non_null(f);
	assert_true(old >= 0 && dup2(fileno(f), 2) == 2);
	log_init("raftd", "n1");
	fn(&w->l);
	assert_int_equal(dup2(old, 2), 2);
	log_init("raftd", "n1");
	(void)close(old);
	rewind(f);
	n = fread(ret, 1, max - 1, f);
	ret[n] = '\0';
	(void)fclose(f);
}

/* --- settings --- */

static void the_first_leader_seeds_what_its_flags_say(void **state)
{
	struct world *w = world_new(*state, 3);

	give(w, SRC_DEFAULT, 5, "5ns");
	assert_int_equal(fsm_settings(w->f->fsm)->has, 0);
	assert_int_equal(lead(w), 2); /* and who leads */
	assert_int_equal(retention(w), 5);
	assert_int_equal(fsm_settings(w->f->fsm)->lease_duration,
			 w->d.settings.lease_duration);
	assert_int_equal(fsm_settings(w->f->fsm)->event_retention,
			 w->d.settings.event_retention);
	assert_int_equal(fsm_settings(w->f->fsm)->queue_idle,
			 w->d.settings.queue_idle);
	assert_int_equal(fsm_max_queues(w->f->fsm), w->d.settings.max_queues);
	free(w);
}

static void a_node_that_follows_says_so_once_it_has_caught_up(void **state)
{
	struct world *w = world_new(*state, 3);
	char text[512];

	give(w, SRC_FLAG, 5 * NS_PER_S, "5s");
	(void)lead(w);
	give(w, SRC_FLAG, 6 * NS_PER_S, "6s");
	w->l = (struct lead){ .p = &w->p, .voters = find_voters };
	logged(w, lead_end, text, sizeof(text));
	assert_string_equal(text, "");
	whole = true;
	logged(w, lead_end, text, sizeof(text));
	assert_non_null(strstr(text, "retention is 5s in the cluster"));
	logged(w, lead_end, text, sizeof(text));
	assert_string_equal(text, "");
	whole = false;
	free(w);
}

static void flags_of_a_cluster_change_nothing_and_it_says_so(void **state)
{
	struct world *w = world_new(*state, 3);
	char text[512];

	give(w, SRC_FLAG, 5 * NS_PER_S, "5s");
	(void)lead(w);
	give(w, SRC_FLAG, 6 * NS_PER_S, "6s");
	assert_int_equal(lead(w), 1); /* who leads */
	assert_int_equal(retention(w), 5 * NS_PER_S);
	logged(w, lead_compare, text, sizeof(text));
	assert_non_null(strstr(text, "retention is 5s in the cluster; the flag "
				     "says 6s, which only seeds a new cluster; "
				     "use corvo settings\n"));
	assert_null(strstr(text, "lease_duration"));
	give(w, SRC_DEFAULT, 6 * NS_PER_S, "6s"); /* nobody has said it */
	logged(w, lead_compare, text, sizeof(text));
	assert_string_equal(text, "");
	free(w);
}

static void
another_flag_of_a_node_that_is_alone_is_taken_over_once(void **state)
{
	struct world *w = world_new(*state, 1);

	give(w, SRC_FLAG, 5, "5ns");
	assert_int_equal(lead(w), FIRST_OPS);
	patch(w, 9);
	assert_int_equal(lead(w), 0); /* the flag is what it was */
	assert_int_equal(retention(w), 9);
	give(w, SRC_ENV, 6, "6ns");
	assert_int_equal(lead(w), 1);
	assert_int_equal(retention(w), 6);
	patch(w, 9);
	assert_int_equal(lead(w), 0);
	give(w, SRC_DEFAULT, 168, "168ns");
	assert_int_equal(lead(w), 0); /* taken away */
	assert_int_equal(retention(w), 9);
	give(w, SRC_FILE, 5, "5ns");
	lead_reload(&w->l);
	pump_and_commit_all(w->f);
	assert_int_equal(retention(w), 5);
	free(w);
}

/* --- who leads --- */

static void a_leader_of_several_is_written_down_in_each_term(void **state)
{
	struct world *w = world_new(*state, 3);
	struct m_leader l;

	(void)lead(w);
	assert_true(fsm_leader(w->f->fsm, &l));
	assert_int_equal(l.raft_id, 7);
	assert_str_is(l.name, "node-1");
	assert_int_equal(l.term, term);
	assert_int_equal(lead(w), 1);
	assert_true(fsm_leader(w->f->fsm, &l));
	assert_int_equal(l.term, term);
	free(w);
}

static void a_node_that_is_alone_leads_without_a_word(void **state)
{
	struct world *w = world_new(*state, 1);
	struct m_leader l;

	assert_int_equal(lead(w), FIRST_OPS);
	assert_int_equal(lead(w), 0);
	assert_false(fsm_leader(w->f->fsm, &l));
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_first_leader_seeds_what_its_flags_say),
		CASE(flags_of_a_cluster_change_nothing_and_it_says_so),
		CASE(a_node_that_follows_says_so_once_it_has_caught_up),
		CASE(another_flag_of_a_node_that_is_alone_is_taken_over_once),
		CASE(a_leader_of_several_is_written_down_in_each_term),
		CASE(a_node_that_is_alone_leads_without_a_word),
	};

	return cmocka_run_group_tests_name("lead", tests, NULL, NULL);
}
