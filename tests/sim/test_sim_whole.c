/*
 * Many seeds, each a cluster of whole corvo-raftds with clients in a storm: see
 * whole/whole.h.
 *
 *   CORVO_TEST_SEEDS=20000   so many of them, 1 and on
 *   CORVO_TEST_FIRST=301     that and on
 *   CORVO_TEST_SEED=17       only that one
 *   CORVO_TEST_KNOWN=1       those of seeds.txt, then fresh ones, not 1 and on
 *   CORVO_TEST_SECONDS=120   no fresh one is begun later than so long after the
 *                            first
 *   CORVO_TEST_JOBS=4        so many at a time
 *   CORVO_TEST_STOP=1        up to the first that fails
 *   CORVO_TEST_CHECK=1       the whole state is looked through after so many
 *                            entries
 *   CORVO_TEST_CUT=5,800     a storm without these of its parts (a bit for each
 *                            of whole_deed), which ends after so many ms
 *   VERBOSE=1                with what led to a failure
 *   MINIMISE=1               of the one seed: what can be left out of its
 *                            storm, and how soon it can end, and it fails in
 *                            the same way
 *
 * It fails when a seed does, when one that was not cut asked for less than
 * OPERATIONS, and when none was run.
 *
 * A trace (VERBOSE=1) has a line for each event: the moment in milliseconds,
 * what happened, and five numbers. Of an op or a question these are: the
 * machine it goes to, the number of its job, how many there are, its token. Of
 * `answer`: the op, the job, the error (0: none), the event. Of `given`: the
 * worker, the job, the token, the attempt. Of `applied`: the machine, the
 * entry, the event. Of `deed`: what the storm does, by its place in
 * deeds of whole/storm.c. Of `sent` and `got`: both ends, the term and what the
 * message is about. All others name the machine first.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "rt/file.h"
#include "rt/log.h"
#include "util/str.h"
#include "whole/whole.h"

#define SEEDS      12
#define KNOWN      256 /* seeds of the file, most */
#define JOBS_MAX   64
#define END_S      300  /* of a processor: who takes more goes in circles */
#define OPERATIONS 2000 /* of each seed, at least */

/* What a process and one that runs a seed for it have in common. */
struct slot {
	pid_t pid; /* 0: none runs */
	uint64_t seed;
	char verdict[WHOLE_VERDICT_BYTES];
	char dir[WHOLE_DIR_BYTES]; /* its files, as long as there are any */
	struct whole_tally tally;
	uint64_t deeds[WHOLE_DEEDS];
	struct whole_count counts[WHOLE_CALLS];
	uint64_t hash, virtual_ns;
	int said_fd; /* what it says to stderr; -1: that goes there */
};

struct sums {
	uint64_t failed, passed, hash, virtual_ns;
	uint64_t fewest; /* operations of a seed */
	struct whole_tally tally;
	uint64_t deeds[WHOLE_DEEDS];
	struct whole_count counts[WHOLE_CALLS];
	char verdict[WHOLE_VERDICT_BYTES]; /* of the last that failed */
};

/* Seeds that are to be run, the known ones first. */
struct chosen {
	uint64_t *seeds;
	size_t n, known;
};

/* A process that died in the middle of a turn has left its memory behind. */
int __lsan_is_turned_off(void);
static bool has_died;

int __lsan_is_turned_off(void)
{
	return has_died;
}

static uint64_t from_env(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	uint64_t v;

	return text != NULL && str_parse_u64(str_from(text), &v) ? v
								 : otherwise;
}

static void run(struct slot *at)
{
	struct sim *s = xcalloc(1, sizeof(*s));
	struct whole *w = xcalloc(1, sizeof(*w));
	uint64_t began_ns;

	sim_begin(s, at->seed);
	began_ns = s->now_ns;
	whole_begin(w, s, at->verdict, at->dir);
	whole_run(w);
	at->virtual_ns = s->now_ns - began_ns;
	whole_end(w);
	at->dir[0] = '\0';
	sim_end(s);
	at->hash = s->hash;
	at->tally = w->tally;
	memcpy(at->deeds, w->deeds, sizeof(at->deeds));
	memcpy(at->counts, w->counts, sizeof(at->counts));
	has_died = w->tally.deaths > 0;
	free(w);
	free(s);
}

