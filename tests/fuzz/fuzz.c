/*
 * See fuzz.h. Not instrumented itself.
 */
#include "fuzz.h"

#include <ctype.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/clock.h"

#define PLACES      (1u << 13)
#define KEPT_MAX    4096
#define INPUT_MAX   4096
#define EXAMPLES    64
#define CHANGES_MAX 8

/* --- places the code under test has been at --- */

void __sanitizer_cov_trace_pc(void);

static uint8_t hits[PLACES]; /* of this input, by pairs of places */
static uint8_t seen[PLACES]; /* of all: bit i, at least 2^i hits of it */
static uintptr_t last_place;

void __sanitizer_cov_trace_pc(void)
{
	uintptr_t place = (uintptr_t)__builtin_return_address(0);
	uint8_t *h = &hits[(place ^ last_place << 3) % PLACES];

	*h += *h < UINT8_MAX;
	last_place = place;
}

/* How many times about, as a bit. */
static uint8_t rung(uint8_t n)
{
	return (uint8_t)(n < 4     ? 1u << (n - 1)
			 : n < 8   ? 8
			 : n < 32  ? 16
			 : n < 128 ? 32
				   : 64);
}

/* Whether this input led to something new. */
static bool note_places(void)
{
	bool is_new = false;

	for (size_t i = 0; i < PLACES; i++) {
		if (hits[i] == 0)
			continue;
		is_new |= (seen[i] & rung(hits[i])) == 0;
		seen[i] |= rung(hits[i]);
	}
	return is_new;
}

static size_t places_seen(void)
{
	size_t n = 0;

	for (size_t i = 0; i < PLACES; i++)
		n += seen[i] != 0;
	return n;
}

/* --- a failure --- */

void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

static struct str current;

static void show_input(void)
{
	fputs("\nthe input was: --input ", stderr);
	for (size_t i = 0; i < current.n; i++)
		fprintf(stderr, "%02x", (unsigned char)current.p[i]);
	fputc('\n', stderr);
}

static void on_abort(_unused_ int signal_number)
{
	show_input();
}

/* --- inputs --- */

static struct buf kept[KEPT_MAX];
static size_t kept_n;

static const char words[][12] = {
	"",         "\xff",        "\x80\x80\x80\x80", "\xff\xff\xff\xff\x0f",
	"\x7f",     "\x01",        "\xff\xff\xff\x7f", "{}",
	"[[[[[[[[", "\"\\u0000\"", "\xf0\x9f\x98\x80", "\xc0\xaf",
	"1e999",    "-1",          "AAAAAAA=",         "\x1f\x8b\x08",
};

static void remove_some(struct rng *rng, struct buf *b)
{
	size_t at = rng_below(rng, b->n), n = 1 + rng_below(rng, b->n - at);

	memmove(b->p + at, b->p + at + n, b->n - at - n);
	b->n -= n;
}

static void insert(struct rng *rng, struct buf *b, struct str s)
{
	size_t at = rng_below(rng, b->n + 1);

	s.n = MIN(s.n, INPUT_MAX - MIN(b->n, (size_t)INPUT_MAX));
	if (s.n == 0)
		return;
	CHECK(buf_reserve(b, s.n) != NULL);
	memmove(b->p + at + s.n, b->p + at, b->n - at);
	memcpy(b->p + at, s.p, s.n);
	b->n += s.n;
}

/* A piece of another one, or of itself. */
static void insert_piece(struct rng *rng, struct buf *b)
{
	const struct buf *from = &kept[rng_below(rng, kept_n)];
	_cleanup_(buf_done) struct buf piece = BUF_INIT(0);
	size_t at;

	if (rng_below(rng, 3) == 0)
		from = b;
	if (from->n == 0)
		return;
	at = rng_below(rng, from->n);
	buf_append(&piece, from->p + at, 1 + rng_below(rng, from->n - at));
	insert(rng, b, buf_str(&piece));
}

static void change(struct rng *rng, struct buf *b)
{
	const char *word = words[rng_below(rng, ARRAY_SIZE(words))];
	char c = (char)rng_u64(rng);

	if (b->n == 0) {
		insert(rng, b, str_of(&c, 1));
		return;
	}
	switch (rng_below(rng, 7)) {
	case 0:
		b->p[rng_below(rng, b->n)] = c;
		break;
	case 1:
		b->p[rng_below(rng, b->n)] ^= (char)(1u << rng_below(rng, 8));
		break;
	case 2: /* one more or less: lengths */
		b->p[rng_below(rng, b->n)] += (char)(rng_below(rng, 2) * 2) - 1;
		break;
	case 3:
		remove_some(rng, b);
		break;
	case 4:
		insert(rng, b, str_from(word));
		break;
	case 5:
		insert(rng, b, str_of(&c, 1));
		break;
	default:
		insert_piece(rng, b);
	}
}

