/*
 * What the requests of the control socket do.
 */
#include <unistd.h>

#include "proto/err.h"
#include "rt/procstat.h"
#include "superv.h"
#include "util/clock.h"
#include "util/json.h"

/* A restarted child may replay a log before it is ready. */
#define RESTART_WAIT_NS (60 * NS_PER_S)

static void put_ages(struct json_writer *w, pid_t pid, uint64_t since_ns)
{
	uint64_t ns = pid > 0 ? clock_mono_ns() - since_ns : 0;

	jw_key(w, "uptime_s");
	jw_double(w, (double)(ns / NS_PER_MS) / 1000);
	jw_key(w, "memory_bytes");
	jw_u64(w, procstat_memory_bytes(pid));
	jw_key(w, "cpu_s");
	jw_double(w, procstat_cpu_s(pid));
}

static void put_supervisor(struct json_writer *w, const struct superv *s)
{
	jw_object(w);
	jw_key(w, "pid");
	jw_i64(w, getpid());
	jw_key(w, "version");
	jw_cstr(w, corvo_version);
	jw_key(w, "node_id");
	jw_cstr(w, s->settings.node_id);
	jw_key(w, "address");
	jw_cstr(w, s->address.p);
	jw_key(w, "state");
	jw_cstr(w, superv_state_name(s->state));
	put_ages(w, getpid(), s->started_ns);
	jw_object_end(w);
}

static void put_last_exit(struct json_writer *w, const struct child *c)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(0);

	if (!c->has_exited) {
		jw_null(w);
		return;
	}
	child_put_exit(&text, c->last_exit);
	jw_str(w, buf_str(&text));
}

static void put_child(struct json_writer *w, const struct child *c)
{
	jw_object(w);
	jw_key(w, "name");
	jw_cstr(w, c->name);
	jw_key(w, "pid");
	jw_i64(w, c->pid);
	jw_key(w, "state");
	jw_cstr(w, child_state_name(c->state));
	jw_key(w, "restarts");
	jw_u64(w, c->restarts);
	put_ages(w, c->pid, c->started_ns);
	jw_key(w, "status");
	/* Its own words, cut at a byte: they need not be UTF-8. */
	jw_cstr(w, str_is_utf8(str_from(c->status)) ? c->status : "?");
	jw_key(w, "last_exit");
	put_last_exit(w, c);
	jw_object_end(w);
}

static void put_memory(struct json_writer *w, const struct settings *s)
{
	struct budget all[BUDGET_MAX];

	settings_budgets(s, all);
	jw_object(w);
	jw_key(w, "limit_bytes");
	jw_u64(w, s->memory.bytes);
	jw_key(w, "from");
	/* A path of the kernel, cut at a byte: it need not be UTF-8. */
	jw_cstr(w,
		str_is_utf8(str_from(s->memory.from)) ? s->memory.from : "?");
	jw_key(w, "budgets");
	jw_object(w);
	for (size_t i = 0; i < BUDGET_MAX; i++) {
		jw_key(w, setting_info(all[i].id)->name);
		jw_u64(w, all[i].bytes);
	}
	jw_object_end(w);
	jw_object_end(w);
}

static void req_ps(struct superv *s, struct ctl_client *c, struct str arg)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);

	(void)arg;
	jw_object(&w);
	jw_key(&w, "supervisor");
	put_supervisor(&w, s);
	jw_key(&w, "processes");
	jw_array(&w);
	for (size_t i = 0; i < s->children_n; i++)
		put_child(&w, &s->children[i]);
	jw_array_end(&w);
	jw_key(&w, "memory");
	put_memory(&w, &s->settings);
	jw_object_end(&w);
	ctl_reply(c, buf_str(&b));
}

static struct child *child_by_name(struct superv *s, struct str name)
{
	for (size_t i = 0; i < s->children_n; i++)
		if (str_is(name, s->children[i].name))
			return &s->children[i];
	return NULL;
}