/* By what it uses itself: the machine may have more to do. */
static void limit_time(void)
{
	struct rlimit most = { END_S, END_S + 1 };

	CHECK(setrlimit(RLIMIT_CPU, &most) == 0);
}

/* In a process of its own: what a failed one left is gone with it. */
static void begin(struct slot *at, uint64_t seed)
{
	pid_t pid;

	*at = (struct slot){ .seed = seed, .said_fd = -1 };
	if (getenv("VERBOSE") == NULL)
		at->said_fd = memfd_create("said", MFD_CLOEXEC);
	(void)fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid > 0) {
		at->pid = pid; /* the slot is shared: not in both */
		return;
	}
	if (at->said_fd >= 0)
		(void)dup2(at->said_fd, STDERR_FILENO);
	limit_time();
	run(at);
	exit(EXIT_SUCCESS);
}

/* Which check it was, of those that say it to stderr only. */
static void add_said(struct slot *at)
{
	static const char *const words[] = { "error: ", "ERROR: ", "CHECK " };
	char said[4096], *rest;
	off_t end = lseek(at->said_fd, 0, SEEK_END);
	ssize_t n = pread(at->said_fd, said, sizeof(said) - 1,
			  MAX(end, (off_t)sizeof(said)) - (off_t)sizeof(said));
	const char *found = NULL;

	said[MAX(n, 0)] = '\0';
	for (char *line = strtok_r(said, "\n", &rest); line != NULL;
	     line = strtok_r(NULL, "\n", &rest))
		for (size_t i = 0; i < ARRAY_SIZE(words); i++)
			if (strstr(line, words[i]) != NULL)
				found = line;
	n = (ssize_t)strlen(at->verdict);
	if (found != NULL)
		(void)snprintf(at->verdict + n, sizeof(at->verdict) - (size_t)n,
			       ": %.300s", found);
}

/* What the cluster was asked to do. */
static uint64_t operations(const struct whole_tally *t)
{
	return t->requests + t->wild;
}

/* Why the process of a seed failed, unless it said so. */
static void judge(struct slot *at, int status)
{
	size_t room = sizeof(at->verdict);

	/* whatever it was about to check */
	if (WIFSIGNALED(status) &&
	    (at->verdict[0] == '\0' || WTERMSIG(status) == SIGXCPU))
		(void)snprintf(at->verdict, room, "%s",
			       strsignal(WTERMSIG(status)));
	else if (status != 0 && at->verdict[0] == '\0')
		(void)snprintf(at->verdict, room,
			       "a sanitizer ended it, status %d",
			       WEXITSTATUS(status));
	else if (status == 0 && getenv("CORVO_TEST_CUT") == NULL &&
		 operations(&at->tally) < OPERATIONS)
		(void)snprintf(at->verdict, room,
			       "%" PRIu64 " operations prove too little",
			       operations(&at->tally));
	if (status != 0 && at->said_fd >= 0)
		add_said(at);
}

static void note_end(struct slot *at, int status, struct sums *sum)
{
	folder_remove(at->pid);
	at->pid = 0;
	/* whatever the order in which they end */
	sum->hash ^= at->hash * (2 * at->seed + 1);
	sum->virtual_ns += at->virtual_ns;
#define X(name) sum->tally.name += at->tally.name;
	WHOLE_TALLY(X)
#undef X
	for (size_t i = 0; i < WHOLE_DEEDS; i++)
		sum->deeds[i] += at->deeds[i];
	for (size_t i = 0; i < WHOLE_CALLS; i++) {
		sum->counts[i].done += at->counts[i].done;
		sum->counts[i].refused += at->counts[i].refused;
	}
	judge(at, status);
	if (at->said_fd >= 0)
		(void)close(at->said_fd);
	if (at->dir[0] != '\0')
		(void)dir_remove(at->dir);
	if (status == 0) {
		if (sum->passed++ == 0)
			sum->fewest = UINT64_MAX;
		sum->fewest = MIN(sum->fewest, operations(&at->tally));
	}
	if (at->verdict[0] == '\0')
		return;
	sum->failed++;
	(void)snprintf(sum->verdict, sizeof(sum->verdict), "%s", at->verdict);
	printf("CORVO_TEST_SEED=%" PRIu64 ": %s\n", at->seed, at->verdict);
}

