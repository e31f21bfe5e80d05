#include "seeds.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"

/* What a process and those it runs seeds in have in common. */
struct shared {
	uint64_t seed; /* that is running */
	char verdict[VERDICT_BYTES];
	struct tally tally;
	uint64_t done, unknown, refused;
};

static uint64_t run(uint64_t seed, struct shared *sh)
{
	struct sim *s = xcalloc(1, sizeof(*s));
	struct cluster *c = xcalloc(1, sizeof(*c));
	uint64_t hash;

	sim_begin(s, seed);
	cluster_begin(c, s, sh->verdict);
	cluster_run(c);
	cluster_end(c);
	sim_end(s);
	hash = s->hash;
	tally_add(&sh->tally, &c->tally);
	sh->done += c->oracle.done;
	sh->unknown += c->oracle.unknown;
	sh->refused += c->oracle.refused;
	free(c);
	free(s);
	return hash;
}

uint64_t seed_run(uint64_t seed)
{
	struct shared sh = { 0 };

	return run(seed, &sh);
}

_noreturn_ static void run_child(const struct seeds *s, struct shared *sh,
				 uint64_t from)
{
	int null = s->is_quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;

	if (null >= 0)
		(void)dup2(null, STDERR_FILENO);
	for (sh->seed = from; sh->seed <= s->last; sh->seed++)
		(void)run(sh->seed, sh);
	exit(EXIT_SUCCESS);
}

static void note_failure(struct seeds *s, struct shared *sh, int status)
{
	if (sh->verdict[0] == '\0' && WIFSIGNALED(status))
		(void)snprintf(sh->verdict, VERDICT_BYTES, "%s",
			       strsignal(WTERMSIG(status)));
	else if (sh->verdict[0] == '\0')
		(void)snprintf(sh->verdict, VERDICT_BYTES,
			       "a sanitizer ended it, status %d",
			       WEXITSTATUS(status));
	if (s->failures++ == 0) {
		s->failed = MIN(sh->seed, s->last);
		memcpy(s->verdict, sh->verdict, VERDICT_BYTES);
	}
	if (!s->is_quiet)
		printf("CORVO_TEST_SEED=%" PRIu64 ": %s\n", sh->seed,
		       sh->verdict);
	sh->verdict[0] = '\0';
}

void seeds_run(struct seeds *s)
{
	struct shared *sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t from = s->first;
	int status;

	CHECK(sh != MAP_FAILED);
	while (from <= s->last && !(s->stop_at_failure && s->failures > 0)) {
		pid_t pid;

		(void)fflush(NULL);
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0)
			run_child(s, sh, from);
		CHECK(waitpid(pid, &status, 0) == pid);
		folder_remove(pid);
		if (status != 0)
			note_failure(s, sh, status);
		from = sh->seed + 1;
	}
	s->tally = sh->tally;
	s->done = sh->done;
	s->unknown = sh->unknown;
	s->refused = sh->refused;
	(void)munmap(sh, sizeof(*sh));
}