static void req_restart(struct superv *s, struct ctl_client *c, struct str arg)
{
	struct child *child = child_by_name(s, arg);

	if (child == NULL) {
		ctl_reply_error(c, ERR_NOT_FOUND,
				"no process has that name; `ps` shows them");
		return;
	}
	if (superv_is_stopping(s)) {
		ctl_reply_error(c, ERR_SHUTTING_DOWN,
				err_text(ERR_SHUTTING_DOWN));
		return;
	}
	if (child->state == CHILD_DOWN) {
		ctl_reply_error(c, ERR_VALIDATION_ERROR,
				"it has not been started yet: the node is "
				"starting");
		return;
	}
	ctl_wait(c, child, s->settings.shutdown_timeout + RESTART_WAIT_NS);
	child_event(child, CHILD_EV_RESTART);
}

static void req_log_level(struct superv *s, struct ctl_client *c,
			  struct str arg)
{
	enum log_level level;

	if (!log_level_parse(arg, &level)) {
		ctl_reply_error(c, ERR_VALIDATION_ERROR,
				"log-level takes debug, info, warn or error");
		return;
	}
	superv_set_level(s, level);
	ctl_reply(c, STR("{\"ok\":true}"));
}

static void req_reload(struct superv *s, struct ctl_client *c, struct str arg)
{
	_cleanup_(buf_done) struct buf answer = BUF_INIT(0);
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	int r = superv_reload(s, &answer, &why);

	(void)arg;
	buf_putc(&why, '\0');
	if (r < 0)
		ctl_reply_error(c, -r, why.p);
	else
		ctl_reply(c, buf_str(&answer));
}

static void req_config(struct superv *s, struct ctl_client *c, struct str arg)
{
	_cleanup_(buf_done) struct buf why = BUF_INIT(0);
	_cleanup_(buf_done) struct buf problem = BUF_INIT(0);
	_cleanup_(buf_done) struct buf b = BUF_INIT(0);
	struct json_writer w = JSON_WRITER(&b);
	struct settings next;
	bool is_read = settings_load_again(s->argc, s->argv, &s->settings,
					   &next, &why) == 0;

	(void)arg;
	jw_object(&w);
	jw_key(&w, "settings");
	settings_put_json(&w, &s->settings, is_read ? &next : NULL);
	if (!is_read) {
		/* it may quote any bytes */
		buf_put_clean(&problem, buf_str(&why), "");
		jw_key(&w, "problem");
		jw_str(&w, buf_str(&problem));
	}
	jw_object_end(&w);
	if (is_read)
		settings_done(&next);
	ctl_reply(c, buf_str(&b));
}

static void req_stop(struct superv *s, struct ctl_client *c, struct str arg)
{
	(void)arg;
	ctl_reply(c, STR("{\"ok\":true}"));
	/* A second request is no second SIGTERM: it must not kill. */
	if (!superv_is_stopping(s))
		superv_stop(s);
}

static const struct {
	const char *word;
	bool has_arg;
	void (*run)(struct superv *s, struct ctl_client *c, struct str arg);
} requests[] = {
	{ "ps", false, req_ps },
	{ "restart", true, req_restart },
	{ "log-level", true, req_log_level },
	{ "reload", false, req_reload },
	{ "config", false, req_config },
	{ "stop", false, req_stop },
};

void superv_on_request(void *ctx, struct ctl_client *c, struct str line)
{
	struct str word, arg;

	(void)str_split(line, ' ', &word, &arg);
	arg = str_trim(arg);
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		if (!str_is(word, requests[i].word) ||
		    requests[i].has_arg != (arg.n > 0))
			continue;
		requests[i].run(ctx, c, arg);
		return;
	}
	ctl_reply_error(c, ERR_VALIDATION_ERROR,
			"the requests are: ps, restart NAME, log-level LEVEL, "
			"reload, config, stop");
}