/* Waits for the end of one. */
static struct slot *wait_for_one(struct slot *slots, size_t n, struct sums *sum)
{
	int status;
	pid_t pid = waitpid(-1, &status, 0);

	for (size_t i = 0; i < n; i++)
		if (pid > 0 && slots[i].pid == pid) {
			note_end(&slots[i], status, sum);
			return &slots[i];
		}
	return NULL;
}

static struct slot *free_slot(struct slot *slots, size_t n, struct sums *sum)
{
	for (size_t i = 0; i < n; i++)
		if (slots[i].pid == 0)
			return &slots[i];
	return wait_for_one(slots, n, sum);
}

/* clock.h tells the time of a world here. */
static uint64_t real_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Returns how many were run. */
static size_t run_all(struct slot *slots, size_t n, const struct chosen *c,
		      struct sums *sum)
{
	bool stops = from_env("CORVO_TEST_STOP", 0) != 0;
	uint64_t seconds = from_env("CORVO_TEST_SECONDS", 0);
	uint64_t end =
	    seconds != 0 ? real_ns() + seconds * NS_PER_S : UINT64_MAX;
	size_t i = 0;

	for (; i < c->n && !(stops && sum->failed > 0); i++) {
		struct slot *at = free_slot(slots, n, sum);

		if (i >= c->known && real_ns() >= end)
			break;
		begin(at, c->seeds[i]);
	}
	while (wait_for_one(slots, n, sum) != NULL)
		;
	return i;
}

/* --- which ones --- */

/* Lines of a number and what it was. */
static size_t read_known(uint64_t *ret, size_t max)
{
	FILE *f = fopen(SIM_SEEDS_FILE, "re");
	char line[512];
	size_t n = 0;

	CHECK(f != NULL);
	while (n < max && fgets(line, sizeof(line), f) != NULL) {
		ret[n] = strtoull(line, NULL, 10);
		n += ret[n] != 0;
	}
	(void)fclose(f);
	return n;
}

static void choose(struct chosen *ret)
{
	uint64_t one = from_env("CORVO_TEST_SEED", 0);
	uint64_t first = from_env("CORVO_TEST_FIRST", 1);
	size_t known = 0, n = (size_t)from_env("CORVO_TEST_SEEDS", SEEDS);
	uint64_t *all = xcalloc(KNOWN + n, sizeof(*all));

	if (one == 0 && from_env("CORVO_TEST_KNOWN", 0) != 0) {
		known = read_known(all, KNOWN);
		/* rng_system is the world's here */
		CHECK(getrandom(&first, sizeof(first), 0) == sizeof(first));
		first >>= 24; /* a number that is easy to write */
		printf("fresh seeds: %" PRIu64 " and on\n", MAX(first, 1));
	}
	first = MAX(first, 1);
	if (one != 0) {
		first = one;
		n = 1;
	}
	for (size_t i = 0; i < n; i++)
		all[known + i] = first + i;
	*ret = (struct chosen){ all, known + n, known };
}

/* --- cutting one down --- */

/* What it says of any jobs, moments and places in memory. */
static void without_numbers(char *s)
{
	static const char digits[] = "0123456789", hex[] = "0123456789abcdef";
	char *details = strstr(s, WHOLE_DETAILS), *to = s;

	if (details != NULL)
		*details = '\0';
	while (*s != '\0') {
		if (strncmp(s, "0x", 2) == 0)
			s += 2 + strspn(s + 2, hex);
		else if (strspn(s, digits) > 0)
			s += strspn(s, digits);
		else
			*to++ = *s++;
	}
	*to = '\0';
}

/* verdict: how it is to fail; "": in any way, and it is told in which. */
static bool fails(struct slot *slots, uint64_t seed,
		  const struct whole_cut *cut, char *verdict)
{
	struct sums sum = { 0 };
	char text[64];

	(void)snprintf(text, sizeof(text), "%u,%" PRIu64, cut->without,
		       cut->storm_ms);
	CHECK(setenv("CORVO_TEST_CUT", text, 1) == 0);
	begin(&slots[0], seed);
	(void)wait_for_one(slots, 1, &sum);
	without_numbers(sum.verdict);
	if (sum.failed > 0 && verdict[0] == '\0')
		(void)snprintf(verdict, WHOLE_VERDICT_BYTES, "%s", sum.verdict);
	return sum.failed > 0 && strcmp(sum.verdict, verdict) == 0;
}

