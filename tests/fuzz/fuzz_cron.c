/*
 * Times as text: cron expressions, moments, durations, zones. What can be read
 * has a next time that is later, and what is written of it reads the same.
 */
#include "fuzz.h"
#include "util/clock.h"
#include "util/cron.h"
#include "util/timefmt.h"
#include "util/tz.h"

#define NOW (1796083200ull * NS_PER_S) /* 2026-12-01 */

static const char footer[] = "CET-1CEST,M3.5.0,M10.5.0/3";

/* A file with nothing but a rule. */
static struct tz *zone_of(struct str rule)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	static const char type[] = { 0, 0, 0, 0, 0, 0 };
	static const char counts[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
				       0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1 };

	for (unsigned i = 0; i < 2; i++) {
		buf_puts(&b, "TZif2");
		for (unsigned k = 0; k < 15; k++)
			buf_putc(&b, '\0');
		buf_append(&b, counts, sizeof(counts));
		buf_append(&b, type, sizeof(type));
		buf_putc(&b, '\0');
	}
	buf_putc(&b, '\n');
	buf_put_str(&b, rule);
	buf_putc(&b, '\n');
	return tz_parse(buf_str(&b));
}

static void expression(struct str in, enum cron_gap gap)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	struct tz *z = zone_of(str_of(footer, sizeof(footer) - 1));
	uint64_t at = NOW;
	struct cron c;

	CHECK(z != NULL);
	if (!cron_parse(in, &c, &why)) {
		CHECK(why.n > 0);
	} else {
		for (unsigned i = 0; i < 4 && at != 0; i++) {
			uint64_t next = cron_next(&c, z, gap, NOW, at);

			CHECK(next == 0 || next > at);
			at = next;
		}
	}
	tz_free(z);
}

static void zone(struct str in, bool is_rule)
{
	struct tz *z = is_rule ? zone_of(in) : tz_parse(in);
	int64_t at = NOW / NS_PER_S, next;
	struct tz_local local;

	if (z == NULL)
		return;
	for (unsigned i = 0; i < 4 && tz_next_change(z, at, &next); i++) {
		CHECK(next > at);
		at = next;
		tz_from_wall(z, at + tz_offset(z, at), &local);
		tz_from_wall(z, at + tz_offset(z, at - 1), &local);
	}
	CHECK(tz_offset(z, at) <= TZ_OFFSET_MAX &&
	      tz_offset(z, at) >= -TZ_OFFSET_MAX);
	tz_free(z);
}

static void texts(struct str in)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	uint64_t ns, again;

	if (time_parse(in, &ns)) {
		time_format(&b, ns);
		CHECK(time_parse(buf_str(&b), &again) && again == ns);
	}
	if (duration_parse(in, &ns)) {
		CHECK(duration_read(in, &again) && again == ns);
		buf_clear(&b);
		duration_format(&b, ns);
		CHECK(duration_parse(buf_str(&b), &again) && again == ns);
	}
	(void)duration_read(in, &ns);
}

void fuzz_one(struct str in)
{
	unsigned how = fuzz_choice(&in, 6);

	if (how <= CRON_SHIFT)
		expression(in, (enum cron_gap)how);
	else if (how == 5)
		texts(in);
	else
		zone(in, how == 3);
}

void fuzz_example(struct rng *rng, struct buf *out)
{
	static const char *const crons[] = {
		"*/15 9-17 * * MON-FRI",
		"30 0 12 L-3 * ?",
		"0 8 15W,LW 2 FRI#2",
		"@every 1h30m",
		"@daily",
		"0 0 30 2 5L",
		"1-9/2,7 5/10 * JAN *",
	};
	static const char *const others[] = {
		"2026-02-11T10:00:00.5+01:00",
		"1h30m0.5s",
		"90",
		"1.5d",
	};
	unsigned how = (unsigned)rng_below(rng, 6);

	buf_putc(out, (char)how);
	if (how <= CRON_SHIFT)
		buf_puts(out, crons[rng_below(rng, ARRAY_SIZE(crons))]);
	else if (how == 5)
		buf_puts(out, others[rng_below(rng, ARRAY_SIZE(others))]);
	else if (how == 3)
		buf_puts(out, rng_below(rng, 2) == 0 ? footer
						     : "<-03>3<-02>,J60/0,200");
	else
		buf_append(out, "TZif2", 5);
}
