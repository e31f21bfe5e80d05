/*
 * Settings from four sources into one struct. Nothing here knows a single
 * setting but `config` (the file's name): they are rows of settings.def.
 * What values and combinations work is in config_check.c.
 */
#include "rt/config.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/err.h"
#include "rt/config_impl.h"
#include "rt/file.h"
#include "util/arena.h"

#define CONFIG_FILE_BYTES (1u << 20)
#define CONFIG_SILENCE_MS 5000 /* of whoever writes a pipe */

struct settings_mem {
	struct arena arena;
	unsigned line[SETTING_MAX]; /* in the file; 0: not from the file */
	bool is_once;    /* the file can be read only once, and was */
	struct buf once; /* then what it said */
};

/* --- the rows --- */

static const size_t offsets[SETTING_MAX] = {
#define SETTING(name, kind, def, flags, doc) \
	[SETTING_##name] = offsetof(struct settings, name),
#include "proto/defs/settings.def"
};

#define SETTING(name, kind, def, flags, doc)    \
	static char flag_##name[] = "--" #name; \
	static char env_##name[] = "CORVO_" #name;
#include "proto/defs/settings.def"

static const struct setting_info infos[SETTING_MAX] = {
#define SETTING(n, k, d, f, text)           \
	[SETTING_##n] = { .name = #n,       \
			  .flag = flag_##n, \
			  .env = env_##n,   \
			  .def = d,         \
			  .doc = text,      \
			  .kind = SK_##k,   \
			  .flags = f },
#include "proto/defs/settings.def"
};

/*
 * The preprocessor can join names but not change their letters. Done before
 * main, so the table is constant for every thread.
 */
__attribute__((constructor)) static void spell_names(void)
{
#define SETTING(name, kind, def, flags, doc)         \
	for (char *p = flag_##name; *p != '\0'; p++) \
		if (*p == '_')                       \
			*p = '-';                    \
	for (char *p = env_##name; *p != '\0'; p++)  \
		if (*p >= 'a' && *p <= 'z')          \
			*p = (char)(*p - 'a' + 'A');
#include "proto/defs/settings.def"
}

static const char *const kind_takes[] = {
	[SK_str] = "text",
	[SK_bool] = "true or false",
	[SK_u64] = "a whole number",
	[SK_dur] = "a duration such as 500ms, 10s or 1h30m, or plain seconds",
	[SK_size] = "a size such as 65536, 64k, 64KiB, 64MB or 1GiB",
};

const struct setting_info *setting_info(enum setting_id id)
{
	CHECK((size_t)id < SETTING_MAX);
	return &infos[id];
}

const char *setting_source_name(enum setting_source s)
{
	static const char *const names[] = {
		[SRC_DEFAULT] = "default", [SRC_MEMORY] = "memory",
		[SRC_FILE] = "file",       [SRC_ENV] = "environment",
		[SRC_FLAG] = "flag",
	};

	CHECK((size_t)s < ARRAY_SIZE(names));
	return names[s];
}

/* --- one value --- */

static void *member(struct settings *s, enum setting_id id)
{
	return (char *)s + offsets[id];
}

uint64_t setting_number(const struct settings *s, enum setting_id id)
{
	CHECK(infos[id].kind != SK_str && infos[id].kind != SK_bool);
	return *(const uint64_t *)(const void *)((const char *)s + offsets[id]);
}

bool setting_store(struct settings *s, enum setting_id id,
		   enum setting_source src, struct str text)
{
	const char *copy = arena_cstr(&s->mem->arena, text);
	bool ok = true;

	switch (infos[id].kind) {
	case SK_str:
		*(const char **)member(s, id) = copy;
		break;
	case SK_bool:
		ok = setting_parse_bool(text, member(s, id));
		break;
	case SK_u64:
		ok = str_parse_u64(text, member(s, id));
		break;
	case SK_dur:
		ok = setting_parse_duration(text, member(s, id));
		break;
	case SK_size:
		ok = setting_parse_size(text, member(s, id));
		break;
	}
	if (ok) {
		s->source[id] = src;
		s->text[id] = copy;
	}
	return ok;
}

void setting_put_where(struct buf *why, const struct settings *s,
		       enum setting_id id, enum setting_source src)
{
	const struct setting_info *info = &infos[id];

	switch (src) {
	case SRC_FLAG:
		buf_printf(why, "flag %s: ", info->flag);
		break;
	case SRC_ENV:
		buf_printf(why, "environment variable %s: ", info->env);
		break;
	case SRC_FILE:
		buf_printf(why, "%s:%u: %s: ", s->config, s->mem->line[id],
			   info->name);
		break;
	case SRC_DEFAULT:
		buf_printf(why, "setting %s (its default): ", info->name);
		break;
	case SRC_MEMORY:
		buf_printf(why,
			   "setting %s (a share of the memory): ", info->name);
		break;
	}
}

static int set(struct settings *s, enum setting_id id, enum setting_source src,
	       struct str text, struct buf *why)
{
	if (setting_store(s, id, src, text))
		return 0;
	setting_put_where(why, s, id, src);
	buf_printf(why, "\"%.*s\" cannot be read; it takes %s", STR_ARG(text),
		   kind_takes[infos[id].kind]);
	return -ERR_VALIDATION_ERROR;
}

/* --- flags and environment --- */

static bool id_by_flag(struct str name, enum setting_id *ret)
{
	for (unsigned i = 0; i < SETTING_MAX; i++) {
		if (str_is(name, infos[i].flag + 2)) {
			*ret = (enum setting_id)i;
			return true;
		}
	}
	return false;
}

static bool id_by_key(struct str key, enum setting_id *ret)
{
	for (unsigned i = 0; i < SETTING_MAX; i++) {
		if (str_is(key, infos[i].name) ||
		    str_is(key, infos[i].flag + 2)) {
			*ret = (enum setting_id)i;
			return true;
		}
	}
	return false;
}

/* One flag as it was given. */
struct flag {
	enum setting_id id;
	struct str value;
};

/* Reads argv[*i] and moves *i past it and its value. */
static int flag_parse(int argc, char *const argv[], int *i, struct flag *ret,
		      struct buf *why)
{
	struct str arg = str_from(argv[*i]);
	struct str name, value;
	bool has_value;

	if (!str_starts(arg, STR("--")) || arg.n == 2) {
		buf_printf(why,
			   "unexpected argument \"%s\"; settings are written "
			   "--name=value",
			   argv[*i]);
		return -ERR_VALIDATION_ERROR;
	}
	(*i)++;
	has_value = str_split(str_skip(arg, 2), '=', &name, &value);
	if (id_by_flag(name, &ret->id)) {
		if (has_value) {
			ret->value = value;
		} else if (infos[ret->id].kind == SK_bool) {
			ret->value = STR("true");
		} else if (*i < argc) {
			ret->value = str_from(argv[(*i)++]);
		} else {
			buf_printf(why, "flag --%.*s needs a value: %s",
				   STR_ARG(name),
				   kind_takes[infos[ret->id].kind]);
			return -ERR_VALIDATION_ERROR;
		}
		return 0;
	}
	if (!has_value && str_starts(name, STR("no-")) &&
	    id_by_flag(str_skip(name, 3), &ret->id) &&
	    infos[ret->id].kind == SK_bool) {
		ret->value = STR("false");
		return 0;
	}
	buf_printf(why,
		   "unknown flag --%.*s; `corvo config list` shows every "
		   "setting",
		   STR_ARG(name));
	return -ERR_VALIDATION_ERROR;
}

static int take_flag(struct settings *s, const struct flag *f, struct buf *why)
{
	struct str value = f->value;

	if ((infos[f->id].flags & S_LIST) && s->source[f->id] == SRC_FLAG &&
	    s->text[f->id][0] != '\0')
		value = arena_printf(&s->mem->arena, "%s,%.*s", s->text[f->id],
				     STR_ARG(f->value));
	return set(s, f->id, SRC_FLAG, value, why);
}

static int load_flags(struct settings *s, int argc, char *const argv[],
		      struct buf *why)
{
	for (int i = 0; i < argc;) {
		struct flag f;
		int r = flag_parse(argc, argv, &i, &f, why);

		if (r == 0)
			r = take_flag(s, &f, why);
		if (r < 0)
			return r;
	}
	return 0;
}

/* An empty variable is one that was not set: that is how shells unset. */
static int load_env(struct settings *s, struct buf *why)
{
	for (unsigned i = 0; i < SETTING_MAX; i++) {
		const char *text = getenv(infos[i].env);
		int r;

		if (text == NULL || *text == '\0')
			continue;
		r = set(s, (enum setting_id)i, SRC_ENV, str_from(text), why);
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- the file --- */

static bool has_control(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (((unsigned char)s.p[i] < 0x20 && s.p[i] != '\t') ||
		    s.p[i] == 0x7f)
			return true;
	return false;
}

/* Quotes keep spaces and '#'; without them " #" starts a comment. */
static struct str file_value(struct str v)
{
	v = str_trim(v);
	if (v.n >= 2 && v.p[0] == '"' && v.p[v.n - 1] == '"')
		return str_of(v.p + 1, v.n - 2);
	for (size_t i = 0; i < v.n; i++)
		if (v.p[i] == '#' &&
		    (i == 0 || v.p[i - 1] == ' ' || v.p[i - 1] == '\t'))
			return str_trim(str_of(v.p, i));
	return v;
}

static int refuse_line(const struct settings *s, unsigned at, struct buf *why,
		       const char *text)
{
	buf_printf(why, "%s:%u: %s", s->config, at, text);
	return -ERR_VALIDATION_ERROR;
}

static int load_line(struct settings *s, struct str line, unsigned at,
		     struct buf *why)
{
	struct str key, value;
	enum setting_id id;

	line = str_trim(line);
	if (line.n == 0 || line.p[0] == '#')
		return 0;
	if (has_control(line) || !str_split(line, '=', &key, &value))
		return refuse_line(s, at, why,
				   "this line cannot be read; lines are key = "
				   "value, or comments that start with #");
	key = str_trim(key);
	if (!id_by_key(key, &id)) {
		buf_printf(why,
			   "%s:%u: unknown setting \"%.*s\"; `corvo config "
			   "list` shows every setting",
			   s->config, at, STR_ARG(key));
		return -ERR_VALIDATION_ERROR;
	}
	if (id == SETTING_config)
		return refuse_line(s, at, why,
				   "config cannot be set in the file itself; "
				   "use --config or CORVO_CONFIG");
	if (s->mem->line[id] != 0) {
		buf_printf(why, "%s:%u: %s is already set in line %u",
			   s->config, at, infos[id].name, s->mem->line[id]);
		return -ERR_VALIDATION_ERROR;
	}
	s->mem->line[id] = at;
	return set(s, id, SRC_FILE, file_value(value), why);
}

static int refuse_file(const struct settings *s, const char *problem,
		       struct buf *why)
{
	setting_put_where(why, s, SETTING_config, s->source[SETTING_config]);
	buf_printf(why, "cannot read the file %s: %s", s->config, problem);
	return -ERR_VALIDATION_ERROR;
}

static int read_file(struct settings *s, const struct settings *old,
		     struct buf *text, struct buf *why)
{
	int r;

	if (!file_is_stream(s->config)) {
		r = file_read(s->config, CONFIG_FILE_BYTES, text);
	} else if (old == NULL) {
		r = file_read_stream(s->config, CONFIG_FILE_BYTES,
				     CONFIG_SILENCE_MS, text);
		s->mem->is_once = true;
		buf_put_str(&s->mem->once, buf_str(text));
	} else if (old->mem->is_once) {
		buf_put_str(text, buf_str(&old->mem->once));
		r = 0;
	} else {
		return refuse_file(s,
				   "it is a pipe now, or the like, which can "
				   "be read only once; put a file there",
				   why);
	}
	if (r == -ETIMEDOUT)
		return refuse_file(s, "it is a pipe, and nobody writes to it",
				   why);
	return r < 0 ? refuse_file(s, strerror(-r), why) : 0;
}

static int load_file(struct settings *s, const struct settings *old,
		     struct buf *why)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);
	struct str rest, line;
	unsigned at = 0;
	int r = 0;

	if (s->config[0] != '\0')
		r = read_file(s, old, &text, why);
	rest = buf_str(&text);
	while (r == 0 && rest.n > 0) {
		(void)str_split(rest, '\n', &line, &rest);
		r = load_line(s, line, ++at, why);
		if (r < 0 && !str_is_utf8(line))
			buf_puts(why, "; the line is not UTF-8");
	}
	return r;
}

/* The name of the file must be known before the file is read. */
static int find_file(struct settings *s, int argc, char *const argv[],
		     struct buf *why)
{
	const char *text = getenv(infos[SETTING_config].env);

	if (text != NULL && *text != '\0')
		(void)setting_store(s, SETTING_config, SRC_ENV, str_from(text));
	for (int i = 0; i < argc;) {
		struct flag f;
		int r = flag_parse(argc, argv, &i, &f, why);

		if (r < 0)
			return r;
		if (f.id == SETTING_config)
			(void)setting_store(s, f.id, SRC_FLAG, f.value);
	}
	return 0;
}

/* --- all together --- */

/* Whoever says how a cluster begins wants one. */
static void imply_cluster(struct settings *s)
{
	bool begins =
	    (s->bootstrap && s->source[SETTING_bootstrap] == SRC_FLAG) ||
	    s->source[SETTING_discover] == SRC_FLAG;

	if (begins && s->source[SETTING_cluster] == SRC_DEFAULT)
		CHECK(setting_store(s, SETTING_cluster, SRC_FLAG, STR("true")));
}

static int load_sources(struct settings *s, const struct settings *old,
			int argc, char *const argv[], struct buf *why)
{
	int r;

	for (unsigned i = 0; i < SETTING_MAX; i++)
		CHECK(setting_store(s, (enum setting_id)i, SRC_DEFAULT,
				    str_from(infos[i].def)));
	r = find_file(s, argc, argv, why);
	if (r == 0)
		r = load_file(s, old, why);
	if (r == 0)
		r = load_env(s, why);
	if (r == 0)
		r = load_flags(s, argc, argv, why);
	if (r == 0) {
		imply_cluster(s);
		settings_derive(s);
		r = settings_check(s, why);
	}
	return r;
}

int settings_load_again(int argc, char *const argv[],
			const struct settings *old, struct settings *ret,
			struct buf *why)
{
	struct settings s = { .mem = xcalloc(1, sizeof(*s.mem)) };
	int r;

	s.mem->arena = ARENA_INIT;
	r = load_sources(&s, old, argc, argv, why);
	if (r < 0) {
		settings_done(&s);
		return r;
	}
	*ret = s;
	return 0;
}

int settings_load(int argc, char *const argv[], struct settings *ret,
		  struct buf *why)
{
	return settings_load_again(argc, argv, NULL, ret, why);
}

bool settings_file_is_kept(const struct settings *s)
{
	return s->mem->is_once;
}

void settings_done(struct settings *s)
{
	if (s->mem != NULL) {
		arena_done(&s->mem->arena);
		buf_done(&s->mem->once);
		free(s->mem);
	}
	*s = (struct settings){ .mem = NULL };
}

bool setting_differs(const struct settings *a, const struct settings *b,
		     enum setting_id id)
{
	return strcmp(a->text[id], b->text[id]) != 0;
}

bool setting_is_taken(const struct settings *s, const struct settings *fresh,
		      enum setting_id id)
{
	return setting_differs(s, fresh, id) && (infos[id].flags & S_RELOAD);
}

void settings_take(struct settings *s, const struct settings *fresh,
		   struct buf *kept)
{
	for (unsigned i = 0; i < SETTING_MAX; i++) {
		enum setting_id id = (enum setting_id)i;

		if (!setting_differs(s, fresh, id))
			continue;
		if (setting_is_taken(s, fresh, id)) {
			/* copied: `fresh` goes, and old strings stay */
			CHECK(setting_store(s, id, fresh->source[i],
					    str_from(fresh->text[i])));
			s->mem->line[i] = fresh->mem->line[i];
			continue;
		}
		buf_printf(kept, "%s%s", kept->n > 0 ? ", " : "",
			   infos[i].name);
	}
}

int settings_reload(int argc, char *const argv[], struct settings *s,
		    struct buf *kept, struct buf *why)
{
	struct settings fresh;
	int r;

	r = settings_load_again(argc, argv, s, &fresh, why);
	if (r < 0)
		return r;
	settings_take(s, &fresh, kept);
	settings_done(&fresh);
	return 0;
}

void settings_run_dir(const struct settings *s, struct buf *ret)
{
	if (s->run_dir[0] != '\0')
		buf_puts(ret, s->run_dir);
	else
		buf_printf(ret, "%s/run", s->data_dir);
}