static void tell_cut(uint64_t seed, const struct whole_cut *cut)
{
	const char *between = "";

	printf("CORVO_TEST_SEED=%" PRIu64 " CORVO_TEST_CUT=%u,%" PRIu64 ": "
	       "%" PRIu64 " ms of ",
	       seed, cut->without, cut->storm_ms, cut->storm_ms);
	for (unsigned i = 0; i < WHOLE_PARTS; i++)
		if (whole_part(i) != NULL && !(cut->without & 1u << i)) {
			printf("%s%s", between, whole_part(i));
			between = ", ";
		}
	(void)putchar('\n');
}

/* Each part of the storm, if it can be spared; then how long it lasts. */
static int minimise(struct slot *slots, uint64_t seed)
{
	struct whole_cut cut = { 0 }, next;
	uint64_t from = 0, upto = WHOLE_STORM_MAX_MS;
	char verdict[WHOLE_VERDICT_BYTES] = "";

	if (!fails(slots, seed, &cut, verdict)) {
		printf("seed %" PRIu64 " does not fail\n", seed);
		return EXIT_FAILURE;
	}
	for (unsigned i = 0; i < WHOLE_PARTS; i++) {
		next = cut;
		next.without |= 1u << i;
		if (whole_part(i) != NULL && fails(slots, seed, &next, verdict))
			cut = next;
	}
	while (upto - from > upto / 50) {
		next = cut;
		next.storm_ms = (from + upto) / 2;
		if (fails(slots, seed, &next, verdict))
			upto = next.storm_ms;
		else
			from = next.storm_ms;
	}
	cut.storm_ms = upto;
	(void)fails(slots, seed, &cut, verdict);
	tell_cut(seed, &cut);
	return EXIT_SUCCESS;
}

/* --- what is said of all --- */

static double processor_s(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_CHILDREN, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void tell(const struct sums *sum, size_t seeds_n, uint64_t real)
{
	double virtual_s = (double)sum->virtual_ns / (double)NS_PER_S;
	double real_s = (double)real / (double)NS_PER_S, used_s = processor_s();

	printf("%" PRIu64 " of %zu seeds failed, traces %016" PRIx64 "\n",
	       sum->failed, seeds_n, sum->hash);
	printf("time: %.0f s of virtual time in %.0f s, %.0f s of processors: "
	       "%.0f x as fast, %.0f x on each processor\n",
	       virtual_s, real_s, used_s, virtual_s / real_s,
	       virtual_s / used_s);
	printf("operations: %" PRIu64 ", at least %" PRIu64 " in each seed\n",
	       operations(&sum->tally), sum->fewest);
	printf("faults:");
	for (unsigned i = 0; whole_deed(i) != NULL; i++)
		printf("%s %s %" PRIu64, i > 0 ? "," : "", whole_deed(i),
		       sum->deeds[i]);
	printf("\nand:");
#define X(name) printf(" " #name " %" PRIu64, sum->tally.name);
	WHOLE_TALLY(X)
#undef X
	printf("\ncarried out, and refused:");
	for (unsigned i = 0; i < WHOLE_CALLS; i++)
		if (whole_call(i) != NULL)
			printf(" %s %" PRIu64 " %" PRIu64, whole_call(i),
			       sum->counts[i].done, sum->counts[i].refused);
	(void)putchar('\n');
}

int main(void)
{
	size_t n = (size_t)MIN(MAX(from_env("CORVO_TEST_JOBS", 2), 1),
			       (uint64_t)JOBS_MAX);
	uint64_t began = real_ns();
	struct sums sum = { 0 };
	struct slot *slots =
	    mmap(NULL, n * sizeof(*slots), PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct chosen chosen;
	size_t run_n;

	CHECK(slots != MAP_FAILED);
	log_init("sim", "");
	log_set_level(getenv("VERBOSE") != NULL ? LOG_INFO : LOG_ERROR);
	if (getenv("MINIMISE") != NULL)
		return minimise(slots, from_env("CORVO_TEST_SEED", 1));
	choose(&chosen);
	run_n = run_all(slots, n, &chosen, &sum);
	tell(&sum, run_n, real_ns() - began);
	free(chosen.seeds);
	return sum.failed > 0 || sum.passed == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
