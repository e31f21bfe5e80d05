/*
 * Settings: flag > CORVO_* environment > file > default, from settings.def.
 */
#ifndef CORVO_CONFIG_H
#define CORVO_CONFIG_H

#include "rt/memory_limit.h"
#include "util/buf.h"
#include "util/json.h"

enum setting_id {
#define SETTING(name, kind, def, flags, doc) SETTING_##name,
#include "proto/defs/settings.def"
	SETTING_MAX
};

/* SRC_MEMORY: a share of the node's memory, less than the default. */
enum setting_source { SRC_DEFAULT, SRC_MEMORY, SRC_FILE, SRC_ENV, SRC_FLAG };
enum setting_kind { SK_str, SK_bool, SK_u64, SK_dur, SK_size };

#define S_RELOAD 1u
#define S_SEED   2u
#define S_LIST   4u

#define SETTING_CTYPE_str  const char *
#define SETTING_CTYPE_bool bool
#define SETTING_CTYPE_u64  uint64_t
#define SETTING_CTYPE_dur  uint64_t
#define SETTING_CTYPE_size uint64_t

struct settings {
#define SETTING(name, kind, def, flags, doc) SETTING_CTYPE_##kind name;
#include "proto/defs/settings.def"
	enum setting_source source[SETTING_MAX];
	const char *text[SETTING_MAX]; /* the value as it was written */
	struct memory_limit memory;    /* what the budgets are shares of */
	struct settings_mem *mem;      /* owns every string above */
};

struct setting_info {
	const char *name; /* "data_dir" */
	const char *flag; /* "--data-dir" */
	const char *env;  /* "CORVO_DATA_DIR" */
	const char *def;
	const char *doc;
	enum setting_kind kind;
	unsigned flags;
};

const struct setting_info *setting_info(enum setting_id id);
const char *setting_source_name(enum setting_source s);

/*
 * Reads all four sources and checks every value and the combinations
 * (limits, names, sizes). argv holds flags only (--x=y, --x y, --bool,
 * --no-bool). On failure returns -ERR_VALIDATION_ERROR with a sentence in
 * `why` that names the source, the setting and what it takes.
 */
int settings_load(int argc, char *const argv[], struct settings *ret,
		  struct buf *why);
/*
 * The same later in the life of who has `old`. A file that can be read only
 * once, such as a pipe, says what it said then; one that has become such is
 * refused.
 */
int settings_load_again(int argc, char *const argv[],
			const struct settings *old, struct settings *ret,
			struct buf *why);
/* Whether that is so: what the file says cannot change any more. */
bool settings_file_is_kept(const struct settings *s);
void settings_done(struct settings *s);

/* Whether id has another value in b than in a. */
bool setting_differs(const struct settings *a, const struct settings *b,
		     enum setting_id id);

/* Whether settings_take takes id over. */
bool setting_is_taken(const struct settings *s, const struct settings *fresh,
		      enum setting_id id);
/*
 * Takes over from `fresh` what differs and is marked S_RELOAD; strings handed
 * out before stay valid. Names of other settings that differ are appended to
 * `kept`: they need a restart.
 */
void settings_take(struct settings *s, const struct settings *fresh,
		   struct buf *kept);

/*
 * Reads all sources again and takes them over. On failure *s is untouched and
 * `why` is as for settings_load.
 */
int settings_reload(int argc, char *const argv[], struct settings *s,
		    struct buf *kept, struct buf *why);

/*
 * An array of all settings with value and source, and which of them only seed
 * a setting of the cluster. Where `next` (NULL: none)
 * has another value, also that, and "at": whether it comes with a "reload" or
 * a "restart".
 */
void settings_put_json(struct json_writer *w, const struct settings *s,
		       const struct settings *next);
/* What settings_take would change, and what it would not, as two members:
 * "changed" and "waiting". */
void settings_put_changes(struct json_writer *w, const struct settings *s,
			  const struct settings *next);

/* Whether the node opens its port for other nodes. */
bool settings_is_cluster(const struct settings *s);
/* "host:port" by which other nodes reach that port. */
const char *settings_advertise(const struct settings *s);

/* How a node without data finds others: setting discover. */
enum discover_how {
	DISCOVER_STATIC,
	DISCOVER_GOSSIP,
	DISCOVER_DNS,
	DISCOVER_SRV,
	DISCOVER_KUBERNETES,
};
enum discover_how settings_discover(const struct settings *s);
/* The next place of setting join, of which *rest is left; false: none. */
bool settings_next_join(struct str *rest, struct str *ret);

/*
 * The address rules: an address of the API that other machines can reach needs
 * --open, and one for other nodes a secret and an address they can dial.
 * -ERR_VALIDATION_ERROR with a text that says what to do.
 */
int settings_check_bind(const struct settings *s, struct buf *why);

/*
 * The settings that are memory: those of budgets.def. settings_load gives a
 * share of the node's memory to each that nobody has set.
 */
enum budget_id {
#define BUDGET(setting, per_gib, copies, min) BUDGET_##setting,
#include "proto/defs/budgets.def"
	BUDGET_MAX
};

struct budget {
	enum setting_id id;
	uint64_t bytes;  /* the setting's value */
	unsigned copies; /* so many of it there may be at a time */
};

void settings_budgets(const struct settings *s, struct budget ret[BUDGET_MAX]);

/* Logs memory and budgets in a line, and a warning when budgets that were set
 * leave too little for all else. */
void settings_log_budgets(const struct settings *s);

/* <run_dir> resolved: s->run_dir or <data_dir>/run. */
void settings_run_dir(const struct settings *s, struct buf *ret);

#endif