static void keep(const struct buf *b, struct rng *rng)
{
	struct buf *to =
	    &kept[kept_n < KEPT_MAX ? kept_n++ : rng_below(rng, KEPT_MAX)];

	buf_clear(to);
	buf_put_str(to, buf_str(b));
}

/* --- runs --- */

static bool run_one(struct str in)
{
	current = in;
	last_place = 0;
	memset(hits, 0, sizeof(hits));
	fuzz_one(in);
	return note_places();
}

static void run_many(uint64_t runs, uint64_t until_ns, struct rng *rng)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	uint64_t n;

	for (n = 0; n < EXAMPLES; n++) {
		buf_clear(&b);
		fuzz_example(rng, &b);
		(void)run_one(buf_str(&b));
		keep(&b, rng);
	}
	for (; n < runs || (until_ns != 0 && clock_mono_ns() < until_ns); n++) {
		buf_clear(&b);
		buf_put_str(&b, buf_str(&kept[rng_below(rng, kept_n)]));
		for (uint64_t k = rng_below(rng, CHANGES_MAX) + 1; k > 0; k--)
			change(rng, &b);
		if (run_one(buf_str(&b)))
			keep(&b, rng);
	}
	printf("%llu inputs, %zu kept, %zu places\n", (unsigned long long)n,
	       kept_n, places_seen());
#ifdef FUZZ_TRACED
	/* where nothing is told apart nothing was looked at */
	CHECK(kept_n > EXAMPLES);
#endif
}

static int run_input(const char *hex, struct rng *keeper)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	unsigned byte;

	for (;
	     isxdigit((unsigned char)hex[0]) &&
	     isxdigit((unsigned char)hex[1]) && sscanf(hex, "%2x", &byte) == 1;
	     hex += 2)
		buf_putc(&b, (char)byte);
	if (*hex != '\0' && *hex != '\n') {
		fprintf(stderr, "no two hexadecimal digits: %s\n", hex);
		return 2;
	}
	(void)run_one(buf_str(&b));
	if (keeper != NULL)
		keep(&b, keeper);
	return 0;
}

/* Lines of hexadecimal digits; others are for the reader. */
static void run_corpus(const char *path, struct rng *rng)
{
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t size = 0;
	unsigned n = 0;

	CHECK(f != NULL);
	while (getline(&line, &size, f) > 0)
		if (*line != '#') {
			CHECK(run_input(line, rng) == 0);
			n++;
		}
	CHECK(n > 0 && fclose(f) == 0);
	free(line);
}

static uint64_t number(const char *text)
{
	uint64_t v;

	if (!str_parse_u64(str_from(text), &v)) {
		fprintf(stderr, "%s is no number\n", text);
		exit(2);
	}
	return v;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "runs", required_argument, NULL, 'r' },
		{ "seconds", required_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 'e' },
		{ "input", required_argument, NULL, 'i' },
		{ "corpus", required_argument, NULL, 'c' },
		{ NULL, 0, NULL, 0 },
	};
	const char *given = getenv("CORVO_TEST_SEED");
	const char *corpus = NULL;
	uint64_t runs = 0, until_ns = 0, seed;
	struct rng rng;
	int c;

	rng_system(&seed, sizeof(seed));
	if (given != NULL && *given != '\0')
		seed = number(given);
	(void)signal(SIGABRT, on_abort);
	if (__sanitizer_set_death_callback != NULL)
		__sanitizer_set_death_callback(show_input);
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 'i')
			return run_input(optarg, NULL);
		if (c == 'c')
			corpus = optarg;
		else if (c == 'r')
			runs = number(optarg);
		else if (c == 's')
			until_ns = clock_mono_ns() + number(optarg) * NS_PER_S;
		else if (c == 'e')
			seed = number(optarg);
		else
			return 2;
	}
	printf("CORVO_TEST_SEED=%llu\n", (unsigned long long)seed);
	(void)fflush(stdout);
	rng_seed(&rng, seed);
	if (corpus != NULL)
		run_corpus(corpus, &rng);
	run_many(runs, until_ns, &rng);
	for (size_t i = 0; i < kept_n; i++)
		buf_done(&kept[i]);
	return 0;
}
