#include "fsm_twin.h"

#include "fsm/order/window.h"
#include "tap_kv.h"

#define TWINS     2
#define LIFE_MEAN 60 /* entries, of the one that lives for a while */
#define FEW_JOBS  12 /* at most, of a window that runs over */

struct twin {
	struct kv *kv; /* a tap; nothing comes through it */
	struct fsm *f;
	struct buf told; /* replies to the entry */
	int result;
};

struct twins {
	struct kv *below; /* the store itself */
	struct twin of[TWINS];
	struct buf told; /* by the one that is the measure */
	struct rng rng;
	twins_spoil_fn *spoil;
	uint64_t differed;    /* entries, of one that was spoilt */
	uint32_t window_jobs; /* of others */
};

static void put_reply(struct buf *b, size_t item, int err, uint64_t seq,
		      struct str body)
{
	buf_printf(b, "%zu: %d at %llu: %.*s\n", item, err,
		   (unsigned long long)seq, STR_ARG(body));
}

static void on_reply(void *ctx, size_t item, int err, uint64_t seq,
		     struct str body)
{
	struct twin *t = ctx;

	put_reply(&t->told, item, err, seq, body);
}

static void load(const struct fx *x, struct twin *t)
{
	fsm_free(t->f);
	t->f = fsm_new(t->kv);
	if (x->budget > 0)
		fsm_set_budget(t->f, x->budget);
	assert_int_equal(fsm_load(t->f), 0);
}

void twins_start(struct fx *x, uint64_t seed)
{
	struct twins *w = xcalloc(1, sizeof(*w));
	struct fx_side *s = &x->side[FX_MEM];

	x->twins = w;
	rng_seed(&w->rng, seed);
	w->window_jobs = window_jobs_max;
	if (rng_below(&w->rng, 2) == 0)
		window_jobs_max = 1 + (uint32_t)rng_below(&w->rng, FEW_JOBS);
	w->below = s->kv;
	s->kv = tap_new(w->below, true);
	fx_restart(x, FX_MEM);
	for (int i = 0; i < TWINS; i++)
		w->of[i].kv = tap_new(w->below, false);
}

void twins_stop(struct fx *x)
{
	struct twins *w = x->twins;
	struct fx_side *s = &x->side[FX_MEM];

	for (int i = 0; i < TWINS; i++) {
		fsm_free(w->of[i].f);
		kv_close(w->of[i].kv);
		buf_done(&w->of[i].told);
	}
	window_jobs_max = w->window_jobs;
	kv_close(s->kv);
	s->kv = w->below;
	fx_restart(x, FX_MEM);
	buf_done(&w->told);
	x->twins = NULL;
	free(w);
}

void twins_apply(struct fx *x, struct str entry)
{
	struct twins *w = x->twins;

	tap_clear(x->side[FX_MEM].kv);
	buf_clear(&w->told);
	for (int i = 0; i < TWINS; i++) {
		struct twin *t = &w->of[i];

		if (i == 0 || t->f == NULL ||
		    rng_below(&w->rng, LIFE_MEAN) == 0)
			load(x, t);
		if (i == 0 && w->spoil != NULL)
			w->spoil(t->f);
		tap_clear(t->kv);
		buf_clear(&t->told);
		t->result = fsm_apply(t->f, x->raft_index, entry, on_reply, t);
	}
}

void twins_told(struct fx *x, size_t item, int err, uint64_t seq,
		struct str body)
{
	put_reply(&x->twins->told, item, err, seq, body);
}

/* What differs, in a sentence; empty: nothing. */
static void compare_one(struct fx *x, const struct twin *t, const char *which,
			struct buf *ret)
{
	struct fx_side *s = &x->side[FX_MEM];
	struct buf b = BUF_INIT(0);

	tap_compare(tap_said(s->kv), tap_said(t->kv), &b);
	if (b.n > 0)
		buf_printf(ret, "a replica wrote\n  %.*s\n  as did %s",
			   STR_ARG(buf_str(&b)), which);
	else if (!str_eq(buf_str(&x->twins->told), buf_str(&t->told)))
		buf_printf(ret, "a replica answered\n%.*sand %s\n%.*s",
			   STR_ARG(buf_str(&x->twins->told)), which,
			   STR_ARG(buf_str(&t->told)));
	else if (fsm_entry_weight(s->f) != fsm_entry_weight(t->f))
		/* it decides how much of an entry is done */
		buf_printf(ret, "it weighs %llu, for %s %llu",
			   (unsigned long long)fsm_entry_weight(s->f), which,
			   (unsigned long long)fsm_entry_weight(t->f));
	buf_done(&b);
}

void twins_compare(struct fx *x, int result)
{
	for (int i = 0; i < TWINS; i++) {
		const struct twin *t = &x->twins->of[i];
		struct buf why = BUF_INIT(0);

		assert_int_equal(t->result, result);
		compare_one(x, t,
			    i == 0 ? "one that was just loaded"
				   : "one that was loaded a while ago",
			    &why);
		if (why.n > 0 && i == 0 && x->twins->spoil != NULL)
			x->twins->differed++;
		else if (why.n > 0)
			fail_msg("entry %llu: %.*s",
				 (unsigned long long)x->raft_index,
				 STR_ARG(buf_str(&why)));
		buf_done(&why);
	}
}

void twins_spoil(struct fx *x, twins_spoil_fn *fn)
{
	x->twins->spoil = fn;
	x->twins->differed = 0;
}

uint64_t twins_differed(const struct fx *x)
{
	return x->twins->differed;
}
