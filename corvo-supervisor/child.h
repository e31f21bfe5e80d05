/*
 * One child process: its life cycle as a table of states and events, its
 * restarts, its watchdog. Knows nothing of the other children; what concerns
 * the node is reported through struct child_host.
 *
 * Restart policy. A child that died is started again at once. When it dies
 * again without having served for a second in between, the next start waits
 * 50 ms, then 100 ms, and never longer: it may be one client that kills it.
 * One that did not even become ready waits twice as long each time it does so
 * in a row, up to 5 s. After crash_limit deaths in a row without ever having
 * become ready it is FAILED.
 */
#ifndef CORVO_CHILD_H
#define CORVO_CHILD_H

#include <sys/types.h>

#include "proto/proto.h"
#include "rt/config.h"

enum child_state {
	CHILD_DOWN,     /* no process, none wanted */
	CHILD_STARTING, /* running, has not said READY=1 */
	CHILD_READY,
	CHILD_DRAINING, /* was asked to leave */
	CHILD_KILLED,   /* was sent SIGABRT or SIGKILL, not reaped yet */
	CHILD_BACKOFF,  /* no process, waits for its next start */
	CHILD_FAILED,   /* given up */
	CHILD_STATE_MAX
};

enum child_event {
	CHILD_EV_START,   /* should run */
	CHILD_EV_READY,   /* said READY=1 */
	CHILD_EV_STOP,    /* should finish its work and leave for good */
	CHILD_EV_RESTART, /* should finish its work, leave and come back */
	CHILD_EV_KILL,    /* should be gone now, for good */
	CHILD_EV_STUCK,   /* shows no sign of life */
	CHILD_EV_EXIT,    /* was reaped */
	CHILD_EV_TIMER,   /* its deadline passed */
	CHILD_EVENT_MAX
};

struct child;

/* What all children share; owned by the node, outlives them. */
struct child_host {
	const struct settings *settings;
	uint64_t started_ns; /* the node, clock_mono_ns */
	int argc;            /* flags, passed on to every child */
	char *const *argv;
	const struct listeners *listeners; /* given to httpd */
	int config_fd;       /* settings of the file, for children; or -1 */
	int lock_fd;         /* on the data directory, held by all */
	const char *level;   /* log level set by hand; NULL: the settings' */
	bool stopping;       /* the node: no death is an ordinary one */
	uint64_t stop_by_ns; /* a stopping child is killed then */
	void *ctx;
	void (*on_ready)(void *ctx, struct child *c);
	void (*on_down)(void *ctx, struct child *c); /* DOWN or FAILED */
	/* It died, or was killed, when it was to leave in order; logged. */
	void (*on_unclean)(void *ctx, struct child *c);
};

struct child {
	const struct child_host *host;
	enum proc_id proc;
	unsigned number;
	char name[24];   /* "raftd", "httpd-0" */
	struct buf path; /* of the program, NUL-terminated */

	enum child_state state;
	bool come_back;       /* start again after the exit under way */
	bool planned;         /* the exit under way is no crash */
	bool leaving;         /* it was asked to leave in order */
	pid_t pid;            /* 0: no process */
	int fd;               /* our end of the notify socket; -1: none */
	uint64_t deadline_ns; /* of the state; 0: none */
	uint64_t started_ns;
	uint64_t ready_ns;      /* of this life; 0: not yet */
	uint64_t beat_ns;       /* last sign of life */
	uint64_t ran_ns;        /* of procstat_turns, as of then */
	uint64_t kept_ns;       /* the same */
	uint64_t excused_ns;    /* of the silence since; see silence.h */
	uint64_t stopped_ns;    /* stopped by a signal since; 0: runs */
	uint64_t watchdog_ns;   /* silence it was told it may keep */
	unsigned short_lives;   /* in a row that served less than a second */
	unsigned unready_lives; /* in a row that never became ready */
	uint64_t restarts;
	bool has_exited;  /* last_exit is valid */
	int last_exit;    /* wait status */
	bool was_killed;  /* a stop had to end by force */
	char status[200]; /* its last STATUS= text */
	char in[512];     /* received bytes of an unfinished line */
	size_t in_n;
};

/* -ERR_NOT_FOUND with text in why when the program is missing. */
int child_init(struct child *c, const struct child_host *host,
	       enum proc_id proc, unsigned number, struct buf *why);
void child_done(struct child *c);

const char *child_state_name(enum child_state s);
bool child_is_gone(const struct child *c); /* DOWN or FAILED */
/* It said itself that another start would not help. */
bool child_is_hopeless(const struct child *c);

void child_event(struct child *c, enum child_event e);
void child_on_readable(struct child *c);              /* c->fd */
void child_on_wait(struct child *c, int wait_status); /* of waitpid */

/* Sends a line ("log-level warn"); false when it cannot be written. */
bool child_send(struct child *c, const char *line);
/* It is to read its settings again, which are those of the host's config_fd.
 * False: it runs, and cannot be told. */
bool child_reload(struct child *c);

/* Raises what is due. */
void child_tick(struct child *c, uint64_t now_ns);
/* When child_tick must run next; UINT64_MAX: no need. */
uint64_t child_next_ns(const struct child *c);
/* We could not listen for a while: silence until now does not count. */
void child_forgive(struct child *c, uint64_t now_ns);

/* "exit status 1", "killed by SIGKILL" */
void child_put_exit(struct buf *b, int wait_status);

#endif
